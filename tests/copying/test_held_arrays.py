"""Arrays that a program holds are taken wherever a place is read: forms x functions."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr

import chunkwise as cw
from chunkwise.errors import InvalidArgumentError, OptionError
from chunkwise.z5py import File

VALUES = np.arange(4 * 6 * 8, dtype="u2").reshape(4, 6, 8)
SIZES = {"z": 2.0, "y": 0.5, "x": 0.25}
STARTS = {"z": 0.0, "y": 10.1, "x": -3.0}


def _labelled(data: Any) -> xr.DataArray:
    coords = {
        name: (name, STARTS[name] + SIZES[name] * np.arange(n), {"units": "um"})
        for name, n in zip("zyx", VALUES.shape, strict=True)
    }
    return xr.DataArray(data, dims=list("zyx"), coords=coords)


def _h5py(folder: Path) -> Any:
    file = h5py.File(folder / "held.h5", "w")
    return file.create_dataset("v", data=VALUES, chunks=(2, 3, 5))


def _z5py(folder: Path) -> Any:
    return File(str(folder / "held.n5"), "a").create_dataset("v", data=VALUES, chunks=(2, 3, 5))


FORMS: dict[str, Callable[[Path], Any]] = {
    "numpy": lambda folder: VALUES,
    "big-endian": lambda folder: VALUES.astype(">u2"),
    "view": lambda folder: np.repeat(VALUES, 2, axis=2)[..., ::2],
    "dask": lambda folder: da.from_array(VALUES, chunks=((1, 3), (4, 2), 8)),
    "xarray": lambda folder: _labelled(VALUES),
    "xarray of dask": lambda folder: _labelled(da.from_array(VALUES, chunks=3)),
    "h5py": _h5py,
    "z5py": lambda folder: File(str(folder / "held.n5"), "a").create_dataset(
        "v", data=VALUES, chunks=(2, 3, 5)
    ),
}


def _copied(held: Any, folder: Path) -> Any:
    cw.copy(held, folder / "copy.zarr", chunks=(3, 4, 5), verify=True)
    return zarr.open_array(folder / "copy.zarr", mode="r")[...]


def _level(held: Any, folder: Path) -> Any:
    cw.downsample_pyramid(held, folder / "image.zarr", axes="zyx", levels=1).result()
    return zarr.open_array(folder / "image.zarr/0", mode="r")[...]


def _served(held: Any, folder: Path) -> Any:
    with cw.serve({"held": held}) as server:
        base = server.url.split("?")[0].rstrip("/")
        with urllib.request.urlopen(f"{base}/precomputed/held/info", timeout=20) as answer:
            assert json.load(answer)["scales"][0]["size"][:3] == [8, 6, 4]
        return VALUES


DOORS: dict[str, Callable[[Any, Path], Any]] = {
    "read": lambda held, folder: cw.read(held),
    "copy": _copied,
    "create_array": lambda held, folder: cw.create_array(folder / "new.zarr", held).read().result(),
    "to_dask": lambda held, folder: cw.to_dask(held).compute(),
    "stack": lambda held, folder: cw.stack([held, held])[1].read().result(),
    "concat": lambda held, folder: cw.concat([held, held], 0)[4:].read().result(),
    "open_multiscale": lambda held, folder: (
        cw.open_multiscale(held).levels[0].translate_to[0].read().result()
    ),
    "downsample_pyramid": _level,
    "serve": _served,
}


@pytest.mark.each_once
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("form", FORMS)
def test_held_array_is_taken(form: str, door: str, tmp_path: Path) -> None:
    np.testing.assert_array_equal(DOORS[door](FORMS[form](tmp_path), tmp_path), VALUES)


@pytest.mark.parametrize("form", FORMS)
def test_differences_from_held_arrays(form: str, tmp_path: Path) -> None:
    cw.create_array(tmp_path / "a.zarr", VALUES)
    held = FORMS[form](tmp_path)
    assert [found for found in cw.diff(held, tmp_path / "a.zarr") if "elements" in str(found)] == []
    cw.create_array(tmp_path / "b.zarr", VALUES + 1)
    assert cw.diff(held, tmp_path / "b.zarr")


@pytest.mark.parametrize("form", ["xarray", "xarray of dask"])
def test_coordinates_are_sizes_and_positions(form: str, tmp_path: Path) -> None:
    held = FORMS[form](tmp_path)
    cw.downsample_pyramid(held, tmp_path / "image.zarr", levels=1).result()
    image = zarr.open_group(tmp_path / "image.zarr", mode="r").attrs["ome"]["multiscales"][0]
    assert [(axis["name"], axis["unit"]) for axis in image["axes"]] == [(n, "micrometer") for n in "zyx"]
    scale, start = image["datasets"][0]["coordinateTransformations"]
    assert scale["scale"] == list(SIZES.values())
    assert start["translation"] == pytest.approx(list(STARTS.values()))
    assert cw.open_multiscale(held).translations[0] == pytest.approx(tuple(STARTS.values()))


def test_blocks_of_dask_are_computed_once_and_alone(tmp_path: Path) -> None:
    seen = []

    def block(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        seen.append(values.shape)
        return values

    lazy = da.from_array(VALUES, chunks=(2, 6, 8)).map_blocks(block, meta=np.empty((0, 0, 0), "u2"))
    cw.copy(lazy, tmp_path / "a.zarr", chunks=(2, 6, 8))
    assert seen == [(2, 6, 8)] * 2


def test_text_is_text(tmp_path: Path) -> None:
    cw.copy(np.array(["a", "bc"], dtype=object), tmp_path / "a.zarr")
    assert cw.open_array(tmp_path / "a.zarr").dtype == cw.ustring


PANDAS: dict[str, Callable[[], Any]] = {
    "text": lambda: pd.Series(["a", "bc"], dtype="string"),
    "labels": lambda: pd.Index(["a", "bc"]),
    "categories": lambda: pd.Series(["a", "bc"], dtype="category"),
    "numbers": lambda: pd.array([1, 2]),
    "categories of numbers": lambda: pd.Series([2, 1], index=["p", "q"], dtype="category"),
}


@pytest.mark.parametrize("name", PANDAS)
def test_columns_of_pandas_are_copied_as_they_are_written(name: str, tmp_path: Path) -> None:
    written = cw.create_array(tmp_path / "a.zarr", PANDAS[name]())
    copied = cw.copy(PANDAS[name](), tmp_path / "b.zarr").array
    assert copied.dtype == written.dtype
    assert copied.read().result().tolist() == written.read().result().tolist() == list(PANDAS[name]())


def test_objects_of_pandas_that_no_data_type_holds(tmp_path: Path) -> None:
    for values, says in (
        (pd.Series(pd.to_datetime(["2020-01-01"]).tz_localize("UTC")), r"Timestamp.*tz_convert\(None\)"),
        (pd.Series(pd.period_range("2020", periods=2)), r"objects \(Period\)"),
    ):
        with pytest.raises(OptionError, match=says):
            cw.copy(values, tmp_path / "a.zarr")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", ["dask", "xarray of dask"])
@pytest.mark.parametrize("door", [door for door in DOORS if door != "create_array"])
def test_shapes_that_dask_does_not_know(door: str, form: str, tmp_path: Path) -> None:
    unknown: Any = da.arange(9, chunks=4)
    unknown = unknown[unknown > 2]
    held = unknown if form == "dask" else xr.DataArray(unknown, dims=["x"])
    with pytest.raises(InvalidArgumentError, match=r"not known: write array\.compute_chunk_sizes\(\)"):
        DOORS[door](held, tmp_path)
    assert not list(tmp_path.iterdir())


def test_arrays_of_zarr_python_are_named_by_their_store(tmp_path: Path) -> None:
    theirs = zarr.create_array(tmp_path / "a.zarr", data=VALUES)
    with pytest.raises(TypeError, match=r"give its place, x\.store$"):
        cw.downsample_pyramid(theirs, tmp_path / "image.zarr").result()
    with pytest.raises(TypeError, match=r"give its place, x\.store$"):
        cw.read(theirs)
    np.testing.assert_array_equal(cw.read(theirs.store), VALUES)
    cw.downsample_pyramid(theirs.store, tmp_path / "image.zarr").result()
