"""Reductions of a cell from its parts are those of the whole cell."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as cw
from chunkwise.core.plan.accumulate import open_accumulator

INTEGERS = [
    "int2",
    "uint2",
    "int4",
    "uint4",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
]
FLOATS = ["float8_e5m2", "float8_e3m4", "float16", "bfloat16", "float32", "float64"]


def reduced(method: str, name: str, parts: list[np.ndarray[Any, Any]]) -> Any:
    make = open_accumulator(method, cw.dtype(name))
    assert make is not None
    accumulator, wanted, passes = make(), True, 0
    with np.errstate(all="ignore"):  # as where it is used
        while wanted:
            for part in parts:
                accumulator.add(part)
            wanted, passes = accumulator.again(), passes + 1
            assert passes <= 4
        return accumulator.result()


def of_all(method: str, values: list[Any]) -> Any:
    if method == "median":
        return sorted(values)[(len(values) - 1) // 2]
    if method == "mode":
        return max(sorted(set(values)), key=values.count)
    if method == "mean":
        return round(Fraction(sum(map(Fraction, values)), len(values)))
    return {"min": min, "max": max}[method](values)


@st.composite
def cells(draw: st.DrawFn, least: int, most: int) -> list[list[int]]:
    """Elements in parts, many of them equal or beside the ends of the type."""
    few = st.sampled_from([least, least + 1, most // 3, most - 1, most]) | st.integers(least, most)
    return draw(st.lists(st.lists(few, min_size=1, max_size=6), min_size=1, max_size=4))


@pytest.mark.parametrize("method", ["mean", "median", "mode", "min", "max"])
@pytest.mark.parametrize("name", INTEGERS)
@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_integers(name: str, method: str, data: st.DataObject) -> None:
    memory = cw.dtype(name).memory_dtype
    info = ml_dtypes.iinfo(memory)
    parts = data.draw(cells(int(info.min), int(info.max)))
    found = reduced(method, name, [np.array([part], memory) for part in parts])
    assert found == of_all(method, [x for part in parts for x in part])


@pytest.mark.parametrize("method", ["median", "mode", "min", "max"])
@pytest.mark.parametrize("name", ["float32", "float64"])
@settings(max_examples=examples(40), deadline=None)
@given(parts=cells(-(2**20), 2**20))
def test_floats(name: str, method: str, parts: list[list[int]]) -> None:
    found = reduced(method, name, [np.array(part, name) / 8 for part in parts])
    assert found == of_all(method, [x / 8 for part in parts for x in part])


@pytest.mark.parametrize("name", FLOATS)
def test_floats_that_are_none(name: str) -> None:
    dtype = cw.dtype(name).memory_dtype
    some, none = np.array([-2, np.nan, 4], dtype), np.array([np.nan], dtype)
    for parts in ([some, none], [none, some]):
        assert [reduced(method, name, parts) for method in ("min", "max")] == [-2, 4]
        assert np.isnan(reduced("mean", name, parts))
    assert [reduced(method, name, [none, none]) for method in ("min", "max")] == [np.inf, -np.inf]
    assert reduced("mean", name, [some[::2], np.array([7], dtype)]) == 3
    if name in ("float32", "float64"):  # as if it were the largest
        assert np.isnan(reduced("median", name, [none, some, none]))
        assert reduced("median", name, [some, some[::2]]) == 4
        assert reduced("median", name, [-some[::2], some]) == 2
        assert reduced("median", name, [-some[::2], some[:1]]) == -2


def test_means_of_complex_numbers() -> None:
    parts = [np.array([1 + 2j, 3 - 4j], "complex64"), np.array([2 - 1j], "complex64")]
    assert reduced("mean", "complex64", parts) == 2 - 1j


@pytest.mark.parametrize("n_true", [0, 2, 3, 4, 5])
def test_booleans(n_true: int) -> None:
    parts = [np.arange(k, k + 2) < n_true for k in (0, 2, 4)]
    wanted = {"mean": n_true > 3, "median": n_true > 3, "mode": n_true > 3, "min": False, "max": n_true > 0}
    assert {method: bool(reduced(method, "bool", parts)) for method in wanted} == wanted


def test_what_needs_all_elements_at_once_has_no_accumulator() -> None:
    names = [("median", "bfloat16"), ("mode", "complex64"), ("mean", "string"), ("min", "complex128")]
    assert [open_accumulator(method, cw.dtype(name)) for method, name in names] == [None] * 4
