"""Two writers at one place, or one inside what the other replaces, moves or deletes, at any moments of both.

Each test draws some of the moments or combinations; the slow ones take all.  A failure shows the seed.
"""

from __future__ import annotations

import random
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import copy
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from examples import draw
from failing_store import FailingStore, contents, place_in
from rivals import STORES, Act, settle, waits_for_turn

import chunkwise as cw
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.places.staging import APPEND, COMPLETE, is_staging
from chunkwise.core.kvstore.places.take_place import replace_below
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.trees.change import delete_all, relocate
from chunkwise.core.trees.node import DOCUMENTS, find_node
from chunkwise.errors import (
    AbortedError,
    AlreadyExistsError,
    ChunkwiseError,
    NodeNotFoundError,
    NotFoundError,
)

FORMATS = ["zarr3", "zarr2", "n5"]
VALUES = {"one": np.full((6, 4), 1, "u1"), "two": np.full((9, 2), 2, "u2")}
CHUNKS = {"one": (2, 2), "two": (3, 2)}


def replace(store: KvStoreDriver, which: str, format: str) -> None:
    """Write an array over what is there."""
    array = {"chunks": CHUNKS[which], "format": format, "attributes": {"which": which}}
    cw.create_array(place_in(store, "t/"), VALUES[which], overwrite=True, **array)


def replace_by_group(store: KvStoreDriver, which: str, format: str) -> None:
    """Write a group with an array over what is there."""
    array = cw.create_group(place_in(store, "source/" + which), format=format)
    array.create_array("x", VALUES[which], chunks=CHUNKS[which])
    array.create_array("only " + which, [1])
    cw.copy_tree(place_in(store, "source/" + which), place_in(store, "t/"), format=format, overwrite=True)


def create_inside(store: KvStoreDriver, which: str, format: str) -> None:
    """Make an array inside what is there."""
    cw.create_array(place_in(store, "t/inside/x/"), VALUES[which], chunks=CHUNKS[which], format=format)


def replace_by_opening(store: KvStoreDriver, which: str, format: str) -> None:
    """Put a new array in place of what is there, as opening with `delete_existing` does."""
    fresh = MemoryStore()
    shape, chunks = VALUES[which].shape, CHUNKS[which]
    cw.create_array(place_in(fresh, "t/"), shape=shape, dtype="uint8", chunks=chunks, format=format)
    found = contents(fresh).items()
    replace_below(store, "t/", {key[2:]: value for key, value in found if key.startswith("t/")})


def delete(store: KvStoreDriver, which: str, format: str) -> None:
    """Delete what is there, as ``chunkwise rm -r`` does."""
    node = find_node(place_in(store, "t/"))
    if node is None or node.undeclared:
        raise NodeNotFoundError("t/")
    delete_all(node.location, node)


def move(store: KvStoreDriver, which: str, format: str) -> None:
    """Move what is there."""
    node = find_node(place_in(store, "t/"))
    if node is None or node.undeclared:
        raise NodeNotFoundError("t/")
    relocate(node.location, place_in(store, "moved/"), node)


ACTS: dict[str, Callable[[KvStoreDriver, str, str], None]] = {
    "opening": replace_by_opening,
    "delete": delete,
    "move": move,
    "array": replace,
    "group": replace_by_group,
    "inside": create_inside,
}


def node_at(store: KvStoreDriver) -> dict[str, bytes]:
    """Return the keys at the place, except what a killed or failed replacement may leave."""
    return {
        key: value
        for key, value in contents(store).items()
        if key.startswith("t/") and not key.endswith(APPEND) and not any(map(is_staging, key.split("/")))
    }


def filled(format: str, old: str) -> MemoryStore:
    """Return a store with the old data."""
    store = MemoryStore()
    plain = FailingStore(store, lambda: None, 0, plain=True)
    cw.create_group(place_in(plain, ""), format=format)
    if old == "group":
        cw.create_group(place_in(plain, "t/"), format=format).create_array("y", [1, 2])
    else:
        cw.create_array(place_in(plain, "t/"), np.full((8, 8), 7, "u1"), chunks=(2, 2), format=format)
    return store


def expected(format: str, old: str, act: str, which: str) -> dict[str, bytes]:
    """Return the keys after one act alone."""
    store = filled(format, old)
    with suppress(AlreadyExistsError):  # nothing can be below an array
        ACTS[act](FailingStore(store, lambda: None, 0, plain=True), which, format)
    return node_at(store)


