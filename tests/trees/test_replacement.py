"""Replacing a node: whatever goes wrong, what was there is there, or is wholly replaced."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
from failing_store import FailingStore, contents, place_in

import chunkwise
from chunkwise import verify
from chunkwise.core.kvstore.adapter.zip import ZipStore
from chunkwise.core.kvstore.files import exchange as file_exchange
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.places.staging import (
    APPEND,
    COMPLETE,
    is_abandoned,
    is_staging,
    new_owner,
    staging_name,
)
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.trees.key_ownership import delete_own, foreign_keys
from chunkwise.core.trees.location import Location, locate
from chunkwise.core.trees.node import find_node
from chunkwise.core.trees.replacement import Replacement, leftovers, replacing
from chunkwise.core.trees.walk import walk
from chunkwise.errors import AlreadyExistsError, ChunkwiseError, FailedPreconditionError, StorageError

STORES = ("file", "memory", "zip", "plain")


@pytest.fixture
def new_store(tmp_path: Path) -> Callable[[str], KvStoreDriver]:
    """Makes an empty store of each kind."""

    numbers = count()

    def make(kind: str) -> KvStoreDriver:
        if kind == "file":
            return FileStore(tmp_path / str(next(numbers)), sync=False)
        return ZipStore(MemoryStore(), "a.zip") if kind == "zip" else MemoryStore()

    return make


def _fill(place: Location, format: str) -> None:
    """Make a small tree, with files of somebody in it."""
    group = chunkwise.create_group(place, format=format, attributes={"a": 1})
    group.create_array("x", np.arange(6).reshape(2, 3), chunks=(1, 3))
    group.create_array("inner/y", np.arange(4.0))
    place.store.write(f"{place.path}inner/notes/readme.txt", b"mine")
    place.store.write(f"{place.path}x/plot.png", b"mine too")


def _names(place: Location) -> list[str]:
    """Return the paths of the nodes in a group that have a document."""
    root = find_node(place)
    assert root is not None and root.key
    return [name for name, node in walk(root) if name and node.key]


def _replace(place: Location, format: str) -> None:
    with replacing(place) as staging:
        if format == "n5":
            chunkwise.create_container(staging)
        group = chunkwise.open_group(staging, "a", format=format)
        group.create_array("z", np.arange(5) + 1, chunks=(2,))


def _fails(what: str) -> Callable[[], object]:
    def fail() -> object:
        if what == "interrupt":
            raise KeyboardInterrupt
        raise StorageError(os.strerror(errno.ENOSPC), errno.ENOSPC)

    return fail


@pytest.mark.parametrize("path", ["t/", ""])
@pytest.mark.parametrize("kind", STORES)
def test_the_new_node_is_there_with_the_files_of_others(
    kind: str, path: str, new_store: Callable[[str], KvStoreDriver]
) -> None:
    store = new_store(kind)
    failing = FailingStore(store, lambda: None, 0, plain=kind == "plain")
    place = place_in(failing, path)
    _fill(place, "zarr3")
    _replace(place, "zarr3")
    assert _names(place) == ["z"]
    assert sorted(contents(store)) == sorted(
        path + key
        for key in (
            "inner/notes/readme.txt",
            "x/plot.png",
            "z/c/0",
            "z/c/1",
            "z/c/2",
            "z/zarr.json",
            "zarr.json",
        )
    )
    assert foreign_keys(place) == [path + "inner/notes/readme.txt", path + "x/plot.png"]
    assert leftovers(place) == []


@pytest.mark.each_once
@pytest.mark.parametrize(
    ("format", "what"), [("zarr3", "full"), ("zarr3", "interrupt"), ("zarr2", "full"), ("n5", "full")]
)
@pytest.mark.parametrize("kind", STORES)
def test_an_error_at_any_call_leaves_the_old_or_the_new(
    kind: str, format: str, what: str, new_store: Callable[[str], KvStoreDriver]
) -> None:
    first, base = new_store(kind), new_store(kind)
    _fill(place_in(base, "t/"), format)
    _fill(place_in(first, "t/"), format)
    old = contents(first)
    _replace(place_in(first, "t/"), format)
    new, kept = contents(first), {key: value for key, value in old.items() if value[:4] == b"mine"}
    outcomes = set()
    for at in range(1, 300, 3 if kind == "zip" else 1):  # which takes long
        store = new_store(kind)
        for key, value in old.items():
            store.write(key, value)
        failing = FailingStore(store, _fails(what), at, plain=kind == "plain")
        with contextlib.suppress(StorageError, KeyboardInterrupt):
            _replace(place_in(failing, "t/"), format)
        found = contents(store)
        assert kept.items() <= found.items()
        staged = {key: value for key, value in found.items() if any(map(is_staging, key.split("/")))}
        rest = {key: found[key] for key in found if key not in staged and key != "t/" + APPEND}
        if rest in (old, new):
            # The failure may be that of the removal itself.
            assert not staged or failing.n_calls >= at
            outcomes.add("old" if rest == old else "new")
        else:
            assert kind == "plain"
            whole = {key.partition("/")[2].partition("/")[2] for key in staged}
            assert COMPLETE in whole
            assert {key[2:] for key in new if key not in kept} <= whole
            outcomes.add("beside")
        if failing.n_calls < at:
            break
    else:
        pytest.fail("it never came to an end")
    assert outcomes == {"old", "new", *(["beside"] if kind == "plain" else [])}


@pytest.mark.parametrize("kind", STORES)
def test_a_store_that_fails_for_good_has_the_old_data(
    kind: str, new_store: Callable[[str], KvStoreDriver]
) -> None:
    base = new_store(kind)
    _fill(place_in(base, "t/"), "zarr3")
    old = contents(base)
    counted = FailingStore(base, lambda: None, 0, plain=kind == "plain")
    with pytest.raises(ZeroDivisionError), replacing(place_in(counted, "t/")) as staging:
        chunkwise.create_array(staging, [1, 2])
        raise ZeroDivisionError
    assert contents(base) == old
    for at in range(1, counted.n_calls):
        failing = FailingStore(base, _fails("full"), at, always=True, plain=kind == "plain")
        with pytest.raises((StorageError, ZeroDivisionError)), replacing(place_in(failing, "t/")) as staging:
            chunkwise.create_array(staging, [1, 2])
            raise ZeroDivisionError
        found = contents(base)
        assert old == {k: v for k, v in found.items() if not any(map(is_staging, k.split("/")))}
        assert _names(place_in(base, "t/")) == ["inner", "inner/y", "x"]


def _killed_at(root: Path, at: int) -> int:
    """Replace a node in a process that ends at a call of its store; return 9, or 0 if it came to the end."""
    process = os.fork()
    if not process:
        store = FailingStore(FileStore(root, sync=False), lambda: os._exit(9), at)
        try:
            _replace(place_in(store, "t/"), "zarr3")
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


@pytest.mark.parametrize("exchange", ["at once", "twice"])
def test_a_killed_process_leaves_the_old_or_the_new(
    exchange: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if exchange == "twice":
        monkeypatch.setattr(file_exchange, "_exchange_call", lambda: None)
    _fill(place_in(FileStore(tmp_path / "0", sync=False), "t/"), "zarr3")
    counted = FailingStore(FileStore(tmp_path / "0", sync=False), lambda: None, 0)
    _replace(place_in(counted, "t/"), "zarr3")
    seen = []
    for at in (1, counted.n_calls // 2, *range(counted.n_calls - 9, counted.n_calls + 2)):
        root = tmp_path / str(at)
        place = place_in(FileStore(root, sync=False), "t/")
        _fill(place, "zarr3")
        ended = _killed_at(root, at)
        assert ended in (0, 9)
        seen.append(_names(place))
        assert (root / "t/inner/notes/readme.txt").read_bytes() == b"mine"
        _replace(place, "zarr3")  # which removes what is left
        assert os.listdir(root) == ["t"]
        assert (ended == 0) == (at > counted.n_calls)
    assert seen[0] == ["inner", "inner/y", "x"] and seen[-1] == ["z"]
    assert all(found in (seen[0], seen[-1]) for found in seen)


def test_what_a_process_left_between_two_renames_comes_back(tmp_path: Path) -> None:
    store = FileStore(tmp_path, sync=False)
    place = place_in(store, "t/")
    _fill(place, "zarr3")
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            "from chunkwise.core.kvstore.places.staging import new_owner; print(new_owner())",
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=True,
    )
    name = staging_name("t", ended.stdout.decode().strip())
    assert is_abandoned(name) and not is_abandoned(staging_name("t", new_owner()))
    os.rename(tmp_path / "t", tmp_path / f"{name}-old")
    with pytest.raises(ZeroDivisionError), replacing(place):
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == ["t"]
    assert _names(place) == ["inner", "inner/y", "x"]


@pytest.mark.parametrize("how", ["link", "no exchange", "mounted"])
def test_directories_that_cannot_be_exchanged(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tmp_path / "far" / "t"
    _fill(locate(real), "zarr3")
    path = real
    if how == "link":
        path = tmp_path / "t"
        path.symlink_to(real)
    elif how == "no exchange":
        monkeypatch.setattr(file_exchange, "_exchange_call", lambda: None)
    else:

        def busy(*names: str) -> None:
            raise OSError(errno.EBUSY, "busy")

        monkeypatch.setattr("chunkwise.core.kvstore.files.exchange.exchange_paths", busy)
    place = locate(path)
    _replace(place, "zarr3")
    assert _names(place) == ["z"]
    assert (path / "inner/notes/readme.txt").read_bytes() == b"mine"
    assert path.is_symlink() == (how == "link")
    assert os.listdir(tmp_path / "far") == ["t"] and leftovers(place) == []


def test_a_directory_keeps_who_may_look_into_it(tmp_path: Path) -> None:
    place = locate(tmp_path / "t")
    _fill(place, "zarr3")
    os.chmod(tmp_path / "t", 0o2770)
    _replace(place, "zarr3")
    assert (tmp_path / "t").stat().st_mode & 0o7777 == 0o2770


def test_a_place_that_is_found_again(tmp_path: Path) -> None:
    place = locate(tmp_path / "t")
    _fill(place, "zarr3")
    begun = Replacement.begin(place, resumable=True)
    chunkwise.create_array(begun.staging, [1, 2])
    again = Replacement.begin(place, resumable=True)
    assert again.staging.path == begun.staging.path
    assert chunkwise.read(again.staging).tolist() == [1, 2]
    again.commit()
    assert chunkwise.read(place).tolist() == [1, 2]
    assert os.listdir(tmp_path) == ["t"]


def test_nothing_written_replaces_nothing(tmp_path: Path) -> None:
    place = locate(tmp_path / "t")
    _fill(place, "zarr3")
    with pytest.raises(FailedPreconditionError, match="nothing was written"), replacing(place):
        pass
    assert _names(place) == ["inner", "inner/y", "x"]


def test_a_file_of_somebody_under_the_name_of_a_chunk(tmp_path: Path) -> None:
    place = locate(tmp_path / "t")
    chunkwise.create_array(place, np.zeros((2, 2)), format="zarr2")
    (tmp_path / "t" / "0").write_bytes(b"mine")
    with pytest.raises(AlreadyExistsError, match="in the way"), replacing(place) as staging:
        chunkwise.create_array(staging, [1], format="zarr2")
    assert (tmp_path / "t" / "0").read_bytes() == b"mine"
    assert chunkwise.read(place).shape == (2, 2)


def test_places_are_in_no_listing_and_no_consolidated_metadata(tmp_path: Path) -> None:
    group = chunkwise.create_group(tmp_path / "a.zarr")
    group.create_array("x", [1])
    group.consolidate()
    for place in (group.location, group.location.child("x")):
        with pytest.raises(ZeroDivisionError), replacing(place) as staging:
            chunkwise.create_array(staging, [1, 2])
            assert list(group) == ["x"] and _names(group.location) == ["x"]
            assert list(chunkwise.open_group(tmp_path / "a.zarr")) == ["x"]
            raise ZeroDivisionError
    with replacing(group.location.child("x")) as staging:
        chunkwise.create_array(staging, [1, 2, 3])
    assert dict(chunkwise.open_group(tmp_path / "a.zarr", consolidated=True).arrays())["x"].shape == (3,)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("zarr3", {"format": "zarr3"}),
        ("dots", {"format": "zarr3", "metadata": {"chunk_key_encoding": {"name": "v2"}}}),
        ("zarr2", {"format": "zarr2"}),
        ("nested", {"format": "zarr2", "metadata": {"dimension_separator": "/"}}),
        ("zarr1", {"format": "zarr1"}),
        ("n5", {"format": "n5"}),
    ],
)
def test_only_keys_of_the_array_are_its_own(name: str, array: dict[str, Any], tmp_path: Path) -> None:
    place = locate(tmp_path / name)
    chunkwise.create_array(place, np.ones((4, 6)), chunks=(2, 2), **array)
    (tmp_path / name / "c0" / "deep").mkdir(parents=True)
    mine = ["c0/deep/1", "c/0/0.bak", "0.0.0", "7/2/3", "00/1", "notes", "8/0/0/0", "attrs.txt"]
    for file in mine:
        (tmp_path / name / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name / file).write_bytes(b"mine")
    assert sorted(foreign_keys(place)) == sorted(place.path + file for file in mine)
    delete_own(place)
    left = {str(path.relative_to(tmp_path / name)) for path in (tmp_path / name).rglob("*") if path.is_file()}
    assert left == set(mine)


@pytest.mark.parametrize("at", ["t/", "t/x/"])
def test_what_an_interrupted_replacement_left_is_named(at: str, tmp_path: Path) -> None:
    for number in range(1, 100):
        base = FileStore(tmp_path / str(number), sync=False)  # without what the tries before have left
        _fill(place_in(base, "t/"), "zarr3")
        place = place_in(base, at)
        failing = FailingStore(base, _fails("full"), number, always=True, plain=True)
        try:
            with replacing(place_in(failing, at)) as staging:
                chunkwise.create_array(staging, [1, 2])
        except StorageError as e:
            if "all of the new data is at" in str(e):
                break
    else:
        pytest.fail("nothing was interrupted")
    left, *_ = [at for at in leftovers(place) if base.read(at.path + COMPLETE).value is not None]
    assert chunkwise.read(left).tolist() == [1, 2]
    opened = chunkwise.open_group if at == "t/" else chunkwise.read
    with pytest.raises(chunkwise.errors.NotFoundError, match=r"all of the new data is at .*\.chunkwise-new-"):
        opened(place)  # type: ignore[operator]
    _replace(place, "zarr3")
    assert _names(place) == ["z"]


def test_verify_names_what_is_left(tmp_path: Path) -> None:
    place = locate(tmp_path / "a.zarr")
    _fill(place, "zarr3")
    begun = [Replacement.begin(at, resumable=True) for at in (place, place.child("x"))]
    for replacement in begun:
        chunkwise.create_array(replacement.staging, [1])
    notes = [note for report in verify(place) for note in report.notes]
    assert all(any(replacement.staging.name in note for note in notes) for replacement in begun)


@pytest.mark.parametrize(
    ("keys", "orphans"),
    [
        (["x/c/0/0", "x/c/0/11"], True),
        (["x/c.0.1"], True),
        (["x/0.0", "x/0.1", "x/10.2"], True),
        (["x/0/0/0", "x/1/0/0"], True),
        (["x/0/0/0", "x/1/0"], False),
        (["x/0.0", "x/notes"], False),
        (["x/0", "x/1"], False),
        (["x/c"], False),
        (["x/c/0/0", "x/c/0/0.bak"], False),
        (["x/2024/a"], False),
    ],
)
def test_chunks_without_their_array_are_no_files_of_somebody(keys: list[str], orphans: bool) -> None:
    place = place_in(MemoryStore(), "t/")
    chunkwise.create_group(place)
    for key in keys:
        place.store.write(place.path + key, b"1")
    assert foreign_keys(place) == ([] if orphans else sorted(place.path + key for key in keys))


def test_a_lock_held_in_the_old_directory_leaves_nothing_behind(tmp_path: Path) -> None:
    """Another writer has opened a lock file in the directory that is exchanged, and lets it go late."""
    place = tmp_path / "a.zarr"
    chunkwise.create_array(place, [1, 2])
    others = FileStore(str(place), sync=False)
    held, ended = threading.Event(), threading.Event()

    def write(file: IO[bytes]) -> None:
        held.set()
        while not ended.is_set():  # until the rest of the old directory is gone
            beside = [entry.name for entry in tmp_path.iterdir() if "chunkwise-new" in entry.name]
            if beside and os.listdir(tmp_path / beside[0]) == ["x.__lock"]:
                break
            time.sleep(0.001)
        file.write(b"x")

    writer = threading.Thread(target=others.write_file, args=("x", write), daemon=True)
    writer.start()
    assert held.wait(30)
    chunkwise.create_array(place, [3, 4], overwrite=True)
    ended.set()
    writer.join(30)
    assert chunkwise.read(place).tolist() == [3, 4]
    assert (place / "x").read_bytes() == b"x"
    assert os.listdir(tmp_path) == ["a.zarr"]


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_nothing_is_exchanged_with_a_directory_that_is_gone(
    new_store: Callable[[str], KvStoreDriver], kind: str
) -> None:
    store: Any = new_store(kind)
    store.write("new/a", b"1")
    assert store.exchange_directories("new", "old", "aside") is False
    assert contents(store) == {"new/a": b"1"}
    store.write("old/b", b"2")
    assert store.exchange_directories("new", "old", "aside") is True
    assert contents(store) == {"old/a": b"1", "new/b": b"2"}
    with pytest.raises(ChunkwiseError):
        store.exchange_directories("gone", "old", "aside")
    with pytest.raises(ChunkwiseError):
        store.move_directory("gone", "other")
    assert contents(store) == {"old/a": b"1", "new/b": b"2"}


@pytest.mark.parametrize("name", ["n" * 255, "ü" * 127, "n" * 101, "n" * 100])
def test_a_node_with_a_long_name_is_replaced_and_moved(tmp_path: Path, name: str) -> None:
    """The name of the place beside it has room for the process and its task, too."""
    other = f"{name[:-1]}x"
    group = chunkwise.create_group(tmp_path)
    for n in (3, 4):
        group.create_array(name, np.arange(n), overwrite=True)
        chunkwise.copy(tmp_path / name, tmp_path / other, overwrite=n == 4)
    assert group[other][...].read().result().tolist() == [0, 1, 2, 3]
    del group[other]
    group.move(name, other)
    assert group[other][...].read().result().tolist() == [0, 1, 2, 3]
    assert sorted(os.listdir(tmp_path)) == sorted([other, "zarr.json"])
