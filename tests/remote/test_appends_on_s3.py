"""Appends of several processes to an array and a dataset on S3, some of them killed."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

sys.path.insert(0, str(Path(__file__).parents[1]))

from appending import check_rows, rows_of, run_writers
from servers import new_s3_bucket

import chunkwise as cw
from chunkwise.xarray import write_dataset

SMALL = {"n_writers": 2, "n_appends": 3, "n_kills": 0}
LARGE = {"n_writers": 8, "n_appends": 20, "n_kills": 5}
SIZES = [SMALL, pytest.param(LARGE, marks=pytest.mark.slow)]


@pytest.mark.parametrize("size", SIZES)
def test_rows_of_processes(
    moto: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: dict[str, int]
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto)
    place = f"s3://{new_s3_bucket(moto)}/a.zarr"
    cw.create_array(place, np.zeros((1, 3), "i8"), chunks=(4, 2))
    acknowledged = run_writers("array", place, tmp_path, **size)
    found = cw.read(place)
    assert (found == found[:, :1]).all()
    check_rows(found[:, 0], acknowledged, 1)


@pytest.mark.slow
def test_rows_of_datasets(moto: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto)
    place, rows = f"s3://{new_s3_bucket(moto)}/a.zarr", rows_of(1000, 0)
    values = np.repeat(rows[:, None], 3, axis=1)
    write_dataset(xr.Dataset({"a": ("t", rows), "b": (("t", "x"), values)}, {"t": rows}), place)
    acknowledged = run_writers("dataset", place, tmp_path, **LARGE)
    found = xr.open_dataset(place, engine="chunkwise").load()
    check_rows(found.a.values, acknowledged)
    assert (found.b.values == found.a.values[:, None]).all()
