"""Caches in memory that stores share: of values, of shard indexes, of nodes of B+trees.

An entry may be old; its user compares its generation with the one in the next answer.

Each value is kept with its decoded forms, one for each way to decode it.  They are dropped with the value,
and when it is replaced.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Protocol

from chunkwise.core.base.threads import KeyLocks, Lock, new_lock, put_in_order_in_child
from chunkwise.core.kvstore.key_range import KeyRange

__all__ = [
    "ENTRY_OVERHEAD",
    "LEAST_INDEX_NBYTES",
    "CacheEntry",
    "RenamedShardIndexes",
    "ShardIndexCache",
    "ShardIndexes",
    "ValueCache",
]

LEAST_INDEX_NBYTES = 1 << 26
"""Bytes of indexes that are always kept: those of 4 million inner chunks of Zarr v3, 16 bytes each."""


class ShardIndexes(Protocol):
    """Indexes of shards, each with the generation of its shard, by key."""

    def get(self, key: str) -> Any | None:
        """Return the entry of `key`, None if there is none."""
        ...

    def put(self, key: str, entry: Any, n_bytes: int) -> None:
        """Store an entry that takes `n_bytes`."""
        ...

    def evict(self, key: str) -> None:
        """Remove the entry of `key`."""
        ...


class ShardIndexCache:
    """Entries by name, up to a limit in bytes; the least recently used are evicted first."""

    def __init__(self, limit: int = LEAST_INDEX_NBYTES) -> None:
        self.limit = limit
        self._n_bytes = 0
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = new_lock()
        put_in_order_in_child(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return ShardIndexCache, (self.limit,)

    def get(self, key: Hashable) -> Any | None:
        """Return the entry of `key`, None if there is none."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._entries.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, entry: Any, n_bytes: int) -> None:
        """Store an entry that takes `n_bytes`."""
        with self._lock:
            self._n_bytes += n_bytes - self._entries.pop(key, (None, 0))[1]
            self._entries[key] = entry, n_bytes
            while self._n_bytes > self.limit and self._entries:
                self._n_bytes -= self._entries.popitem(last=False)[1][1]

    def evict(self, key: Hashable) -> None:
        """Remove the entry of `key`."""
        with self._lock:
            self._n_bytes -= self._entries.pop(key, (None, 0))[1]

    def after_fork(self) -> None:
        """Count again, since another thread may have been in the middle of a change."""
        self._n_bytes = sum(n_bytes for _, n_bytes in self._entries.values())


class RenamedShardIndexes:
    """The indexes of a store, by the keys of its adapter, which `rename` maps to the store's."""

    def __init__(self, base: ShardIndexes, rename: Callable[[str], str]) -> None:
        self._base = base
        self._rename = rename

    def get(self, key: str) -> Any | None:
        """Return the entry of `key`, None if there is none."""
        return self._base.get(self._rename(key))

    def put(self, key: str, entry: Any, n_bytes: int) -> None:
        """Store an entry that takes `n_bytes`."""
        self._base.put(self._rename(key), entry, n_bytes)

    def evict(self, key: str) -> None:
        """Remove the entry of `key`."""
        self._base.evict(self._rename(key))


ENTRY_OVERHEAD = 600
"""Bytes counted for the Python objects of an entry; otherwise empty values would cost nothing.

With keys of 40 characters, generations of 40 bytes and 100 to 100,000 entries, an entry takes 573 to 607
bytes (`tracemalloc`, CPython 3.11), and one of `.read_through_memory.MemoryEntries` 642 to 707.
"""

_CHUNK_OVERHEAD = (
    270  # bytes of a decoded array's Python objects and its slot in the entry; the same measurement gives 272
)


class CacheEntry(NamedTuple):
    """A value, or None for a missing key, its generation, and a time at which it was current."""

    value: bytes | None
    generation: bytes
    time: float


