"""``Append``: rows added to one array, or to several together, which others see all at once or not at all.

1. The document ``.chunkwise-append.json`` of each array is taken (`chunkwise.core.kvstore.places.lease`):
   whoever appends to one of them waits.  That of the first array is the *record*, the others name it.
2. The rows are written to chunks beyond the end of the arrays, where no reader looks, by stores that look at
   the record and the shape before each write.
3. The record says that the rows are complete.  This is the moment at which the append has happened.
4. The arrays get their new shapes, and copies of these in groups above are changed together.
5. The documents are deleted, the record last.

The next append, of any process, finds the record of one that was killed.  Before step 3 the rows are cleared;
after it, steps 4 and 5 are done.

The record of an append, which its first array has, and the documents of the other arrays that name it.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

from chunkwise.core.driver.tree_formats import DRIVERS
from chunkwise.core.engine.concurrent_requests import map_requests
from chunkwise.core.kvstore.places.lease import (
    CLEARS,
    HeldError,
    Lease,
    Patience,
    end_turn,
    is_blank,
    looks_above,
    parse_lease,
    takes_turns,
)
from chunkwise.core.kvstore.places.staging import APPEND
from chunkwise.core.kvstore.protocol import Buffer, Stamped
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.kvstore.value import read_bounded
from chunkwise.core.trees.consolidated import update_consolidated
from chunkwise.core.trees.growing import Growing, NewRows
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

__all__ = [
    "Append",
    "Growing",
    "Record",
    "appending",
    "excluding",
    "link_state",
    "members_of",
    "record_of",
    "sizes_before",
    "state_of",
]


class Record(NamedTuple):
    """The record of an append, as stored at its first array."""

    leader: Location
    found: Stamped
    document: dict[str, Any]

    def entries(self) -> dict[str, dict[str, Any]]:
        """Return the entry of each array, by its path."""
        return {_at(self.leader, name).path: entry for name, entry in self.document["arrays"].items()}


def state_of(
    number: str, arrays: Sequence[Growing], before: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Return the state of the record: complete, if the sizes `before` are given."""
    top = _dir(arrays[0].location)
    entries = {
        posixpath.relpath(_dir(array.location), top): {
            "format": array.format,
            "axis": array.axis,
            "rows": array.n_rows,
            **({} if before is None else {"before": before[array.location.path]}),
        }
        for array in arrays
    }
    return {"id": number, "state": "writing" if before is None else "complete", "arrays": entries}


def record_of(location: Location, found: Stamped) -> Record | None:
    """Return the record that the document of an array names or is; None if its append is over."""
    if found.value is None or is_blank(found.value):
        return None
    members = members_of(location, found.value)
    if "record" not in members:
        return Record(location, found, members)
    leader = _at(location, members["record"])
    there = read_bounded(leader.store, leader.path + APPEND)
    if there.value is None or is_blank(there.value):
        return None
    document = members_of(leader, there.value)
    return Record(leader, there, document) if document["id"] == members["id"] else None


def members_of(location: Location, value: Buffer) -> dict[str, Any]:
    """Return a checked document; any program may have written it."""
    where = location.describe(APPEND)
    members = parse_lease(value, where)
    if isinstance(members.get("id"), str) and isinstance(members.get("record"), str):
        return members
    arrays = members.get("arrays")
    if (
        isinstance(members.get("id"), str)
        and members.get("state") in ("writing", "complete")
        and isinstance(arrays, dict)
        and all(isinstance(entry, dict) and _is_entry(entry, members["state"]) for entry in arrays.values())
    ):
        return members
    raise FailedPreconditionError(f"{where} is damaged, or another's: it describes no append")


def _is_entry(entry: Mapping[str, Any], state: str) -> bool:
    names = ("axis", "rows", *(("before",) if state == "complete" else ()))
    return entry.get("format") in DRIVERS and all(
        type(entry.get(name)) is int and entry[name] >= 0 for name in names
    )


def link_state(number: str, location: Location, leader: Location) -> dict[str, Any]:
    """Return the state of the document of an array that names the record at the first array."""
    return {"id": number, "record": posixpath.relpath(_dir(leader), _dir(location))}


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


_ABOUT = "rows are being appended by chunkwise; the next append finishes or clears what a killed process left"


class Append:
    """An append to arrays that this process has taken; made by `appending`."""

    def __init__(self, lease: Lease, arrays: Sequence[Growing]) -> None:
        self._lease = lease
        self._arrays = arrays
        sizes = map_requests(arrays[0].location.store, lambda array: array.shape()[array.axis], arrays)
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
        state = state_of(self._lease.state["id"], self._arrays, self._before)
        several = len(self._arrays) > 1  # of which a loss of power must not leave some
        self._lease.change(state, durable=several)
        self.is_committed = True
        self._finish()

    def _finish(self, *, late: bool = False) -> None:
        try:
            _finish(self._lease, self._arrays, self._before, late=late)
        except AbortedError:
            if not self._is_finished_by_others():
                raise
        self._is_over = True

    def _is_finished_by_others(self) -> bool:
        """Return True if another process took over, and has made the rows visible or is doing so."""
        leader = self._arrays[0].location
        record = record_of(leader, read_bounded(leader.store, leader.path + APPEND))
        if record is not None and record.document["id"] == self._lease.state["id"]:
            return True
        return all(array.shape()[array.axis] >= self.size(array) + array.n_rows for array in self._arrays)

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