class Outcome(NamedTuple):
    """What is at the place, and the errors of both."""

    found: dict[str, bytes]
    error: Exception | None
    other: Exception | None


def both(format: str, old: str, first: str, second: str, at: int) -> tuple[MemoryStore, Act, Act, bool]:
    """Let the second begin at a call of the first; the last value is False if there is no such call."""
    store = filled(format, old)
    plain = FailingStore(store, lambda: None, 0, plain=True)
    other = Act(lambda: ACTS[second](plain, "two", format))

    def begin() -> None:
        other.start()
        settle(other, plain)

    failing = FailingStore(store, begin, at, plain=True)
    one = Act(lambda: ACTS[first](failing, "one", format))
    one.start()
    one.join(30)
    assert not one.is_alive()
    if failing.n_calls >= at:
        other.join(30)
        assert not other.is_alive()
    return store, one, other, failing.n_calls >= at


def moments(
    some: random.Random | None,
    act: Callable[[FailingStore], object],
    store: MemoryStore,
    *,
    plain: bool = True,
) -> list[int]:
    """Return at which calls of an act the other begins: at all of them, or at some."""
    if some is None:
        return list(range(1, 400))
    alone = FailingStore(store, lambda: None, 0, plain=plain)
    with suppress(ChunkwiseError):
        act(alone)
    return sorted(some.sample(range(1, alone.n_calls + 1), min(4, alone.n_calls)))


def outcomes(some: random.Random | None, format: str, old: str, first: str, second: str) -> Iterator[Outcome]:
    """Yield what is there afterwards, for calls of the first at which the second begins."""
    before = node_at(filled(format, old))
    for at in moments(some, partial(ACTS[first], which="one", format=format), filled(format, old)):
        store, one, other, is_there = both(format, old, first, second, at)
        if not is_there:
            return
        found = node_at(store)
        if None in (one.error, other.error):
            yield Outcome(found, one.error, other.error)
        else:  # two copies have disturbed each other before either was complete
            assert found == before, (at, one.error, other.error)
    if some is None:
        pytest.fail("it never came to an end")


EACH = [pytest.param("any"), *(pytest.param(format, marks=pytest.mark.slow) for format in FORMATS)]
"""All moments in a format, or some in any."""


def drawn(format: str) -> tuple[random.Random | None, str]:
    """Return what draws the moments, if not all are taken, and the format."""
    if format != "any":
        return None, format
    some = draw()
    return some, some.choice(FORMATS)


@pytest.mark.parametrize("format", EACH)
@pytest.mark.parametrize(
    ("old", "first", "second"),
    [
        *(("array", "array", "array"), ("array", "group", "array"), ("group", "group", "group")),
        *(("array", "opening", "opening"), ("array", "array", "opening"), ("array", "opening", "array")),
    ],
)
def test_the_place_holds_one_or_the_other(old: str, first: str, second: str, format: str) -> None:
    some, format = drawn(format)
    alone = [expected(format, old, first, "one"), expected(format, old, second, "two")]
    for at, (found, *errors) in enumerate(outcomes(some, format, old, first, second)):
        if errors == [None, None]:
            assert found in alone, (at, sorted(found))
        else:
            worked = alone[errors.index(None)]  # the other may have written a document late
            assert {key: found.get(key) for key in worked} == worked, (at, sorted(found), errors)


@pytest.mark.parametrize("format", EACH)
@pytest.mark.parametrize("begins", ["replacement", "inside"])
@pytest.mark.parametrize(("old", "new"), [("array", "array"), ("array", "group"), ("group", "group")])
def test_an_array_is_made_inside_what_is_replaced(old: str, new: str, begins: str, format: str) -> None:
    some, format = drawn(format)
    order = (new, "inside") if begins == "replacement" else ("inside", new)
    replaced = expected(format, old, new, "one" if begins == "replacement" else "two")
    made = expected(format, "group", "inside", "two" if begins == "replacement" else "one")
    made = {key: value for key, value in made.items() if key.startswith("t/inside/x/")}
    for at, (found, *errors) in enumerate(outcomes(some, format, old, *order)):
        error, error_inside = errors if begins == "replacement" else errors[::-1]
        inside = {key: found.pop(key) for key in list(found) if key.startswith("t/inside/")}
        inside = {key: value for key, value in inside.items() if key.startswith("t/inside/x/")}
        is_there = any(key.rpartition("/")[2] in DOCUMENTS for key in inside)
        assert error is not None or found == replaced, (at, sorted(found), errors)
        assert not is_there or inside == made, (at, sorted(inside), errors)
        assert not is_there or new == "group" or error is not None, (at, sorted(inside), errors)
        assert is_there or error is None, (at, errors)
        assert not is_there or error_inside is None, (at, errors)


