"""chunkwise and xarray's own engine read what the other writes, as the same datasets."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from datasets import (
    NUMBERS,
    datasets,
    read_with_chunkwise,
    read_with_xarray,
    write_with_chunkwise,
    write_with_xarray,
)
from examples import examples
from hypothesis import HealthCheck, given, settings

SWEEP = settings(
    max_examples=examples(10),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
FORMATS = {2: "zarr2", 3: "zarr3"}


@pytest.mark.parametrize("zarr_format", [2, 3])
@SWEEP
@given(dataset=datasets())
def test_what_xarray_writes_is_read_as_xarray_reads_it(
    tmp_path: Path, zarr_format: int, dataset: xr.Dataset
) -> None:
    path = tmp_path / "theirs"
    write_with_xarray(dataset, path, zarr_format)
    for options in ({}, {"decode_cf": False}, {"mask_and_scale": False}):
        theirs = read_with_xarray(path, **options)
        ours = read_with_chunkwise(path, **options)
        xr.testing.assert_identical(ours, theirs)
        for name in theirs.variables:
            assert ours[name].dtype == theirs[name].dtype or theirs[name].dtype.kind == "T"
            kinds = [{k: type(v) for k, v in ds[name].attrs.items()} for ds in (ours, theirs)]
            assert kinds[0] == kinds[1]


@pytest.mark.parametrize("zarr_format", [2, 3])
@SWEEP
@given(dataset=datasets())
def test_what_chunkwise_writes_is_read_by_both(tmp_path: Path, zarr_format: int, dataset: xr.Dataset) -> None:
    """And as xarray reads what it wrote itself."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    write_with_xarray(dataset, theirs, zarr_format)
    write_with_chunkwise(dataset, ours, format=FORMATS[zarr_format], mode="w")
    expected = read_with_xarray(theirs)
    xr.testing.assert_identical(read_with_xarray(ours), expected)
    xr.testing.assert_identical(read_with_xarray(ours, consolidated=False), expected)
    xr.testing.assert_identical(read_with_chunkwise(ours), expected)
    assert set(read_with_xarray(ours).coords) == set(dataset.coords)


@SWEEP
@given(dataset=datasets((*NUMBERS, "bool", "U5", "M8[ns]", "m8[s]", "text")))
def test_n5_holds_what_zarr_holds(tmp_path: Path, dataset: xr.Dataset) -> None:
    zarr, n5 = tmp_path / "a.zarr", tmp_path / "a.n5"
    write_with_chunkwise(dataset, zarr, mode="w")
    write_with_chunkwise(dataset, n5, mode="w")
    xr.testing.assert_identical(read_with_chunkwise(n5), read_with_chunkwise(zarr))


def everything() -> xr.Dataset:
    return xr.Dataset(
        {
            "a": (("x", "y"), np.arange(12.0).reshape(3, 4), {"units": "m", "resolution": [1, 2]}),
            "n": ("x", np.array([1, 2, 3], "i2"), {}, {"_FillValue": -1}),
            "flag": ("x", np.array([True, False, True])),
            "name": ("x", np.array(["a", "bc", ""], object)),
            "time": ("t", np.array(["2000-01-01", "2000-01-02"], "M8[ns]")),
            "none": ((), 5),
        },
        {"x": [10, 20, 30], "lat": (("x", "y"), np.ones((3, 4)))},
        {"title": "everything", "list": [1, 2], "number": np.float32(0.5)},
    )


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5"])
def test_a_dataset_survives_a_copy_to_every_format(tmp_path: Path, format: str) -> None:
    """What was opened lazily in one format is written in another, with its layout."""
    write_with_chunkwise(
        everything(), tmp_path / "first", encoding={"a": {"chunks": (2, 3), "codec": "gzip:2"}}
    )
    lazy = xr.open_dataset(tmp_path / "first", engine=engine())
    write_with_chunkwise(lazy, tmp_path / "second", format=format)
    second = xr.open_dataset(tmp_path / "second", engine=engine())
    assert second["a"].encoding["chunks"] == (2, 3) and second["a"].encoding["codec"] == "gzip:2"
    xr.testing.assert_identical(second.load(), lazy.load())


def test_n5_is_n5_for_others(tmp_path: Path) -> None:
    """TensorStore and z5py read the arrays; units of CF are in nobody's way."""
    import tensorstore as ts
    import z5py

    write_with_chunkwise(everything(), tmp_path / "a.n5", encoding={"a": {"codec": "gzip", "chunks": (3, 4)}})
    spec: Any = {"driver": "n5", "kvstore": {"driver": "file", "path": str(tmp_path / "a.n5/a")}}
    array = ts.open(spec).result()
    np.testing.assert_array_equal(array, everything()["a"])
    assert array.domain.labels == ("x", "y")
    with z5py.File(str(tmp_path / "a.n5"), "r") as file:
        np.testing.assert_array_equal(file["a"][:].T, everything()["a"])
        assert file["a"].attrs["xarray"] == {"resolution": [1, 2], "units": "m"}
        assert file.attrs["title"] == "everything"


def engine() -> Any:
    from chunkwise.xarray.backend import ChunkwiseBackendEntrypoint

    return ChunkwiseBackendEntrypoint


@pytest.fixture(autouse=True)
def clean(tmp_path: Path) -> Any:
    yield
    shutil.rmtree(tmp_path, ignore_errors=True)
