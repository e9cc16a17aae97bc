"""Small requests of one kind, as many at a time as the store accepts; blocks, with a few separate threads.

The threads wait for the reads and writes of their blocks, which the pool carries out.  With several blocks
under way, the pool always has work, and memory is limited to one block for each thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from functools import cache
from threading import local
from typing import Any, TypeVar

from chunkwise.core.base.limits import n_dask_threads, n_processors
from chunkwise.core.base.threads import new_lock, start_thread, until_done
from chunkwise.core.engine.abandoned_changes import EVERYWHERE, Change, be_part_of_change
from chunkwise.core.engine.future import Future, Promise
from chunkwise.core.engine.pool import Pool, Stop
from chunkwise.core.kvstore.traits import traits_of

__all__ = ["is_slow", "map_requests", "n_block_threads", "work_through"]

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


B = TypeVar("B")

# Each thread holds a block, and the pool does the work: copying 64 chunks of 64³ takes 60 to 66 ms of
# processor time with 1 to 8 threads, and 77 ms with 32, on two processors.
_MOST_THREADS = 8


def n_block_threads() -> int:
    """Return how many blocks are under way at the same time."""
    return min(n_dask_threads() or max(2, n_processors()), _MOST_THREADS)


def work_through(
    blocks: Iterable[B], work: Callable[[B], None], n_threads: int | None = None
) -> Future[None]:
    """Call `work` with each of `blocks`, in order, several at a time; the first failure fails the future."""
    # No block is begun after a failure or cancellation.  Unless it was cancelled, the future is done when no
    # thread is working any more.
    promise, future = Promise[None].new()
    change = Change(EVERYWHERE, future)  # if threads can be started
    n = n_threads or n_block_threads()
    left = [n]
    lock = new_lock()
    errors: list[BaseException] = []
    pending = iter(blocks)

    def take() -> tuple[B] | None:
        with lock:
            if errors or promise.done():
                return None
            for block in pending:
                return (block,)
        return None

    def run() -> None:
        try:
            while (taken := take()) is not None:
                work(taken[0])
        except BaseException as e:
            until_done(errors.append, e)
        end()

    def end() -> None:
        with lock:
            left[0] -= 1
            if left[0]:
                return
        change.end()
        if errors:
            promise.set_exception(errors[0])
        else:
            promise.set_result(None)

    try:
        # A Dask worker with one thread needs that thread for its task.
        n_started = 0
        while n_started < n and n_dask_threads() != 1 and start_thread(run, prepare=be_part_of_change):
            n_started += 1
    except BaseException as e:  # an interrupt: running threads must end
        errors.append(e)
        raise
    for i in range(n_started, n):  # no more threads can be started: fewer do the work, or this one
        end() if i else copy_context().run(run)
    return future
