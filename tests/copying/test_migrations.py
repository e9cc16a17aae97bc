"""Migrations that fail, or whose process is killed: the old nodes stay as they were, or all are new."""

from __future__ import annotations

import contextlib
import json

import numpy as np
import pytest
from failing_store import FailingStore, contents, place_in

import chunkwise as cw
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.trees.location import Location
from chunkwise.errors import AbortedError, AlreadyExistsError, ChunkwiseError, StorageError

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
        cw.migrate(place, apply=True)


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
    left = "x/.zarray" if what == "array" else ""
    if any(key.endswith((left,) if left else (".zarray", ".zgroup")) for key in contents(store)):
        _migrate(place_in(store, "t/"), what)


def test_a_document_that_is_another() -> None:
    store = _filled(False)
    store.write("t/x/zarr.json", b'{"zarr_format": 3, "node_type": "array"}')
    before = contents(store)
    for what in ("array", "tree"):
        with pytest.raises(AlreadyExistsError, match=r"t/x/zarr\.json.* exists already"):
            _migrate(place_in(store, "t/"), what)
        assert contents(store) == before


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("what", ["array", "tree"])
def test_attributes_that_others_change_meanwhile_are_kept(what: str, plain: bool) -> None:
    counting = FailingStore(_filled(False), lambda: None, 0, plain=plain)
    _migrate(place_in(counting, "t/"), what)
    for at in range(1, counting.n_calls + 1):
        store = _filled(False)
        changed = FailingStore(store, lambda s=store: s.write("t/x/.zattrs", b'{"of": "y"}'), at, plain=plain)
        with contextlib.suppress(AbortedError):
            _migrate(place_in(changed, "t/"), what)
        kept = cw.open_group(place_in(store, "t/"))["x"].attrs.asdict()
        assert kept == {"of": "y"} or "t/x/.zattrs" in contents(store), at


def test_documents_that_others_delete_meanwhile_do_not_come_back() -> None:
    counting = FailingStore(_filled(False), lambda: None, 0, plain=True)
    _migrate(place_in(counting, "t/"), "array")
    refused = 0
    for at in range(1, counting.n_calls + 1):
        store = _filled(False)
        deleting = FailingStore(store, lambda s=store: s.delete("t/x/.zattrs"), at, plain=True)
        try:
            _migrate(place_in(deleting, "t/"), "array")
        except AbortedError:
            refused += 1
            assert "t/x/.zattrs" not in contents(store), at
            assert {"t/x/.zarray"} == {
                key for key in contents(store) if key in ("t/x/.zarray", "t/x/zarr.json")
            }
    assert refused


def test_a_group_in_which_a_node_cant_be_migrated_is_refused_by_name() -> None:
    store = _filled(consolidated=False)
    kv = store.write("t/g/h/y/.zarray", b'{"zarr_format": 2}')
    before = contents(store)
    with pytest.raises(ChunkwiseError, match="g/h/y"):
        cw.migrate(place_in(store, "t/"), apply=True)
    assert kv is not None and contents(store) == before


def test_a_group_is_planned_as_it_is_migrated() -> None:
    store = _filled(consolidated=False)
    place = place_in(store, "t/")
    planned = cw.migrate(place)
    done = cw.migrate(place, apply=True)
    assert done == planned._replace(applied=True)
    assert set(done.removed) == {
        ".zgroup",
        ".zattrs",
        "x/.zarray",
        "x/.zattrs",
        *(f"{path}.z{what}" for path, what in (("g/", "group"), ("g/h/", "group"), ("g/h/y/", "array"))),
    }
    assert done.document["attributes"] == {"a": 1}
    _check_readable(store)
    with pytest.raises(ChunkwiseError, match="no node of Zarr v1 or v2"):
        cw.migrate(place)


@pytest.mark.parametrize("keep_old", [False, True])
@pytest.mark.parametrize("at", ["", "old", "old/below"])
def test_copies_in_groups_above_and_between_are_those_of_all_that_was_migrated(tmp_path, at, keep_old):
    top = cw.create_group(tmp_path / "g", attributes={"a": 1})
    top.create_array("new", np.arange(3))
    old = cw.create_group(tmp_path / "g/old", format="zarr2")
    old.create_array("below/x", np.arange(4), attributes={"q": 2})
    old.create_array("y", np.arange(5))
    top.consolidate()
    cw.migrate(tmp_path / "g" / at, apply=True, keep_old=keep_old)
    copies = json.loads((tmp_path / "g/zarr.json").read_text())
    assert ("old/y" in copies["consolidated_metadata"]["metadata"]) == (at != "old/below")
    cw.open_group(tmp_path / "g", "r+").consolidate()
    assert copies == json.loads((tmp_path / "g/zarr.json").read_text())
