"""Zarr v2 as netCDF-C writes it (NCZarr), and what netCDF-C reads of ours."""

from __future__ import annotations

import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr

import chunkwise as cw

VALUES = (np.arange(2 * 11 * 7) * 7 % 100).reshape(2, 11, 7)
MODES = ("nczarr", "zarr", "xarray")
TYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")
FILTERS = {
    "shuffle-zlib": {"compression": "zlib", "shuffle": True},
    "shuffle-zlib-fletcher32": {"compression": "zlib", "shuffle": True, "fletcher32": True},
    "zstd": {"compression": "zstd"},
    "bzip2": {"compression": "bzip2"},
}


@pytest.fixture
def write(tmp_path):
    """Write a variable ``a`` with netCDF-C; return the path of the dataset."""

    def write(dtype, *, mode="nczarr", attributes=None, **options):
        path = tmp_path / "netcdf.zarr"
        with netCDF4.Dataset(f"file://{path}#mode={mode},file", "w") as dataset:
            for name, size in zip("zyx", VALUES.shape, strict=True):
                dataset.createDimension(name, size)
            variable = dataset.createVariable("a", dtype, tuple("zyx"), chunksizes=(1, 5, 4), **options)
            variable[:] = VALUES.astype(dtype)
            variable.setncatts(attributes or {})
            dataset.title = "t"
        return path

    return write


@pytest.mark.each_once
@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("dtype", TYPES)
def test_values(write, same_bits, dtype, filters):
    """``shuffle`` among them, whose element size of 0 is that of the data type."""
    path = write(dtype, **FILTERS[filters])
    same_bits(cw.open(path / "a").result().read().result(), VALUES.astype(dtype))


def test_a_shuffled_array_is_copied_to_one_that_others_read(write, tmp_path, same_bits):
    """NumCodecs shuffles nothing where the element size is 0."""
    cw.copy(write("i4", **FILTERS["shuffle-zlib"]) / "a", tmp_path / "copy")
    same_bits(zarr.open_array(tmp_path / "copy", mode="r")[...], VALUES.astype("i4"))


@pytest.mark.parametrize("mode", MODES)
def test_datasets_have_no_attributes_of_nczarr(write, mode):
    path = write("i4", mode=mode, attributes={"units": "m"}, fill_value=7)
    dataset = xr.open_dataset(path, engine="chunkwise")
    assert dataset.attrs == {"title": "t"}
    assert dataset["a"].dims == ("z", "y", "x") and dataset["a"].attrs == {"units": "m"}
    np.testing.assert_array_equal(dataset["a"], np.where(VALUES == 7, np.nan, VALUES))


@pytest.mark.each_once
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("codec", ["none", "zlib:5", "zstd:3", "blosc"])
def test_netcdf_reads_ours(tmp_path, dtype, codec):
    group = cw.create_group(tmp_path / "ours.zarr", format="zarr2")
    group.create_array("a", VALUES.astype(dtype), chunks=(1, 5, 4), codec=codec)
    with netCDF4.Dataset(f"file://{tmp_path}/ours.zarr#mode=zarr,file") as dataset:
        read = dataset["a"][...]
    np.testing.assert_array_equal(np.ma.getdata(read), VALUES.astype(dtype))
