"""The cache of shard indexes: what it counts is what it keeps."""

import sys
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

import pytest

from chunkwise.core.kvstore.caches import ShardIndexCache


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


class Slow(OrderedDict):
    """Entries that let another thread in while they are changed."""

    meanwhile = None

    def pop(self, *arguments):
        found = super().pop(*arguments)
        if self.meanwhile is not None:
            work, self.meanwhile = self.meanwhile, None
            thread = threading.Thread(target=work)
            thread.start()
            thread.join(0.2)  # it waits, unless it is let in
            self.started = thread
        return found


@pytest.mark.parametrize("change", ["put", "evict"])
@pytest.mark.parametrize("other", ["put", "evict"])
def test_a_change_waits_for_another(change, other):
    """Both change the sum of all sizes, which decides what is evicted."""
    cache = ShardIndexCache(1000)
    cache.put("a", "index", 100)
    cache.put("b", "index", 100)
    cache._entries = entries = Slow(cache._entries)

    def run(what, key):
        cache.put(key, "new", 50) if what == "put" else cache.evict(key)

    entries.meanwhile = lambda: run(other, "b")
    run(change, "a")
    entries.started.join()
    expected = 50 * ((change == "put") + (other == "put"))
    cache.put("rest", "fills the cache", 1000 - expected)
    assert cache.get("rest") is not None
    assert (cache.get("a"), cache.get("b")) == tuple(
        "new" if what == "put" else None for what in (change, other)
    )
    cache.put("more", "one byte", 1)
    assert len(cache._entries) < 2 + expected // 50
