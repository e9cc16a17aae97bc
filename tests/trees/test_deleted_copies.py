"""A group is deleted while a copy into it writes its documents: the copy is there as a whole, or none of it.

The copy writes each document and then looks whether it was deleted, and who deletes looks at what is left.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from examples import draw
from failing_store import FailingStore, contents, place_in
from rivals import STORES, Act, settle

import chunkwise as cw
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.trees.change import delete_all
from chunkwise.core.trees.node import DOCUMENTS, require_node

FORMATS = ["zarr3", "zarr2", "n5"]
VALUES = np.arange(1, 65, dtype="u1").reshape(8, 8)
_DOCUMENTS = {*DOCUMENTS, "info"}


def copy_array(store: KvStoreDriver, format: str, **how: Any) -> None:
    cw.copy(cw.array(VALUES), place_in(store, "t/z/"), format=format, chunks=(2, 2), **how)


def copy_group(store: KvStoreDriver, format: str, **how: Any) -> None:
    source = place_in(MemoryStore(), "s/")
    group = cw.create_group(source, format=format)
    group.create_array("a", VALUES, chunks=(2, 2))
    group.create_array("g/b", VALUES, chunks=(2, 2), attributes={"b": 1})
    cw.copy_tree(source, place_in(store, "t/z/"), format=format, **how)


def copy_to_volume(store: KvStoreDriver, format: str) -> None:
    array = cw.array(VALUES[..., None])
    cw.copy(array, place_in(store, "t/z/"), format="neuroglancer_precomputed", chunks=2)


COPIES: dict[str, Callable[[KvStoreDriver, str], None]] = {
    "array": copy_array,
    "array with a fingerprint": lambda store, format: copy_array(store, format, keep_fingerprint=True),
    "group": copy_group,
    "group of larger arrays": lambda store, format: copy_group(store, format, memory=1000),
    "volume": copy_to_volume,
}
CELLS = list(product(FORMATS, sorted(COPIES), sorted(STORES), [1, 2, 3, 4]))


def filled(format: str, kind: str, folder: Any) -> KvStoreDriver:
    """Return a store with a group."""
    store = FileStore(str(folder), sync=False) if kind == "files" else MemoryStore()
    cw.create_group(place_in(store, "t/"), format=format).create_array("y", [1, 2])
    return store


def delete(store: KvStoreDriver) -> None:
    """Delete the group, as ``chunkwise rm -r`` does."""
    place = place_in(store, "t/")
    delete_all(place, require_node(place))


def is_document(key: str) -> bool:
    return key.startswith("t/") and key.rpartition("/")[2] in _DOCUMENTS


def check_whole_or_gone(store: KvStoreDriver, whole: dict[str, bytes], error: Exception | None) -> None:
    """Fail if documents are left of a copy that failed, or an array without some of its chunks."""
    found = {key: value for key, value in contents(store).items() if key.startswith("t/z/")}
    left = [key for key in found if is_document(key)]
    assert not left or error is None, (left, error)
    for path in {key[: key.rfind("/") + 1] for key in left}:
        expected = {key: value for key, value in whole.items() if key.startswith(path)}
        assert {key: found.get(key) for key in expected} == expected, (path, sorted(found))


def copied(format: str, copy: str, kind: str, folder: Any) -> dict[str, bytes]:
    """Return what a copy alone makes."""
    store = filled(format, kind, folder)
    COPIES[copy](STORES[kind](store, lambda: None, 0), format)
    return {key: value for key, value in contents(store).items() if key.startswith("t/z/")}


def deleted_before(format: str, copy: str, kind: str, number: int, folder: Any) -> None:
    """Delete the group before the copy writes one of its documents."""
    whole = copied(format, copy, kind, folder / "alone")
    store, seen = filled(format, kind, folder / "both"), set[str]()
    plain = STORES[kind](store, lambda: None, 0)
    deletion = Act(lambda: delete(plain))

    def look() -> None:
        writes = {key for call, key in list(copying.calls) if call == "write" and is_document(key)}
        if len(writes) >= number and not seen:
            seen.update(writes)
            deletion.start()
            settle(deletion, plain)

    copying = STORES[kind](store, look, 1, always=True)
    one = Act(lambda: COPIES[copy](copying, format))
    one.start()
    one.join(30)
    assert not one.is_alive()
    if seen:
        deletion.join(30)
        assert not deletion.is_alive()
        check_whole_or_gone(store, whole, one.error)


def test_a_group_is_deleted_before_a_document_in_it_is_written(tmp_path: Any) -> None:
    for number, cell in enumerate(draw().sample(CELLS, 30)):
        print(*cell)
        deleted_before(*cell, tmp_path / str(number))


@pytest.mark.slow
@pytest.mark.parametrize(("format", "copy", "kind", "number"), CELLS)
def test_a_group_is_deleted_before_any_document_in_it_is_written(
    format: str, copy: str, kind: str, number: int, tmp_path: Any
) -> None:
    deleted_before(format, copy, kind, number, tmp_path)


class Deleting(FileStore):
    """Files that act before a deletion comes to its n-th file."""

    at, n_seen = 0, 0
    act: Callable[[], None]

    def delete_where(self, start: str, stop: str, wanted: Callable[[str], bool]) -> None:
        def seen(key: str) -> bool:
            self.n_seen += 1
            if self.n_seen == self.at:
                self.act()
            return wanted(key)

        super().delete_where(start, stop, seen)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("copy", sorted(COPIES))
def test_a_document_is_written_to_a_directory_whose_files_are_being_deleted(
    format: str, copy: str, tmp_path: Any
) -> None:
    """They are listed first, so the document outlasts the chunks unless the deletion looks again."""
    whole = copied(format, copy, "files", tmp_path / "alone")
    for at in sorted(draw().sample(range(1, len(whole) + 3), 4)):
        folder = tmp_path / str(at)
        store = filled(format, "files", folder)
        stands, goes, calls = threading.Event(), threading.Event(), list[tuple[str, str]]()

        def stand(stands: Any = stands, goes: Any = goes, calls: Any = calls) -> None:
            if any(call == "write" and is_document(key) for call, key in list(calls)):
                stands.set()
                goes.wait(20)

        copying = FailingStore(store, stand, 1, always=True)
        copying.calls = calls
        one = Act(partial(COPIES[copy], copying, format))
        one.start()
        assert stands.wait(20)

        def go_on(one: Act = one, goes: threading.Event = goes) -> None:
            goes.set()
            one.join(20)

        deleting = Deleting(str(folder), sync=False)
        deleting.at, deleting.act = at, go_on
        delete(deleting)
        go_on()
        assert not one.is_alive()
        check_whole_or_gone(store, whole, one.error)


def test_a_copy_that_waits_for_a_deletion_shows_that_it_lives() -> None:
    """Who deletes a group waits for signs of life of a copy that is to replace a member, and leaves it."""
    store = MemoryStore()
    plain = FailingStore(store, lambda: None, 0, plain=True)
    cw.create_group(place_in(plain, ""))
    cw.create_group(place_in(plain, "t/")).create_array("y", [1, 2])
    deletion = Act(lambda: delete(plain))

    def begin() -> None:
        writes = [key for call, key in copying.calls if call == "write"]
        is_late = "t/y/.chunkwise-new/c/3/3" in writes and copying.calls[-1] == ("read", "t/zarr.json")
        if is_late and not deletion.ident:
            deletion.start()
            settle(deletion, plain)

    copying = FailingStore(store, begin, 1, always=True, plain=True)
    cw.copy(cw.array(VALUES), place_in(copying, "t/y/"), chunks=(2, 2), overwrite=True)
    deletion.join(30)
    assert deletion.error is None
    assert np.array_equal(cw.read(place_in(plain, "t/y/")), VALUES)
