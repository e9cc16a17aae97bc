"""Datasets in stores that know no conditional writes: what one call has made itself is whole by right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import xarray as xr

import chunkwise
from chunkwise.xarray.write import write_dataset


def _dataset(n: int) -> xr.Dataset:
    return xr.Dataset({"v": ("x", np.arange(float(n)))}, {"x": np.arange(n)}, {"title": "new"})


@pytest.mark.each_once
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_a_dataset_is_made_and_replaced(format: str, chunked: bool, tmp_path: Path) -> None:
    stores: list[Any] = [
        fsspec.get_mapper(f"memory://{tmp_path.name}"),
        fsspec.get_mapper(f"file://{tmp_path}/a"),
    ]
    for store in stores:
        for n, mode in ((5, "w-"), (7, "w")):
            dataset = _dataset(n).chunk(4) if chunked else _dataset(n)
            write_dataset(dataset, store, mode=mode, format=format, encoding={"v": {"chunks": (4,)}})
            with xr.open_dataset(store, engine="chunkwise") as found:
                xr.testing.assert_identical(found.load(), _dataset(n))
        with pytest.raises(chunkwise.errors.UnsafeWriteError):  # what others may write to is as ever
            chunkwise.open_group(store, "r+")["v"][1:2] = 5.0