MEMBERS: dict[str, Callable[[KvStoreDriver, str], object]] = {
    "array": lambda store, format: cw.create_array(
        place_in(store, "t/y/"),
        VALUES["two"],
        chunks=CHUNKS["two"],
        format=format,
        attributes={"a": 2},
        overwrite=True,
    ),
    "group": lambda store, format: cw.create_group(
        place_in(store, "t/y/"), format=format, attributes={"a": 2}, overwrite=True
    ),
    "copy": lambda store, format: cw.copy_tree(
        place_in(store, "tree/"), place_in(store, "t/y/"), format=format, overwrite=True
    ),
    "opening": lambda store, format: replace_below(store, "t/y/", documents_of(format)),
    "new by opening": lambda store, format: create_by_opening(store, format, "t/z/"),
    "new by a transaction": lambda store, format: create_in_transaction(store, format, "t/z/"),
    "new by a copy": lambda store, format: create_by_copy(store, format, "t/z/"),
    "replaced by a transaction": lambda store, format: create_in_transaction(
        store, format, "t/y/", delete_existing=True
    ),
}
"""Ways to replace the member ``y`` of the group ``t``, and to make a member ``z``."""


def documents_of(format: str) -> dict[str, bytes]:
    """Return the documents of an array with attributes."""
    fresh = MemoryStore()
    cw.create_array(place_in(fresh, "t/"), shape=[3], dtype="u1", format=format, attributes={"a": 2})
    return {key[2:]: value for key, value in contents(fresh).items() if key.startswith("t/")}


def with_members(format: str) -> MemoryStore:
    """Return a store with the group ``t``, its member, and a tree to copy over that."""
    store = filled(format, "group")
    plain = FailingStore(store, lambda: None, 0, plain=True)
    made = cw.create_group(place_in(plain, "tree/"), format=format, attributes={"a": 2})
    made.create_array("x", VALUES["two"], chunks=CHUNKS["two"])
    return store


def below(store: KvStoreDriver, path: str) -> dict[str, bytes]:
    """Return what belongs to a node, by names."""
    return {
        key[len(path) :]: value
        for key, value in contents(store).items()
        if key.startswith(path) and not key.endswith(APPEND) and not any(map(is_staging, key.split("/")))
    }


def meet(format: str, member: str, act: str, kind: str, at: int, stands_at: int) -> tuple[bool, bool]:
    """Let a replacement begin at a call of who deletes the group around, and stand still at one of its own.

    Returns whether there are such calls.
    """
    with tempfile.TemporaryDirectory() as folder:
        store: KvStoreDriver = with_members(format)
        if kind == "files":
            store = in_files(store, folder)
        return meet_in(store, format, member, act, kind, at, stands_at)


def in_files(store: KvStoreDriver, folder: str) -> FileStore:
    """Return files with the content of a store."""
    files = FileStore(folder, sync=False)
    for key, value in contents(store).items():
        files.write(key, value)
    return files