class _Record:
    """The value of a key, its decoded forms, and the bytes of both."""

    __slots__ = ("chunks", "entry", "size")

    def __init__(self, entry: CacheEntry) -> None:
        self.entry = entry
        self.chunks: dict[Hashable, Any] = {}
        self.size = ENTRY_OVERHEAD + len(entry.value or b"")


class ValueCache:
    """Values of any number of stores; the least recently used are evicted first."""

    def __init__(self, total_bytes_limit: int) -> None:
        # Bytes of all values and their decoded forms, with some bytes for each key.
        self.total_bytes_limit = total_bytes_limit
        self._entries: OrderedDict[tuple[Hashable, str], _Record] = OrderedDict()
        self._nbytes = 0
        self._lock = new_lock()
        self._key_locks = KeyLocks()
        put_in_order_in_child(self)

    def after_fork(self) -> None:
        """Count again, since another thread may have been in the middle of a change."""
        self._nbytes = sum(record.size for record in self._entries.values())

    def key_lock(self, store: Hashable, key: str) -> Lock:
        """Return the lock to hold while `key` is read or written and its entry put; so the newest stays."""
        return self._key_locks.of(store, key)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self._nbytes

    def get(self, store: Hashable, key: str) -> CacheEntry | None:
        """Return the entry of `key` in the store with the identity `store`."""
        found = self._find((store, key))
        return None if found is None else found.entry

    def get_chunk(self, store: Hashable, key: str, decoding: Hashable) -> tuple[CacheEntry, Any] | None:
        """Return the entry of `key`, and its form decoded by `decoding`, or None for that."""
        found = self._find((store, key))
        return None if found is None else (found.entry, found.chunks.get(decoding))

    def put(self, store: Hashable, key: str, entry: CacheEntry) -> None:
        """Put an entry and evict others to keep the limit; an entry that is too large is not put."""
        name, record = (store, key), _Record(entry)
        with self._lock:
            old = self._pop(name)
            if record.size > self.total_bytes_limit:
                return
            if old is not None and old.chunks and old.entry.value == entry.value:
                old.entry, record = entry._replace(value=old.entry.value), old  # chunks may be views of it
            self._entries[name] = record
            self._nbytes += record.size
            self._make_room()

    def put_chunk(
        self, store: Hashable, key: str, value: bytes | None, decoding: Hashable, chunk: Any, nbytes: int
    ) -> None:
        """Store an immutable `chunk` decoded from `value`, if `key` still has that value and both fit."""
        # `value` is the same object that `get` returned.
        size = _CHUNK_OVERHEAD + nbytes
        with self._lock:
            record = self._entries.get((store, key))
            if record is None or record.entry.value is not value or decoding in record.chunks:
                return
            if record.size + size > self.total_bytes_limit:
                return
            record.chunks[decoding] = chunk
            record.size += size
            self._nbytes += size
            self._entries.move_to_end((store, key))
            self._make_room()

    def evict(self, store: Hashable, key: str) -> None:
        """Forget one key."""
        with self._lock:
            self._pop((store, key))

    def evict_range(self, store: Hashable, keys: KeyRange) -> None:
        """Forget all keys of a range, and reads of them that are under way."""
        for lock in self._key_locks:
            with lock:  # its holder may be about to put an older value
                pass
        with self._lock:
            for name in [p for p in self._entries if p[0] == store and p[1] in keys]:
                self._pop(name)

    def _find(self, name: tuple[Hashable, str]) -> _Record | None:
        with self._lock:
            found = self._entries.get(name)
            if found is not None:
                self._entries.move_to_end(name)
            return found

    def _pop(self, name: tuple[Hashable, str]) -> _Record | None:
        record = self._entries.pop(name, None)
        if record is not None:
            self._nbytes -= record.size
        return record

    def _make_room(self) -> None:
        while self._nbytes > self.total_bytes_limit:
            self._pop(next(iter(self._entries)))
