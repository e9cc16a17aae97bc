"""Datasets rechunked as a whole: sizes go by dimension name, in each format that has names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import chunkwise as cw
from chunkwise.cli.main import main

WANTED = {"time": 20, "lat": 4, "lon": 6}
SHAPES: dict[str, tuple[int, ...]] = {
    "t2m": (20, 4, 6),
    "pr": (20, 4, 6),
    "mask": (4, 6),
    "level_mean": (20, 3),
    "station": (4,),
    "crs": (),
    "time": (60,),  # coordinate variables stay whole
    "lat": (10,),
    "lon": (12,),
}


@pytest.fixture(scope="module")
def dataset() -> xr.Dataset:
    numbers = np.random.default_rng(40)
    mapped = {"grid_mapping": "crs", "units": "K"}
    return xr.Dataset(
        {
            "t2m": (("time", "lat", "lon"), numbers.random((60, 10, 12), "f4"), mapped),
            "pr": (("time", "lat", "lon"), numbers.random((60, 10, 12)), mapped),
            "mask": (("lat", "lon"), numbers.integers(0, 2, (10, 12), "i1")),
            "level_mean": (("time", "level"), numbers.random((60, 3))),
            "station": (("lat",), np.array([f"station {i}" for i in range(10)], object)),
            "crs": ((), np.int32(0), {"grid_mapping_name": "latitude_longitude"}),
        },
        coords={
            "time": ("time", np.arange(60) * 3600.0, {"standard_name": "time"}),
            "lat": np.linspace(-5, 5, 10),
            "lon": np.arange(12.0),
        },
        attrs={"title": "two variables"},
    )


WRITERS: dict[str, Callable[[xr.Dataset, Path], Any]] = {
    "zarr3": lambda dataset, path: dataset.to_zarr(path, zarr_format=3, encoding=_encoding("chunks")),
    "zarr2": lambda dataset, path: dataset.to_zarr(path, zarr_format=2, encoding=_encoding("chunks")),
    "netcdf": lambda dataset, path: dataset.to_netcdf(
        path, engine="h5netcdf", encoding=_encoding("chunksizes")
    ),
}


def _encoding(name: str) -> dict[str, dict[str, Any]]:
    return {variable: {name: (1, 10, 12)} for variable in ("t2m", "pr")}


def _made(dataset: xr.Dataset, folder: Path, kind: str) -> Path:
    path = folder / ("a.nc" if kind == "netcdf" else "a.zarr")
    WRITERS[kind](dataset, path)
    return path


def _shapes(path: Path, *, outer: bool = False) -> dict[str, tuple[int, ...]]:
    group = cw.open_group(path)
    layouts = {name: group[name].chunk_layout for name in group}
    return {name: (one.write_chunk if outer else one.read_chunk).shape for name, one in layouts.items()}


@pytest.mark.each_once
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("target", ["zarr3", "zarr2"])
@pytest.mark.parametrize("kind", WRITERS)
def test_from_time_major_to_space_major(tmp_path: Path, dataset: xr.Dataset, kind: str, target: str) -> None:
    source = _made(dataset, tmp_path, kind)
    report = cw.copy_tree(
        source, tmp_path / "b.zarr", format=target, chunks=WANTED, codec="gzip:1", verify=True
    )
    assert not report.losses
    assert _shapes(tmp_path / "b.zarr") == SHAPES
    with xr.open_dataset(source) as old, xr.open_zarr(tmp_path / "b.zarr", consolidated=False) as new:
        xr.testing.assert_identical(old.load(), new.load())
    text = "".join(found.read_text() for found in (tmp_path / "b.zarr").rglob("*zar*") if found.is_file())
    assert "gzip" in text and "zstd" not in text and "blosc" not in text


def test_axes_of_n5(tmp_path: Path) -> None:
    group = cw.create_group(tmp_path / "a.n5", format="n5")
    values = np.arange(6 * 8, dtype="u2").reshape(6, 8)
    group.create_array("named", values, dimension_names=["x", "y"], chunks=(3, 4))
    group.create_array("others", values, dimension_names=["a", ""], chunks=(3, 4))
    group.create_array("nameless", values, chunks=(3, 4))
    for format in ("n5", "zarr3"):
        cw.copy_tree(tmp_path / "a.n5", tmp_path / format, format=format, chunks={"y": 8, "a": 2})
        assert _shapes(tmp_path / format) == {"named": (3, 8), "others": (2, 4), "nameless": (3, 4)}
        assert not list(cw.diff(tmp_path / "a.n5", tmp_path / format))


def test_labels_of_hdf5(tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("x", data=np.arange(80).reshape(8, 10), chunks=(2, 10))
        made.dims[0].label, made.dims[1].label = "t", "s"
    cw.copy_tree(tmp_path / "a.h5", tmp_path / "b.zarr", format="zarr3", chunks={"t": 8})
    cw.copy(f"{tmp_path}/a.h5|hdf5:x", tmp_path / "c.zarr", format="zarr3", chunks={"s": 5})
    assert _shapes(tmp_path / "b.zarr") == {"x": (8, 10)}
    assert cw.open(tmp_path / "c.zarr").result().chunk_layout.read_chunk.shape == (2, 5)


def test_shards(tmp_path: Path, dataset: xr.Dataset) -> None:
    source = _made(dataset, tmp_path, "zarr3")
    cw.copy_tree(source, tmp_path / "b.zarr", chunks=WANTED, shards={"time": 60, "lat": 8})
    assert _shapes(tmp_path / "b.zarr") == SHAPES
    outer = _shapes(tmp_path / "b.zarr", outer=True)
    assert outer == SHAPES | {
        "t2m": (60, 8, 6),
        "pr": (60, 8, 6),
        "mask": (8, 6),
        "level_mean": (60, 3),
        "station": (8,),
    }
    cw.copy_tree(tmp_path / "b.zarr", tmp_path / "c.zarr", shards={"time": 20})
    assert _shapes(tmp_path / "c.zarr", outer=True)["pr"] == (20, 8, 6)
    assert _shapes(tmp_path / "c.zarr", outer=True)["mask"] == (8, 6)
    with xr.open_zarr(tmp_path / "c.zarr", consolidated=False) as new:
        xr.testing.assert_identical(dataset.load(), new.load())
    with pytest.raises(
        ValueError, match=r"level_mean: shards of \[50, 3\] can't be divided into chunks of \[20, 3\]"
    ):
        cw.copy_tree(tmp_path / "b.zarr", tmp_path / "d", format="zarr3", shards={"time": 50})
    with pytest.raises(ValueError, match="zarr2 has no shards"):
        cw.copy_tree(tmp_path / "b.zarr", tmp_path / "d", format="zarr2", shards={"time": 60})
    assert not (tmp_path / "d").exists()


def test_what_is_refused(tmp_path: Path, dataset: xr.Dataset) -> None:
    source, target = _made(dataset, tmp_path, "zarr3"), tmp_path / "b.zarr"
    there = '"lat", "level", "lon", "time"'
    with pytest.raises(ValueError, match=f'the tree has no dimension "tiem"; there are {there}'):
        cw.copy_tree(source, target, chunks={"time": 4, "tiem": 4})
    with pytest.raises(
        ValueError, match='the array has no dimension "level"; there are "lat", "lon", "time"'
    ):
        cw.copy(source / "pr", target, chunks={"level": 1})
    with pytest.raises(ValueError, match="expected one size for each of 0 dimensions"):
        cw.copy_tree(source, target, chunks=(4, 4, 4))
    with pytest.raises(ValueError, match="only Zarr v3 has crc32c"):
        cw.copy_tree(source, target, format="zarr2", codec="zstd:1+crc32c")
    for wrong in (0, -2, True, "8", 2.0):
        with pytest.raises(ValueError, match="expected a size of at least 1 for 'time'"):
            cw.copy_tree(source, target, chunks={"time": wrong})
    assert not target.exists()


def test_codecs_in_json_are_for_numbers(tmp_path: Path, dataset: xr.Dataset) -> None:
    source = _made(dataset, tmp_path, "zarr3")
    codecs = [{"name": "bytes", "configuration": {"endian": "big"}}]
    cw.copy_tree(source, tmp_path / "b.zarr", codec=codecs)
    for name in SHAPES:
        first = json.loads((tmp_path / "b.zarr" / name / "zarr.json").read_text())["codecs"][0]
        others = {"station": {"name": "vlen-utf8"}, "mask": {"name": "bytes"}}
        assert first == others.get(name, codecs[0]), name
    assert not list(cw.diff(source, tmp_path / "b.zarr"))


def test_on_the_command_line(tmp_path: Path, dataset: xr.Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = str(_made(dataset, tmp_path, "netcdf")), tmp_path / "b.zarr"
    chunks = ["--chunk", "time=20, lat=4,lon=6"]
    command = ["cp", "-r", source, str(target), "--format", "zarr3", *chunks]
    assert main([*command, "--dry-run", "--memory", "20kB", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["arrays"] == len(SHAPES) and "pr" in plan["larger_arrays"] and not target.exists()
    assert main(["cp", "-r", source, str(target), "--chunk", "20,4,6"]) == 1
    assert "or sizes by dimension name" in capsys.readouterr().err
    assert main(["cp", "-r", source, str(target), "--format", "zarr3", "--chunk", "x=4"]) == 1
    assert 'no dimension "x"; there are "lat", "level", "lon", "time"' in capsys.readouterr().err
    for bad in ("time=0", "time=", "=4", "time=4,5", "time=4,time=5"):
        assert main([*command[:-1], bad]) == 2, bad
    assert not target.exists()
    assert main([*command, "--codec", "zstd:1", "--verify", "--quiet", "--on", "processes:1"]) == 0
    assert _shapes(target) == SHAPES
    assert main(["cp", str(target / "pr"), str(tmp_path / "c"), "--format", "zarr3", "--chunk", "lat=5"]) == 0
    assert cw.open(tmp_path / "c").result().chunk_layout.read_chunk.shape == (20, 5, 6)


def test_an_interrupted_copy_goes_on(tmp_path: Path, dataset: xr.Dataset) -> None:
    source, target = _made(dataset, tmp_path, "zarr3"), tmp_path / "b.zarr"

    def stop(path: str, nbytes: int) -> None:
        raise KeyboardInterrupt

    options: dict[str, Any] = {"memory": "20kB", "codec": "gzip:1"}
    with pytest.raises(KeyboardInterrupt):
        cw.copy_tree(source, target, chunks=WANTED, progress=stop, **options)
    with pytest.raises(ValueError, match="same source and options"):
        cw.copy_tree(source, target, chunks=WANTED | {"lat": 5}, resume=True, **options)
    cw.copy_tree(source, target, chunks=WANTED, resume=True, verify=True, **options)
    assert _shapes(target) == SHAPES
    with xr.open_zarr(target, consolidated=False) as new:
        xr.testing.assert_identical(dataset, new.load())


@pytest.mark.filterwarnings("ignore:.*[Cc]onsolidated metadata is currently")
@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_a_file_becomes_a_dataset_as_xarray_writes_it(format: str, tmp_path: Path) -> None:
    """It is consolidated; coordinate variables stay whole when chunks are given by name."""
    values = np.arange(20 * 8 * 6, dtype="f4").reshape(20, 8, 6)
    coordinates = {"time": np.arange(20), "lat": np.linspace(0, 1, 8), "lon": np.arange(6.0)}
    written = xr.Dataset({"t": (("time", "lat", "lon"), values)}, coordinates)
    written.to_netcdf(tmp_path / "a.nc", engine="h5netcdf", unlimited_dims=["time"])
    target = tmp_path / "a.zarr"
    command = ["cp", "-r", str(tmp_path / "a.nc"), str(target), "--format", format]
    assert main([*command, "--chunk", "time=5,lat=4", "--quiet"]) == 0
    with xr.open_zarr(target, consolidated=True) as found:
        xr.testing.assert_identical(found.load(), written)
    group = cw.open_group(target)
    assert {name: group[name].chunk_layout.read_chunk.shape for name in group} == {
        "time": (20,), "lat": (8,), "lon": (6,), "t": (5, 4, 6)
    }  # fmt: skip
