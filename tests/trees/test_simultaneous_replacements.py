"""Two replacements of one place at the same time, in a store that changes keys one by one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace as replace_fields
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from failing_store import FailingStore, contents, place_in
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as cw
from chunkwise.core.arrays.open_chunked import open_chunked
from chunkwise.core.index_space import IndexTransform
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.kvstore.staging import APPEND, COMPLETE, is_staging
from chunkwise.core.kvstore.take_place import replace_below
from chunkwise.core.trees.change import delete_all, relocate
from chunkwise.core.trees.node import DOCUMENTS, find_node
from chunkwise.errors import AbortedError, AlreadyExistsError, ChunkwiseError, NodeNotFoundError

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


class Act(threading.Thread):
    """One of the two; keeps its error."""

    def __init__(self, run: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._act, self.error = run, None

    def run(self) -> None:
        try:
            self._act()
        except ChunkwiseError as e:
            self.error = e


def both(format: str, old: str, first: str, second: str, at: int) -> tuple[MemoryStore, Act, Act, bool]:
    """Let the second begin at a call of the first; the last value is False if there is no such call."""
    store = filled(format, old)
    other = Act(lambda: ACTS[second](FailingStore(store, lambda: None, 0, plain=True), "two", format))

    def begin() -> None:
        other.start()
        other.join(0.05)

    failing = FailingStore(store, begin, at, plain=True)
    one = Act(lambda: ACTS[first](failing, "one", format))
    one.start()
    one.join(30)
    assert not one.is_alive()
    if failing.n_calls >= at:
        other.join(30)
        assert not other.is_alive()
    return store, one, other, failing.n_calls >= at


def outcomes(format: str, old: str, first: str, second: str, step: int) -> Iterator[Outcome]:
    """Yield what is there afterwards, for each call of the first at which the second begins."""
    before = node_at(filled(format, old))
    for at in range(1, 400, step):
        store, one, other, is_there = both(format, old, first, second, at)
        if not is_there:
            return
        found = node_at(store)
        if None in (one.error, other.error):
            yield Outcome(found, one.error, other.error)
        else:  # two copies have disturbed each other before either was complete
            assert found == before, (at, one.error, other.error)
    pytest.fail("it never came to an end")


EACH = [pytest.param("zarr3", 7), *(pytest.param(format, 1, marks=pytest.mark.slow) for format in FORMATS)]
"""Format, and at how many calls the second begins."""


@pytest.mark.parametrize(("format", "step"), EACH)
@pytest.mark.parametrize(
    ("old", "first", "second"),
    [
        *(("array", "array", "array"), ("array", "group", "array"), ("group", "group", "group")),
        *(("array", "opening", "opening"), ("array", "array", "opening"), ("array", "opening", "array")),
    ],
)
def test_the_place_holds_one_or_the_other(old: str, first: str, second: str, format: str, step: int) -> None:
    alone = [expected(format, old, first, "one"), expected(format, old, second, "two")]
    for at, (found, *errors) in enumerate(outcomes(format, old, first, second, step)):
        if errors == [None, None]:
            assert found in alone, (at, sorted(found))
        else:
            worked = alone[errors.index(None)]  # the other may have written a document late
            assert {key: found.get(key) for key in worked} == worked, (at, sorted(found), errors)


@pytest.mark.parametrize(("format", "step"), EACH)
@pytest.mark.parametrize("begins", ["replacement", "inside"])
@pytest.mark.parametrize(("old", "new"), [("array", "array"), ("array", "group"), ("group", "group")])
def test_an_array_is_made_inside_what_is_replaced(
    old: str, new: str, begins: str, format: str, step: int
) -> None:
    order = (new, "inside") if begins == "replacement" else ("inside", new)
    replaced = expected(format, old, new, "one" if begins == "replacement" else "two")
    made = expected(format, "group", "inside", "two" if begins == "replacement" else "one")
    made = {key: value for key, value in made.items() if key.startswith("t/inside/x/")}
    for at, (found, *errors) in enumerate(outcomes(format, old, *order, step)):
        error, error_inside = errors if begins == "replacement" else errors[::-1]
        inside = {key: found.pop(key) for key in list(found) if key.startswith("t/inside/")}
        inside = {key: value for key, value in inside.items() if key.startswith("t/inside/x/")}
        is_there = any(key.rpartition("/")[2] in DOCUMENTS for key in inside)
        assert error is not None or found == replaced, (at, sorted(found), errors)
        assert not is_there or inside == made, (at, sorted(inside), errors)
        assert not is_there or new == "group" or error is not None, (at, sorted(inside), errors)
        assert is_there or error is None, (at, errors)
        assert not is_there or error_inside is None, (at, errors)


def replace_member(store: KvStoreDriver, which: str, format: str) -> None:
    """Write an array over a member of the group."""
    array = {"chunks": CHUNKS[which], "format": format}
    cw.create_array(place_in(store, "t/y/"), VALUES[which], overwrite=True, **array)


@pytest.mark.parametrize(("format", "step"), EACH)
@pytest.mark.parametrize("deleted_first", [True, False])
def test_a_member_is_replaced_while_its_group_is_deleted(deleted_first: bool, format: str, step: int) -> None:
    """The member is there as a whole, or not at all, or its replacement is an error."""
    acts = [partial(delete, which="one", format=format), partial(replace_member, which="two", format=format)]
    first, second = acts if deleted_first else acts[::-1]
    plain = FailingStore(filled(format, "group"), lambda: None, 0, plain=True)
    replace_member(plain, "two", format)
    whole = {key: value for key, value in node_at(plain).items() if key.startswith("t/y/")}
    for at in range(1, 400, step):
        store = filled(format, "group")
        other = Act(partial(second, FailingStore(store, lambda: None, 0, plain=True)))

        def begin(other: Act = other) -> None:
            other.start()
            other.join(0.05)

        failing = FailingStore(store, begin, at, plain=True)
        one = Act(partial(first, failing))
        one.start()
        one.join(30)
        assert not one.is_alive()
        if failing.n_calls < at:
            return
        other.join(30)
        assert not other.is_alive()
        error = (other if deleted_first else one).error
        found = {key: value for key, value in node_at(store).items() if key.startswith("t/y/")}
        assert error is not None or found in ({}, whole), (at, sorted(found), one.error, other.error)
    pytest.fail("it never came to an end")


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
}
"""Ways to replace the member ``y`` of the group ``t``."""


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


class OneByOne(FailingStore):
    """A store that deletes key after key."""

    def __getattribute__(self, name: str) -> Any:
        if name == "delete_where":
            raise AttributeError(name)
        return super().__getattribute__(name)

    def __getattr__(self, name: str) -> Any:
        if name == "delete_where":
            raise AttributeError(name)
        return super().__getattr__(name)


STORES: dict[str, Callable[..., FailingStore]] = {
    "directories": FailingStore,
    "pages": partial(FailingStore, plain=True),
    "keys": partial(OneByOne, plain=True),
}


def meet(format: str, member: str, act: str, at: int, stands_at: int, kind: str) -> tuple[bool, bool]:
    """Let a replacement begin at a call of who deletes the group around, and stand still at one of its own.

    Returns whether there are such calls.
    """
    over = STORES[kind]
    alone = with_members(format)
    before = below(alone, "t/y/")
    MEMBERS[member](over(alone, lambda: None, 0), format)
    whole = below(alone, "t/y/")
    store, stands, goes = with_members(format), threading.Event(), threading.Event()

    def stand() -> None:
        stands.set()
        goes.wait(0.1)  # who deletes may have to wait for the replacement

    slow = over(store, stand, stands_at)
    other = Act(lambda: MEMBERS[member](slow, format))

    def begin() -> None:
        other.start()
        while other.is_alive() and not stands.wait(0.001):
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
    found, moved, errors = below(store, "t/y/"), below(store, "moved/y/"), (one.error, other.error)
    if other.error is None and act != "array":
        assert found in ({}, whole), (sorted(found), errors)
    elif found not in ({}, before, whole):
        kept = [key for key in contents(store) if key.endswith(COMPLETE)]
        makes_a_node = {"zarr.json", ".zarray", ".zgroup", "attributes.json"}.intersection(found)
        assert kept or not makes_a_node, (sorted(found), errors)
    if act == "array" or (act == "opening" and member in ("array", "copy")):  # nothing can be below it
        assert other.error is not None or one.error is not None or not found, (sorted(found), errors)
    if act == "move" and one.error is None:
        assert moved in (before, whole), (sorted(moved), errors)
    return True, slow.n_calls >= stands_at


DELETERS = ["delete", "move", "array", "group", "opening"]


@given(
    st.sampled_from(FORMATS),
    st.sampled_from(sorted(MEMBERS)),
    st.sampled_from(DELETERS),
    st.integers(1, 40),
    st.integers(1, 25),
    st.sampled_from(sorted(STORES)),
)
@settings(max_examples=25, deadline=None)
def test_a_member_is_replaced_while_what_is_around_is_deleted(
    format: str, member: str, act: str, at: int, stands_at: int, kind: str
) -> None:
    """At each moment of both: the member is there as a whole or not at all, or there is an error."""
    meet(format, member, act, at, stands_at, kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(STORES))
@pytest.mark.parametrize("act", DELETERS)
@pytest.mark.parametrize("member", sorted(MEMBERS))
@pytest.mark.parametrize("format", FORMATS)
def test_a_member_is_replaced_at_many_moments_of_who_deletes(
    format: str, member: str, act: str, kind: str
) -> None:
    for at in range(1, 200, 7):
        for stands_at in range(1, 200, 5):
            is_deleting, is_there = meet(format, member, act, at, stands_at, kind)
            if not is_deleting:
                return
            if not is_there:
                break


def create_by_opening(store: KvStoreDriver, format: str) -> None:
    """Make an array by its spec where there is none, and write parts of chunks and whole ones."""
    driver = {"zarr3": "zarr3", "zarr2": "zarr", "n5": "n5"}[format]
    schema = {"dtype": "uint8", "domain": {"shape": [8, 8]}, "chunk_layout": {"chunk": {"shape": [2, 2]}}}
    spec = cw.Spec({"driver": driver, "create": True, "schema": schema})._driver.bind(cw.Context())
    bound: Any = replace_fields(spec, kvstore=place_in(store, "t/").kvstore())
    opened = open_chunked(bound, readable=True, writable=True)
    array = cw.TensorStore._make(opened, IndexTransform.identity(opened.domain))
    array[0, :].write(9).result()
    array[3:6].write(8).result()


@pytest.mark.parametrize(("format", "step"), EACH)
@pytest.mark.parametrize("act", ["array", "opening", "delete"])
def test_an_array_is_created_while_what_was_there_is_replaced(act: str, format: str, step: int) -> None:
    """It has the elements that were written to it alone, or there is the other; neither is lost silently."""
    for at in range(1, 400, step):
        store = filled(format, "array")
        plain = FailingStore(store, lambda: None, 0, plain=True)
        other = Act(partial(create_by_opening, plain, format))

        def begin(other: Act = other) -> None:
            other.start()
            other.join(0.05)

        failing = FailingStore(store, begin, at, plain=True)
        one = Act(partial(ACTS[act], failing, "one", format))
        one.start()
        one.join(30)
        assert not one.is_alive()
        if failing.n_calls < at:
            return
        other.join(30)
        assert not other.is_alive()
        errors = at, one.error, other.error
        assert one.error is None or other.error is None, errors
        if one.error is None and act != "delete":
            assert isinstance(other.error, AlreadyExistsError), errors
            replaced = VALUES["one"] * (act == "array")
            assert np.array_equal(cw.read(place_in(plain, "t/")), replaced), errors
        elif other.error is None:
            made = np.zeros((8, 8), "u1")
            made[0], made[3:6] = 9, 8
            assert np.array_equal(cw.read(place_in(plain, "t/")), made), errors
    pytest.fail("it never came to an end")


@pytest.mark.parametrize(("format", "step"), EACH)
@pytest.mark.parametrize("order", ["replacement", "other"])
@pytest.mark.parametrize("act", ["delete", "move"])
@pytest.mark.parametrize(("old", "new"), [("array", "array"), ("group", "group")])
def test_deleting_what_is_replaced(old: str, new: str, act: str, order: str, format: str, step: int) -> None:
    """What the replacement has written is there as a whole, or was deleted as a whole."""
    acts = (new, act) if order == "replacement" else (act, new)
    replaced = expected(format, old, new, "one" if order == "replacement" else "two")
    for at, (found, *errors) in enumerate(outcomes(format, old, *acts, step)):
        error, other = errors if order == "replacement" else errors[::-1]
        assert other is None or isinstance(other, NodeNotFoundError), (at, other)
        assert error is None or found == {}, (at, error)  # before it has begun, or when it opens what it made
        assert not isinstance(error, AbortedError), (at, error)
        assert found in (replaced, {}), (at, sorted(set(found.items()) ^ set(replaced.items())))
