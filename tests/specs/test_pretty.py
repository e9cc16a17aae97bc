"""The printed form of specs and schemas, against that of TensorStore's objects."""

from __future__ import annotations

from typing import Any

import pytest
import tensorstore as ts
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkwise.core.specs.pretty import pretty, pretty_repr

# TensorStore's digits are the shortest that read back, but for about one number in a thousand.
numbers = st.integers(-(10**6), 10**6).map(lambda n: n / 8) | st.integers(-30, 30).map(lambda n: 10.0**n)
strings = st.text(alphabet="abf0 '\"\\\n\t\r\x01\x7fé😀", max_size=25) | st.integers(0, 75).map("x".__mul__)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | numbers | strings,
    lambda inner: (
        st.lists(inner, max_size=6) | st.dictionaries(st.text("abé'xyz", max_size=12), inner, max_size=6)
    ),
    max_leaves=25,
)


@given(values)
@settings(max_examples=examples(600), deadline=None)
def test_any_json_is_printed_as_tensorstore_prints_it(value: Any) -> None:
    metadata = {"attributes": {"value": value}}
    spec = ts.Spec({"driver": "zarr3", "kvstore": "memory://", "metadata": metadata})
    assert pretty_repr("Spec", spec.to_json()) == repr(spec)


@pytest.mark.parametrize("length", range(1, 33))
def test_lines_break_where_tensorstore_breaks_them(length: int) -> None:
    layout = ts.ChunkLayout(inner_order=list(range(length)))
    assert pretty_repr("ChunkLayout", layout.to_json()) == repr(layout)
    schema = ts.Schema(domain=ts.IndexDomain(labels=["x" * (length + 25)]))
    assert pretty_repr("Schema", schema.to_json()) == repr(schema)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("nan"), "null"),
        (float("-inf"), "null"),
        (100000000000000.0, "100000000000000.0"),
        (1e15, "1e+15"),
        (-1234567890123456.0, "-1.234567890123456e+15"),
        (1e16, "1e+16"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (-0.0, "-0.0"),
        (True, "True"),
        ([], "[]"),
        ({}, "{}"),
        ({"b": 1, "a": (2, None)}, "{'a': [2, None], 'b': 1}"),
    ],
)
def test_values_are_printed_as_python(value: Any, text: str) -> None:
    assert pretty(value) == text
