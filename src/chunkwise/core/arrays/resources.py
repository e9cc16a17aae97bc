"""Resources of open arrays: threads, cache pools, and the metadata that all handles of an array share.

Each handle checks it according to its staleness bound, and reads with the known generation, so that an
unchanged document is not sent again.  An entry lives as long as a handle; a cache pool with room keeps the
document longer.  A transaction notes which document its changed chunks were encoded for.
"""

from __future__ import annotations

import math
import time
from collections.abc import Hashable
from math import inf
from operator import ge, lt
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from weakref import WeakValueDictionary, ref

from chunkwise.core.base.threads import new_lock, new_rlock
from chunkwise.core.driver.chunked.documents import layout_of
from chunkwise.core.driver.chunked.flows import Opened, OpenRequest, not_same, read_metadata
from chunkwise.core.driver.chunked.format import Format
from chunkwise.core.driver.chunked.spec import ChunkedSpec
from chunkwise.core.driver.flow import run
from chunkwise.core.engine.pool import Pool, pool_of
from chunkwise.core.kvstore.adapter.cache import CacheStore
from chunkwise.core.kvstore.adapter.pending import PendingStore
from chunkwise.core.kvstore.caches import CacheEntry, ValueCache
from chunkwise.core.kvstore.places.replaced_places import Place, changes, is_replaced, note_replaced, place_of
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.specs.driver_spec import DriverSpec
from chunkwise.core.specs.resources import CachePool, ConcurrencyLimit
from chunkwise.errors import ChunkwiseError, prefixed

if TYPE_CHECKING:
    from chunkwise.core.driver.single_value import ImageSpec

__all__ = [
    "ArrayDocument",
    "SharedMetadata",
    "cache_document",
    "cache_of",
    "cached",
    "cached_document",
    "oldest_allowed",
    "pool_under",
    "shared_metadata",
    "shared_with",
]


def cached(spec: ChunkedSpec | ImageSpec, store: KvStoreDriver, path: str) -> KvStoreDriver:
    """Return `store` for the array at `path`, with the cache pool of `spec` if that has room."""
    cache = cache_of(spec.resource("cache_pool"))
    if cache is None:
        return store
    bound, opened = spec.recheck_cached_data, time.time()

    def oldest() -> float:
        if bound is True:
            return math.inf
        if bound is False:
            return -math.inf
        return opened if bound == "open" else float(bound)

    return CacheStore(store, cache, oldest, path)


def cache_of(pool: CachePool) -> ValueCache | None:
    """Return the cache of a cache pool; None if the pool keeps nothing."""
    if pool.cache is None and pool.total_bytes_limit:
        pool.cache = ValueCache(pool.total_bytes_limit)
    cache: ValueCache | None = pool.cache
    return cache


def pool_under(spec: DriverSpec) -> Pool:
    """Return the threads of a bound spec, or of its first part that has any, or new ones."""
    # The spec has the number of threads, or else its kvstore.
    if "data_copy_concurrency" in spec.resources:
        own = spec.resource("data_copy_concurrency")
        below = None if own.limit is not None or spec.kvstore is None else spec.kvstore.copy_limit()
        return pool_of(below or own)
    for part in spec.parts():
        if isinstance(part, DriverSpec):
            return pool_under(part)
    return pool_of(ConcurrencyLimit(None))


class SharedMetadata:
    """The current version of one document; the lock is held while the store is read."""

    __slots__ = ("__weakref__", "lock", "looked", "opened")

    def __init__(self, opened: Opened | None = None, looked: int | None = None) -> None:
        self.lock = new_rlock()
        self.opened = opened
        # number of the last change that `opened` may know of
        self.looked = changes.number if looked is None else looked

    def known(self, store: KvStoreDriver, key: str) -> Opened | None:
        """Return the metadata; None if this process has put something else in its place."""
        if self.looked != changes.number:
            with self.lock:
                now = changes.number
                if is_replaced(place_of(store, key), self.looked):
                    self.opened = None
                self.looked = now
        return self.opened

    def note_written(self, store: KvStoreDriver, path: str) -> None:
        """Tell handles of other contexts that `opened` has just been created, perhaps in place of theirs."""
        number = note_replaced(store, path)
        if self.looked == number - 1:  # no other change was made meanwhile
            self.looked = number


class _Table:
    """The entries of one cache pool."""

    # Most pools only ever have one entry, so the dict is made with the second one.

    __slots__ = ("_entries", "_first")

    def __init__(self, store: KvStoreDriver, request: OpenRequest, entry: SharedMetadata) -> None:
        self._first: Any = store, request, ref(entry)
        self._entries: WeakValueDictionary[Hashable, SharedMetadata] | None = None

    def entry(self, store: KvStoreDriver, request: OpenRequest) -> SharedMetadata:
        """Return the entry of an array."""
        if self._entries is None:
            self._entries = WeakValueDictionary()
            first_kv, first_request, reference = self._first
            first = reference()
            if first is not None:
                self._entries[_place(first_kv, first_request)] = first
            self._first = None
        place = _place(store, request)
        entry = self._entries.get(place)
        if entry is None:
            entry = self._entries[place] = SharedMetadata()
        return entry


