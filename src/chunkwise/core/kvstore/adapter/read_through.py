"""A store that keeps values read from another one, in memory or on disk.

Kept values are used without a request for `max_age` seconds; after that the other store is asked whether they
are current, which costs a request but no transfer.  A missing key is not remembered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from chunkwise.core.kvstore.adapter.read_through_memory import Entries, Entry, Part
from chunkwise.core.kvstore.adapter.same_keys import SameKeysStore
from chunkwise.core.kvstore.byte_range import read_ranges
from chunkwise.core.kvstore.protocol import Buffer, ByteRange, KvStoreDriver, Reader, Stamped, delete_where
from chunkwise.core.kvstore.traits import StoreTraits, traits_of

__all__ = ["ReadThroughStore"]


class ReadThroughStore(SameKeysStore):
    """A store whose values are kept in `entries`, in memory or on disk, once read."""

    def __init__(self, base: KvStoreDriver, entries: Entries, *, max_age: float = 0.0) -> None:
        super().__init__(base)
        self.entries = entries
        self.max_age = max_age  # seconds; with 0 the base is asked every time, with infinity never again
        # Number of reads without a request, with a request but no transfer, and others.
        self.n_hits = self.n_confirmed = self.n_misses = 0
        self._last_change = object()

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickle, (self.base, self.entries, self.max_age)

    def __repr__(self) -> str:
        return f"ReadThroughStore({self.base!r}, {type(self.entries).__name__}, max_age={self.max_age:g})"

    @property
    def traits(self) -> StoreTraits:
        """Those of the base; readers and writers go through the cache."""
        return super().traits._replace(is_cached=self._is_cached)

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Return the value of `key` or a part of it, from the cache if that is current."""
        start, stop = byte_range or (0, None)
        part = Part(key, start, stop)
        last_change, known = self._last_change, self.entries.get(part)
        if known is None:
            found = self.base.read(key, byte_range=byte_range, if_not_equal=if_not_equal)
        elif time.time() - known.time <= self.max_age:
            self.n_hits += 1
            return _answer(known, known.time, if_not_equal)
        else:
            found = self.base.read(key, byte_range=byte_range, if_not_equal=known.generation)
            if found.value is None and found.generation == known.generation:
                self.n_confirmed += 1
                if self.max_age > 0:
                    self._keep(part, known._replace(time=found.time), last_change)
                return _answer(known, found.time, if_not_equal)
        self.n_misses += 1
        if found.value is None:
            if known is not None:
                self.entries.evict(key)
            return found
        entry = Entry(bytes(found.value), found.generation, found.time)
        self._keep(part, entry, last_change)
        return _answer(entry, found.time, if_not_equal)

    def _keep(self, part: Part, entry: Entry, last_change: object) -> None:
        self.entries.put(part, entry)
        if self._last_change is not last_change:  # the value read may be older than the change
            self.entries.evict(part.key)

    def open_reader(self) -> Reader:
        """Return a reader that tries the cache first."""

        def read(key: str, start: int = 0, stop: int | None = None) -> Buffer | None:
            return self.read(key, byte_range=ByteRange(start, stop)).value

        return read

    def _is_cached(self, key: str, start: int = 0, stop: int | None = None) -> bool:
        known = self.entries.get(Part(key, start, stop)) if self.max_age > 0 else None
        if known is not None and time.time() - known.time <= self.max_age:
            return True
        base = traits_of(self.base).is_cached
        return base is not None and base(key, start, stop)

    def read_ranges(self, key: str, starts: Sequence[int], stops: Sequence[int]) -> list[Buffer] | None:
        """Return the bytes of each range, from the cache if it has all of them in one generation."""
        pairs = list(zip(starts, stops, strict=True))
        now = time.time()
        known = [self.entries.get(Part(key, *pair)) for pair in pairs] if self.max_age > 0 else []
        fresh = [entry for entry in known if entry is not None and now - entry.time <= self.max_age]
        if pairs and len(fresh) == len(pairs) and len({entry.generation for entry in fresh}) == 1:
            self.n_hits += 1
            return [entry.value for entry in fresh]
        self.n_misses += 1
        return read_ranges(self.base, key, starts, stops)

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Write to the base, and forget the old value."""
        try:
            return self.base.write(key, value, if_equal=if_equal)
        finally:
            self._last_change = object()  # not a counter: two threads could count once
            self.entries.evict(key)

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Delete from the base, and forget the old value."""
        try:
            return self.base.delete(key, if_equal=if_equal)
        finally:
            self._last_change = object()
            self.entries.evict(key)

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Delete from the base, and forget everything."""
        try:
            self.base.delete_range(start, stop)
        finally:
            self._last_change = object()
            self.entries.clear()

    def delete_where(self, start: str, stop: str, wanted: Callable[[str], bool]) -> None:
        """Delete the keys that are `wanted` from the base, and forget everything."""
        try:
            delete_where(self.base, start, stop, wanted)
        finally:
            self._last_change = object()
            self.entries.clear()


def _answer(entry: Entry, now: float, if_not_equal: bytes | None) -> Stamped:
    value = None if entry.generation == if_not_equal else entry.value
    return Stamped(value, entry.generation, now)


def _unpickle(base: KvStoreDriver, entries: Entries, max_age: float) -> ReadThroughStore:
    return ReadThroughStore(base, entries, max_age=max_age)
