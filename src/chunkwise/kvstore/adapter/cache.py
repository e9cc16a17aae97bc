"""A store whose values are kept in memory, up to a limit, and used as long as the caller thinks them fresh.

Readers made by :meth:`CacheStore.open_reader`, and reads of a part, use what is kept; reading a whole
value with :meth:`CacheStore.read` always asks the base, so that updates on condition are never made to
something old.  Whatever whole value passes by, read or written, renews what is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from chunkwise.fork import Lock
from chunkwise.kvstore.adapter.value_cache import Kept, ValueCache
from chunkwise.kvstore.byte_range import read_ranges, resolve_range
from chunkwise.kvstore.key_range import KeyRange
from chunkwise.kvstore.protocol import (
    MISSING_GENERATION,
    Buffer,
    ByteRange,
    Children,
    KvStoreDriver,
    Reader,
    Stamped,
    Writer,
)
from chunkwise.kvstore.traits import StoreTraits, traits_of

__all__ = ["CacheStore"]


class CacheStore:
    """`base` with its values kept in `cache`.

    Parameters
    ----------
    base : KvStoreDriver
    cache : ValueCache
        May be shared with other stores.
    oldest : callable
        Gives the earliest time, in seconds since the epoch, at which a kept value has to have been
        current for a reader to use it unasked.
    prefix : str
        What all keys begin with that this store is used for.
    """

    def __init__(
        self, base: KvStoreDriver, cache: ValueCache, oldest: Callable[[], float], prefix: str = ""
    ) -> None:
        self.base = base
        self._cache = cache
        self._oldest = oldest
        self._prefix = prefix
        self._identity = base.identity

    @property
    def traits(self) -> StoreTraits:
        """Those of the base; readers and writers go through the cache."""
        base = traits_of(self.base)
        open_base = base.open_writer
        return base.adapted(
            rename=None,
            is_cached=self._is_cached,
            shard_indexes=base.shard_indexes,
            open_writer=None if open_base is None else lambda: _Writer(self, open_base()),
            open_into_reader=None,
        )

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
        with self.key_lock(key):
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

    def _is_cached(self, key: str, start: int = 0, stop: int | None = None) -> bool:
        base = traits_of(self.base).is_cached
        return self._fresh(key) is not None or (base is not None and base(key, start, stop))

    def _fresh(self, key: str) -> Kept | None:
        kept = self._cache.get(self._identity, key)
        return kept if kept is not None and kept.time >= self._oldest() else None

    def _renewed(self, key: str) -> Kept:
        """Return the value of `key`, which is not sent again if it is the one that is kept."""
        with self.key_lock(key):
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
        with self.key_lock(key):
            generation = None
            try:
                generation = self.base.write(key, value, if_equal=if_equal)
            finally:  # after a failure too: then nobody knows what is stored
                if generation is None:
                    self.forget(key)
                else:
                    self._keep(key, value, generation, now)
        return generation

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Delete `key`."""
        now = time.time()
        with self.key_lock(key):
            generation = None
            try:
                generation = self.base.delete(key, if_equal=if_equal)
            finally:  # after a failure too: then nobody knows what is stored
                if generation is None:
                    self.forget(key)
                else:
                    self._keep(key, None, MISSING_GENERATION, now)
        return generation

    def forget(self, key: str) -> None:
        """Keep nothing of `key`."""
        self._cache.drop(self._identity, key)

    def forget_all(self) -> None:
        """Keep nothing of the keys of this store's user, which somebody else may have written."""
        self._cache.drop_range(self._identity, KeyRange.of_prefix(self._prefix))

    def key_lock(self, key: str) -> Lock:
        """Return the lock under which `key` is read or written and then kept or forgotten."""
        return self._cache.key_lock(self._identity, key)

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


class _Writer:
    """Writes of one worker to the base of a store, which then forgets what it has kept."""

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
                self._store.forget(key)

    def delete(self, key: str) -> None:
        """Delete `key`."""
        with self._store.key_lock(key):
            try:
                self._base.delete(key)
            finally:
                self._store.forget(key)
