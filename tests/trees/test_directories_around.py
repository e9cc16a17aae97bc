"""The directory that an array or group lies in may have any number of files, and isn't looked through."""

import os

import numpy as np
import pytest

import chunkwise as ts
from chunkwise.cli.main import main

PLACES = {  # array in no group, and in one
    "alone": "a",
    "group": "g/a",
}
COMMANDS = [
    "info {a}",
    "tree {a}",
    "ls {a}",
    "attrs {a}",
    "verify {a}",
    "diff {a} {a}",
    "zip {a} {new}.zip",
    "cp {a} {new}",
    "cp -r {a} {new}",
    "mv {a} {new}",
    "rm -r {a}",
    "pyramid {a} {new} --levels 2",
    "slice {a} {new}.png --at 0",
    "create {new} --shape 4 --dtype uint8 --format {format}",
]


@pytest.fixture
def looked(monkeypatch, tmp_path):
    """Return the directories around that have been listed."""
    around: set[str] = set()
    outside = {str(at) for at in tmp_path.parents} | {str(tmp_path)}
    for name in ("scandir", "listdir"):
        real = getattr(os, name)

        def wrapped(path=".", real=real):
            if str(path).rstrip("/") in outside:
                around.add(str(path))
            return real(path)

        monkeypatch.setattr(os, name, wrapped)
    return around


def make(tmp_path, driver, place):
    path = tmp_path / PLACES[place]
    if place == "group":
        ts.open_group(tmp_path / "g", "w", format={"zarr": "zarr2"}.get(driver, driver))
    spec = {"driver": driver, "kvstore": {"driver": "file", "path": f"{path}/"}}
    store = ts.open(spec, create=True, dtype="uint16", shape=[8, 8, 8]).result()
    store.write(np.arange(512, dtype="uint16").reshape(8, 8, 8)).result()
    return path


@pytest.mark.each_once
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("driver", ["zarr", "zarr3", "n5"])
def test_commands(tmp_path, looked, driver, place, command, capsys):
    path = make(tmp_path, driver, place)
    new = f"{tmp_path}/new" + (".n5" if driver == "n5" else "")
    looked.clear()
    words = command.format(a=path, new=new, format={"zarr": "zarr2"}.get(driver, driver))
    main(words.split())
    capsys.readouterr()
    assert not looked


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("driver", ["zarr", "zarr3", "n5"])
def test_calls(tmp_path, looked, driver, place):
    path = make(tmp_path, driver, place)
    looked.clear()
    store = ts.open(str(path)).result()
    store[0].read().result()
    store[0].write(1).result()
    list(ts.verify(path))
    ts.copy(path, tmp_path / ("copy.n5" if driver == "n5" else "copy"))
    if place == "group":
        group = ts.open_group(tmp_path / "g", "r+")
        group.create_array("b", data=np.arange(3))
        group.create_group("c")
        del group["b"]
    assert not looked


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
@pytest.mark.parametrize(
    "writer", ["require_group", "create_group", "copy", "copy of a group", "create_array"]
)
def test_nothing_is_made_above_a_place_that_is_taken(format, writer, tmp_path):
    group = ts.create_group(tmp_path / "g", format=format)
    other = ts.create_group(tmp_path / "other", format=format)
    other.create_array("a", [1])
    group.consolidate()
    (tmp_path / "g/sub/o").mkdir(parents=True)
    (tmp_path / "g/sub/o/notes.txt").write_text("mine")
    before = {path: path.is_file() and path.read_bytes() for path in (tmp_path / "g").rglob("*")}
    write = {
        "copy": lambda path: group.copy(other["a"], path),
        "copy of a group": lambda path: group.copy(other, path),
        "create_array": lambda path: group.create_array(path, [1]),
    }.get(writer) or getattr(group, writer)
    with pytest.raises(ValueError, match=r"notes\.txt"):
        write("sub/o")
    assert {path: path.is_file() and path.read_bytes() for path in (tmp_path / "g").rglob("*")} == before
