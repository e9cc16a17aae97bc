"""Pyramids whose writing ends at any of its requests: they are no images, and another run continues them."""

from __future__ import annotations

import gc
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from failing_store import FailingStore, contents, ending_process

import chunkwise as cw
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.trees.node import JOURNAL
from chunkwise.errors import AlreadyExistsError, FailedPreconditionError, StorageError

IMAGE = np.random.default_rng(0).integers(0, 1 << 16, (40, 36), "u2")
FORMATS = {"ome-ngff-0.5": "zarr3", "ome-ngff-0.4": "zarr2", "n5-viewer": "n5"}


def written(store: Any, values: Any = IMAGE, **options: Any) -> cw.Pyramid:
    """Write a pyramid with one thread, so that requests come in one order."""
    array = cw.array(values).label["y", "x"]
    how = {"chunks": [8, 8], "levels": 2, "factors": [2, 2], "codec": "none", "name": "p", "sync": False}
    with ThreadPoolExecutor(1) as threads:
        return cw.downsample_pyramid(array, store, executor=threads, **{**how, **options}).result()


def beside(store: Any, **options: Any) -> cw.Pyramid:
    """Write the levels below the first, which is there."""
    spec = {"driver": "object", "object": store}
    with ThreadPoolExecutor(1) as threads:
        return cw.downsample_pyramid(
            {**spec, "path": "0/"}, executor=threads, levels=2, factors=[2, 2], sync=False, **options
        ).result()


def _fail() -> None:
    raise StorageError("the process has ended")


def dies_at(store: KvStoreDriver, call: int, kind: str) -> FailingStore:
    """Return a store that fails from a call on; one that changes "keys" has no directories."""
    return FailingStore(store, _fail, call, always=True, plain=kind == "keys")


def _span_of_journal(store: FailingStore) -> tuple[int, int]:
    """Return the first request with which the journal is there, and the one that deletes it."""
    numbered = list(enumerate(store.calls, 1))
    first = next(n for n, call in numbered if call == ("write", JOURNAL))
    return first + 1, next(n for n, call in numbered[::-1] if call == ("delete", JOURNAL))


@pytest.mark.parametrize(
    ("convention", "memory", "state", "kind", "step"),
    [
        ("ome-ngff-0.5", 1, "absent", "keys", 41),
        ("n5-viewer", 1, "same", "directories", 29),
        ("ome-ngff-0.4", "10MB", "same", "keys", 31),
        *(
            pytest.param(convention, memory, state, kind, 11, marks=pytest.mark.slow)
            for convention in FORMATS
            for memory in (1, "10MB")
            for state in ("absent", "same")
            for kind in ("directories", "keys")
        ),
    ],
)
def test_the_driver_ends_at_any_request(
    convention: str, memory: Any, state: str, kind: str, step: int
) -> None:
    options: dict[str, Any] = {"convention": convention, "memory": memory, "verify": memory == 1}
    overwrite = {"overwrite": state == "same"}

    def begun_in() -> MemoryStore:
        store = MemoryStore()
        if state == "same":  # it has other values, and is replaced when all levels are there
            written(store, IMAGE // 2, convention=convention)
        return store

    whole = dies_at(begun_in(), 0, kind)
    written(whole, **options, **overwrite)
    expected, n_calls = contents(whole.base), whole.n_calls
    assert not [key for key in expected if ".chunkwise" in key]
    first, last = _span_of_journal(whole)
    n_unfinished = 0
    for n in range(step, n_calls, step):
        base = begun_in()
        with suppress(StorageError), ending_process():
            written(dies_at(base, n, kind), **options, **overwrite)
        gc.collect()  # or whoever began it might be at work still
        found = contents(base)
        begun = found.pop(JOURNAL, None) is not None
        assert begun == (first <= n <= last), n
        n_unfinished += begun
        # In N5, arrays called s0, s1 ... are an image without attributes, too.
        if begun and state == "absent" and found != expected and convention != "n5-viewer":
            with pytest.raises(ValueError, match=r"multiscale|OME|image|unfinished"):
                cw.open_multiscale(base)
        if begun:
            with pytest.raises(AlreadyExistsError, match="begun and not finished"):
                written(dies_at(base, 0, kind), **options)
        elif found == expected:  # all was done
            continue
        how = {"resume": True} if begun else overwrite
        made = written(dies_at(base, 0, kind), **options, **how)
        assert np.array_equal(made.levels[0].read().result(), IMAGE if convention != "n5-viewer" else IMAGE.T)
        assert contents(base) == expected, n
    assert n_unfinished >= (last - first) // step > 1


@pytest.mark.parametrize("step", [17, pytest.param(3, marks=pytest.mark.slow)])
def test_levels_beside_the_first(step: int) -> None:
    def first() -> MemoryStore:
        store = MemoryStore()
        written(store, levels=0)
        return store

    whole = dies_at(first(), 0, "directories")
    beside(whole, memory=1)
    expected = contents(whole.base)
    for n in range(1, whole.n_calls, step):
        base = first()
        before = contents(base)
        with suppress(StorageError):
            beside(dies_at(base, n, "directories"), memory=1)
        gc.collect()
        found = contents(base)
        if found == expected:
            continue
        if JOURNAL not in found:
            assert found == before
        is_whole = {key: value for key, value in found.items() if key != JOURNAL} == expected
        assert len(cw.open_multiscale(base).levels) == (3 if is_whole else 1)
        beside(dies_at(base, 0, "directories"), memory=1, resume=JOURNAL in found)
        assert contents(base) == expected, n


def test_begun_again_after_a_kill() -> None:
    """An unfinished pyramid, of which nothing is an array yet, is replaced by another one."""
    whole = MemoryStore()
    written(whole, IMAGE // 3, levels=1)
    for n in (30, 60, 90):
        base = MemoryStore()
        with pytest.raises(StorageError):
            written(dies_at(base, n, "directories"), memory=1)
        gc.collect()
        written(base, IMAGE // 3, levels=1, overwrite=True)
        found = contents(base)
        assert {key: found[key] for key in contents(whole)} == contents(whole)
        assert not [key for key in found if ".chunkwise" in key]


@pytest.mark.parametrize(
    "members", [{}, {"passes": 1}, {"passes": [{"levels together": 9}]}, {"steps": None}]
)
def test_journals_of_others_are_refused_by_name(members: dict[str, Any]) -> None:
    """Such as those of earlier versions, which had one for the pyramid and one for each level."""
    base = MemoryStore()
    with pytest.raises(StorageError):
        written(dies_at(base, 60, "directories"), memory=1)
    gc.collect()
    journal = json.loads(bytes(base.read(JOURNAL).value or b""))
    if not members:
        del journal["task"]["passes"]
        journal |= {"tasks": [3], "done": [[]], "fingerprints": ["0" * 16], "owner": None}
    journal["task"] |= members
    journal["task"] = {name: value for name, value in journal["task"].items() if value is not None}
    base.write(JOURNAL, json.dumps(journal).encode())
    before = contents(base)
    with pytest.raises(FailedPreconditionError, match=r"can't be resumed: .*(earlier version|passes)"):
        written(base, memory=1, resume=True)
    assert contents(base) == before
    written(base, memory=1, overwrite=True)
    assert JOURNAL not in contents(base)
