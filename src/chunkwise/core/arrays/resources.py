"""Resources of an open array: its threads, and the cache pools for stored values and metadata documents."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from chunkwise.core.driver.chunked.spec import ChunkedSpec
from chunkwise.core.engine.pool import Pool, pool_of
from chunkwise.core.kvstore.adapter.cache import CacheStore
from chunkwise.core.kvstore.caches import ValueCache
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.specs.driver_spec import DriverSpec
from chunkwise.core.specs.resources import CachePool, ConcurrencyLimit

if TYPE_CHECKING:
    from chunkwise.core.driver.image.spec import ImageSpec  # few programs open images

__all__ = ["cache_of", "cached", "pool_under"]


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
