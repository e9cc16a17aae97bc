"""A process ends at any request of a copy that replaces something: the next run leaves nothing of it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from failing_store import FailingStore, contents, ending_process, place_in

import chunkwise as cw
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.places.staging import COMPLETE, JOURNAL
from chunkwise.core.trees.location import Location
from chunkwise.errors import ChunkwiseError, StorageError

VALUES = np.random.default_rng(0).integers(0, 1 << 16, (30, 20), "u2")
VOLUME = "neuroglancer_precomputed"
Writer = Callable[..., object]


def _copy(source: Location, to: Location, **options: Any) -> None:
    cw.copy(source.child("x"), to, **options)


def _copy_tree(source: Location, to: Location, **options: Any) -> None:
    cw.copy_tree(source, to, **options)


def _volume(source: Location, to: Location, **options: Any) -> None:
    cw.copy(source.child("x"), to, format=VOLUME, chunks=8, **options)


def _written(writer: Writer, values: Any, to: Location, **options: Any) -> None:
    source = place_in(MemoryStore(), "source/")
    cw.create_group(source).create_array("x", values, chunks=(8, 8))
    with ThreadPoolExecutor(1) as threads:
        writer(source, to, executor=threads, sync=False, **options)


def _fail() -> None:
    raise StorageError("the process has ended")


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("step", [17, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("writer", [_copy, _copy_tree, _volume])
def test_nothing_is_left(writer: Writer, plain: bool, step: int) -> None:
    """`plain`: the store changes keys one by one."""

    def at(store: MemoryStore, call: int = 0) -> Location:
        return place_in(FailingStore(store, _fail, call, always=True, plain=plain), "t/")

    def old() -> MemoryStore:
        store = MemoryStore()
        _written(writer, VALUES[:20] // 2, at(store))
        return store

    whole = old()
    to = at(whole)
    _written(writer, VALUES, to, overwrite=True)
    before, expected, n_calls = contents(old()), contents(whole), to.store.n_calls
    for n in range(step, n_calls, step):
        store = old()
        with suppress(StorageError), ending_process():
            _written(writer, VALUES, at(store, n), overwrite=True)
        gc.collect()
        found = contents(store)
        is_replaced = all(found.get(key) == value for key, value in expected.items())
        if is_replaced or any(key.endswith((JOURNAL, COMPLETE)) for key in found):
            _written(writer, VALUES, at(store), resume=True)
        elif found == before:
            with pytest.raises(ChunkwiseError):
                _written(writer, VALUES, at(store), resume=True)
            assert contents(store) == before
            continue
        else:
            _written(writer, VALUES, at(store), overwrite=True)
        assert contents(store) == expected, n
        _written(writer, VALUES // 3, at(store), overwrite=True)
    assert n > 50


def test_begun_again_between_the_old_and_the_new() -> None:
    """A group whose document a process has deleted, in a store that changes keys one by one."""

    def replaced(call: int) -> FailingStore:
        store = MemoryStore()
        _written(_copy_tree, VALUES[:20], place_in(FailingStore(store, _fail, 0, plain=True), "t/"))
        dying = FailingStore(store, _fail, call, always=True, plain=True)
        with suppress(StorageError), ending_process():
            _written(_copy_tree, VALUES, place_in(dying, "t/"), overwrite=True)
        gc.collect()
        return dying

    deleted = replaced(0).calls.index(("delete", "t/zarr.json")) + 1
    for call in (deleted + 1, deleted + 5):
        store = replaced(call).base
        assert "t/zarr.json" not in contents(store)
        to = place_in(FailingStore(store, _fail, 0, plain=True), "t/")
        _written(_copy_tree, VALUES, to, overwrite=True)
        np.testing.assert_array_equal(cw.read(to.child("x")), VALUES)
        assert not [key for key in contents(store) if ".chunkwise" in key]
