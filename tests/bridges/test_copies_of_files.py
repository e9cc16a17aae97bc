"""Copies of files that are read by reference: chunks stay, format and codec are those of a new array."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tifffile

import chunkwise
from chunkwise.cli.main import main

VALUES = (np.arange(4096) % 251).astype("u2").reshape(64, 64)


def a_tiff(path: Path) -> str:
    tifffile.imwrite(path / "a.tif", VALUES, compression="zlib", tile=(32, 32))
    return f"{path}/a.tif"


def an_hdf5_dataset(path: Path) -> str:
    with h5py.File(path / "a.h5", "w") as f:
        f.create_dataset("g/x", data=VALUES, chunks=(32, 32), compression="gzip", shuffle=True)
    return f"{path}/a.h5|hdf5:g/x"


def a_reference(path: Path) -> str:
    array = chunkwise.create_array(path / "s.zarr", VALUES, chunks=(32, 32), format="zarr2", codec="zlib:1")
    refs: dict[str, Any] = {".zgroup": '{"zarr_format": 2}'}
    for key in array.kvstore.list().result():
        refs[f"x/{key.decode()}"] = [f"{path}/s.zarr/{key.decode()}"]
    refs["x/.zarray"] = (path / "s.zarr/.zarray").read_text()
    (path / "refs.json").write_text(json.dumps({"version": 1, "refs": refs}))
    return f"file://{path}/refs.json|reference:x"


@pytest.mark.parametrize("make", [a_tiff, an_hdf5_dataset, a_reference])
def test_format_and_codec_are_those_of_a_new_array(make: Any, tmp_path: Path) -> None:
    source = make(tmp_path)
    new = chunkwise.create_array(tmp_path / "new.zarr", VALUES, chunks=(32, 32))
    for name, copied in (
        ("a.zarr", lambda to: chunkwise.copy(source, to)),
        ("b", lambda to: main(["cp", source, str(to), "--quiet"])),
    ):
        copied(tmp_path / name)
        copy = chunkwise.open_array(tmp_path / name)
        assert copy.spec().to_json()["driver"] == "zarr3" and str(copy.codec) == str(new.codec)
        assert copy.chunks == (32, 32) and np.array_equal(copy, VALUES)
    for format in ("zarr2", "n5"):
        copy = chunkwise.copy(source, tmp_path / f"c-{format}", format=format).array
        like = chunkwise.create_array(tmp_path / f"d-{format}", VALUES, chunks=(32, 32), format=format)
        assert str(copy.codec) == str(like.codec) and np.array_equal(copy, VALUES)
    chosen = chunkwise.copy(source, tmp_path / "e.zarr", codec="gzip:1", chunks=(16, 64)).array
    assert chosen.chunks == (16, 64) and "gzip" in str(chosen.codec)


def test_a_tree_of_a_file(tmp_path: Path) -> None:
    an_hdf5_dataset(tmp_path)
    chunkwise.copy_tree(tmp_path / "a.h5", tmp_path / "a.zarr")
    assert main(["cp", "-r", f"{tmp_path}/a.h5", f"{tmp_path}/b", "--quiet"]) == 0
    for name in ("a.zarr", "b"):
        group = chunkwise.open_group(tmp_path / name)
        assert group.format == "zarr3" and "zstd" in str(group["g/x"].codec)
        assert chunkwise.diff(tmp_path / "a.h5", tmp_path / name) == []
    inside = chunkwise.create_group(tmp_path / "v2.zarr", format="zarr2")  # the group decides
    chunkwise.copy_tree(tmp_path / "a.h5", tmp_path / "v2.zarr/h5")
    assert inside["h5"].format == "zarr2"
