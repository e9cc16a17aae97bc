"""Sizes by dimension name, and codecs, beside each way to make a copy, from each format: all combinations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr
import zarr
from examples import ALL

import chunkwise as cw
from chunkwise.cli.main import main

VALUES = np.arange(60 * 10 * 12, dtype="u2").reshape(60, 10, 12)
DIMS = ("time", "lat", "lon")


def _dataset() -> xr.Dataset:
    return xr.Dataset({"t2m": (DIMS, VALUES), "mask": (DIMS[1:], VALUES[0])})


def _hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        made = file.create_dataset("t2m", data=VALUES, chunks=(1, 10, 12))
        file["mask"] = VALUES[0]
        for dim, name in enumerate(DIMS):
            made.dims[dim].label = name


def _n5(path: Path) -> None:
    group = cw.create_group(path, format="n5")
    group.create_array("t2m", VALUES, dimension_names=DIMS, chunks=(1, 10, 12))
    group.create_array("mask", VALUES[0], dimension_names=DIMS[1:])


def _zarr(format: int) -> Callable[[Path], object]:
    encoding = {"t2m": {"chunks": (1, 10, 12)}}
    return lambda path: _dataset().to_zarr(path, zarr_format=format, encoding=encoding, consolidated=False)


SOURCES: dict[str, Callable[[Path], object]] = {
    "a.nc": lambda path: _dataset().to_netcdf(
        path, engine="h5netcdf", encoding={"t2m": {"chunksizes": (1, 10, 12)}}
    ),
    "a.h5": _hdf5,
    "zarr2": _zarr(2),
    "zarr3": _zarr(3),
    "a.n5": _n5,
}
CHUNK = ["--chunk", "time=20,lat=5"]
SIZES: dict[str, tuple[list[str], tuple[int, ...], tuple[int, ...] | None]] = {
    "chunk": (CHUNK, (20, 5, 12), None),
    "shard": ([*CHUNK, "--shard", "time=60,lat=10"], (20, 5, 12), (60, 10, 12)),
    "codec": (["--codec", "gzip:1"], (1, 10, 12), None),
    "all": ([*CHUNK, "--shard", "time=40", "--codec", "zstd:1"], (20, 5, 12), (40, 5, 12)),
}
WAYS: dict[str, list[list[str]]] = {
    "part": [["--memory", "80kB", "--part", f"{part}/2"] for part in (1, 2)],
    "on": [["--on", "threads:2"]],
    "resume": [["--resume"]],
    "verify": [["--verify"]],
    "dry run": [["--dry-run"]],
    "overwrite": [["--overwrite"]],
}


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("source", SOURCES)
def test_all_combinations(tmp_path: Path, source: str) -> None:
    SOURCES[source](tmp_path / source)
    for number, (size, (options, chunks, shards)) in enumerate(SIZES.items()):
        # Every second way for each size; `make test-all` tries all pairs.
        ways = list(WAYS.items()) if ALL else list(WAYS.items())[number % 2 :: 2]
        for way, calls in ways:
            out = tmp_path / f"{size} {way}"
            for call in calls:
                command = ["cp", "-r", str(tmp_path / source), str(out), "--format", "zarr3", "--quiet"]
                assert main([*command, *options, *call]) == 0, (size, way)
            if way == "dry run":
                assert not out.exists()
                continue
            made: Any = zarr.open_array(out / "t2m", mode="r")
            assert (made.chunks, made.shards) == (chunks, shards), (size, way)
            np.testing.assert_array_equal(made[...], VALUES)
            np.testing.assert_array_equal(zarr.open_array(out / "mask", mode="r")[...], VALUES[0])


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pyramid of OME-Zarr, and the same in the layout of n5-viewer."""
    path = tmp_path_factory.mktemp("images")
    cw.downsample_pyramid(cw.array(VALUES), path / "ome", levels=2, axes=["z", "y", "x"]).result()
    assert main(["cp", "-r", str(path / "ome"), str(path / "a.n5"), "--layout", "n5-viewer", "--quiet"]) == 0
    return path


@pytest.mark.each_once
@pytest.mark.parametrize("size", ["z=32,y=4,x=8", "32,4,8"])
@pytest.mark.parametrize("way", ["on", "resume", "verify", "dry run", "overwrite"])
def test_pyramids_of_n5_get_shards(images: Path, tmp_path: Path, size: str, way: str) -> None:
    out, inner = tmp_path / "out", "z=16,y=4,x=4" if "=" in size else "16,4,4"
    command = ["cp", "-r", str(images / "a.n5"), str(out), "--format", "zarr3", "--quiet"]
    assert main([*command, "--shard", size, "--chunk", inner, *WAYS[way][0]]) == 0
    if way == "dry run":
        assert not out.exists()
        return
    levels = cw.open_multiscale(out).levels
    assert len(levels) == 3
    np.testing.assert_array_equal(levels[0].read().result().squeeze(), VALUES)
    assert levels[0].chunk_layout.read_chunk.shape[-3:] == (16, 4, 4)
    assert levels[0].chunk_layout.write_chunk.shape[-3:] == (32, 4, 8)
    back = ["cp", "-r", str(out), str(tmp_path / "back.n5"), "--layout", "n5-viewer", "--quiet"]
    assert main([*back, *WAYS[way][0]]) == 0
    assert not list(cw.diff(images / "a.n5" / "s0", tmp_path / "back.n5" / "s0"))
