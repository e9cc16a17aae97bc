"""Arrays whose elements have no bytes: records of empty fields, as Zarr v2 can say them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.core.base.binding import JSON

EMPTY = np.dtype([("a", "<i4", (0,))])
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2,), (5,)),
    ((7,), (5,)),
    ((5,), (5,)),
    ((3, 7), (2, 5)),
    ((), ()),
    ((0,), (5,)),
]

FILLS: list[JSON] = [None, 0, ""]


@pytest.fixture(params=SHAPES, ids=str)
def place(request: Any, fill_value: JSON, tmp_path: Path) -> Path:
    shape, chunks = request.param
    group = cw.create_group(tmp_path / "g", format="zarr2")
    group.create_array("a", np.zeros(shape, EMPTY), chunks=chunks, codec="none")
    document = json.loads((tmp_path / "g/a/.zarray").read_text())
    (tmp_path / "g/a/.zarray").write_text(json.dumps({**document, "fill_value": fill_value}))
    return tmp_path / "g" / "a"


@pytest.mark.parametrize("fill_value", FILLS)
@pytest.mark.parametrize("limit", [0, 1_000_000], ids=["", "cached"])
def test_every_part_is_read_and_written(place: Path, limit: int) -> None:
    spec = {
        "driver": "zarr",
        "kvstore": {"driver": "file", "path": f"{place}/"},
        "context": {"cache_pool": {"total_bytes_limit": limit}},
    }
    a = cw.open(spec, open=True).result()
    parts: list[Any] = [..., ...]
    if a.rank and a.shape[0]:
        parts += [slice(0, 2), slice(0, 1), slice(0, None, 2), 1, [0, 1, 1]]
    for part in parts:
        view = a[part]
        values = view.read().result()
        assert values.shape == view.shape and values.dtype == EMPTY
        view.write(values).result()
        for method in ("stride", "mode"):
            reduced = cw.downsample(view, [2] * view.rank, method)
            assert reduced.read().result().shape == reduced.shape


@pytest.mark.parametrize("fill_value", FILLS)
def test_they_are_copied_and_compared(place: Path, tmp_path: Path) -> None:
    cw.copy(place, tmp_path / "one", verify=True)
    assert not list(cw.diff(place, tmp_path / "one"))
    for part in ("3/3", "1/3", "2/3"):
        cw.copy_tree(tmp_path / "g", tmp_path / "o", verify=True, part=part)
    assert list(cw.open_group(tmp_path / "o")) == ["a"]
