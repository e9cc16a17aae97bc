"""``write_dataset``: modes, encodings, appending, regions, dask, and what is refused."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import dask.array as da
import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from dask.delayed import Delayed
from datasets import read_with_chunkwise, read_with_xarray, write_with_chunkwise

import chunkwise as cw
from chunkwise.xarray import write_dataset, write_datatree

FORMATS = ("zarr2", "zarr3", "n5")


def series(start: int, n: int, offset: float = 0.0) -> xr.Dataset:
    """`n` hours of data, packed into small integers, with the time since 2000."""
    time = np.datetime64("2000-01-01", "ns") + np.arange(start, start + n).astype("m8[h]")
    values = np.arange(start, start + n)[:, None] * 0.5 + np.arange(3) + offset
    dataset = xr.Dataset(
        {"a": (("time", "x"), values, {"units": "K"}), "mask": ("x", [1, 0, 1])},
        {"time": time.astype("M8[ns]")},
        {"title": "series"},
    )
    dataset["a"].encoding = {"dtype": "i4", "scale_factor": 0.5, "_FillValue": -9, "chunks": (4, 3)}
    dataset["time"].encoding = {"units": "hours since 1999-01-01", "dtype": "i8"}
    return dataset


def same_values(dataset: xr.Dataset, other: xr.Dataset) -> None:
    xr.testing.assert_identical(dataset, other)


@pytest.mark.parametrize("format", FORMATS)
def test_append(tmp_path: Path, format: str) -> None:
    path = tmp_path / "a"
    write_dataset(series(0, 5), path, format=format)
    write_dataset(series(5, 6), path, append_dim="time")
    same_values(read_with_chunkwise(path), series(0, 11))
    # what is appended is packed as what was there, whatever its own encoding says
    more = series(11, 2)
    for name in more.variables:
        more[name].encoding = {}
    write_dataset(more.chunk({"time": 1}), path, append_dim="time")
    same_values(read_with_chunkwise(path), series(0, 13))
    if format != "n5":
        same_values(read_with_xarray(path), series(0, 13))


@pytest.mark.parametrize("format", FORMATS)
def test_region(tmp_path: Path, format: str) -> None:
    path = tmp_path / "a"
    whole = series(0, 10)
    write_dataset(whole, path, format=format)
    part = series(0, 10, offset=7.0).isel(time=slice(3, 7)).drop_vars("mask")
    write_dataset(part, path, region={"time": slice(3, 7)})
    whole["a"][3:7] = part["a"].values
    same_values(read_with_chunkwise(path), whole)


@pytest.mark.parametrize("region", ["auto", {"time": "auto", "x": slice(0, 3)}])
def test_a_region_is_found_by_its_coordinates(tmp_path: Path, region: Any) -> None:
    path = tmp_path / "a"
    whole = series(0, 10)
    write_dataset(whole, path)
    part = series(0, 10, offset=7.0).isel(time=slice(3, 7)).drop_vars("mask")
    write_dataset(part, path, region=region)
    whole["a"][3:7] = part["a"].values
    same_values(read_with_chunkwise(path), whole)
    for wrong in (part.isel(time=[2, 1]), part.isel(time=[0, 2]), series(20, 2).drop_vars("mask")):
        with pytest.raises(ValueError, match="one after the other"):
            write_dataset(wrong, path, region="auto")
    with pytest.raises(ValueError, match="no coordinates"):
        write_dataset(part, path, region={"x": "auto"})
    same_values(read_with_chunkwise(path), whole)


def test_regions_of_many_writers_are_put_together(tmp_path: Path) -> None:
    """Metadata first, then parts that share chunks, at the same time."""
    from concurrent.futures import ThreadPoolExecutor

    path = tmp_path / "a"
    whole = series(0, 24)
    delayed = write_dataset(whole.chunk({"time": 8}), path, compute=False)
    assert np.isnan(read_with_chunkwise(path)["a"]).all()  # nothing is stored, so all is missing
    del delayed

    def write(start: int) -> None:
        part = whole.isel(time=slice(start, start + 3)).drop_vars("mask")
        write_dataset(part, path, region={"time": slice(start, start + 3)})

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(0, 24, 3)))
    same_values(read_with_chunkwise(path)["a"], whole["a"])


@pytest.mark.parametrize("format", FORMATS)
def test_modes(tmp_path: Path, format: str) -> None:
    path = tmp_path / ("a.n5" if format == "n5" else "a.zarr")
    one = xr.Dataset({"a": ("x", [1, 2, 3]), "b": ("x", [4, 5, 6])}, attrs={"k": 1, "l": 2})
    write_dataset(one, path, format=format)
    with pytest.raises(FileExistsError, match="already"):
        write_dataset(one, path, format=format)
    two = xr.Dataset({"b": ("y", [7.5, 8.5]), "c": ("y", [9, 10])}, attrs={"k": 3})
    write_dataset(two, path, mode="a")
    both = xr.Dataset({"a": one["a"], "b": two["b"], "c": two["c"]}, attrs={"k": 3, "l": 2})
    same_values(read_with_chunkwise(path), both)
    write_dataset(xr.Dataset({"a": ("x", [0, 0, 1])}), path, mode="r+")
    both["a"] = ("x", [0, 0, 1])
    same_values(read_with_chunkwise(path), both)
    write_dataset(one, path, mode="w")
    same_values(read_with_chunkwise(path), one)
    with pytest.raises(FileNotFoundError):
        write_dataset(one, tmp_path / "missing", mode="r+")
    with pytest.raises(FileNotFoundError, match='no variable "c"'):
        write_dataset(two[["c"]], path, mode="r+")


def test_consolidated_metadata_follow(tmp_path: Path) -> None:
    for format in ("zarr2", "zarr3"):
        path = tmp_path / format
        write_dataset(series(0, 5), path, format=format)
        write_dataset(series(5, 6), path, append_dim="time", consolidated=False)
        same_values(read_with_xarray(path, consolidated=True), series(0, 11))
        write_dataset(xr.Dataset({"new": ((), 1)}), path, mode="a", consolidated=False)
        assert "new" in read_with_xarray(path, consolidated=True)
        write_dataset(series(0, 5), path, mode="w", consolidated=False)
        with pytest.raises((ValueError, KeyError)):
            read_with_xarray(path, consolidated=True)
    with pytest.raises(ValueError, match="only groups of Zarr"):
        write_dataset(series(0, 5), tmp_path / "a.n5", consolidated=True)


def test_layouts(tmp_path: Path) -> None:
    dataset = xr.Dataset({"a": (("x", "y"), np.arange(48.0).reshape(8, 6))})
    encoding = {"a": {"chunks": (2, 3), "shards": (4, 6), "codec": "blosc:lz4:3:bitshuffle", "fill_value": 5}}
    write_dataset(dataset, tmp_path / "a", encoding=encoding)
    document = json.loads((tmp_path / "a/a/zarr.json").read_text())
    assert document["chunk_grid"]["configuration"]["chunk_shape"] == [4, 6]
    assert document["codecs"][0]["name"] == "sharding_indexed" and document["fill_value"] == 5.0
    opened = xr.open_dataset(tmp_path / "a", engine="chunkwise", chunks={})
    assert opened["a"].chunks == ((4, 4), (6,))
    for key, value in encoding["a"].items():
        assert opened["a"].encoding[key] == value
    # they go where the dataset goes, unless dask has other blocks
    write_dataset(opened, tmp_path / "b")
    assert xr.open_dataset(tmp_path / "b", engine="chunkwise")["a"].encoding["shards"] == (4, 6)
    write_dataset(opened.chunk({"x": 3, "y": 6}), tmp_path / "c")
    c = xr.open_dataset(tmp_path / "c", engine="chunkwise")
    assert c["a"].encoding["chunks"] == (3, 6) and c["a"].encoding["codec"] == "blosc:lz4:3:bitshuffle"
    xr.testing.assert_identical(c.load(), dataset)
    json_codec = {"a": {"codec": {"id": "zlib", "level": 2}}}
    write_dataset(dataset, tmp_path / "d", format="zarr2", encoding=json_codec)
    assert json.loads((tmp_path / "d/a/.zarray").read_text())["compressor"] == {"id": "zlib", "level": 2}


def test_layouts_that_no_longer_fit_are_forgotten(tmp_path: Path) -> None:
    dataset = xr.Dataset({"a": (("x", "y"), np.arange(48.0).reshape(8, 6))})
    encoding = {"a": {"chunks": (2, 3), "shards": (4, 6), "codec": "gzip:1"}}
    write_dataset(dataset, tmp_path / "a", encoding=encoding)
    opened = xr.open_dataset(tmp_path / "a", engine="chunkwise")
    fewer = opened.isel(y=2)
    write_dataset(fewer, tmp_path / "b")
    write_dataset(opened.astype("i4", keep_attrs=True), tmp_path / "c")
    for key in ("chunks", "shards", "fill_value"):
        opened["a"].encoding[key] = {"chunks": (2, 3), "shards": None, "fill_value": np.nan}[key]
    opened["a"].encoding["dtype"] = "i2"
    opened["a"].encoding["_FillValue"] = -1
    write_dataset(opened, tmp_path / "d")
    xr.testing.assert_identical(read_with_chunkwise(tmp_path / "b"), fewer.load())
    xr.testing.assert_identical(read_with_chunkwise(tmp_path / "d"), opened.load())
    assert json.loads((tmp_path / "d/a/zarr.json").read_text())["fill_value"] == -1
    with pytest.raises(ValueError, match="chunks: expected one size for each of 1 dim"):
        write_dataset(fewer, tmp_path / "e", encoding={"a": {"chunks": (2, 3)}})


def test_open_groups_keep_their_mode(tmp_path: Path) -> None:
    dataset = xr.Dataset({"a": ("x", [1, 2])})
    write_dataset(dataset, tmp_path / "a")
    with pytest.raises(ValueError, match="for reading only"):
        write_dataset(dataset, cw.open_group(tmp_path / "a"), mode="w")
    with pytest.raises(ValueError, match="this one is open"):
        read_with_chunkwise(cw.open_group(tmp_path / "a"), consolidated=False)
    with pytest.raises(ValueError, match="at once"):
        write_datatree(xr.DataTree(dataset), tmp_path / "b", compute=False)


def test_dask_blocks_of_any_size_are_stored(tmp_path: Path) -> None:
    values = np.arange(300.0).reshape(20, 15)
    lazy = xr.Dataset({"a": (("x", "y"), da.from_array(values, chunks=(3, 4)))})
    write_dataset(lazy, tmp_path / "a", encoding={"a": {"chunks": (7, 5)}})
    np.testing.assert_array_equal(read_with_chunkwise(tmp_path / "a")["a"], values)
    more = (lazy + 1).assign(c=lazy["a"] * 2)  # more than one variable of dask's
    delayed = write_dataset(more, tmp_path / "b", compute=False)
    assert isinstance(delayed, Delayed) and delayed.compute() is None
    np.testing.assert_array_equal(read_with_xarray(tmp_path / "b")["c"], values * 2)
    eager = write_dataset(lazy.compute(), tmp_path / "c", compute=False)
    assert isinstance(eager, Delayed) and eager.compute() is None
    np.testing.assert_array_equal(read_with_xarray(tmp_path / "b")["a"], values + 1)


@pytest.mark.parametrize("place", ["url", "memory", "group"])
def test_places(tmp_path: Path, place: str) -> None:
    dataset = xr.Dataset({"a": ("x", [1, 2, 3])}, attrs={"k": 1})
    target: Any = {
        "url": f"file://{tmp_path}/a.zarr",
        "memory": cw.KvStore.open("memory://").result(),
        "group": None,
    }[place]
    if place == "group":
        target = cw.open_group(tmp_path / "root", "w")
    write_dataset(dataset, target, group="deep/er")
    same_values(read_with_chunkwise(target, group="deep/er"), dataset)


def test_trees(tmp_path: Path) -> None:
    tree = xr.DataTree.from_dict(
        {
            "/": xr.Dataset({"r": ("x", [1, 2])}, {"x": [5, 6]}, {"level": 0}),
            "/a": xr.Dataset({"v": ("x", [3.0, 4.0])}, attrs={"level": 1}),
            "/a/b": xr.Dataset({"w": ((), 7)}),
            "/c": xr.Dataset(),
        }
    )
    for name in ("a.zarr", "a.n5"):
        write_datatree(tree, tmp_path / name, encoding={"/a": {"v": {"dtype": "f4"}}})
        with xr.open_datatree(tmp_path / name, engine="chunkwise") as found:
            xr.testing.assert_identical(found.load(), tree)
            assert found["a/v"].encoding["dtype"] == np.float32
    theirs = xr.open_datatree(tmp_path / "a.zarr", engine="zarr", consolidated=True)
    xr.testing.assert_identical(theirs.load(), tree)
    tree.to_zarr(tmp_path / "theirs.zarr", zarr_format=3, mode="w", consolidated=False)
    with xr.open_datatree(tmp_path / "theirs.zarr", engine="chunkwise") as found:
        xr.testing.assert_identical(found.load(), tree)


def test_non_finite_attributes(tmp_path: Path) -> None:
    dataset = xr.Dataset({"a": ("x", [1.0], {"limit": float("inf")})}, attrs={"nan": np.nan})
    write_dataset(dataset, tmp_path / "a")
    same_values(read_with_chunkwise(tmp_path / "a"), dataset)
    same_values(read_with_xarray(tmp_path / "a"), dataset)
    write_dataset(dataset, tmp_path / "b", non_finite="string")
    assert json.loads((tmp_path / "b/a/zarr.json").read_text())["attributes"]["limit"] == "Infinity"
    with pytest.raises(ValueError, match="NaN"):
        write_dataset(dataset, tmp_path / "c", non_finite="error")
    with pytest.warns(UserWarning, match="are text here"):  # other N5 software couldn't open the array
        write_dataset(dataset, tmp_path / "a.n5")
    json.loads((tmp_path / "a.n5/attributes.json").read_text(), parse_constant=pytest.fail)
    assert not (tmp_path / "c").exists()


def finer(dataset: xr.Dataset) -> xr.Dataset:
    """Return the dataset half an hour later: no whole number of hours."""
    return dataset.assign_coords(time=dataset["time"].values + np.timedelta64(30, "m"))


def in_celsius(dataset: xr.Dataset) -> xr.Dataset:
    dataset["a"].attrs["units"] = "degC"
    return dataset


def undecoded(dataset: xr.Dataset) -> xr.Dataset:
    days = ("time", np.arange(dataset.sizes["time"]), {"units": "days since 2000-01-02"})
    return dataset.assign_coords(time=days)


@pytest.mark.parametrize("format", FORMATS)
def test_times_in_other_units_become_what_is_there(tmp_path: Path, format: str) -> None:
    """However a dataset has its times, they are stored in the units of the array that they are added to."""
    path = tmp_path / "a"
    days = np.datetime64("2000-01-01", "ns") + np.arange(6).astype("m8[D]")
    first = xr.Dataset({"a": ("time", np.arange(3.0))}, {"time": days[:3]})
    first["time"].encoding = {"units": "days since 2000-01-01T00:00:00+00:00", "dtype": "i4"}
    more = xr.Dataset({"a": ("time", np.arange(3.0, 6))}, {"time": days[3:]})
    more["time"].encoding = {"units": "seconds since 1970-01-01", "dtype": "f8"}
    write_dataset(first, path, format=format)
    write_dataset(more, path, append_dim="time")
    np.testing.assert_array_equal(read_with_chunkwise(path)["time"].values, days)
    assert cw.open_group(path)["time"].read().result().tolist() == [0, 1, 2, 3, 4, 5]
    six_hours_later = more.isel(time=[0]).assign_coords(time=[days[5] + np.timedelta64(6, "h")])
    with pytest.raises(ValueError, match="days since 2000-01-01"):
        write_dataset(six_hours_later, path, append_dim="time")
    np.testing.assert_array_equal(read_with_chunkwise(path)["time"].values, days)


@pytest.mark.parametrize("how", ["append", "region"])
@pytest.mark.parametrize("dtype", ["m8[s]", "M8[s]"])
def test_times_are_added_to_those_of_numpy(tmp_path: Path, dtype: str, how: str) -> None:
    """zarr-python's arrays of NumPy's times have no units; what has no whole number of seconds is refused."""
    stored = zarr.open_group(tmp_path / "a", mode="w").create_array(
        "t", shape=3, dtype=dtype, dimension_names=["x"]
    )
    stored[:] = np.array([1, 2, "NaT"], dtype)
    options: Any = {"append_dim": "x"} if how == "append" else {"region": {"x": slice(0, 2)}}
    more = np.array(["NaT", 7_000], dtype.replace("s", "ms"))
    write_dataset(xr.Dataset({"t": ("x", more)}), tmp_path / "a", **options)
    whole = [1, 2, "NaT", "NaT", 7] if how == "append" else ["NaT", 7, "NaT"]
    found = zarr.open_array(tmp_path / "a" / "t")[:]
    np.testing.assert_array_equal(found, np.array(whole, dtype))
    with pytest.raises(ValueError, match=r'"t": .*7\.?001.* can\'t be stored as .*\[s\]'):
        write_dataset(xr.Dataset({"t": ("x", more + np.timedelta64(1, "ms"))}), tmp_path / "a", **options)


REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "mode": (series(0, 2), {"mode": "x"}, "mode"),
    "format": (series(0, 2), {"format": "hdf5"}, "format"),
    "both": (series(0, 2), {"append_dim": "time", "region": {}}, "contradict"),
    "append mode": (series(0, 2), {"append_dim": "time", "mode": "w"}, "append_dim needs"),
    "append dimension": (series(5, 2), {"append_dim": "tiem"}, "no dimension 'tiem', but 'time', 'x'"),
    "finer times": (
        finer(series(5, 2)),
        {"append_dim": "time"},
        "'hours since 1999-01-01', which can't hold",
    ),
    "finer times there": (finer(series(0, 5)), {"mode": "r+"}, "'hours since 1999-01-01', which can't hold"),
    "other units": (in_celsius(series(5, 2)), {"append_dim": "time"}, "'degC', but stored in 'K'"),
    "undecoded times": (undecoded(series(5, 2)), {"append_dim": "time"}, "stored as datetime64"),
    "region mode": (series(0, 2), {"region": {"time": slice(0, 1)}, "mode": "w"}, "region needs"),
    "encoding name": (series(0, 2), {"encoding": {"zz": {}}}, "no variable"),
    "encoding member": (series(0, 2), {"encoding": {"a": {"zz": 1}}, "mode": "w"}, "unknown member 'zz'"),
    "chunks": (
        series(0, 2),
        {"encoding": {"a": {"chunks": (1,)}}, "mode": "w"},
        "chunks: expected one size for each of 2",
    ),
    "codec": (series(0, 2), {"encoding": {"a": {"codec": "zip"}}, "mode": "w"}, "not known"),
    "shards": (
        series(0, 2),
        {"encoding": {"a": {"chunks": (1, 1), "shards": (2, 3)}}, "mode": "w", "format": "zarr2"},
        "no shards",
    ),
    "name": (xr.Dataset({"a/b": ((), 1)}), {"mode": "a"}, "path"),
    "reserved": (xr.Dataset({"zarr.json": ((), 1)}), {"mode": "a"}, "metadata document"),
    "objects": (xr.Dataset({"o": ("x", np.array([{}, 1], object))}), {"mode": "a"}, "neither numbers"),
    "categories": (xr.Dataset({"o": ("x", pd.Categorical(["a", "b"]))}), {"mode": "w"}, "data type category"),
    "nullable": (xr.Dataset({"o": ("x", pd.array([1, None], "Int64"))}), {"mode": "w"}, "data type Int64"),
    "bytes in N5": (xr.Dataset({"o": ("x", [b"a"])}), {"mode": "w", "format": "n5"}, "no data type"),
    "attribute": (xr.Dataset({"o": ("x", [1], {"k": b"\xff"})}), {"mode": "a"}, "JSON can't hold"),
    "region dimension": (series(0, 2), {"region": {"zz": slice(0, 1)}}, 'no dimension "zz"'),
    "region word": (series(0, 2), {"region": "here"}, "expected"),
    "region list": (series(0, 2), {"region": [slice(0, 1)]}, "expected"),
    "region steps": (series(0, 2), {"region": {"time": slice(0, 2, 2)}}, "without a step"),
    "region all": (series(0, 2), {"region": {"time": slice(0, 2)}}, "mask have none"),
    "region end": (series(0, 9)[["a"]], {"region": {"time": slice(0, 9)}}, "append_dim grows"),
    "region size": (series(0, 2)[["a"]], {"region": {"time": slice(0, 3)}}, "where 3 is needed"),
    "dimensions": (xr.Dataset({"a": ("x", [1, 2, 3])}), {"mode": "r+"}, "dimensions"),
    "type": (xr.Dataset({"mask": ("x", [1.5, 2, 3])}), {"mode": "r+"}, "stored as int64"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_what_cannot_be_is_refused(tmp_path: Path, case: str) -> None:
    dataset, options, match = REFUSED[case]
    write_dataset(series(0, 5), tmp_path / "a")
    with pytest.raises((ValueError, TypeError, NotImplementedError), match=match):
        write_with_chunkwise(dataset, tmp_path / "a", **options)


OF_ANOTHER_SIZE: dict[str, tuple[Any, bool]] = {
    "a new variable": (xr.Dataset({"n": ("time", [1, 2])}), False),
    "one of two": (series(0, 2)[["a"]].drop_vars("time"), False),
    "all with that dimension": (series(0, 2)[["a", "time"]], True),
    "all": (series(0, 2), True),
    "along a dimension of its own": (xr.Dataset({"n": ("other", [1, 2])}), True),
    "of the same size": (xr.Dataset({"n": ("time", range(5))}), True),
}


@pytest.mark.each_once
@pytest.mark.parametrize("case", OF_ANOTHER_SIZE)
@pytest.mark.parametrize("format", FORMATS)
def test_mode_a_leaves_a_group_that_xarray_opens(tmp_path: Path, format: str, case: str) -> None:
    """Or nothing is changed."""
    dataset, fits = OF_ANOTHER_SIZE[case]
    write_dataset(series(0, 5), tmp_path / "a", format=format)
    if fits:
        write_dataset(dataset, tmp_path / "a", mode="a")
        found = read_with_chunkwise(tmp_path / "a")
        assert all(found[name].shape == dataset[name].shape for name in dataset.variables)
        return
    with pytest.raises(ValueError, match=r'lengths along "time": .*\b[25]\b'):
        write_dataset(dataset, tmp_path / "a", mode="a")
    same_values(read_with_chunkwise(tmp_path / "a"), series(0, 5))


@pytest.mark.parametrize("chunks", [None, {"time": 1}])
@pytest.mark.parametrize("how", ["append", "region", "auto", "r+"])
@pytest.mark.parametrize("format", FORMATS)
def test_dimensions_in_another_order_are_put_into_that_of_the_store(
    tmp_path: Path, format: str, how: str, chunks: Any
) -> None:
    """By their names, as by xarray's own engine."""
    write_dataset(series(0, 5), tmp_path / "a", format=format)
    whole = series(0, 7) if how == "append" else series(0, 5)
    whole["a"].data += np.where(whole["time"] >= whole["time"][3], 0.5, 0)[:, None]
    options: dict[str, Any] = {
        "append": {"append_dim": "time"},
        "region": {"region": {"time": slice(3, 5)}},
        "auto": {"region": "auto"},
        "r+": {"mode": "r+"},
    }[how]
    if how == "append":
        write_dataset(whole.isel(time=slice(3, 5))[["a"]], tmp_path / "a", region="auto")
    part = whole.isel(time=slice(*{"append": (5, 7), "r+": (0, 5)}.get(how, (3, 5))))
    part = (part if how == "append" else part[["a"]]).transpose("x", "time", ...)
    assert part["a"].dims == ("x", "time")
    write_dataset(part if chunks is None else part.chunk(chunks), tmp_path / "a", **options)
    same_values(read_with_chunkwise(tmp_path / "a"), whole)