def meet_in(
    store: KvStoreDriver, format: str, member: str, act: str, kind: str, at: int, stands_at: int
) -> tuple[bool, bool]:
    over, path = STORES[kind], "z/" if member.startswith("new") else "y/"
    alone = with_members(format)
    before = below(alone, "t/" + path)
    MEMBERS[member](over(alone, lambda: None, 0), format)
    whole = below(alone, "t/" + path)
    stands, goes = threading.Event(), threading.Event()

    def stand() -> None:
        stands.set()
        goes.wait(0.1)  # who deletes may have to wait for the replacement

    slow = over(store, stand, stands_at)
    other = Act(lambda: MEMBERS[member](slow, format))

    def begin() -> None:
        other.start()
        while other.is_alive() and not stands.wait(0.001) and not waits_for_turn(slow):
            pass

    deleting = over(store, begin, at)
    one = Act(lambda: ACTS[act](deleting, "one", format))
    one.start()
    one.join(30)
    goes.set()
    if deleting.n_calls < at:
        return False, True
    other.join(30)
    assert not one.is_alive() and not other.is_alive()
    found, moved = below(store, "t/" + path), below(store, "moved/" + path)
    errors = one.error, other.error
    if member in PIECEMEAL and not DOCUMENTS_OF_NODES.intersection(found):
        found = {}  # chunks that were written after the document had been deleted
    if other.error is None and act != "array":
        assert found in ({}, whole), (sorted(found), errors)
    elif found not in ({}, before, whole):
        kept = [key for key in contents(store) if key.endswith(COMPLETE)]
        assert kept or not DOCUMENTS_OF_NODES.intersection(found), (sorted(found), errors)
    if act == "array" or (act == "opening" and member in ("array", "copy")):  # nothing can be below it
        assert other.error is not None or one.error is not None or not found, (sorted(found), errors)
    if act == "move" and one.error is None and member not in PIECEMEAL:
        assert moved in (before, whole), (sorted(moved), errors)
    return True, slow.n_calls >= stands_at


PIECEMEAL = ("new by opening", "new by a transaction", "new by a copy", "replaced by a transaction")
"""Those that write a document before the chunks, or have no place for all of them beside."""

DOCUMENTS_OF_NODES = {"zarr.json", ".zarray", ".zgroup", "attributes.json"}
DELETERS = ["delete", "move", "array", "group", "opening"]


CELLS = list(product(FORMATS, sorted(MEMBERS), DELETERS, sorted(STORES)))


def test_a_member_is_made_or_replaced_while_what_is_around_is_deleted() -> None:
    """At each moment of both: the member is there as a whole or not at all, or there is an error."""
    some = draw()
    for cell in some.sample(CELLS, 20):
        at, stands_at = some.randint(1, 40), some.randint(1, 25)
        print(*cell, at, stands_at)
        meet(*cell, at, stands_at)


@pytest.mark.slow
@pytest.mark.parametrize(("format", "member", "act", "kind"), CELLS)
def test_a_member_is_made_or_replaced_at_many_moments_of_who_deletes(
    format: str, member: str, act: str, kind: str
) -> None:
    for at in range(1, 200, 7):
        for stands_at in range(1, 200, 5):
            is_deleting, is_there = meet(format, member, act, kind, at, stands_at)
            if not is_deleting:
                return
            if not is_there:
                break


def spec_of(store: KvStoreDriver, format: str, path: str) -> dict[str, Any]:
    """Return the spec of a new array with chunks of 2 × 2."""
    driver = {"zarr3": "zarr3", "zarr2": "zarr", "n5": "n5"}[format]
    schema = {"dtype": "uint8", "domain": {"shape": [8, 8]}, "chunk_layout": {"chunk": {"shape": [2, 2]}}}
    return {"driver": driver, "kvstore": place_in(store, path).kvstore(), "create": True, "schema": schema}


def create_by_opening(store: KvStoreDriver, format: str, path: str = "t/") -> None:
    """Make an array by its spec where there is none, and write parts of chunks and whole ones."""
    fill(cw.open(spec_of(store, format, path)).result())


def fill(array: Any) -> None:
    array[0, :].write(9).result()
    array[3:6].write(8).result()


def create_in_transaction(
    store: KvStoreDriver, format: str, path: str = "t/", *, delete_existing: bool = False
) -> None:
    """Do the same in a transaction."""
    with cw.Transaction() as transaction:
        spec = {**spec_of(store, format, path), "delete_existing": delete_existing}
        fill(cw.open(spec, transaction=transaction).result())


def replace_in_transaction(store: KvStoreDriver, which: str, format: str) -> None:
    """Replace an array by one with other elements in a transaction."""
    with cw.Transaction() as transaction:
        spec = {**spec_of(store, format, "t/"), "delete_existing": True}
        cw.open(spec, transaction=transaction).result()[1:7, 3].write(5).result()


def create_by_copy(store: KvStoreDriver, format: str, path: str = "t/") -> None:
    """Copy an array with these elements to where there is none."""
    source = np.zeros((8, 8), "u1")
    source[0], source[3:6] = 9, 8
    cw.copy(cw.array(source), place_in(store, path), format=format, chunks=(2, 2))