@contextmanager
def excluding(
    location: Location,
    *,
    replaces: bool = False,
    clears: bool = False,
    checks: Sequence[Callable[[], object]] = (),
) -> Iterator[Callable[[], None]]:
    """Exclude others that append to a node, replace it, or make arrays in it at the same time.

    Yields a function that raises AbortedError if another process has taken over meanwhile.  It is
    also raised at the end, if others have deleted a group around the node, unless the caller itself
    `replaces` the node with all of its keys.  A caller that `clears` the node deletes everything below it,
    after others have done so with groups above; then the `checks` are made.  In a store without conditional
    writes, no other process is kept out.
    """
    if not traits_of(location.store).conditional_writes(location.path + APPEND):
        for check in checks:
            check()
        yield lambda: None
        return
    patience = Patience(location.store)
    while True:
        lease = Lease(location.store, location.path + APPEND, _ABOUT)
        clear = {CLEARS: True} if clears else {}
        other = lease.take({"id": os.urandom(16).hex(), "state": "writing", "arrays": {}, **clear})
        if other is not None:
            _wait(location, other, patience)
            continue
        try:
            looks = looks_above(location.store, location.path) if clears else []
            map_requests(location.store, lambda look: look(), [*looks, *checks])
            break
        except HeldError as e:  # which may be waiting for this one
            lease.release()
            e.wait()
        except BaseException:
            end_turn(lease)
            raise
    was_kept = True
    try:
        yield lease.confirm
    finally:
        was_kept = end_turn(lease)
    # Where a directory is replaced as a whole, the document goes with the old one.
    if not (was_kept or replaces) and takes_turns(location.store, lease.key):
        raise AbortedError(f"{location.text} was deleted, or taken over, by another process meanwhile")


def sizes_before(arrays: Mapping[str, tuple[Location, int]]) -> dict[str, int]:
    """Return the sizes of arrays before the append that is becoming visible; empty if there is none.

    `arrays` are locations and axes, which count as in the documents.
    """
    for location, _ in arrays.values():
        found = read_bounded(location.store, location.path + APPEND)
        record = record_of(location, found)
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
        lease, number = Lease(leader.store, leader.path + APPEND, _ABOUT), os.urandom(16).hex()
        other = lease.take(state_of(number, arrays))
        if other is not None:
            _wait(leader, other, patience)
            continue
        try:
            others = map_requests(leader.store, partial(_follow, leader=leader, number=number), arrays[1:])
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
    return lease.take(link_state(number, location, leader), beats=False)  # the record shows that it lives


def _wait(location: Location, found: Stamped, patience: Patience) -> None:
    """Wait for another append to an array; end it if its process has ended."""
    record = record_of(location, found)
    if record is None:  # that append is over
        left = Lease(location.store, location.path + APPEND, _ABOUT)
        if left.take_over(found):
            left.release()
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
        map_requests(store, finish, arrays)
        update_consolidated(store, *(_path(array) for array in arrays if array.updates_copies))
    except ResizedError:  # by others, without an append
        _release(lease, arrays)
        raise
    _release(lease, arrays)


def _undo(lease: Lease, arrays: Sequence[Growing]) -> None:
    """Clear rows that are not complete."""
    for array in arrays:
        if _taken(lease, array) is not None:  # otherwise it is another's, and no rows were written
            with suppress(NotFoundError):
                array.clear(lease.check)
    _release(lease, arrays)


def _release(lease: Lease, arrays: Sequence[Growing]) -> None:
    """Delete the documents of an append, the record last."""

    def release(array: Growing) -> None:
        key = array.location.path + APPEND
        if key != lease.key and (found := _taken(lease, array)) is not None:
            array.location.store.delete(key, if_equal=found.generation)

    if arrays:
        map_requests(arrays[0].location.store, release, arrays)
    lease.release()


def _taken(lease: Lease, array: Growing) -> Stamped | None:
    """Return the document of an array if it is that of the append of `lease`."""
    found = read_bounded(array.location.store, array.location.path + APPEND)
    if found.value is None or is_blank(found.value):
        return None
    if members_of(array.location, found.value)["id"] != lease.state["id"]:
        return None
    return found


def _check_promise(location: Location) -> None:
    traits = traits_of(location.store)
    if not traits.conditional_writes(location.path + APPEND):
        why = traits.why_unsafe()
        raise UnsafeWriteError(
            f"{location.text}: an append excludes others by conditional writes, which this store does not "
            f"promise{f', since {why}' if why else ''}; "
            'if there is no other writer, set "single_writer" in the kvstore'
        )


def _path(array: Growing) -> str:
    return array.location.path