APPENDED_ALONE = {
    "one of two": lambda more: more[["a"]].drop_vars("time"),
    "without coordinates": lambda more: more.drop_vars("time"),
    "a new one": lambda more: more.assign(b=more["a"] * 2),
}


@pytest.mark.each_once
@pytest.mark.parametrize("case", APPENDED_ALONE)
@pytest.mark.parametrize("format", FORMATS)
def test_variables_of_one_group_end_together(tmp_path: Path, format: str, case: str) -> None:
    """xarray can't open a group of which some variables have grown and others haven't."""
    write_dataset(series(0, 5), tmp_path / "a", format=format)
    with pytest.raises(ValueError, match=r'lengths along "time": .*\b[25]\b'):
        write_dataset(APPENDED_ALONE[case](series(5, 2)), tmp_path / "a", append_dim="time")
    same_values(read_with_chunkwise(tmp_path / "a"), series(0, 5))
    # What hasn't this dimension may be missing.
    write_dataset(series(5, 2).drop_vars("mask"), tmp_path / "a", append_dim="time")
    same_values(read_with_chunkwise(tmp_path / "a"), series(0, 7))


def test_a_failure_in_the_options_changes_nothing(tmp_path: Path) -> None:
    write_dataset(series(0, 5), tmp_path / "a")
    bad = series(0, 3).assign(o=("x", np.array([{}, 1, 2], object)))
    with pytest.raises((ValueError, TypeError)):
        write_dataset(bad, tmp_path / "a", mode="w")
    same_values(read_with_chunkwise(tmp_path / "a"), series(0, 5))