_lock = new_lock()


def shared_metadata(pool: CachePool, store: KvStoreDriver, request: OpenRequest) -> SharedMetadata:
    """Return the entry of the array described by `request` in the cache pool `pool`."""
    with _lock:
        if pool.metadata is None:
            entry = SharedMetadata()
            pool.metadata = _Table(store, request, entry)
            return entry
        table: _Table = pool.metadata
        return table.entry(store, request)


def shared_with(
    pool: CachePool,
    store: KvStoreDriver,
    request: OpenRequest,
    opened: Opened,
    *,
    pending: bool = False,
    looked: int | None = None,
) -> SharedMetadata:
    """Return the entry of an array that was opened without asking it, with the newer metadata of both."""
    # `pending` means in a transaction; `looked` is the number of the last change before the document was read
    if request.mode.assume_metadata:
        return SharedMetadata(opened)
    if looked is not None and looked != changes.number and is_replaced(place_of(store, request.key), looked):
        return SharedMetadata(opened, looked)
    entry = shared_metadata(pool, store, request)
    if pending and (opened.written or opened.time == inf):
        return entry  # only the transaction sees this
    with entry.lock:
        known = entry.opened
        if known is None or (opened.generation and opened.time > known.time):
            if known is None or opened.generation != known.generation:
                entry.opened = opened
        elif not request.format.same_but_resized(opened.metadata, known.metadata):
            return SharedMetadata(opened)  # for example from an old copy of the document
    return entry


def _place(store: KvStoreDriver, request: OpenRequest) -> tuple[Place, Format]:
    return place_of(store, request.key), request.format


def cached_document(cache: ValueCache | None, store: KvStoreDriver, request: OpenRequest) -> Opened | None:
    """Return the metadata of a document in a cache pool; None if it is missing or unreadable."""
    entry = None if cache is None else cache.get(store.identity, request.key)
    if entry is None or entry.value is None:
        return None
    try:
        metadata = request.format.parse_metadata(request.format.parse_document(entry.value))
    except (ChunkwiseError, ValueError, RecursionError):
        return None  # it is read again, and its error reported then
    return Opened(metadata, entry.generation, entry.time)


def cache_document(cache: ValueCache, store: KvStoreDriver, request: OpenRequest, opened: Opened) -> None:
    """Make a cache pool keep a document beyond the lifetime of the handles."""
    if opened.generation:
        raw = request.format.encode(opened.metadata)
        cache.put(store.identity, request.key, CacheEntry(raw, opened.generation, opened.time))


def oldest_allowed(bound: bool | float | str, opened: float) -> float:
    """Return the oldest allowed time of metadata for an operation now, in seconds since the epoch."""
    # `bound` is ``recheck_cached_metadata`` of the spec, `opened` the time of opening the handle.
    if isinstance(bound, bool):
        return time.time() if bound else float("-inf")
    return opened if bound == "open" else float(bound)


class ArrayDocument(NamedTuple):
    """The metadata that the changed chunks of one array were encoded for."""

    request: OpenRequest
    opened: Opened
    store: KvStoreDriver  # the array's store outside the transaction
    above: str  # prefix of its keys in the store of the transaction
    shape: tuple[int, ...]  # largest shape at any of the changes

    def joined(self, later: Self) -> Self:
        """Return one for the changes of both; raise if they are changes of different arrays."""
        known, found = self.opened.metadata, later.opened.metadata
        if known is found:
            return self
        if not self.request.format.same_but_resized(known, found):
            raise not_same(self.request, known, found)
        return later._replace(shape=tuple(map(max, self.shape, later.shape)))

    def check(self, store: PendingStore) -> bytes:
        """Return the document's current generation; raise if it is another array's.

        Changes of chunks that a resize has left outside are dropped, as if the resize came after them.
        """
        request, known = self.request, self.opened.metadata
        with prefixed(f"Error writing {self.store.describe(request.path)}", ChunkwiseError):
            found = run(read_metadata(request, self.opened), self.store)
            if not request.format.same_but_resized(known, found.metadata):
                raise not_same(request, known, found.metadata)
        if any(map(lt, found.metadata.shape, self.shape)):
            stored = layout_of(request.format, found.metadata, request.path, request.options).stored
            limits = [stored.grid.n_cells(dim, size) for dim, size in enumerate(stored.shape)]

            def is_outside(key: str) -> bool:
                cell = stored.keys.cell(key.removeprefix(self.above), stored.grid.rank)
                return key.startswith(self.above) and cell is not None and any(map(ge, cell, limits))

            store.drop(is_outside)
        return found.generation
