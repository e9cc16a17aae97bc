"""Work that mostly waits for a network, done on threads of its own so that the caller need not wait.

There are as many threads as there are pieces of work under way, up to a limit; they are those of a
:class:`~chunkwise.engine.pool.Pool`, daemons that a forked child does not inherit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from chunkwise.engine.future import Future
from chunkwise.engine.pool import Pool

__all__ = ["in_background"]

T = TypeVar("T")

_MAX_THREADS = 32  # as many requests as TensorStore has under way by default

_pools: list[Pool] = []
_under_way: set[Future[object]] = set()


def _pool() -> Pool:
    if not _pools:
        _pools.append(Pool(_MAX_THREADS))
    return _pools[0]


def in_background(work: Callable[[], T]) -> Future[T]:
    """Return the future of what `work` returns, called in another thread."""
    # In a thread of a pool, whose turn it is to wait, `work` is done here and now.
    results: list[T] = []
    pool = _pool()
    pool.start_threads(min(_MAX_THREADS, len(_under_way) + 1))
    future = pool.run([work], lambda _: lambda do: results.append(do()), results.pop, n_workers=1)
    if not future.done():
        _under_way.add(future)  # type: ignore[arg-type]
        future._on_done(_under_way.discard)
    return future
