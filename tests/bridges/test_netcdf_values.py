"""NetCDF-4 as h5netcdf reads it: fill values, markers of missing values, packing; and copies of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray
from examples import shares

import chunkwise as ts
from chunkwise.errors import ChunkwiseError

# Of each type the default fill value of the NetCDF library, among others.
VALUES: dict[str, list[Any]] = {
    "i1": [-127, -1, 0, 1, 127, 5],
    "u1": [255, 0, 1, 254, 9, 5],
    "i2": [-32767, 0, -1, 1, 2, 3],
    "u2": [65535, 0, 1, 2, 3, 9],
    "i4": [-(2**31) + 1, 0, 1, 2, 3, 9],
    "u4": [2**32 - 1, 0, 1, 2, 3, 9],
    "i8": [-(2**63) + 2, 2**60 + 1, 0, 1, 2, 9],
    "u8": [2**64 - 2, 2**60 + 1, 0, 1, 2, 9],
    "f4": [9.969209968386869e36, 0, 1, np.nan, 2, 9],
    "f8": [9.969209968386869e36, 0, 1, np.nan, 2, 9],
}
F4 = np.float32(0.1)
PACKED: dict[str, dict[str, Any]] = {
    "scale_f4": {"scale_factor": F4},
    "scale_f8": {"scale_factor": 0.1},
    "offset_f4": {"add_offset": F4},
    "both_f4": {"scale_factor": F4, "add_offset": F4},
    "both_f8": {"scale_factor": 0.5, "add_offset": 2.0},
    "scale_i2": {"scale_factor": np.int16(2)},
}


def _write(path: Path, kinds: Iterable[str] = VALUES, *, only_fills: bool = False) -> None:
    with np.errstate(invalid="ignore"), netCDF4.Dataset(path, "w") as file:
        file.set_auto_maskandscale(False)
        file.createDimension("x", 6)
        for kind in kinds:
            values = np.array(VALUES[kind], kind)
            _fills(file, kind, values)
            if not only_fills:
                _markers(file, kind, values)
        if only_fills:
            return
        options = {"chunksizes": (2,), "compression": "zstd", "fill_value": 3}
        file.createVariable("zstd", "i4", ("x",), **options)[:2] = [3, 4]
        days = file.createVariable("t", "i4", ("x",))
        days.units = "days since 2000-01-01"
        days[:] = range(6)
        file.setncatts({"scalar": F4, "short": np.int16(3), "list": np.arange(3, dtype="i2"), "title": "é"})


def _fills(file: Any, kind: str, values: Any) -> None:
    """Write variables with and without a fill value, whole and in part."""
    fills = {"none": None, "first": values[0], "last": values[-1], "zero": values.dtype.type(0)}
    if kind[0] == "f":
        fills["nan"] = np.array(np.nan, kind)
    for name, fill in fills.items():
        file.createVariable(f"{kind}_{name}", kind, ("x",), fill_value=fill, contiguous=True)[:] = values
        options = {"chunksizes": (2,), "zlib": name != "last", "fill_value": fill}
        file.createVariable(f"{kind}_{name}_part", kind, ("x",), **options)[:2] = values[:2]


def _markers(file: Any, kind: str, values: Any) -> None:
    """Write variables with the other attributes that mark values or pack them."""
    file.createVariable(f"{kind}_off", kind, ("x",), fill_value=False)[:] = values
    others = {
        **PACKED,
        "missing": {"missing_value": values[4]},
        "range": {"valid_range": values[[2, 4]]},
    }
    if kind[0] != "f":
        others["unsigned"] = {"_Unsigned": "true" if kind[0] == "i" else "false"}
    for name, attributes in others.items():
        # xarray itself can't decode "_Unsigned" without a fill value, nor an integer scale with one.
        fills = [values[1]] if name == "unsigned" else [None]
        if kind in ("u1", "i2", "f4") and name not in ("missing", "unsigned", "scale_i2"):
            fills = [None, values[1]]
        for fill in fills:
            variable = file.createVariable(f"{kind}_{name}_{fill}", kind, ("x",), fill_value=fill)
            variable.setncatts(attributes)
            variable[:] = values


def _types(attributes: dict[str, Any]) -> dict[str, str]:
    return {name: str(np.asarray(value).dtype) for name, value in attributes.items() if name != "source"}


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize(("decoded", "kinds"), shares(VALUES, [True, False]))
def test_values_and_types_are_those_of_h5netcdf(tmp_path: Path, decoded: bool, kinds: list[str]) -> None:
    """Also the types of attributes, by which xarray decides on the type of what it unpacks."""
    netcdf = tmp_path / "x.nc"
    _write(netcdf, kinds)
    expected = xarray.open_dataset(netcdf, engine="h5netcdf", decode_cf=decoded).load()
    found = xarray.open_dataset(f"{netcdf}|hdf5:", engine="chunkwise", decode_cf=decoded).load()
    xarray.testing.assert_identical(found, expected)
    assert _types(found.attrs) == _types(expected.attrs)
    for name in expected.variables:
        assert found[name].dtype == expected[name].dtype, name
        assert _types(found[name].attrs) == _types(expected[name].attrs), name
        for key in ("_FillValue", "missing_value", "scale_factor", "add_offset"):
            assert str(found[name].encoding.get(key)) == str(expected[name].encoding.get(key)), (name, key)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize(("format", "kinds"), shares(VALUES, ["zarr2", "zarr3"]))
def test_copies_mask_what_the_file_masks(tmp_path: Path, format: Any, kinds: list[str]) -> None:
    """By our engine and by xarray's own; JSON has no float32, so packing is only compared raw."""
    netcdf, place = tmp_path / "x.nc", tmp_path / "x.zarr"
    _write(netcdf, kinds)
    ts.copy_tree(netcdf, place, format=format, sync=False)
    expected = xarray.open_dataset(netcdf, engine="h5netcdf").load()
    names = [name for name in expected.variables if not any(f"_{how}_" in str(name) for how in PACKED)]
    assert len(names) > 10 * len(kinds)
    for found in (
        xarray.open_dataset(place, engine="chunkwise"),
        xarray.open_zarr(place, consolidated=False),
    ):
        xarray.testing.assert_identical(found[names].load(), expected[names])
        for name in names:
            assert found[name].dtype == expected[name].dtype, name


