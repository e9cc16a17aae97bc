"""The chunk shapes that new N5 datasets of 1000 × 2000 × 3000 elements get, printed."""

from __future__ import annotations

from typing import Any

import pytest

import chunkwise as ts

PRINTED = """\
ChunkLayout({{
  'grid_origin': [0, 0, 0],
  'inner_order': [2, 1, 0],
  'read_chunk': {{'shape': {0}}},
  'write_chunk': {{'shape': {0}}},
}})"""


@pytest.mark.parametrize(
    ("wanted", "shape"),
    [
        ({}, [101, 101, 101]),
        ({"chunk_shape": [100, 200, 300]}, [100, 200, 300]),
        ({"chunk_aspect_ratio": [1, 2, 2]}, [64, 128, 128]),
        ({"chunk_aspect_ratio": [1, 2, 2], "chunk_elements": 2_000_000}, [79, 159, 159]),
    ],
)
def test_the_layout_is_printed_as_in_the_description_of_the_n5_driver(
    wanted: dict[str, Any], shape: list[int]
) -> None:
    store = ts.open(
        {"driver": "n5", "kvstore": {"driver": "memory"}},
        create=True,
        dtype=ts.uint16,
        shape=[1000, 2000, 3000],
        chunk_layout=ts.ChunkLayout(**wanted),
    ).result()
    assert repr(store.chunk_layout) == PRINTED.format(shape)


def test_metadata_and_schema_correspond() -> None:
    metadata = {
        "dimensions": [1000, 2000, 3000],
        "blockSize": [100, 200, 300],
        "dataType": "uint16",
        "compression": {"type": "raw"},
    }
    store = ts.open({"driver": "n5", "kvstore": "memory://", "metadata": metadata}, create=True).result()
    domain = {"exclusive_max": [[1000], [2000], [3000]], "inclusive_min": [0, 0, 0]}
    layout = {
        "grid_origin": [0, 0, 0],
        "inner_order": [2, 1, 0],
        "read_chunk": {"shape": [100, 200, 300]},
        "write_chunk": {"shape": [100, 200, 300]},
    }
    assert store.domain.to_json() == domain
    assert store.chunk_layout.to_json() == layout
    assert store.schema.to_json() == {
        "chunk_layout": layout,
        "codec": {"compression": {"type": "raw"}, "driver": "n5"},
        "domain": domain,
        "dtype": "uint16",
        "rank": 3,
    }
