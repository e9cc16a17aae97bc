"""Symbolic links to arrays and groups in a local tree are members of it; their targets are not deleted."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import zarr

import chunkwise as cw
from chunkwise.cli.main import main

VALUES = np.arange(24).reshape(4, 6)


@pytest.fixture(params=["zarr3", "zarr2", "n5"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A group with an array of its own, and links to an array, a group, itself and nothing."""
    format = request.param
    cw.create_array(tmp_path / "elsewhere/raw", VALUES, format=format)
    cw.create_group(tmp_path / "elsewhere/more", format=format).create_array("labels", VALUES + 1)
    cw.create_group(tmp_path / "tree", format=format).create_array("own", VALUES + 2)
    for name, target in (("raw", "../elsewhere/raw"), ("more", "../elsewhere/more")):
        (tmp_path / "tree" / name).symlink_to(target)
    (tmp_path / "tree/loop").symlink_to(".")
    (tmp_path / "elsewhere/more/back").symlink_to("../../tree")
    (tmp_path / "tree/gone").symlink_to("nowhere")
    return tmp_path / "tree"


ALL = ["more", "more/labels", "own", "raw"]


def _files(path: Path) -> dict[str, bytes]:
    found = (Path(at, name) for at, _, names in os.walk(path) for name in names)
    return {str(file): file.read_bytes() for file in found if file.is_file()}


def test_they_are_members(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    group = cw.open_group(tree)
    assert sorted(group) == ["more", "own", "raw"]
    assert sorted(name for name, _ in group.walk()) == ALL
    if group.format != "n5":
        assert sorted(zarr.open_group(tree, mode="r").array_keys()) == ["own", "raw"]
    assert main(["verify", str(tree)]) == 0
    assert "3 chunks of 3 arrays" in capsys.readouterr().out
    assert main(["diff", str(tree), str(tree.parent / "elsewhere/more")]) == 1


def test_copies_have_their_content(tree: Path) -> None:
    for n, format in enumerate(("zarr3", "n5")):
        out = tree.parent / f"copy{n}"
        assert main(["cp", "-r", str(tree), str(out), "--format", format, "--quiet"]) == 3  # `gone` is named
        assert cw.diff(out, tree) == [] or format != cw.open_group(tree).format
        assert sorted(name for name, _ in cw.open_group(out).walk()) == ALL
        np.testing.assert_array_equal(cw.read(out / "raw"), VALUES)
        assert not any(path.is_symlink() for path in out.rglob("*"))


def test_deletion_leaves_what_they_lead_to(tree: Path) -> None:
    before = _files(tree.parent / "elsewhere")
    assert main(["rm", "-r", str(tree / "more")]) == 0
    del cw.open_group(tree, "a")["raw"]
    assert not any((tree / name).is_symlink() for name in ("raw", "more"))
    (tree / "raw").symlink_to("../elsewhere/raw")
    (tree / "gone").unlink()
    (tree / "loop").unlink()
    assert main(["rm", "-r", str(tree)]) == 0
    assert not tree.exists()
    assert _files(tree.parent / "elsewhere") == before


def test_moves_move_the_link(tree: Path) -> None:
    assert main(["mv", str(tree / "raw"), str(tree / "moved")]) == 0
    assert (tree / "moved").is_symlink() and (tree.parent / "elsewhere/raw").is_dir()
    np.testing.assert_array_equal(cw.open_group(tree)["moved"], VALUES)


def test_an_archive_says_that_it_has_no_links(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = tree.parent / "o.zip"
    assert main(["zip", str(tree), str(archive)]) == 1
    assert "is a symbolic link, which an archive doesn't have" in capsys.readouterr().err
    assert not archive.exists()
    if cw.open_group(tree).format == "zarr3":
        assert main(["cp", "-r", str(tree), f"{archive}|zip:", "--quiet"]) == 3
        np.testing.assert_array_equal(cw.read(f"{archive}|zip:raw"), VALUES)
