"""Copies and pyramids that replace something: whatever goes wrong, the old or the new is there, wholly."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from failing_store import FailingStore, place_in

import chunkwise as cw
from chunkwise.copying.copy_passes import copy_status
from chunkwise.copying.copy_place import CopyPlace
from chunkwise.copying.new_array import open_array
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.trees.location import Location, locate
from chunkwise.core.trees.node import JOURNAL
from chunkwise.errors import (
    AlreadyExistsError,
    ChunkwiseError,
    DataCorruptionError,
    FailedPreconditionError,
    InvalidArgumentError,
    StorageError,
)

OLD = np.arange(240, dtype="u2").reshape(4, 6, 10)
NEW = np.random.default_rng(0).integers(1, 1 << 16, (6, 8, 10), "u2")
FORMATS = ["zarr3", "zarr2", "n5"]


def _copy(source: Location, target: Location, format: str, **options: Any) -> object:
    return cw.copy(
        source.child("image/x"), target, format=format, chunks=(6, 2, 2), memory=1000, sync=False, **options
    )


def _copy_tree(source: Location, target: Location, format: str, **options: Any) -> object:
    return cw.copy_tree(source.child("image"), target, format=format, memory=2000, sync=False, **options)


def _pyramid(source: Location, target: Location, format: str, **options: Any) -> object:
    convention = {"zarr3": "ome-ngff-0.5", "zarr2": "ome-ngff-0.4", "n5": "n5-viewer"}[format]
    axes, place = ["z", "y", "x"], source.child("image/x")
    options = {"convention": convention, "axes": axes, "levels": 1, "name": "new", **options}
    return cw.downsample_pyramid(place, target, sync=False, **options).result()


Call = Callable[..., object]
CALLS: list[Call] = [_copy, _copy_tree, _pyramid]


def _sources(store: KvStoreDriver) -> Location:
    group = cw.create_group(place_in(store, "source/image/"), attributes={"what": "new"})
    group.create_array("x", NEW, chunks=(1, 8, 10))
    group.create_array("g/small", NEW[0])
    return place_in(store, "source/")


def _old(call: Call, target: Location, format: str) -> None:
    if call is _copy:
        cw.create_array(target, OLD, chunks=(2, 3, 10), format=format)
    elif call is _copy_tree:
        group = cw.create_group(target, format=format, attributes={"what": "old"})
        group.create_array("x", OLD, chunks=(2, 3, 10))
        group.create_array("other/y", OLD[0])
    else:
        image = cw.array(OLD.T if format == "n5" else OLD)
        _pyramid_of(image, target, format)
    target.store.write(f"{target.path}notes.txt", b"mine")


def _pyramid_of(image: Any, target: Location, format: str) -> None:
    convention = {"zarr3": "ome-ngff-0.5", "zarr2": "ome-ngff-0.4", "n5": "n5-viewer"}[format]
    cw.downsample_pyramid(image, target, convention=convention, levels=1, sync=False).result()


def _elements(target: Location) -> Any:
    """Return all that a reader finds at a location: elements of arrays, attributes of groups."""
    with suppress(ChunkwiseError):  # the root of an N5 container may be an array, and a group as well
        return {"": cw.read(target).tolist()}
    group = cw.open_group(target)
    found: dict[str, Any] = {"attributes": json.loads(json.dumps(dict(group.attrs)))}
    for name, node in group.walk():
        found[name] = node.read().result().tolist() if isinstance(node, cw.TensorStore) else dict(node.attrs)
    return found


def _store(kind: str, tmp_path: Path) -> KvStoreDriver:
    return FileStore(tmp_path / os.urandom(4).hex(), sync=False) if kind == "file" else MemoryStore()


def _fail() -> None:
    raise StorageError("no room is left")


def _steps(most: int) -> Iterator[int]:
    """Yield some numbers of calls: the first ones, then fewer and fewer of them, and the last ones."""
    step = 1
    while step < most - 10:
        yield step
        step += max(1, step // 2)
    yield from range(max(step, most - 12), most + 1)


@pytest.mark.each_once
@pytest.mark.parametrize("always", [True, False])
@pytest.mark.parametrize("kind", ["memory", pytest.param("file", marks=pytest.mark.slow)])
@pytest.mark.parametrize("format", ["zarr3", *(pytest.param(f, marks=pytest.mark.slow) for f in FORMATS[1:])])
@pytest.mark.parametrize("call", CALLS)
def test_an_error_at_any_call(
    call: Call, format: str, kind: str, always: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chunkwise.copying.journal._SILENCE", 0.05)
    plain = _store(kind, tmp_path)
    source, target = _sources(plain), place_in(plain, f"to/a.{'n5' if format == 'n5' else 'zarr'}/")
    _old(call, target, format)
    before = _elements(target)
    counting = FailingStore(plain, _fail, 0)
    call(source, place_in(counting, target.path), format, overwrite=True)
    after = _elements(target)
    assert before != after and counting.n_calls > 20
    for at in _steps(counting.n_calls):
        store = _store(kind, tmp_path)
        source, target = _sources(store), place_in(store, target.path)
        _old(call, target, format)
        with suppress(ChunkwiseError):
            call(
                source,
                place_in(FailingStore(store, _fail, at, always=always), target.path),
                format,
                overwrite=True,
            )
        found = _elements(target)
        if call is not _pyramid:  # of which each level is replaced by itself
            assert found in (before, after), at
        else:
            assert found.keys() == before.keys()
            for name, value in found.items():
                if isinstance(value, list):
                    assert value in (before[name], after[name]), (at, name)
        assert bytes(store.read(f"{target.path}notes.txt").value or b"") == b"mine"
        if not always:  # or its journal says that somebody is at work
            with suppress(ChunkwiseError):  # it may have been done
                call(source, target, format, resume=True)
        call(source, target, format, overwrite=True)
        assert _elements(target) == after
        assert not [key for key in store.list("to/", "to0") if ".chunkwise" in key], at


@pytest.mark.each_once
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("call", CALLS)
def test_a_copy_is_gone_on_with_beside_what_it_replaces(call: Call, format: str, tmp_path: Path) -> None:
    store = FileStore(tmp_path, sync=False)
    source, target = _sources(store), place_in(store, f"to/a.{'n5' if format == 'n5' else 'zarr'}/")
    _old(call, target, format)
    before = _elements(target)

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call(source, target, format, overwrite=True, progress=stop)
    assert _elements(target) == before
    if call is not _pyramid:
        status = copy_status(target)
        assert status is not None and not (tmp_path / target.path / JOURNAL).exists()
    call(source, target, format, resume=True)
    again = place_in(store, target.path.replace("a.", "b."))
    call(source, again, format)
    assert _elements(target) == _elements(again)
    assert (tmp_path / target.path / "notes.txt").exists()
    assert not [path for path in (tmp_path / "to").rglob(".*") if "chunkwise" in path.name]


@pytest.mark.each_once
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_what_has_taken_its_place_is_not_replaced_by_the_old(
    call: Call, plain: bool, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process is killed while it deletes what was replaced, which has the metadata of the new."""
    monkeypatch.setattr("chunkwise.copying.journal._SILENCE", 0.05)

    def is_new(target: Location) -> bool:
        try:
            return bool(_elements(target) == after)
        except ChunkwiseError:  # a store that changes keys one by one has neither for a moment
            return False

    def places(store: KvStoreDriver) -> tuple[Location, Location]:
        source, target = _sources(store), place_in(store, f"to/a.{'n5' if format == 'n5' else 'zarr'}/")
        open_array(source.child("image/x")).write(NEW // 2).result()
        call(source, target, format)
        open_array(source.child("image/x")).write(NEW).result()
        return source, target

    source, target = places(MemoryStore())
    counting = FailingStore(target.store, _fail, 0, plain=plain)
    call(source, place_in(counting, target.path), format, overwrite=True)
    after, n_done = _elements(target), 0
    for at in range(counting.n_calls - 24, counting.n_calls):
        source, target = places(MemoryStore())
        dying = FailingStore(target.store, _fail, at, always=True, plain=plain)
        with suppress(ChunkwiseError):
            call(source, place_in(dying, target.path), format, overwrite=True)
        gc.collect()  # or whoever began it might be at work still
        done = is_new(target)
        n_done += done
        with suppress(AlreadyExistsError):  # there is nothing to go on with
            call(
                source,
                place_in(FailingStore(target.store, _fail, 0, plain=plain), target.path),
                format,
                resume=True,
            )
        assert is_new(target) or not done, at
    assert n_done


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("damaged", [False, True])
def test_a_copy_killed_before_it_takes_its_place_is_compared_there(
    format: str, damaged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values, old = np.arange(1, 9, dtype="u2"), np.zeros(8, "u2")
    source, target = tmp_path / "a.zarr", tmp_path / "b"
    cw.create_array(source, values, chunks=(8,))
    cw.create_array(target, old, chunks=(8,), format=format)

    def stop(self: CopyPlace, *_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(CopyPlace, "commit", stop)
        with pytest.raises(KeyboardInterrupt):
            cw.copy(source, target, format=format, overwrite=True)
    made = CopyPlace.choose(locate(target), overwrite=False, go_on=True)
    assert made.is_made and cw.read(target).tolist() == old.tolist()
    if damaged:
        cw.open(made.place.kvstore(), open=True).result().write(old + 1).result()
        with pytest.raises(DataCorruptionError, match="the copy differs from the source"):
            cw.copy(source, target, format=format, resume=True, verify=True)
        assert cw.read(target).tolist() == old.tolist()
    else:
        assert cw.copy(source, target, format=format, resume=True, verify=True).verified
        assert cw.read(target).tolist() == values.tolist()


_KILLED = """
import os, signal, sys
import chunkwise as cw
done = []
def stop(*_):
    os.kill(os.getpid(), signal.SIGKILL)
getattr(cw, sys.argv[1])(sys.argv[2], sys.argv[3], overwrite=True, progress=stop, memory=2000)
"""


@pytest.mark.parametrize("call", ["copy", "copy_tree"])
def test_a_killed_copy_leaves_the_old_one(call: str, tmp_path: Path) -> None:
    _sources(FileStore(tmp_path, sync=False))
    source, target = str(tmp_path / f"source/image{'/x' if call == 'copy' else ''}"), tmp_path / "a.zarr"
    old = cw.create_array(target if call == "copy" else target / "x", OLD)
    if call == "copy_tree":
        cw.open_group(target, "a")
    done = subprocess.run([sys.executable, "-c", _KILLED, call, source, str(target)], check=False)
    assert done.returncode == -9
    assert np.array_equal(old.read().result(), OLD)
    again: Any = getattr(cw, call)
    again(source, target, resume=True, memory=2000)
    assert not list(cw.diff(source, target))


@pytest.mark.parametrize("how", ["same array", "view", "inside", "holds it"])
def test_a_source_that_overlaps(tmp_path: Path, how: str) -> None:
    cw.create_array(tmp_path / "a.zarr", NEW, chunks=(1, 8, 10))
    group = cw.create_group(tmp_path / "t.zarr")
    group.create_array("x", NEW)
    if how == "same array":
        cw.copy(tmp_path / "a.zarr", tmp_path / "a.zarr", overwrite=True, chunks=(6, 2, 2), memory=1000)
        assert np.array_equal(cw.read(tmp_path / "a.zarr"), NEW)
        assert cw.open(str(tmp_path / "a.zarr")).result().chunk_layout.read_chunk.shape == (6, 2, 2)
    elif how == "view":
        pyramid: Any = cw.downsample_pyramid
        pyramid(tmp_path / "t.zarr/x", tmp_path / "t.zarr", levels=0, axes=["z", "y", "x"]).result()
        made = pyramid(tmp_path / "t.zarr/0", tmp_path / "t.zarr", levels=1, overwrite=True).result()
        assert np.array_equal(made.levels[0].read().result(), NEW)
    elif how == "inside":
        with pytest.raises(FailedPreconditionError, match="is a group; only an array can be overwritten"):
            cw.copy(tmp_path / "t.zarr/x", tmp_path / "t.zarr", overwrite=True)
        assert np.array_equal(cw.read(tmp_path / "t.zarr/x"), NEW)
    else:
        for source, target in [("t.zarr", "t.zarr/x"), ("t.zarr", "t.zarr"), ("t.zarr/x", "t.zarr")]:
            with pytest.raises(InvalidArgumentError, match="can't be copied to"):
                cw.copy_tree(tmp_path / source, tmp_path / target, overwrite=True)
        assert np.array_equal(cw.read(tmp_path / "t.zarr/x"), NEW)


def test_wrong_options_change_nothing(tmp_path: Path) -> None:
    source = str(tmp_path / "source/image/x")
    _sources(FileStore(tmp_path, sync=False))
    cw.create_array(tmp_path / "a.zarr", OLD)
    wrong: list[dict[str, Any]] = [
        {"chunks": (0, 1, 1)},
        {"chunks": (1, 1)},
        {"codec": "zstdd"},
        {"dtype": "u3"},
        {"memory": 10},
        {"format": "zarr4"},
        {"cast": "round"},
        {"nothing": 1},
    ]
    for options in wrong:
        with pytest.raises((ValueError, TypeError)):
            cw.copy(source, tmp_path / "a.zarr", overwrite=True, **options)
        assert np.array_equal(cw.read(tmp_path / "a.zarr"), OLD), options
    assert not [path for path in tmp_path.rglob(".*") if "chunkwise" in path.name]
