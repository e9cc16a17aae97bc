"""The data types of text that h5py makes are taken wherever a data type is named."""

from __future__ import annotations

from pathlib import Path

import h5py
import pytest

import chunkwise as cw


@pytest.mark.parametrize(("encoding", "name"), [("utf-8", "ustring"), (None, "string")])
def test_string_dtype(tmp_path: Path, encoding: str | None, name: str) -> None:
    dtype = h5py.string_dtype() if encoding else h5py.special_dtype(vlen=bytes)
    group = cw.open_group(tmp_path / "g.zarr", "w")
    made = [
        cw.create_array(tmp_path / "a.zarr", shape=2, dtype=dtype),
        group.create_array("a", shape=2, dtype=dtype),
        group.create_dataset("b", (2,), dtype=dtype),
        group.require_array("c", shape=(2,), dtype=dtype),
    ]
    assert [array.dtype.name for array in made] == [name] * 4
