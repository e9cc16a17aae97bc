"""The cache of shard indexes: what it counts is what it keeps."""

import sys
from concurrent.futures import ThreadPoolExecutor

from chunkwise.core.kvstore.shard_index_cache import ShardIndexCache


def test_workers_that_find_the_same_index():
    """Each of them puts it; it counts once, so that others keep their room."""
    cache = ShardIndexCache(1000)

    def put(_: int) -> None:
        for _ in range(10_000):
            cache.put("a", "index", 100)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(6) as workers:
            list(workers.map(put, range(6)))
    finally:
        sys.setswitchinterval(interval)
    cache.put("b", "other", 900)
    assert (cache.get("a"), cache.get("b")) == ("index", "other")
    cache.put("c", "third", 100)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (None, "other", "third")