def test_markers_go_through_the_formats(tmp_path: Path) -> None:
    """From Zarr v3 and N5 back to Zarr v2, where the fill value is what marks."""
    before = tmp_path / "x.nc"
    _write(before, only_fills=True)
    expected = xarray.open_dataset(before, engine="h5netcdf").load()
    for number, format in enumerate(("zarr3", "n5", "zarr2")):
        place = tmp_path / f"{number}.{'n5' if format == 'n5' else 'zarr'}"
        ts.copy_tree(before, place, format=format, sync=False)
        xarray.testing.assert_identical(xarray.open_dataset(place, engine="chunkwise").load(), expected)
        before = place


def test_a_sparse_dataset_with_a_fill_value_of_its_own(tmp_path: Path) -> None:
    """Chunks that are missing have the fill value of HDF5, which marks nothing."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        for name, options in {
            "plain": {},
            "gzip": {"compression": "gzip", "shuffle": True, "fletcher32": True},
        }.items():
            dataset = file.create_dataset(name, (40, 40), "i2", chunks=(10, 10), fillvalue=7, **options)
            dataset[3, 3] = 1
    with h5py.File(path) as file:
        for name in list(file):  # h5py's own views hold its lock while they are gone through
            dataset = file[name]
            array = ts.open(f"{path}|hdf5:{name}").result()
            np.testing.assert_array_equal(array.read().result(), dataset[()])
            assert len(ts.KvStore.open(f"file://{path}|hdf5:{name}/").result().list().result()) == 16 + 2


def test_labels_are_names_and_attributes_are_kept(tmp_path: Path) -> None:
    """CLASS, NAME and DIMENSION_LABELS are HDF5's own only where they make a dimension scale."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.attrs.update({"CLASS": "GROUP", "NAME": "n"})
        labelled = file.create_dataset("labelled", data=np.zeros((2, 3)))
        labelled.dims[0].label, labelled.dims[1].label = "y", "x"
        labelled.attrs["CLASS"] = "IMAGE"
        partly = file.create_dataset("partly", data=np.zeros((2, 3)))
        partly.dims[1].label = "x"
        scaled = file.create_dataset("scaled", data=np.zeros((2, 3)))
        file["lon"] = np.arange(3.0)
        file["lon"].make_scale("longitude")
        scaled.dims[1].attach_scale(file["lon"])
        scaled.dims[0].label, scaled.dims[1].label = "y", "x"
        file["other"] = [1]
        file["other"].attrs["DIMENSION_LABELS"] = ["too", "many"]
    group = ts.open_group(path)
    assert dict(group.attrs) == {"CLASS": "GROUP", "NAME": "n"}
    assert dict(group["labelled"].attrs) == {"CLASS": "IMAGE", "_ARRAY_DIMENSIONS": ["y", "x"]}
    assert dict(group["partly"].attrs) == {"_ARRAY_DIMENSIONS": ["phony_dim_0", "x"]}
    assert dict(group["scaled"].attrs) == {"_ARRAY_DIMENSIONS": ["y", "lon"]}
    assert dict(group["lon"].attrs) == {"_ARRAY_DIMENSIONS": ["lon"]}
    assert dict(group["other"].attrs) == {"DIMENSION_LABELS": ["too", "many"]}
    ts.copy_tree(path, tmp_path / "y.zarr", format="zarr3")
    document = json.loads((tmp_path / "y.zarr/labelled/zarr.json").read_text())
    assert document["dimension_names"] == ["y", "x"] and document["attributes"] == {"CLASS": "IMAGE"}


@pytest.mark.parametrize("format", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"])
def test_netcdf_3_is_named(tmp_path: Path, format: Any) -> None:
    """By everything that opens: it is another format, and a tool makes NetCDF-4 of it."""
    path = tmp_path / "x.nc"
    with netCDF4.Dataset(path, "w", format=format) as file:
        file.createDimension("x", 2)
        file.createVariable("v", "i4", ("x",))[:] = [1, 2]
    for call in (
        lambda: ts.open(str(path)).result(),
        lambda: ts.open_group(path),
        lambda: list(ts.verify(path)),
        lambda: ts.copy_tree(path, tmp_path / "y.zarr"),
        lambda: xarray.open_dataset(path, engine="chunkwise"),
    ):
        with pytest.raises(ChunkwiseError, match="NetCDF-3 file"):
            call()
