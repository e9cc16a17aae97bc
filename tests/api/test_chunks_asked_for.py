"""The chunks that are asked for, also large ones, are those that are made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import chunkwise as ts
from chunkwise.cli.main import main
from chunkwise.xarray import write_dataset

LARGE = (2000, 1500)  # more than 2^20 elements


def _chunks(path: Path) -> tuple[list[int], list[int] | None]:
    """Return the chunks and shards that the document of a Zarr v3 array has."""
    document = json.loads((path / "zarr.json").read_text())
    outer = document["chunk_grid"]["configuration"]["chunk_shape"]
    shards = [
        c["configuration"]["chunk_shape"] for c in document["codecs"] if c["name"] == "sharding_indexed"
    ]
    return (shards[0], outer) if shards else (outer, None)


@pytest.mark.parametrize("codec", [[], ["--codec", "none"], ["--codec", "zstd:1"], ["--codec", '["crc32c"]']])
@pytest.mark.parametrize("shard", [[], ["--shard", "none"]])
def test_create_makes_the_chunks_that_it_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], codec: list[str], shard: list[str]
) -> None:
    path = tmp_path / "a.zarr"
    options = ["--shape", "4000,4000", "--dtype", "uint16", "--chunk", "2000,1500", *codec, *shard]
    assert main(["create", str(path), *options]) == 0
    assert _chunks(path) == ([2000, 1500], None)
    assert "chunks [2000, 1500]\n" in capsys.readouterr().out


def test_create_prints_chunks_and_shards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.zarr"
    options = ["--shape", "4000,4000", "--dtype", "uint8", "--chunk", "100,50", "--shard", "2000,1500"]
    assert main(["create", str(path), *options]) == 0
    assert _chunks(path) == ([100, 50], [2000, 1500])
    assert "chunks [100, 50] in shards [2000, 1500]\n" in capsys.readouterr().out


GZIP = ts.CodecSpec({"driver": "zarr3", "codecs": [{"name": "gzip", "configuration": {"level": 1}}]})


@pytest.mark.parametrize("shards", [None, (4000, 3000)])
@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["bytes", "zstd"]),
        ({"codec": "none"}, ["bytes"]),
        ({"codec": "gzip:1"}, ["bytes", "gzip"]),
        ({"codec": GZIP}, ["bytes", "gzip"]),
        ({"schema": ts.Schema(codec=GZIP)}, ["bytes", "gzip"]),
        ({"metadata": {"codecs": ["bytes", "crc32c"]}}, ["bytes", "crc32c"]),
        ({"chunk_layout": ts.ChunkLayout(inner_order=[1, 0])}, ["transpose", "bytes", "zstd"]),
        ({"chunk_layout": ts.ChunkLayout(inner_order=[1, 0]), "codec": GZIP}, ["transpose", "bytes", "gzip"]),
    ],
)
def test_create_array(
    tmp_path: Path, options: dict[str, Any], names: list[str], shards: tuple[int, ...] | None
) -> None:
    group = ts.open_group(tmp_path, "w", format="zarr3")
    store = group.create_array(
        "a", shape=(4000, 4000), dtype="uint16", chunks=LARGE, shards=shards, **options
    )
    assert _chunks(tmp_path / "a") == ([*LARGE], shards and [*shards])
    assert store.chunk_layout.read_chunk.shape == LARGE
    codecs = json.loads((tmp_path / "a" / "zarr.json").read_text())["codecs"]
    inner = codecs[0]["configuration"]["codecs"] if shards else codecs
    assert [codec["name"] for codec in inner] == names
    store[:5, :5] = 7
    assert store[4:6, 4:6].read().result().tolist() == [[7, 0], [0, 0]]


def test_create_array_leaves_shards_to_a_layout(tmp_path: Path) -> None:
    group = ts.open_group(tmp_path, "w", format="zarr3")
    layout = ts.ChunkLayout(read_chunk_shape=[100, 100], write_chunk_shape=[2000, 2000])
    group.create_array("a", shape=(4000, 4000), dtype="uint16", chunk_layout=layout, codec="gzip:1")
    assert _chunks(tmp_path / "a") == ([100, 100], [2000, 2000])
    group.create_array(
        "b", shape=(4000, 4000), dtype="uint16", chunk_layout=ts.ChunkLayout(chunk_shape=LARGE)
    )
    assert _chunks(tmp_path / "b") == ([*LARGE], None)


def test_two_codecs_that_differ_are_refused(tmp_path: Path) -> None:
    group = ts.open_group(tmp_path, "w", format="zarr3")
    with pytest.raises(ValueError, match="codec"):
        group.create_array("a", shape=(4,), dtype="uint16", codec="zstd:1", schema=ts.Schema(codec=GZIP))
    assert list(group) == []


@pytest.mark.parametrize("source", ["zarr2", "n5", "zarr3"])
def test_copies_keep_chunks(tmp_path: Path, source: str) -> None:
    group = ts.open_group(tmp_path / "source", "w", format=source)
    group.create_array("a", np.ones((40, 256, 256), "uint8"), chunks=(32, 256, 256))
    copy = tmp_path / "copy.zarr"
    assert main(["cp", str(tmp_path / "source" / "a"), str(copy), "--format", "zarr3"]) == 0
    assert _chunks(copy) == ([32, 256, 256], None)
    rechunked = tmp_path / "rechunked.zarr"
    options = ["--format", "zarr3", "--chunk", "40,256,128", "--codec", "none"]
    assert main(["cp", str(tmp_path / "source" / "a"), str(rechunked), *options]) == 0
    assert _chunks(rechunked) == ([40, 256, 128], None)
    tree = tmp_path / "tree"
    assert main(["cp", "-r", str(tmp_path / "source"), str(tree), "--format", "zarr3"]) == 0
    assert _chunks(tree / "a") == ([32, 256, 256], None)


def test_pyramids_have_the_chunks_of_the_image(tmp_path: Path) -> None:
    group = ts.open_group(tmp_path / "image.zarr", "w", format="zarr3")
    group.create_array(
        "0", np.ones((2200, 1800), "uint8"), chunks=LARGE, codec="none", dimension_names=["y", "x"]
    )
    ts.downsample_pyramid(group["0"], tmp_path / "pyramid.zarr", levels=1).result()
    levels = sorted(path.parent for path in (tmp_path / "pyramid.zarr").glob("*/zarr.json"))
    assert [_chunks(level) for level in levels] == [([*LARGE], None), ([1100, 900], None)]


@pytest.mark.parametrize("codec", [None, "none", "zstd:1"])
def test_xarray_encoding(tmp_path: Path, codec: str | None) -> None:
    dataset = xr.Dataset({"a": (("y", "x"), np.ones((2500, 2000), "uint8"))})
    encoding: dict[str, Any] = {"chunks": LARGE, **({} if codec is None else {"codec": codec})}
    write_dataset(dataset, tmp_path / "a.zarr", format="zarr3", encoding={"a": encoding})
    assert _chunks(tmp_path / "a.zarr" / "a") == ([*LARGE], None)
