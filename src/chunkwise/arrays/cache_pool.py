"""Cache pools of a chunked array: for values of the kvstore, and for metadata documents."""

from __future__ import annotations

import math
import time

from chunkwise.driver.chunked.spec import ChunkedSpec
from chunkwise.driver.image.spec import ImageSpec
from chunkwise.kvstore.adapter.cache import CacheStore
from chunkwise.kvstore.adapter.value_cache import ValueCache
from chunkwise.kvstore.protocol import KvStoreDriver
from chunkwise.spec.resources.live import CachePool

__all__ = ["cache_of", "cached"]


def cached(spec: ChunkedSpec | ImageSpec, store: KvStoreDriver, path: str) -> KvStoreDriver:
    """Return `store`, for the array at `path`, over the cache pool of `spec` if that has room."""
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
    """Return the cache of a cache pool; None if that is to keep nothing."""
    if pool.cache is None and pool.total_bytes_limit:
        pool.cache = ValueCache(pool.total_bytes_limit)
    cache: ValueCache | None = pool.cache
    return cache
