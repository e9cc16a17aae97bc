"""Copies of images and pyramids that were killed: `status` and a second try tell how to go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.groups.copy_tree import prepare_tree_copy

VALUES = np.random.default_rng(0).integers(0, 60000, (8, 64, 64)).astype("u2")


class Killed(Exception):
    """What ends a copy as if its process had been killed."""


def _stop_at(path: str) -> Callable[[str, int], None]:
    def told(at: str, _: int) -> None:
        if at == path:
            raise Killed

    return told


def _image(path: Path, **options: Any) -> Path:
    array = cw.create_array(path / "s.zarr", VALUES, chunks=(8, 16, 16), dimension_names=["z", "y", "x"])
    cw.downsample_pyramid(array, path / options.pop("name"), levels=2, units=["1 um"] * 3, **options).result()
    return path


def _killed(path: Path, kind: str, level: int) -> list[str]:
    """Begin a copy and stop while a level is made; return the command."""
    if kind == "to OME-Zarr":
        _image(path, name="a.n5", convention="n5-viewer")
        way: Any = (path / "a.n5", path / "b", "zarr3", None, {"codec": "zstd:3"})
        at, command = str(level), ["cp", "-r", str(path / "a.n5"), str(path / "b"), "--format", "zarr3"]
    elif kind == "to N5":
        _image(path, name="a.zarr")
        way = (path / "a.zarr", path / "b", None, "n5-viewer", {"codec": "gzip:3"})
        at = f"s{level}"
        command = ["cp", "-r", str(path / "a.zarr"), str(path / "b"), "--layout", "n5-viewer"]
    else:
        _image(path, name="a.zarr")

        def progress(told: Any) -> None:
            if told.level == level:
                raise Killed

        options: Any = {"levels": 2, "codec": "zstd:3", "memory": 1, "progress": progress}
        with pytest.raises(Killed):
            cw.downsample_pyramid(path / "a.zarr/0", path / "b", **options).result()
        return ["pyramid", str(path / "a.zarr/0"), str(path / "b"), "--levels", "2"]
    copy = prepare_tree_copy(*way, CopyOptions())
    copy.begin()
    with pytest.raises(Killed):
        copy.run(_stop_at(at))
    return command


@pytest.mark.each_once
@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("kind", ["to OME-Zarr", "to N5", "pyramid"])
def test_an_unfinished_image_is_told_and_gone_on_with(
    tmp_path: Path, kind: str, level: int, capsys: pytest.CaptureFixture[str]
) -> None:
    command = _killed(tmp_path, kind, level)
    to = str(tmp_path / "b")
    codec, other = ("gzip:3", "gzip:9") if kind == "to N5" else ("zstd:3", "gzip:3")
    assert main(["status", to]) == 1
    shown = capsys.readouterr()
    assert "of 3 arrays are whole" in shown.out
    called = " ".join(command[:2]) if command[0] == "cp" else "pyramid"
    assert f"`chunkwise {called}`, with --resume goes on" in shown.err
    assert main([*command, "--codec", codec, "--quiet"]) == 1
    assert "was begun and not finished: --resume goes on with it" in capsys.readouterr().err
    assert main([*command, "--codec", other, "--quiet", "--resume"]) == 1
    assert "its levels are others" in (error := capsys.readouterr().err) and "--codec" in error
    assert main([*command, "--codec", codec, "--quiet", "--resume"]) in (0, 3)
    assert main(["status", to]) == 0
    image = cw.open_multiscale(to)
    assert len(image.levels) == 3
    np.testing.assert_array_equal(image.levels[0], VALUES.T if kind == "to N5" else VALUES)
    assert not list(tmp_path.glob("**/.chunkwise-copy*"))


@pytest.mark.parametrize("kind", ["to OME-Zarr", "to N5"])
def test_another_source_is_not_mixed_in(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = _killed(tmp_path, kind, 1)
    source = Path(command[2])
    level = next(path for path in (source / "0", source / "s0") if path.exists())
    cw.copy(level, level, codec="gzip:1", overwrite=True)  # it could have other elements now
    assert main([*command, "--codec", "gzip:3" if kind == "to N5" else "zstd:3", "--quiet", "--resume"]) == 1
    assert "its source metadata is another one" in capsys.readouterr().err


def test_an_image_that_replaces_another_is_told_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is made beside the old one, which stays until all is there."""
    _image(tmp_path, name="a.n5", convention="n5-viewer")
    cw.create_group(tmp_path / "b", format="zarr3").create_array("old", [1, 2])
    copy = prepare_tree_copy(
        tmp_path / "a.n5", tmp_path / "b", "zarr3", None, {}, CopyOptions(overwrite=True)
    )
    copy.begin()
    with pytest.raises(Killed):
        copy.run(_stop_at("1"))
    command = ["cp", "-r", str(tmp_path / "a.n5"), str(tmp_path / "b"), "--format", "zarr3", "--quiet"]
    assert main(["status", str(tmp_path / "b")]) == 1
    assert main(command) == 1
    assert "--resume goes on with it" in capsys.readouterr().err
    assert cw.read(tmp_path / "b/old").tolist() == [1, 2]
    assert main([*command, "--resume"]) == 0
    assert len(cw.open_multiscale(tmp_path / "b").levels) == 3 and not (tmp_path / "b/old").exists()
