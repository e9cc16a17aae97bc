"""Values, and parts of values, that several reads of a batch want; each is fetched once.

1. While a batch is submitted, its reads register their requests to a slow store.
2. The first read to reach a shard fetches the wanted parts for all, so that close ranges share a request; the
   others wait.
3. Fetched data is kept until all reads have taken their parts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from chunkwise.core.base.threads import new_lock
from chunkwise.errors import ChunkwiseError

__all__ = ["SharedReads"]

P = TypeVar("P", int, tuple[int, int])
T = TypeVar("T")
_WHOLE = 0  # the position in a value that isn't a shard
# Reads are planned in microseconds; a read that waits for metadata must not delay the others.
_LONGEST_WAIT = 1.0  # seconds


class _Wanted:
    """The wanted parts of one key."""

    __slots__ = ("found", "left", "lock", "positions")

    def __init__(self) -> None:
        self.lock = new_lock()
        self.positions: set[Any] = set()
        self.left = 0  # parts not yet taken
        self.found: dict[Any, Any] | None = None


class SharedReads:
    """The parts that the reads of one batch want."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._wanted: dict[tuple[Hashable, str], _Wanted] = {}
        self._complete = threading.Event()
        self._submitter = threading.get_ident()

    def expect(self, array: Hashable, key: str, positions: Sequence[Hashable] = (_WHOLE,)) -> None:
        """Register that a read will take some positions of an array's key."""
        with self._lock:
            wanted = self._wanted.setdefault((array, key), _Wanted())
            wanted.positions.update(positions)
            wanted.left += len(positions)

    def complete(self) -> None:
        """Record that all reads have registered."""
        self._complete.set()

    def take(
        self,
        array: Hashable,
        key: str,
        positions: Sequence[P],
        fetch: Callable[[Sequence[P]], Sequence[T]],
    ) -> Sequence[T]:
        """Return the result of `fetch` for positions of a key, fetched together with other reads'."""
        # Otherwise the submitting thread would wait for itself.
        if threading.get_ident() != self._submitter and not self._complete.wait(_LONGEST_WAIT):
            self._complete.set()
        wanted = self._wanted.get((array, key))
        if wanted is None:
            return fetch(positions)
        with wanted.lock:
            if wanted.found is None and wanted.left > len(positions):
                together = sorted(wanted.positions)
                try:
                    wanted.found = dict(zip(together, fetch(together), strict=True))
                except ChunkwiseError:  # perhaps by a part that another read wants
                    wanted.found = {}
            found = wanted.found or {}
            wanted.left -= len(positions)
            if wanted.left <= 0:
                with self._lock:
                    self._wanted.pop((array, key), None)
        if all(position in found for position in positions):
            return [found[position] for position in positions]
        return fetch(positions)

    def value(self, array: Hashable, read: Callable[[str], T]) -> Callable[[str], T]:
        """Return `read` as a shared read of whole values."""
        return lambda key: self.take(array, key, (_WHOLE,), lambda _: (read(key),))[0]