def test_types_of_arguments(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="expected a Dataset"):
        write_dataset(series(0, 1)["a"], tmp_path / "a")
    with pytest.raises(TypeError, match="expected a DataTree"):
        write_datatree(series(0, 1), tmp_path / "a")


def test_without_xarray_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(ImportError, match=r'pip install "chunkwise\[xarray\]"'):
        write_dataset(None, "memory://")


INSTEAD = {
    '"codec": "zstd:5"': [
        {"compression": "gzip"},
        {"zlib": True, "complevel": 4},
    ],
    '"chunks"': [{"chunksizes": (2, 3)}, {"contiguous": False}],
}


@pytest.mark.parametrize(
    ("advice", "encoding"), [(advice, encoding) for advice, given in INSTEAD.items() for encoding in given]
)
def test_encodings_of_other_libraries_say_what_to_write(tmp_path, advice, encoding):
    dataset = xr.Dataset({"a": (("y", "x"), np.zeros((4, 6)))})
    with pytest.raises(ValueError, match="unknown member") as e:
        write_dataset(dataset, tmp_path / "x", encoding={"a": encoding})
    assert advice in str(e.value) and '"a"' in str(e.value)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5"])
@pytest.mark.parametrize("dtype", ["i2", "f8", "bool", "M8[ns]", "m8[ns]", "U2"])
@pytest.mark.parametrize("member", ["_FillValue", "missing_value", "units"])
def test_a_member_of_cf_that_is_none_asks_for_nothing(
    tmp_path: Path, member: str, dtype: str, format: str
) -> None:
    """The usual way to say that a coordinate has no fill value."""
    values = np.arange(3).astype(dtype)
    dataset = xr.Dataset({"a": ("x", values)}, {"c": ("x", values)})
    encoding = {name: {member: None} for name in ("a", "c")}
    write_dataset(dataset, tmp_path / "x", encoding=encoding, format=format)
    opened = xr.open_dataset(tmp_path / "x", engine="chunkwise", decode_timedelta=True)
    assert opened["a"].dtype.kind == opened["c"].dtype.kind or dtype == "U2"
    assert opened["a"].values.tolist() == opened["c"].values.tolist() == values.tolist()
    if member == "_FillValue":
        assert not {"_FillValue"} & (opened["a"].encoding.keys() | opened["c"].encoding.keys())


