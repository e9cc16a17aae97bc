"""A store with a cache of values in memory, used as long as the caller considers them fresh.

Readers made by `CacheStore.open_reader`, and reads of a part, use the cache; reading a whole value with
`CacheStore.read` always asks the base, so that conditional updates never start from an old value.  Each whole
value that is read or written renews its entry.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from chunkwise.core.base.threads import Lock
from chunkwise.core.kvstore.caches import CacheEntry, ValueCache
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.protocol import Buffer, ByteRange, KvStoreDriver, Reader, Stamped, delete_where
from chunkwise.core.kvstore.store_base import SameKeysStore
from chunkwise.core.kvstore.traits import StoreTraits, Writer, traits_of
from chunkwise.core.kvstore.value import read_ranges, slice_range, slice_ranges

__all__ = ["CacheStore"]


class CacheStore(SameKeysStore):
    """A store with its values in a cache, which other stores may share."""

    def __init__(
        self, base: KvStoreDriver, cache: ValueCache, oldest: Callable[[], float], prefix: str = ""
    ) -> None:
        super().__init__(base)
        self._cache = cache
        # Returns the oldest time, in seconds since the epoch, at which a value that is used unasked was
        # current.
        self._oldest = oldest
        self._prefix = prefix  # prefix of all keys for which this store is used
        self._identity = base.identity

    @property
    def traits(self) -> StoreTraits:
        """The base's traits; readers and writers go through the cache."""
        open_base = traits_of(self.base).open_writer
        return super().traits._replace(
            is_cached=self._is_cached,
            open_writer=None if open_base is None else lambda: _Writer(self, open_base()),
        )

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Return the current value of `key` in the base, or a part of it, perhaps from the cache."""
        if byte_range is not None and (entry := self._fresh(key)) is not None:
            part: Buffer | None = None if entry.generation == if_not_equal else entry.value
            if part is not None:
                part = slice_range(memoryview(part), *byte_range)
            return Stamped(part, entry.generation, entry.time)
        if byte_range is not None or if_not_equal is not None:
            return self.base.read(key, byte_range=byte_range, if_not_equal=if_not_equal)
        with self.key_lock(key):
            found = self.base.read(key)
            entry = self._put(key, found.value, found.generation, found.time)
        return found._replace(value=entry.value)

    def open_reader(self) -> Reader:
        """Return a reader that uses the cache; its results stay valid."""
        read_base = self.base.open_reader()

        def read(key: str, start: int = 0, stop: int | None = None) -> Buffer | None:
            whole = start == 0 and stop is None
            entry = self._fresh(key)
            if entry is None:
                if not whole:
                    return read_base(key, start, stop)
                entry = self._renewed(key)
            if entry.value is None or whole:
                return entry.value
            return slice_range(memoryview(entry.value), start, stop)

        return read

    def find_chunk(self, key: str, decoding: Hashable, *, ask: bool = True) -> tuple[CacheEntry, Any] | None:
        """Return the value of `key` as a reader sees it, and its decoded form, None if not cached."""
        # Without `ask` the base is not asked: the result is None if the entry is not fresh.
        found = self._cache.get_chunk(self._identity, key, decoding)
        if found is not None and found[0].time >= self._oldest():
            return found
        if not ask:
            return None
        entry = self._renewed(key)
        found = self._cache.get_chunk(self._identity, key, decoding)
        return found if found is not None and found[0].value == entry.value else (entry, None)

    def put_chunk(self, key: str, entry: CacheEntry, decoding: Hashable, chunk: Any, nbytes: int) -> None:
        """Store the decoded value of `entry` as `decoding`; see `ValueCache.put_chunk`."""
        self._cache.put_chunk(self._identity, key, entry.value, decoding, chunk, nbytes)

    def _is_cached(self, key: str, start: int = 0, stop: int | None = None) -> bool:
        base = traits_of(self.base).is_cached
        return self._fresh(key) is not None or (base is not None and base(key, start, stop))

    def _fresh(self, key: str) -> CacheEntry | None:
        entry = self._cache.get(self._identity, key)
        return entry if entry is not None and entry.time >= self._oldest() else None

    def _renewed(self, key: str) -> CacheEntry:
        """Return the value of `key`, which is not sent again if the cached one is current."""
        with self.key_lock(key):
            known = self._cache.get(self._identity, key)
            found = self.base.read(key, if_not_equal=None if known is None else known.generation)
            value = found.value
            if value is None and known is not None and found.generation == known.generation:
                value = known.value
            return self._put(key, value, found.generation, found.time)

    def _put(self, key: str, value: Buffer | None, generation: bytes, now: float) -> CacheEntry:
        entry = CacheEntry(None if value is None else bytes(value), generation, now)
        self._cache.put(self._identity, key, entry)
        return entry

    def read_ranges(self, key: str, starts: Sequence[int], stops: Sequence[int]) -> list[Buffer] | None:
        """Return the bytes of each range of the value of `key`."""
        entry = self._fresh(key)
        if entry is None:
            return read_ranges(self.base, key, starts, stops)
        return None if entry.value is None else slice_ranges(entry.value, starts, stops)

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Replace the value of `key`; readers see it at once."""
        return self._change(key, value, lambda: self.base.write(key, value, if_equal=if_equal))

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Delete `key`."""
        return self._change(key, None, lambda: self.base.delete(key, if_equal=if_equal))

    def _change(self, key: str, value: Buffer | None, change: Callable[[], bytes | None]) -> bytes | None:
        now = time.time()  # before the change, so that later changes by others don't look older
        with self.key_lock(key):
            generation = None
            try:
                generation = change()
            finally:  # after a failure too, since the stored value is unknown then
                if generation is None:
                    self.evict(key)
                else:
                    self._put(key, value, generation, now)
        return generation

    def evict(self, key: str) -> None:
        """Evict the entry of `key`."""
        self._cache.evict(self._identity, key)

    def evict_all(self) -> None:
        """Evict the entries of this store's user, since others may have written the keys."""
        self._cache.evict_range(self._identity, KeyRange.of_prefix(self._prefix))

    def key_lock(self, key: str) -> Lock:
        """Return the lock to hold while `key` is read or written and its entry put or evicted."""
        return self._cache.key_lock(self._identity, key)

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Delete the keys in ``[start, stop)``."""
        try:
            self.base.delete_range(start, stop)
        finally:
            self._cache.evict_range(self._identity, KeyRange.between(start, stop))

    def delete_where(self, start: str, stop: str, wanted: Callable[[str], bool]) -> None:
        """Delete the keys in ``[start, stop)`` that are `wanted`."""
        try:
            delete_where(self.base, start, stop, wanted)
        finally:
            self._cache.evict_range(self._identity, KeyRange.between(start, stop))


class _Writer:
    """Writes of one worker to the base, after which the entries are evicted."""

    def __init__(self, store: CacheStore, base: Writer) -> None:
        self._store = store
        self._base = base
        self.flush = base.flush

    def write(self, key: str, value: Buffer) -> None:
        """Replace the value of `key`."""
        with self._store.key_lock(key):
            try:
                self._base.write(key, value)
            finally:
                self._store.evict(key)

    def delete(self, key: str) -> None:
        """Delete `key`."""
        with self._store.key_lock(key):
            try:
                self._base.delete(key)
            finally:
                self._store.evict(key)
