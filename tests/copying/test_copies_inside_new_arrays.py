"""An array that another process puts above a running copy: what was beside the copy stays as it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw

DOCUMENTS = {"zarr3": ("zarr.json",), "zarr2": (".zarray",), "n5": ("attributes.json",)}
VALUES = np.arange(4096, dtype="u2").reshape(64, 64)


def _tree(source: Path, group: Path, progress: Any) -> None:
    cw.open_group(group, "r+").copy(cw.open_group(source), "", progress=progress)


def _array(source: Path, group: Path, progress: Any) -> None:
    cw.open_group(group, "r+").copy(cw.open_array(source / "y"), "new", progress=progress)


def _pyramid(source: Path, group: Path, progress: Any) -> None:
    format = cw.open_group(group).format
    convention = {"n5": "n5-viewer", "zarr2": "ome-ngff-0.4"}.get(format)
    cw.downsample_pyramid(
        source / "y", group, axes=["y", "x"], levels=1, convention=convention, progress=progress
    ).result()


@pytest.mark.parametrize("format", DOCUMENTS)
@pytest.mark.parametrize("copy", [_tree, _array, _pyramid])
def test_what_was_there_stays(tmp_path: Path, copy: Callable[[Path, Path, Any], None], format: Any) -> None:
    above, group, source = tmp_path / "a", tmp_path / "a/g", tmp_path / "s.zarr"
    above.mkdir()
    cw.open_group(group, "w", format=format, attributes={"k": 1})
    cw.create_array(group / "x", VALUES, format=format)
    cw.open_group(source, "w")
    cw.create_array(source / "y", VALUES, chunks=(8, 8))
    cw.create_array(tmp_path / "other", VALUES, format=format)
    before = {path: path.read_bytes() for path in sorted(group.rglob("*")) if path.is_file()}

    def progress(*_: Any) -> None:
        for name in DOCUMENTS[format]:
            shutil.copy(tmp_path / "other" / name, above / name)
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        copy(source, group, progress)
    assert {path: path.read_bytes() for path in before if path.exists()} == before


def _volume(source: Path, group: Path, progress: Any) -> None:
    cw.copy(source / "y", group / "v", format="neuroglancer_precomputed", chunks=8, progress=progress)


def _alone(source: Path, group: Path, progress: Any) -> None:
    cw.copy(source / "y", group / "v", progress=progress)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("format", DOCUMENTS)
@pytest.mark.parametrize("copy", [_tree, _array, _pyramid, _volume, _alone])
def test_no_chunks_are_left_inside(
    tmp_path: Path, copy: Callable[[Path, Path, Any], None], format: Any, again: bool
) -> None:
    """Chunks of the new array stay, and what a journal says is there: the copy is begun again."""
    above, group, source = tmp_path / "a", tmp_path / "a/g", tmp_path / "s.zarr"
    above.mkdir()
    cw.open_group(group, "w", format=format)
    cw.open_group(source, "w")
    cw.create_array(source / "y", VALUES, chunks=(8, 8))
    cw.create_array(tmp_path / "other", VALUES, format=format)
    before = {path for path in group.rglob("*") if path.is_file()}
    # A tree and a pyramid are the group itself, so an array above it; the others are in the group.
    above = above if copy in (_tree, _pyramid) else group

    def progress(*_: Any) -> None:
        for path in (tmp_path / "other").rglob("*"):
            if path.is_file():
                (above / path.relative_to(tmp_path / "other")).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, above / path.relative_to(tmp_path / "other"))
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        copy(source, group, progress)
    assert (cw.read(above) == VALUES).all()
    rivals = {above / path.relative_to(tmp_path / "other") for path in (tmp_path / "other").rglob("*")}
    left = {path for path in group.rglob("*") if path.is_file() and path.suffix != ".__lock"}
    assert left - rivals - before == set()
    if again:
        for path in rivals:
            path.unlink() if path.is_file() else None
        if above == group:
            shutil.rmtree(group)
            cw.open_group(group, "w", format=format)
        copy(source, group, lambda *_: None)
        array = {_tree: "y", _array: "new", _pyramid: "s0" if format == "n5" else "0"}.get(copy, "v")
        spec = {"driver": "neuroglancer_precomputed", "kvstore": f"file://{group}/{array}/"}
        opened = cw.open(spec).result() if copy is _volume else cw.open_array(group / array)
        values = np.squeeze(opened.read().result())
        assert (values == VALUES).all() or (values == VALUES.T).all()