CREATORS: dict[str, Callable[[KvStoreDriver, str], None]] = {
    "opening": create_by_opening,
    "transaction": create_in_transaction,
    "replacing transaction": partial(create_in_transaction, delete_existing=True),
    "copy": create_by_copy,
}


@pytest.mark.parametrize("format", EACH)
@pytest.mark.parametrize("creator", CREATORS)
@pytest.mark.parametrize("act", ["array", "opening", "delete"])
def test_an_array_is_created_while_what_was_there_is_replaced(act: str, creator: str, format: str) -> None:
    """It has the elements that were written to it alone, or there is the other; neither is lost silently."""
    some, format = drawn(format)
    made = np.zeros((8, 8), "u1")
    made[0], made[3:6] = 9, 8
    first = partial(ACTS[act], which="one", format=format)
    for at in moments(some, first, filled(format, "array")):
        store = filled(format, "array")
        plain = FailingStore(store, lambda: None, 0, plain=True)
        other = Act(partial(CREATORS[creator], plain, format))

        def begin(other: Act = other, plain: FailingStore = plain) -> None:
            other.start()
            settle(other, plain)

        failing = FailingStore(store, begin, at, plain=True)
        one = Act(partial(first, failing))
        one.start()
        one.join(30)
        assert not one.is_alive()
        if failing.n_calls < at:
            return
        other.join(30)
        assert not other.is_alive()
        errors = at, one.error, other.error
        node = find_node(place_in(plain, "t/"))
        found = None if node is None or node.kind != "array" else cw.read(place_in(plain, "t/"))
        replaced = VALUES["one"] * (act == "array")
        if creator == "copy" and None not in errors:  # neither is there, or what was
            assert found is None or np.array_equal(found, np.full((8, 8), 7)), errors
            continue
        assert one.error is None or other.error is None, errors
        if creator == "replacing transaction" and errors[1:] == (None, None) and act != "delete":
            assert np.array_equal(found, made) or np.array_equal(found, replaced), errors
        elif one.error is None and act != "delete":
            assert isinstance(other.error, AlreadyExistsError | AbortedError), errors
            assert np.array_equal(found, replaced), errors
        elif other.error is None:
            assert np.array_equal(found, made) or (creator[0] == "r" and found is None), errors
    if some is None:
        pytest.fail("it never came to an end")


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["directories", "files"])
@pytest.mark.parametrize("act", ["array", "opening", "transaction"])
@pytest.mark.parametrize("begins", ["exchange", "transaction"])
def test_a_transaction_replaces_what_is_exchanged(begins: str, act: str, kind: str, every: bool) -> None:
    """Directories are exchanged, and transactions write key by key: one or the other is there."""
    some, format = (None, "zarr3") if every else drawn("any")
    acts: dict[str, Callable[[KvStoreDriver], None]] = {
        "transaction": lambda store: create_in_transaction(store, format, delete_existing=True),
        "exchange": lambda store: ACTS.get(act, replace_in_transaction)(store, "one", format),
    }
    first, second = acts[begins], acts["exchange" if begins == "transaction" else "transaction"]
    alone = []
    for one in acts.values():
        store = filled(format, "array")
        one(STORES[kind](store, lambda: None, 0))
        alone.append(node_at(store))
    for at in moments(some, first, filled(format, "array"), plain=False):
        with tempfile.TemporaryDirectory() as folder:
            store = (
                filled(format, "array")
                if kind == "directories"
                else in_files(filled(format, "array"), folder)
            )
            others = STORES[kind](store, lambda: None, 0)
            other = Act(partial(second, others))

            def begin(other: Act = other, others: FailingStore = others) -> None:
                other.start()
                settle(other, others)

            failing = STORES[kind](store, begin, at)
            run = Act(partial(first, failing))
            run.start()
            run.join(30)
            assert not run.is_alive()
            if failing.n_calls < at:
                return
            other.join(30)
            assert not other.is_alive()
            for error in (run.error, other.error):  # the other was faster when it opens what it made
                assert error is None or isinstance(error, NotFoundError), at
            assert node_at(store) in alone, (at, sorted(node_at(store)))
    if some is None:
        pytest.fail("it never came to an end")


