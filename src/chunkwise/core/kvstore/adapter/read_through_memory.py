"""Parts of values in memory; the least recently used are forgotten first."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple, Protocol

from chunkwise.core.base.fork import new_lock, put_in_order_in_child
from chunkwise.core.kvstore.adapter.value_cache import ENTRY_OVERHEAD

__all__ = ["Entries", "Entry", "MemoryEntries", "Part"]


class Part(NamedTuple):
    """A range of bytes of a value, as it was requested."""

    key: str
    start: int
    stop: int | None


class Entry(NamedTuple):
    """Bytes that were read."""

    value: bytes
    generation: bytes  # generation of the whole value
    time: float  # time at which it was current, in seconds since the epoch


class Entries(Protocol):
    """The storage of a cache."""

    def get(self, part: Part) -> Entry | None:
        """Return the entry, None if there is none."""
        ...

    def put(self, part: Part, entry: Entry) -> None:
        """Keep an entry, if there is room."""
        ...

    def evict(self, key: str) -> None:
        """Forget all parts of a value."""
        ...

    def clear(self) -> None:
        """Forget everything."""
        ...


class MemoryEntries:
    """Entries in memory, up to a limit in bytes that counts their overhead."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.n_bytes = 0
        self._entries: OrderedDict[Part, Entry] = OrderedDict()
        self._parts: dict[str, set[Part]] = {}
        self._lock = new_lock()
        put_in_order_in_child(self)

    def after_fork(self) -> None:
        """Forget everything: another thread may have been in the middle of a change."""
        self.clear()

    def __reduce__(self) -> tuple[object, ...]:
        return MemoryEntries, (self.limit,)

    def get(self, part: Part) -> Entry | None:
        """Return the entry, None if there is none."""
        with self._lock:
            found = self._entries.get(part)
            if found is not None:
                self._entries.move_to_end(part)
            return found

    def put(self, part: Part, entry: Entry) -> None:
        """Keep an entry, unless it is larger than the whole cache."""
        with self._lock:
            self._remove(part)
            if _size(part, entry) > self.limit:
                return
            self._entries[part] = entry
            self._parts.setdefault(part.key, set()).add(part)
            self.n_bytes += _size(part, entry)
            while self.n_bytes > self.limit:
                self._remove(next(iter(self._entries)))

    def evict(self, key: str) -> None:
        """Forget all parts of a value."""
        with self._lock:
            for part in list(self._parts.get(key, ())):
                self._remove(part)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._parts.clear()
            self.n_bytes = 0

    def _remove(self, part: Part) -> None:
        entry = self._entries.pop(part, None)
        if entry is None:
            return
        self.n_bytes -= _size(part, entry)
        parts = self._parts[part.key]
        parts.discard(part)
        if not parts:
            del self._parts[part.key]


def _size(part: Part, entry: Entry) -> int:
    return len(entry.value) + len(entry.generation) + len(part.key) + ENTRY_OVERHEAD
