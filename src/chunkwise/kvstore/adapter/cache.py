"""A store whose values are kept in memory, up to a limit, and used as long as the caller thinks them fresh.

Readers made by :meth:`CacheStore.open_reader`, and reads of a part, use what is kept; reading a whole
value with :meth:`CacheStore.read` always asks the base, so that updates on condition are never made to
something old.  Whatever whole value passes by, read or written, renews what is kept.

With a value goes what was decoded from it, for each way to decode it.  That is dropped with the value, and
when another one takes its place.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from chunkwise.kvstore.adapter.traits import BaseTraits
from chunkwise.kvstore.byte_range import resolve_range
from chunkwise.kvstore.key_range import KeyRange
from chunkwise.kvstore.protocol import (
    MISSING_GENERATION,
    Buffer,
    ByteRange,
    Children,
    KvStoreDriver,
    Reader,
    Stamped,
)
from chunkwise.kvstore.read_ranges import read_ranges

__all__ = ["CacheStore", "Kept", "ValueCache"]

_N_LOCKS = 256
_OVERHEAD = 200  # bytes of Python objects for each key


class Kept(NamedTuple):
    """A value, or None for a missing key, its generation, and when it was known to be current."""

    value: bytes | None
    generation: bytes
    time: float


class _Entry:
    """What is kept of a key: the value, what was decoded from it, and the bytes of both."""

    __slots__ = ("chunks", "kept", "size")

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.chunks: dict[Hashable, Any] = {}
        self.size = _OVERHEAD + len(kept.value or b"")


class ValueCache:
    """Values of any number of stores; those that were not used for longest go first.

    Parameters
    ----------
    total_bytes_limit : int
        Size of all values and of what was decoded from them, with some bytes for each key.
    """

    def __init__(self, total_bytes_limit: int) -> None:
        self.total_bytes_limit = total_bytes_limit
        self._entries: OrderedDict[tuple[Any, str], _Entry] = OrderedDict()
        self._nbytes = 0
        self._lock = threading.Lock()
        self._key_locks = [threading.Lock() for _ in range(_N_LOCKS)]

    def key_lock(self, store: Any, key: str) -> threading.Lock:
        """Return the lock under which `key` is read or written and then kept, so that the newest stays."""
        return self._key_locks[hash((store, key)) % _N_LOCKS]

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return self._nbytes

    def get(self, store: Any, key: str) -> Kept | None:
        """Return what is kept of `key` of the store whose identity is `store`."""
        found = self._find((store, key))
        return None if found is None else found.kept

    def get_chunk(self, store: Any, key: str, form: Hashable) -> tuple[Kept, Any] | None:
        """Return what is kept of `key`, and what was decoded from it as `form`, or None for that."""
        found = self._find((store, key))
        return None if found is None else (found.kept, found.chunks.get(form))

    def put(self, store: Any, key: str, kept: Kept) -> None:
        """Keep a value, and drop others, so that the limit holds; one that is too large is not kept."""
        place, entry = (store, key), _Entry(kept)
        with self._lock:
            old = self._pop(place)
            if entry.size > self.total_bytes_limit:
                return
            if old is not None and old.chunks and old.kept.value == kept.value:
                old.kept, entry = kept._replace(value=old.kept.value), old  # decoded chunks may lie in it
            self._entries[place] = entry
            self._nbytes += entry.size
            self._make_room()

    def put_chunk(
        self, store: Any, key: str, value: bytes | None, form: Hashable, chunk: Any, nbytes: int
    ) -> None:
        """Keep what was decoded from `value`, if that is what is kept of `key` and there is room for both.

        Parameters
        ----------
        store, key
            Where the value is from.
        value : bytes
            The object that :meth:`get` returned.
        form : hashable
            How it was decoded.
        chunk : object
            Immutable.
        nbytes : int
            Memory it takes, besides that of `value`.
        """
        size = _OVERHEAD + nbytes
        with self._lock:
            entry = self._entries.get((store, key))
            if entry is None or entry.kept.value is not value or form in entry.chunks:
                return
            if entry.size + size > self.total_bytes_limit:
                return
            entry.chunks[form] = chunk
            entry.size += size
            self._nbytes += size
            self._entries.move_to_end((store, key))
            self._make_room()

    def drop(self, store: Any, key: str) -> None:
        """Forget one key."""
        with self._lock:
            self._pop((store, key))

    def drop_range(self, store: Any, keys: KeyRange) -> None:
        """Forget all keys of a range."""
        with self._lock:
            for place in [p for p in self._entries if p[0] == store and p[1] in keys]:
                self._pop(place)

    def _find(self, place: tuple[Any, str]) -> _Entry | None:
        with self._lock:
            found = self._entries.get(place)
            if found is not None:
                self._entries.move_to_end(place)
            return found

    def _pop(self, place: tuple[Any, str]) -> _Entry | None:
        entry = self._entries.pop(place, None)
        if entry is not None:
            self._nbytes -= entry.size
        return entry

    def _make_room(self) -> None:
        while self._nbytes > self.total_bytes_limit:
            self._pop(next(iter(self._entries)))


class CacheStore(BaseTraits):
    """`base` with its values kept in `cache`.

    Parameters
    ----------
    base : KvStoreDriver
    cache : ValueCache
        May be shared with other stores.
    oldest : callable
        Gives the earliest time, in seconds since the epoch, at which a kept value has to have been
        current for a reader to use it unasked.
    """

    def __init__(self, base: KvStoreDriver, cache: ValueCache, oldest: Callable[[], float]) -> None:
        self.base = base
        self._cache = cache
        self._oldest = oldest
        self._identity = base.identity

    def __getattr__(self, name: str) -> Any:
        return getattr(self.base, name)

    @property
    def identity(self) -> Any:
        """The identity of the base: it is the same storage."""
        return self._identity

    def describe(self, key: str) -> str:
        """Name `key` the way that the base does."""
        return self.base.describe(key)

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Return the value of `key` as the base has it now, or a part of it, perhaps of what is kept."""
        if byte_range is not None and (kept := self._fresh(key)) is not None:
            part: Buffer | None = None if kept.generation == if_not_equal else kept.value
            if part is not None:
                begin, end = resolve_range(byte_range.start, byte_range.stop, len(part))
                part = memoryview(part)[begin:end]
            return Stamped(part, kept.generation, kept.time)
        if byte_range is not None or if_not_equal is not None:
            return self.base.read(key, byte_range=byte_range, if_not_equal=if_not_equal)
        with self._cache.key_lock(self._identity, key):
            found = self.base.read(key)
            kept = self._keep(key, found.value, found.generation, found.time)
        return found._replace(value=kept.value)

    def open_reader(self) -> Reader:
        """Return a reader that uses what is kept; what it returns stays valid."""
        read_base = self.base.open_reader()

        def read(key: str, start: int = 0, stop: int | None = None) -> Buffer | None:
            whole = start == 0 and stop is None
            kept = self._fresh(key)
            if kept is None:
                if not whole:
                    return read_base(key, start, stop)
                kept = self._renewed(key)
            if kept.value is None or whole:
                return kept.value
            begin, end = resolve_range(start, stop, len(kept.value))
            return memoryview(kept.value)[begin:end]

        return read

    def find_chunk(self, key: str, form: Hashable, *, ask: bool = True) -> tuple[Kept, Any] | None:
        """Return the value of `key` as a reader sees it, and what was decoded from it as `form`.

        The latter is None if that was not kept.  Without `ask` the base is not asked: None is returned if
        what is kept is not fresh.
        """
        found = self._cache.get_chunk(self._identity, key, form)
        if found is not None and found[0].time >= self._oldest():
            return found
        if not ask:
            return None
        kept = self._renewed(key)
        found = self._cache.get_chunk(self._identity, key, form)
        return found if found is not None and found[0].value == kept.value else (kept, None)

    def keep_chunk(self, key: str, kept: Kept, form: Hashable, chunk: Any, nbytes: int) -> None:
        """Keep what was decoded from the value of `kept` as `form`; see :meth:`ValueCache.put_chunk`."""
        self._cache.put_chunk(self._identity, key, kept.value, form, chunk, nbytes)

    def holds(self, key: str, start: int = 0, stop: int | None = None) -> bool:
        """Whether a reader would use what is kept, or what the base holds."""
        return self._fresh(key) is not None or super().holds(key, start, stop)

    def _fresh(self, key: str) -> Kept | None:
        kept = self._cache.get(self._identity, key)
        return kept if kept is not None and kept.time >= self._oldest() else None

    def _renewed(self, key: str) -> Kept:
        """Return the value of `key`, which is not sent again if it is the one that is kept."""
        with self._cache.key_lock(self._identity, key):
            known = self._cache.get(self._identity, key)
            found = self.base.read(key, if_not_equal=None if known is None else known.generation)
            value = found.value
            if value is None and known is not None and found.generation == known.generation:
                value = known.value
            return self._keep(key, value, found.generation, found.time)

    def _keep(self, key: str, value: Buffer | None, generation: bytes, now: float) -> Kept:
        kept = Kept(None if value is None else bytes(value), generation, now)
        self._cache.put(self._identity, key, kept)
        return kept

    def read_ranges(self, key: str, starts: Sequence[int], stops: Sequence[int]) -> list[Buffer] | None:
        """Return the bytes of each range of the value of `key`."""
        kept = self._fresh(key)
        if kept is None:
            return read_ranges(self.base, key, starts, stops)
        if kept.value is None:
            return None
        view = memoryview(kept.value)
        pairs = (resolve_range(*pair, len(view)) for pair in zip(starts, stops, strict=True))
        return [view[begin:end] for begin, end in pairs]

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Replace the value of `key`; readers see it at once."""
        now = time.time()  # before the write, so that what others do after it does not look older
        with self._cache.key_lock(self._identity, key):
            generation = self.base.write(key, value, if_equal=if_equal)
            if generation is None:
                self._cache.drop(self._identity, key)
            else:
                self._keep(key, value, generation, now)
        return generation

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Delete `key`."""
        now = time.time()
        with self._cache.key_lock(self._identity, key):
            generation = self.base.delete(key, if_equal=if_equal)
            if generation is None:
                self._cache.drop(self._identity, key)
            else:
                self._keep(key, None, MISSING_GENERATION, now)
        return generation

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Delete the keys in ``[start, stop)``."""
        try:
            self.base.delete_range(start, stop)
        finally:
            self._cache.drop_range(self._identity, KeyRange.between(start, stop))

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        """Yield the keys in ``[start, stop)`` that the base has."""
        return self.base.list(start, stop)

    def list_children(self, prefix: str) -> Children:
        """List one level below `prefix`."""
        return self.base.list_children(prefix)
