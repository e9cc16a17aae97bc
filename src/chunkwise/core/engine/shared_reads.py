"""Values, and parts of them, that several reads of a batch want: each is fetched once.

1. While a batch is submitted its reads say what they want of a store that takes long to answer.
2. The first that comes to a shard fetches what all of them want of it, so that ranges that lie together are
   one request; the others wait for that.
3. What is fetched is kept until all have taken their part.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from chunkwise.core.base.fork import new_lock
from chunkwise.errors import ChunkwiseError

__all__ = ["SharedReads"]

P = TypeVar("P", int, tuple[int, int])
T = TypeVar("T")
_WHOLE = 0  # the position of a value that isn't a shard
# Reads are planned in microseconds; one that waits for metadata must not hold the others up.
_LONGEST_WAIT = 1.0  # seconds


class _Wanted:
    """What is wanted of one key."""

    __slots__ = ("found", "left", "lock", "positions")

    def __init__(self) -> None:
        self.lock = new_lock()
        self.positions: set[Any] = set()
        self.left = 0  # parts that have not been taken
        self.found: dict[Any, Any] | None = None


class SharedReads:
    """What the reads of one batch want."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._wanted: dict[tuple[Hashable, str], _Wanted] = {}
        self._complete = threading.Event()
        self._submitter = threading.get_ident()

    def expect(self, array: Hashable, key: str, positions: Sequence[Hashable] = (_WHOLE,)) -> None:
        """Note that a read will take some positions of a key of an array."""
        with self._lock:
            wanted = self._wanted.setdefault((array, key), _Wanted())
            wanted.positions.update(positions)
            wanted.left += len(positions)

    def complete(self) -> None:
        """Note that all reads have said what they want."""
        self._complete.set()

    def take(
        self,
        array: Hashable,
        key: str,
        positions: Sequence[P],
        fetch: Callable[[Sequence[P]], Sequence[T]],
    ) -> Sequence[T]:
        """Return what `fetch` gives for positions of a key, together with those of other reads."""
        # The submitting thread would wait for itself.
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
                except ChunkwiseError:  # perhaps of what another one wants
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
        """Return `read` for whole values."""
        return lambda key: self.take(array, key, (_WHOLE,), lambda _: (read(key),))[0]
