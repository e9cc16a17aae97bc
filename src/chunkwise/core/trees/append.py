"""``Append``: rows added to one array, or to several together, which others see all at once or not at all.

1. The document ``.chunkwise-append.json`` of each array is taken (`chunkwise.core.kvstore.lease`): whoever
   appends to one of them waits.  That of the first array is the *record*, the others name it.
2. The rows are written to chunks beyond the end of the arrays, where no reader looks, by stores that look at
   the record and the shape before each write.
3. The record says that the rows are complete.  This is the moment at which the append has happened.
4. The arrays get their new shapes, and copies of these in groups above are changed together.
5. The documents are deleted, the record last.

The next append, of any process, finds the record of one that was killed.  Before step 3 the rows are cleared;
after it, steps 4 and 5 are done.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias
from uuid import uuid4

import numpy as np

from chunkwise.core.arrays.open_chunked import open_chunked
from chunkwise.core.base.binding import JSON
from chunkwise.core.driver.chunked.spec import ChunkedSpec
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.driver.tree_formats import DRIVERS, tree_format
from chunkwise.core.engine.pool import Pool
from chunkwise.core.engine.together import together
from chunkwise.core.engine.write import write_from
from chunkwise.core.index_space import IndexDomain, IndexTransform
from chunkwise.core.kvstore.adapter.guarded import GuardedStore
from chunkwise.core.kvstore.lease import Lease, Patience, check_owner, parse_lease
from chunkwise.core.kvstore.protocol import Buffer, KvStoreDriver, Stamped
from chunkwise.core.kvstore.staging import APPEND
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.kvstore.value_bound import read_bounded
from chunkwise.core.plan.plan import plan_read
from chunkwise.core.specs.context import Context
from chunkwise.core.specs.spec import Spec
from chunkwise.core.trees.consolidated import update_consolidated
from chunkwise.core.trees.document import change_document, read_document
from chunkwise.core.trees.location import Location
from chunkwise.errors import (
    AbortedError,
    ChunkwiseError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    ResizedError,
    UnsafeWriteError,
)

__all__ = ["Append", "Growing", "NewRows", "appending", "sizes_before"]

_ABOUT = "rows are being appended by chunkwise; the next append finishes or clears what a killed process left"

Opener: TypeAlias = Callable[[], "tuple[StoredArray, KvStoreDriver, Pool]"]


@dataclass(frozen=True)
class Growing:
    """An array that gets `n_rows` more along `axis`, which counts as in its metadata document."""

    location: Location
    format: FormatName
    axis: int
    n_rows: int
    open: Opener | None = None  # how its chunks are written, if not by the general drivers
    updates_copies: bool = True

    @property
    def document_key(self) -> str:
        """Key of the document with the shape."""
        return self.location.path + tree_format(self.format).array_key

    def shape(self) -> tuple[int, ...]:
        """Return the stored shape."""
        return _shape_in(read_document(self.location.store, self.document_key), self)

    def resize(self, before: int, after: int, check: Callable[[], None]) -> None:
        """Change the size along the axis; raise ResizedError if it is neither `before` nor `after`."""
        member = tree_format(self.format).shape_member

        def change(document: Any) -> Any:
            shape = _shape_in(document, self)
            if shape[self.axis] == after:
                return document
            _check_size(self, shape[self.axis], before)
            check()
            return {**document, member: [*shape[: self.axis], after, *shape[self.axis + 1 :]]}

        change_document(self.location.store, self.document_key, change, load=tree_format(self.format).load)

    def clear(self, check: Callable[[], None]) -> None:
        """Remove rows beyond the end of the array."""
        stored, base, pool = _open(self) if self.open is None else self.open()
        store = _guarded(base, check)
        size = stored.shape[self.axis]
        long = replace(stored, shape=_with(stored.shape, self.axis, size + self.n_rows))
        edge = min(stored.grid.cell(self.axis, size - 1)[2] if size else 0, size + self.n_rows)
        if edge > size:  # the last chunk has room
            rows = _rows(long, self.axis, size, edge)
            values = np.broadcast_to(np.asarray(stored.fill_value, stored.numpy_dtype), rows.input_shape)
            write_from(long, store, rows, values, pool=pool).result()
        beyond = plan_read(_rows(long, self.axis, max(edge, size), size + self.n_rows), stored.grid)
        together(store, store.delete, list(beyond.keys(stored.keys)))


class _Record(NamedTuple):
    """The record of an append, as stored at its first array."""

    leader: Location
    found: Stamped
    document: dict[str, Any]

    def entries(self) -> dict[str, dict[str, Any]]:
        """Return what is said of each array, by its path."""
        return {_at(self.leader, name).path: entry for name, entry in self.document["arrays"].items()}


@dataclass(frozen=True)
class NewRows:
    """Rows beyond the end of an array; a function from its store to the one that they are written with."""

    array: Growing
    start: int
    record_key: str
    owner: str

    @property
    def stop(self) -> int:
        """Size of the array with the rows."""
        return self.start + self.array.n_rows

    def __call__(self, base: KvStoreDriver, atomic: bool) -> KvStoreDriver:
        return _guarded(base, self._check)

    def _check(self) -> None:
        check_owner(self.array.location.store, self.record_key, self.owner)
        _check_size(self.array, self.array.shape()[self.array.axis], self.start)


class Append:
    """An append to arrays that this process has taken; made by `appending`."""

    def __init__(self, lease: Lease, arrays: Sequence[Growing]) -> None:
        self._lease = lease
        self._arrays = arrays
        sizes = together(arrays[0].location.store, lambda array: array.shape()[array.axis], arrays)
        self._before = dict(zip(map(_path, arrays), sizes, strict=True))
        self.is_committed = self._is_over = False

    def size(self, array: Growing) -> int:
        """Return the size of an array before the append."""
        return self._before[_path(array)]

    def __contains__(self, array: Growing) -> bool:
        return _path(array) in self._before

    def new_rows(self, array: Growing) -> NewRows:
        """Return the rows that an array gets."""
        return NewRows(array, self.size(array), self._lease.key, self._lease.owner)

    def commit(self) -> None:
        """Make the rows visible, all of which are stored."""
        state = _state_of(self._lease.state["id"], self._arrays, self._before)
        several = len(self._arrays) > 1  # of which a loss of power must not leave some
        self._lease.change({**state, "state": "complete"}, durable=several)
        self.is_committed = True
        self._finish()

    def _finish(self, *, late: bool = False) -> None:
        with suppress(AbortedError):  # whoever has taken over makes them visible
            _finish(self._lease, self._arrays, self._before, late=late)
        self._is_over = True

    def end(self) -> None:
        """Clear rows that were not committed; make others visible, if that failed."""
        try:
            if not self.is_committed:
                _undo(self._lease, self._arrays)
            elif not self._is_over:
                self._finish(late=True)
        except ChunkwiseError:  # the store may have failed for good: the next append does it
            pass
        finally:
            self._lease.forget()


@contextmanager
def appending(arrays: Sequence[Growing]) -> Iterator[Append]:
    """Take arrays for an append, once others have ended theirs; clear its rows unless the block commits them.

    Raises
    ------
    UnsafeWriteError
        If the store has no conditional writes.
    """
    for array in arrays:
        _check_promise(array.location)
    if len({array.location.store.identity for array in arrays}) > 1:
        raise InvalidArgumentError("append: the arrays are in different stores, and can't grow together")
    if len(set(map(_path, arrays))) < len(arrays):
        raise InvalidArgumentError("append: two of the arrays are the same one")
    append = _take(sorted(arrays, key=_path))
    try:
        yield append
    finally:
        append.end()


def sizes_before(arrays: Mapping[str, tuple[Location, int]]) -> dict[str, int]:
    """Return the sizes of arrays before the append that is becoming visible; empty if there is none.

    `arrays` are locations and axes, which count as in the documents.
    """
    for location, _ in arrays.values():
        found = read_bounded(location.store, location.path + APPEND)
        record = _record_of(location, found)
        if record is not None:
            entries = record.entries()
            return {
                name: entry["before"]
                for name, (at, axis) in arrays.items()
                if (entry := entries.get(at.path, {})).get("axis") == axis and "before" in entry
            }
    return {}


# -- taking ----------------------------------------------------------------------------------------------


def _take(arrays: Sequence[Growing]) -> Append:
    leader = arrays[0].location
    patience = Patience(leader.store)
    while True:
        lease, number = Lease(leader.store, leader.path + APPEND, _ABOUT), uuid4().hex
        other = lease.take({**_state_of(number, arrays), "state": "writing"})
        if other is not None:
            _wait(leader, other, patience)
            continue
        try:
            others = together(leader.store, partial(_follow, leader=leader, number=number), arrays[1:])
            busy = [(a, found) for a, found in zip(arrays[1:], others, strict=True) if found is not None]
            if not busy:
                return Append(lease, arrays)
            _release(lease, arrays)
        except BaseException:
            with suppress(ChunkwiseError):
                _release(lease, arrays)
            lease.forget()
            raise
        _wait(busy[0][0].location, busy[0][1], patience)


def _follow(array: Growing, *, leader: Location, number: str) -> Stamped | None:
    """Make the document of an array that names the record; return that of another append, if there is one."""
    location = array.location
    lease = Lease(location.store, location.path + APPEND, _ABOUT)
    found = lease.take({"id": number, "record": posixpath.relpath(_dir(leader), _dir(location))})
    lease.forget()  # the record shows that its owner lives
    return found


def _wait(location: Location, found: Stamped, patience: Patience) -> None:
    """Wait for another append to an array; end it if its process has ended."""
    record = _record_of(location, found)
    if record is None:  # that append is over
        location.store.delete(location.path + APPEND, if_equal=found.generation)
        return
    lease = Lease(location.store, record.leader.path + APPEND, _ABOUT)
    if not patience.is_over(lease.key, record.found, lease.where) or not lease.take_over(record.found):
        return
    try:
        entries = record.entries()
        arrays = [
            Growing(record.leader.at(path), entry["format"], entry["axis"], entry["rows"])
            for path, entry in sorted(entries.items())
        ]
        if record.document["state"] == "complete":
            _finish(lease, arrays, {path: entry["before"] for path, entry in entries.items()}, late=True)
        else:
            _undo(lease, arrays)
    finally:
        lease.forget()


# -- ending ----------------------------------------------------------------------------------------------


def _finish(
    lease: Lease, arrays: Sequence[Growing], before: Mapping[str, int], *, late: bool = False
) -> None:
    """Make complete rows visible; what was deleted or resized meanwhile stays, if that is `late`."""

    def finish(array: Growing) -> None:
        size = before[_path(array)]
        try:
            array.resize(size, size + array.n_rows, lease.check)
        except (NotFoundError, ResizedError):
            if not late:
                raise

    store = arrays[0].location.store
    try:
        together(store, finish, arrays)
        update_consolidated(store, *(_path(array) for array in arrays if array.updates_copies))
    except ResizedError:  # by others, without an append
        _release(lease, arrays)
        raise
    _release(lease, arrays)


def _undo(lease: Lease, arrays: Sequence[Growing]) -> None:
    """Clear rows that are not complete."""
    for array in arrays:
        with suppress(NotFoundError):
            array.clear(lease.check)
    _release(lease, arrays)


def _release(lease: Lease, arrays: Sequence[Growing]) -> None:
    """Delete the documents of an append, the record last."""
    number = lease.state.get("id")

    def release(array: Growing) -> None:
        kv, key = array.location.store, array.location.path + APPEND
        found = read_bounded(kv, key)
        if found.value is not None and _members(array.location, found.value).get("id") == number:
            kv.delete(key, if_equal=found.generation)

    together(arrays[0].location.store, release, [a for a in arrays if a.location.path + APPEND != lease.key])
    lease.release()


# -- documents -------------------------------------------------------------------------------------------


def _state_of(
    number: str, arrays: Sequence[Growing], before: Mapping[str, int] | None = None
) -> dict[str, Any]:
    top = _dir(arrays[0].location)
    entries = {
        posixpath.relpath(_dir(array.location), top): {
            "format": array.format,
            "axis": array.axis,
            "rows": array.n_rows,
            **({} if before is None else {"before": before[_path(array)]}),
        }
        for array in arrays
    }
    return {"id": number, "arrays": entries}


def _record_of(location: Location, found: Stamped) -> _Record | None:
    """Return the record that the document of an array names or is; None if its append is over."""
    if found.value is None:
        return None
    members = _members(location, found.value)
    if "record" not in members:
        return _Record(location, found, members)
    leader = _at(location, members["record"])
    there = read_bounded(leader.store, leader.path + APPEND)
    if there.value is None:
        return None
    document = _members(leader, there.value)
    return _Record(leader, there, document) if document["id"] == members["id"] else None


def _members(location: Location, value: Buffer) -> dict[str, Any]:
    """Return a checked document; anybody may have written it."""
    where = location.describe(APPEND)
    members = parse_lease(value, where)
    if isinstance(members.get("id"), str) and isinstance(members.get("record"), str):
        return members
    arrays = members.get("arrays")
    if (
        isinstance(members.get("id"), str)
        and members.get("state") in ("writing", "complete")
        and isinstance(arrays, dict)
        and arrays
        and all(isinstance(entry, dict) and _is_entry(entry, members["state"]) for entry in arrays.values())
    ):
        return members
    raise FailedPreconditionError(f"{where} is damaged, or another's: it describes no append")


def _is_entry(entry: Mapping[str, Any], state: str) -> bool:
    names = ("axis", "rows", *(("before",) if state == "complete" else ()))
    return entry.get("format") in DRIVERS and all(
        type(entry.get(name)) is int and entry[name] >= 0 for name in names
    )


def _path(array: Growing) -> str:
    return array.location.path


def _dir(location: Location) -> str:
    return "/" + location.path.rstrip("/")


def _at(location: Location, relative: str) -> Location:
    """Return the location of another array of the same append."""
    depth = location.path.count("/")
    if posixpath.normpath(relative).split("/").count("..") > depth:
        raise FailedPreconditionError(
            f"an append to {location.text} and other arrays was not finished, and those can't be found from "
            "here: append through the group that they are in"
        )
    path = posixpath.normpath(posixpath.join(_dir(location), relative)).strip("/")
    return location.at(path + "/" if path else "")


def _check_promise(location: Location) -> None:
    traits = traits_of(location.store)
    if not traits.conditional_writes(location.path + APPEND):
        why = traits.why_unsafe()
        raise UnsafeWriteError(
            f"{location.text}: an append excludes others by conditional writes, which this store does not "
            f"promise{f', since {why}' if why else ''}; "
            'if nobody else writes there, set "single_writer" in the kvstore'
        )


def _check_size(array: Growing, size: int, before: int) -> None:
    if size != before:
        raise ResizedError(
            f"{array.location.text}: axis {array.axis} has size {size}, no longer {before}: another writer "
            "resized the array, without an append"
        )


def _shape_in(document: JSON, array: Growing) -> tuple[int, ...]:
    shape = document.get(tree_format(array.format).shape_member) if isinstance(document, dict) else None
    if not isinstance(shape, list) or not array.axis < len(shape):
        raise NotFoundError(f"there is no longer an array at {array.location.text}")
    return tuple(shape)


def _guarded(base: KvStoreDriver, check: Callable[[], None]) -> GuardedStore:
    return GuardedStore(base, check, lambda written: None, check_new=True)


def _rows(stored: StoredArray, axis: int, start: int, stop: int) -> IndexTransform:
    """Return the transform of a range along an axis."""
    index = (*(slice(None),) * axis, slice(start, stop))
    return IndexTransform.identity(IndexDomain(shape=stored.shape))[index]


def _with(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _open(array: Growing) -> tuple[StoredArray, KvStoreDriver, Pool]:
    # Blocks at the end of N5 may be cropped, which all of its readers take.
    crop = {"crop_end_blocks": True} if tree_format(array.format).reversed_axes else {}
    spec = Spec({"driver": DRIVERS[array.format], "open": True, **crop})._driver.bind(Context())
    assert isinstance(spec, ChunkedSpec)
    opened = open_chunked(replace(spec, kvstore=array.location.kvstore()), readable=True, writable=True)
    return opened.stored, opened.store, opened.pool