@pytest.mark.parametrize("file", ["a.nc", "a.zip", "a.json"])
def test_a_group_in_a_file(tmp_path: Path, file: str) -> None:
    """As netCDF4's engine opens it: `group` is a path in the file."""
    dataset = xr.Dataset({"a": (("y", "x"), np.arange(6.0).reshape(2, 3))})
    if file == "a.nc":
        with h5py.File(tmp_path / file, "w") as f:
            f["obs/daily/a"] = dataset["a"].values
            f["obs/daily/a"].attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    else:
        write_dataset(dataset, tmp_path / "t.zarr", group="obs/daily", format="zarr2", consolidated=False)
        shutil.make_archive(str(tmp_path / "a"), "zip", tmp_path / "t.zarr")
    if file == "a.json":
        names = [p for p in (tmp_path / "t.zarr").rglob("*") if p.is_file()]
        refs = {p.relative_to(tmp_path / "t.zarr").as_posix(): [str(p)] for p in names}
        (tmp_path / file).write_text(json.dumps({"version": 1, "refs": refs}))
    for group in ("obs/daily", "/obs/daily/"):
        opened = xr.open_dataset(tmp_path / file, engine="chunkwise", group=group)
        np.testing.assert_array_equal(opened["a"], dataset["a"])
    with pytest.raises(FileNotFoundError, match="obs/none"):
        xr.open_dataset(tmp_path / file, engine="chunkwise", group="obs/none")


@pytest.mark.parametrize("missing", [None, np.nan])
def test_missing_text_is_refused_with_what_to_do(tmp_path, missing):
    text = xr.Dataset({"s": (("x",), np.array(["a", missing, "b"], dtype=object))})
    with pytest.raises(ValueError, match=r'"s" is text with 1 missing.*fillna') as e:
        write_dataset(text, tmp_path / "x")
    assert not (tmp_path / "x").exists(), e
    write_dataset(text.fillna({"s": ""}), tmp_path / "x")
    assert list(xr.open_dataset(tmp_path / "x", engine="chunkwise")["s"].values) == ["a", "", "b"]