def volume(store: KvStoreDriver, value: int, **mode: bool) -> None:
    """Make a precomputed volume and write it."""
    spec = {"driver": "neuroglancer_precomputed", "kvstore": place_in(store, "t/").kvstore(), **mode}
    layout = {"chunk": {"shape": [4, 4, 1, 1]}}
    schema = {"dtype": "uint8", "domain": {"shape": [8, 8, 1, 1]}, "chunk_layout": layout}
    cw.open({**spec, "create": True, "schema": schema}).result().write(value).result()


def copied_volume(store: KvStoreDriver, value: int, *, overwrite: bool = False) -> None:
    """Copy an array to a precomputed volume."""
    array = cw.array(np.full((8, 8, 1), value, "u1"))
    cw.copy(array, place_in(store, "t/"), format="neuroglancer_precomputed", chunks=4, overwrite=overwrite)


def values_of_volume(store: KvStoreDriver) -> set[int]:
    if store.read("t/info").value is None:
        return set()
    spec = {"driver": "neuroglancer_precomputed", "kvstore": place_in(store, "t/").kvstore()}
    return set(np.unique(cw.open(spec).result().read().result()).tolist())


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("second", [volume, copied_volume])
@pytest.mark.parametrize(
    "first", [partial(volume, delete_existing=True), partial(copied_volume, overwrite=True)]
)
def test_a_volume_is_created_while_what_was_there_is_replaced(first: Any, second: Any, every: bool) -> None:
    """It has the elements of one of them; neither is lost without an error."""
    old = MemoryStore()
    volume(FailingStore(old, lambda: None, 0, plain=True), 7)
    for at in moments(None if every else draw(), lambda store: first(store, 1), copy(old)):
        store = copy(old)
        plain = FailingStore(store, lambda: None, 0, plain=True)
        other = Act(partial(second, plain, 2))

        def begin(other: Act = other, plain: FailingStore = plain) -> None:
            other.start()
            settle(other, plain)

        failing = FailingStore(store, begin, at, plain=True)
        one = Act(partial(first, failing, 1))
        one.start()
        one.join(30)
        assert not one.is_alive()
        if failing.n_calls < at:
            return
        other.join(30)
        assert not other.is_alive()
        made = [{value} for value, act in ((1, one), (2, other)) if act.error is None]
        assert values_of_volume(plain) in (made or [set(), {7}]), (at, one.error, other.error)


@pytest.mark.parametrize("format", EACH)
@pytest.mark.parametrize("order", ["replacement", "other"])
@pytest.mark.parametrize("act", ["delete", "move"])
@pytest.mark.parametrize(("old", "new"), [("array", "array"), ("group", "group")])
def test_deleting_what_is_replaced(old: str, new: str, act: str, order: str, format: str) -> None:
    """What the replacement has written is there as a whole, or was deleted as a whole."""
    some, format = drawn(format)
    acts = (new, act) if order == "replacement" else (act, new)
    replaced = expected(format, old, new, "one" if order == "replacement" else "two")
    for at, (found, *errors) in enumerate(outcomes(some, format, old, *acts)):
        error, other = errors if order == "replacement" else errors[::-1]
        assert other is None or isinstance(other, NodeNotFoundError), (at, other)
        assert error is None or found == {}, (at, error)  # before it has begun, or when it opens what it made
        assert not isinstance(error, AbortedError), (at, error)
        assert found in (replaced, {}), (at, sorted(set(found.items()) ^ set(replaced.items())))


def test_others_write_to_an_archive_meanwhile(tmp_path: Any) -> None:
    """Each change is one of all keys; replacements, copies and moves of others go on all the same."""
    place = f"file://{tmp_path}/a.zip|zip:"
    group = cw.create_group(place)
    group.create_array("t", VALUES["one"])
    other = group.create_array("other", np.zeros(8, "u1"))
    ended = threading.Event()

    def write() -> None:
        while not ended.is_set():
            other[0].write(1).result()

    writer = Act(write)
    writer.start()
    for value in (1, 2):
        array = np.full((8, 8), value, "u1")
        cw.create_array(f"{place}t", array, chunks=(4, 4), overwrite=True)
        cw.copy(array + 2, f"{place}t", chunks=(4, 4), overwrite=True)
        assert (cw.read(f"{place}t") == value + 2).all()
    group.move("t", "moved")
    assert (cw.read(f"{place}moved") == 4).all()
    ended.set()
    writer.join(30)
    assert writer.error is None
