"""Small requests of one kind to a store, as many at a time as the store accepts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from threading import local
from typing import Any, TypeVar

from chunkwise.core.engine.pool import Pool, Stop
from chunkwise.core.kvstore.traits import traits_of

__all__ = ["is_slow", "map_requests"]

T = TypeVar("T")
R = TypeVar("R")


def is_slow(store: object) -> bool:
    """Return True if a store is so slow that several requests should be under way."""
    return traits_of(store).request_concurrency is not None


def map_requests(store: object, ask: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return the result of `ask` for each item; raise if one of them raises."""
    # A store that answers at once is asked in order, in the calling thread.
    concurrency = traits_of(store).request_concurrency
    if concurrency is None or len(items) < 2:
        return [ask(item) for item in items]
    out: list[Any] = [None] * len(items)

    def open_worker(stop: Stop) -> Callable[[int], None]:
        def work(i: int) -> None:
            if not stop:
                outer, _here.within = getattr(_here, "within", False), True
                try:
                    out[i] = ask(items[i])
                finally:
                    _here.within = outer

        return work

    # Nested requests run in the same thread, which must not wait for another thread of its pool.
    apart = not getattr(_here, "within", False)
    _pool().run(
        range(len(items)),
        open_worker,
        lambda: None,
        n_workers=concurrency,
        n_threads=concurrency,
        inline=not apart,
        apart=apart,
    ).result()
    return out


_here = local()


@cache
def _pool() -> Pool:
    """Return the threads for all such requests of this process; they only wait, and decode nothing."""
    return Pool()
