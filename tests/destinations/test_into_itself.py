"""Copies and moves into themselves, or into what holds them: refused before any change, or done right."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from destinations.request_model import VALUES, CommandError, _command, snapshot
from hdmf.backends.errors import UnsupportedOperation
from hdmf.build import DatasetBuilder, GroupBuilder

import chunkwise as cw
from chunkwise.errors import ChunkwiseError
from chunkwise.hdmf import ZarrIO, convert

RELATIONS = {  # what is copied, and to which place
    "same": ("t", "t"),
    "inside": ("t", "t/new"),
    "deep inside": ("t", "t/sub/new"),
    "inside an array": ("t", "t/a/new"),
    "array inside itself": ("t/a", "t/a/new"),
    "parent": ("t/sub", "t"),
    "array to parent": ("t/a", "t"),
    "the same array": ("t/a", "t/a"),
}

_Names = Callable[[Path, str], str]
NAMES: dict[str, tuple[_Names, _Names]] = {  # of source and destination
    "plain": (lambda top, name: f"{top}/{name}", lambda top, name: f"{top}/{name}"),
    "relative": (lambda top, name: f"./{name}", lambda top, name: f"{top}/{name}"),
    "URL": (lambda top, name: f"{top}/{name}", lambda top, name: f"file://{top}/{name}/"),
    "URLs": (lambda top, name: f"file://{top}/{name}", lambda top, name: f"file://{top}/{name}"),
    "destination by a link": (lambda top, name: f"{top}/{name}", lambda top, name: f"{top}/link{name[1:]}"),
    "source by a link": (lambda top, name: f"{top}/link{name[1:]}", lambda top, name: f"{top}/{name}"),
    "by dots": (lambda top, name: f"{top}/{name}", lambda top, name: f"{top}/other/../{name}"),
    "archive": (lambda top, name: f"{top}/{name}", lambda top, name: f"{top}/{name}.zip|zip:"),
    "archive at a place": (lambda top, name: f"{top}/{name}", lambda top, name: f"{top}/{name}/z.zip|zip:o"),
    "in one archive": (
        lambda top, name: f"{top}/z.zip|zip:{name}",
        lambda top, name: f"{top}/z.zip|zip:{name}",
    ),
}


def _pyramid(source: str, place: str, overwrite: bool) -> None:
    options: dict[str, Any] = {"axes": ["y", "x"], "levels": 1, "overwrite": overwrite}
    cw.downsample_pyramid(source, place, **options).result()


def _export(source: str, place: str, overwrite: bool) -> None:
    with ZarrIO(source) as io, ZarrIO(place, "w" if overwrite else "w-") as out:
        out.export(io)


def _member(change: str) -> Callable[[str, str, bool], None]:
    def run(source: str, place: str, _: bool) -> None:
        top, _, name = source.rpartition("t" if "/link" not in source else "link")
        group = cw.open_group(f"{top}t" if "/link" not in source else f"{top}link", "r+")
        to = place.rstrip("/").rpartition("/t" if "/link" not in place else "/link")[2]
        getattr(group, change)(name or "/", to or "/")

    return run


DOORS: dict[str, Callable[[str, str, bool], object]] = {
    "copy": lambda source, place, over: cw.copy(source, place, overwrite=over),
    "create_array": lambda source, place, over: cw.create_array(place, cw.open_array(source), overwrite=over),
    "copy_tree": lambda source, place, over: cw.copy_tree(source, place, overwrite=over),
    "cp": lambda source, place, over: _command("cp", source, place, "--quiet", *["--overwrite"] * over),
    "cp -r": lambda source, place, over: _command(
        "cp", "-r", source, place, "--quiet", *["--overwrite"] * over
    ),
    "cp to N5": lambda source, place, over: _command(
        "cp", "-r", source, place, "--format", "n5", "--quiet", *["--overwrite"] * over
    ),
    "mv": lambda source, place, _: _command("mv", source, place),
    "zip": lambda source, place, over: _command(
        "zip", source, place.removesuffix("|zip:"), "--quiet", *["--overwrite"] * over
    ),
    "pyramid": _pyramid,
    "convert": lambda source, place, over: convert(source, place, overwrite=over),
    "convert in blocks": lambda source, place, over: convert(source, place, overwrite=over, verify=True),
    "export": _export,
    "Group.copy": _member("copy"),
    "Group.move": _member("move"),
}


def _make(place: Any) -> None:
    """Make a tree that is an HDMF store, too."""
    inner = GroupBuilder("sub", datasets=[DatasetBuilder("b", VALUES + 1)])
    root = GroupBuilder("root", datasets=[DatasetBuilder("a", VALUES)], groups=[inner])
    with ZarrIO(place, "w-", format="zarr3") as io:
        io.write_builder(root)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("prepared")
    _make(top / "t")
    (top / "link").symlink_to("t", target_is_directory=True)
    (top / "other").mkdir()
    _command("zip", top / "t", top / "t.zip", "--quiet")
    cw.copy_tree(top / "t", f"{top}/z.zip|zip:t")
    return top


def _wrong(top: Path, name: str) -> Iterator[str]:
    where = f"{top}/z.zip|zip:t" if name == "in one archive" else f"{top}/t"
    for array, values in (("a", VALUES), ("sub/b", VALUES + 1)):
        try:
            if not np.array_equal(cw.read(f"{where}/{array}"), values):
                yield f"{array} has other values"
        except ChunkwiseError as e:
            yield f"{array} is lost: {e}"


@pytest.mark.parametrize("door", DOORS)
def test_doors(prepared: Path, tmp_path: Path, door: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong: dict[tuple[str, str, bool], str] = {}
    for number, (name, (of_source, of_place)) in enumerate(NAMES.items()):
        if "archive" in name and door.startswith("Group"):  # it takes paths in its tree
            continue
        for relation, (source, place) in RELATIONS.items():
            for overwrite in (False, True):
                top = tmp_path / f"{number}{relation}{overwrite}"
                shutil.copytree(prepared, top, symlinks=True)
                monkeypatch.chdir(top)
                before = snapshot(top)
                try:
                    DOORS[door](of_source(top, source), of_place(top, place), overwrite)
                except (ChunkwiseError, CommandError, UnsupportedOperation) as e:
                    if (after := snapshot(top)) != before:
                        changed = sorted(dict(set(after.items()) ^ set(before.items())))
                        wrong[name, relation, overwrite] = f"an error, but changed: {changed}: {e}"
                except Exception as e:
                    wrong[name, relation, overwrite] = f"a raw error: {e!r}"
                else:
                    found = list(_wrong(top, name))
                    found += [key for key in snapshot(top) if ".chunkwise-" in key and "copies" not in key]
                    is_tree = source in place and ("mv" in door or "move" in door or source == "t")
                    if is_tree and place != "t" and not door.startswith(("Group", "pyramid")):
                        found.append("expected an error")
                    if found:
                        wrong[name, relation, overwrite] = "; ".join(found)
                monkeypatch.chdir(tmp_path)
                shutil.rmtree(top)
    assert wrong == {}


@pytest.mark.parametrize("place", ["t", "t/new", "t/sub/new", "t/a/new", ""])
@pytest.mark.parametrize("overwrite", [False, True])
def test_in_memory(place: str, overwrite: bool) -> None:
    store = cw.KvStore.open("memory://").result()
    _make(store / "t/")
    there = store / f"{place}/" if place else store
    before = {key: store.read(key).result().value for key in store.list().result()}
    for door in (cw.copy_tree, convert):
        with pytest.raises(ChunkwiseError, match=r"which (is the same|is inside it|holds it)"):
            door(store / "t/", there, overwrite=overwrite)
    assert {key: store.read(key).result().value for key in store.list().result()} == before


def test_several_sources_are_refused(prepared: Path, tmp_path: Path) -> None:
    before = snapshot(prepared)
    with pytest.raises(CommandError, match="too many arguments"):
        _command("cp", prepared / "t/a", prepared / "t/sub/b", prepared / "t/a", f"{tmp_path}/")
    assert snapshot(prepared) == before and not list(tmp_path.iterdir())


def test_a_stack_that_replaces_one_of_its_layers_keeps_them(prepared: Path, tmp_path: Path) -> None:
    out, array = tmp_path / "s.json", prepared / "t/a"
    _command("stack", out, array, array, "--concat", "0")
    _command("stack", out, out, array, "--concat", "0", "--overwrite")
    np.testing.assert_array_equal(cw.read(out), np.concatenate([VALUES] * 3))
    assert os.listdir(tmp_path) == ["s.json"]


@pytest.mark.parametrize("level", ["0", "1"])
def test_a_pyramid_of_a_level_in_its_own_group(tmp_path: Path, level: str) -> None:
    """The levels are replaced when all are made."""
    values = np.arange(64 * 64, dtype="u2").reshape(64, 64)
    cw.downsample_pyramid(cw.array(values), tmp_path / "i", axes=["y", "x"], levels=2).result()
    expected = cw.read(tmp_path / "i" / level)
    before = snapshot(tmp_path)
    with pytest.raises(ChunkwiseError, match="is an array already"):
        _pyramid(f"{tmp_path}/i/{level}", f"{tmp_path}/i", overwrite=False)
    assert snapshot(tmp_path) == before
    _pyramid(f"{tmp_path}/i/{level}", f"{tmp_path}/i", overwrite=True)
    np.testing.assert_array_equal(cw.read(tmp_path / "i/0"), expected)
