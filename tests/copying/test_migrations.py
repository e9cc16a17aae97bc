"""Migrations that fail, or whose process is killed: the old nodes stay as they were, or all are new."""

from __future__ import annotations

import numpy as np
import pytest
from failing_store import FailingStore, contents, place_in

import chunkwise as cw
from chunkwise.copying.migrate_tree import migrate_tree
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.node import require_node
from chunkwise.errors import AlreadyExistsError, ChunkwiseError, StorageError

VALUES = np.arange(24, dtype="i4").reshape(4, 6)


def _fail() -> None:
    raise StorageError("no room is left")


def _filled(consolidated: bool) -> MemoryStore:
    store = MemoryStore()
    tree = cw.create_group(place_in(store, "t/"), format="zarr2", attributes={"a": 1})
    tree.create_array("x", VALUES, chunks=(2, 3), attributes={"of": "x"})
    tree.create_array("g/h/y", VALUES)
    if consolidated:
        tree.consolidate()
    return store


def _migrate(place: Location, what: str) -> None:
    if what == "array":
        cw.migrate(place.child("x"), apply=True)
    else:
        for node in migrate_tree(require_node(place), apply=True, keep_old=False):
            if node.error:
                raise StorageError(node.error)


def _check_readable(store: KvStoreDriver) -> None:
    tree = cw.open_group(place_in(store, "t/"))
    assert tree.attrs["a"] == 1
    for name in ("x", "g/h/y"):
        assert np.array_equal(cw.read(place_in(store, f"t/{name}/")), VALUES)


@pytest.mark.each_once
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("what", ["array", "tree", "consolidated tree"])
def test_an_error_at_any_call(what: str, plain: bool) -> None:
    consolidated = what == "consolidated tree"
    store = _filled(consolidated)
    counting = FailingStore(store, _fail, 0, plain=plain)
    _migrate(place_in(counting, "t/"), what)
    _check_readable(store)
    after = contents(store)
    for at in range(1, counting.n_calls + 1):
        for always in (False, True):
            store = _filled(consolidated)
            before = contents(store)
            failing = FailingStore(store, _fail, at, plain=plain, always=always)
            error = ""
            try:
                _migrate(place_in(failing, "t/"), what)
            except ChunkwiseError as e:
                error = str(e)
            found = contents(store)
            _check_readable(store)
            if "is migrated, but not its" in error:
                continue
            if not always:
                assert found == (before if error else after), at
            _migrate_if_left(store, what)
            _check_readable(store)
            if not always:  # a process that was killed can leave .zattrs, which nobody reads
                assert contents(store) == after, at


def _migrate_if_left(store: KvStoreDriver, what: str) -> None:
    if what != "array" or store.read("t/x/.zarray").value is not None:
        _migrate(place_in(store, "t/"), what)


def test_a_document_that_is_another() -> None:
    store = _filled(False)
    store.write("t/x/zarr.json", b'{"zarr_format": 3, "node_type": "array"}')
    before = contents(store)
    for what in ("array", "tree"):
        with pytest.raises(AlreadyExistsError, match=r"t/x/zarr\.json.* exists already"):
            _migrate(place_in(store, "t/"), what)
        assert contents(store) == before
