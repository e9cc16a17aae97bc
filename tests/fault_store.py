"""A store whose requests fail on schedule.

A `Fault` says which requests it concerns and what happens to them; `FaultStore` counts the matching requests
and applies the fault to some.  Nothing is random: a failure is the same each time.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chunkwise.core.base.threads import new_lock
from chunkwise.core.kvstore.protocol import (
    MISSING_GENERATION,
    Buffer,
    ByteRange,
    Children,
    KvStoreDriver,
    Reader,
    Stamped,
    delete_where,
)
from chunkwise.core.kvstore.store_base import SameKeysStore
from chunkwise.core.kvstore.value import read_ranges
from chunkwise.errors import InvalidArgumentError, StorageError

__all__ = ["Fault", "FaultStore"]

_ACTIONS = ("fail", "fail_after", "miss", "truncate", "corrupt", "conflict", "delay")


@dataclass(frozen=True, slots=True)
class Fault:
    """A failure on schedule; raises InvalidArgumentError for an unknown action."""

    # ``fail``: the request raises without doing anything.  ``fail_after``: it raises after being done.
    # ``miss``: a read finds no value.  ``truncate``: a read lacks the last `amount` bytes.
    # ``corrupt``: the byte at index `amount` of the value read, from the end if negative, is inverted.
    # ``conflict``: a conditional write or delete finds another generation, and is not done.
    # ``delay``: the request takes `amount` seconds longer.
    action: str = "fail"
    operation: str = ""  # such as ``read_ranges``; empty for all
    key: str | None = None  # or the prefix or start that the request names instead; None for all
    skip: int = 0  # number of matching requests that succeed first
    times: int | None = 1  # number of matching requests that fail then; None for all
    amount: float = 1
    error: Exception | None = None  # by default a StorageError with EIO

    def __post_init__(self) -> None:
        if self.action not in _ACTIONS:
            raise InvalidArgumentError(
                f"Expected action to be one of {', '.join(_ACTIONS)}, but received: {self.action!r}"
            )


class FaultStore(SameKeysStore):
    """A store that fails some requests; if several faults match one, all happen in order."""

    def __init__(self, base: KvStoreDriver, *faults: Fault) -> None:
        super().__init__(base)
        self.faults = faults
        self.n_requests = 0
        self.n_faults = 0
        self._matched = [0] * len(faults)
        self._lock = new_lock()

    def __repr__(self) -> str:
        return f"FaultStore({self.base!r}, {', '.join(map(repr, self.faults))})"

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=new_lock())

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Read from the base."""
        due = self._begin("read", key)
        found = self.base.read(key, byte_range=byte_range, if_not_equal=if_not_equal)
        value = self._end(due, key, found.value)
        if found.value is not None and value is None:
            return Stamped(None, MISSING_GENERATION, found.time)
        return Stamped(value, found.generation, found.time)

    def open_reader(self) -> Reader:
        """Return a reader of the base."""
        base = self.base.open_reader()

        def read(key: str, start: int = 0, stop: int | None = None) -> Buffer | None:
            due = self._begin("read", key)
            return self._end(due, key, base(key, start, stop))

        return read

    def read_ranges(self, key: str, starts: Sequence[int], stops: Sequence[int]) -> list[Buffer] | None:
        """Read from the base; a fault applies to each range."""
        due = self._begin("read_ranges", key)
        parts = read_ranges(self.base, key, starts, stops)
        out = [self._end(due, key, part) for part in parts or ()]
        return None if parts is None or None in out else [part for part in out if part is not None]

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Write to the base."""
        due = self._begin("write", key)
        if if_equal and any(f.action == "conflict" for f in due):
            return None
        generation = self.base.write(key, value, if_equal=if_equal)
        self._end(due, key, None)
        return generation

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Delete from the base."""
        due = self._begin("delete", key)
        if if_equal and any(f.action == "conflict" for f in due):
            return None
        generation = self.base.delete(key, if_equal=if_equal)
        self._end(due, key, None)
        return generation

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Delete from the base."""
        due = self._begin("delete_range", start)
        self.base.delete_range(start, stop)
        self._end(due, start, None)

    def delete_where(self, start: str, stop: str, wanted: Callable[[str], bool]) -> None:
        """Delete from the base, like `delete_range`."""
        due = self._begin("delete_range", start)
        delete_where(self.base, start, stop, wanted)
        self._end(due, start, None)

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        """List the base; a fault applies before the first key."""
        self._end(self._begin("list", start), start, None)
        return self.base.list(start, stop)

    def list_children(self, prefix: str) -> Children:
        """List one level of the base."""
        due = self._begin("list_children", prefix)
        children = self.base.list_children(prefix)
        self._end(due, prefix, None)
        return children

    def _begin(self, operation: str, key: str) -> tuple[Fault, ...]:
        """Count the request, apply faults that precede it, and return the others that are due."""
        due: tuple[Fault, ...] = ()
        with self._lock:
            self.n_requests += 1
            for i, fault in enumerate(self.faults):
                if fault.operation in ("", operation) and fault.key in (None, key):
                    n = self._matched[i] - fault.skip
                    self._matched[i] += 1
                    if n >= 0 and (fault.times is None or n < fault.times):
                        due += (fault,)
            self.n_faults += len(due)
        for fault in due:
            if fault.action == "delay":
                time.sleep(fault.amount)
            elif fault.action == "fail":
                raise self._error(fault, key)
        return due

    def _end(self, due: tuple[Fault, ...], key: str, value: Buffer | None) -> Buffer | None:
        """Apply faults that follow the request; return the value read as they change it."""
        for fault in due:
            if fault.action == "fail_after":
                raise self._error(fault, key)
            if value is None:
                continue
            if fault.action == "miss":
                value = None
            elif fault.action == "truncate":
                value = bytes(value)[: max(0, len(value) - int(fault.amount))]
            elif fault.action == "corrupt" and len(value):
                damaged = bytearray(value)
                damaged[int(fault.amount) % len(damaged)] ^= 0xFF
                value = bytes(damaged)
        return value

    def _error(self, fault: Fault, key: str) -> Exception:
        if fault.error is not None:
            return fault.error
        return StorageError(f"Fault on schedule: {self.describe(key)}", errno.EIO)
