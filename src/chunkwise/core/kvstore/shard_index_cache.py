"""Cache of shard indexes by key, and of the nodes of B+trees.

An entry may be old; its user compares its generation with the one in the next answer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Protocol

from chunkwise.core.base.fork import new_lock, put_in_order_in_child

__all__ = ["LEAST_INDEX_NBYTES", "RenamedShardIndexes", "ShardIndexCache", "ShardIndexes"]

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
