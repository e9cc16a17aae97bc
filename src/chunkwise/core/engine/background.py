"""Work that mostly waits for a network, on separate threads, so that the caller need not wait."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from chunkwise.core.engine.future import Future
from chunkwise.core.engine.pool import Pool
from chunkwise.core.kvstore.request_limits import DEFAULT_CONCURRENCY

__all__ = ["in_background", "in_foreground"]

T = TypeVar("T")

_background: list[Pool] = []
_under_way: set[Future[object]] = set()


def _background_pool() -> Pool:
    if not _background:
        _background.append(Pool(DEFAULT_CONCURRENCY))
    return _background[0]


def in_background(work: Callable[[], T], *, writes: Hashable = None) -> Future[T]:
    """Return the future of `work`, called in another thread; `writes` is as for `Pool.run`."""
    # A thread of a pool, which may wait, does `work` itself, now.
    results: list[T] = []
    pool = _background_pool()
    pool.start_threads(min(DEFAULT_CONCURRENCY, len(_under_way) + 1))
    future = pool.run(
        [work], lambda _: lambda do: results.append(do()), results.pop, n_workers=1, writes=writes
    )
    if not future.done():
        _under_way.add(future)  # type: ignore[arg-type]
        future._on_done(_under_way.discard)
    return future


def in_foreground(work: Callable[[], T]) -> Future[T]:
    """Return the completed future of `work`, called now in this thread."""
    try:
        return Future.ready(work())
    except Exception as e:
        return Future.failed(e)
