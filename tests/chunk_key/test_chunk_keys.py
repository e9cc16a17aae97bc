"""Keys of chunks, in both directions."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkwise.core.base.catalogue import key_encodings
from chunkwise.core.chunk_key import KeyEncoding, default_keys, v2_keys
from chunkwise.errors import SpecError

ENCODINGS = [
    make({"separator": separator}).under(path)
    for make in (default_keys, v2_keys)
    for separator in "/."
    for path in ("", "a/b/", "1/2.3/")
]


def test_the_specifications_examples() -> None:
    """Zarr v3, "Default chunk key encoding" and "v2 chunk key encoding"."""
    default, v2 = key_encodings.find("default", "zarr3"), key_encodings.find("v2", "zarr3")
    table: list[tuple[Any, Any, str, str]] = [
        (default, {}, "c/1/23/45", "c"),
        (default, {"separator": "."}, "c.1.23.45", "c"),
        (v2, {}, "1.23.45", "0"),
        (v2, {"separator": "/"}, "1/23/45", "0"),
    ]
    for make, configuration, key, scalar in table:
        encoding = make(configuration)
        assert encoding.key((1, 23, 45)) == key
        assert encoding.key(()) == scalar
        assert encoding.separator == configuration.get("separator", "/" if make is default else ".")


@given(st.sampled_from(ENCODINGS), st.lists(st.integers(0, 2**63), max_size=4).map(tuple))
def test_a_key_gives_its_cell_back(encoding: KeyEncoding, cell: tuple[int, ...]) -> None:
    assert encoding.cell(encoding.key(cell), len(cell)) == cell


@given(st.sampled_from(ENCODINGS), st.text(alphabet="c0123/.ab +-_٣", max_size=8), st.integers(0, 3))
def test_only_keys_have_cells(encoding: KeyEncoding, text: str, rank: int) -> None:
    for key in (text, encoding.prefix + text):
        cell = encoding.cell(key, rank)
        assert cell is None or encoding.key(cell) == key


@pytest.mark.parametrize(
    "key",
    ["c/01", "c/+1", "c/-1", "c/1/", "c/", "c", "c/1_0", "c/ 1", "c/٣", "c/1/2", "d/1", "c.1", "zarr.json"],
)
def test_what_is_no_key(key: str) -> None:
    assert default_keys({}).cell(key, 1) is None


@given(st.sampled_from(ENCODINGS), st.lists(st.lists(st.integers(0, 200), max_size=4), max_size=3))
def test_keys_of_a_product(encoding: KeyEncoding, cells: list[list[int]]) -> None:
    assert list(encoding.keys(cells)) == [encoding.key(cell) for cell in product(*cells)]


@pytest.mark.parametrize("make", [default_keys, v2_keys])
def test_wrong_json_is_named(make: Any) -> None:
    with pytest.raises(SpecError, match=r'"separator": Expected one of .*, but received: ":"'):
        make({"separator": ":"})
    with pytest.raises(SpecError, match='extra members: "x"'):
        make({"x": 1})
