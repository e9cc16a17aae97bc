"""Processing blocks with a few separate threads.

The threads wait for the reads and writes of their blocks, which the pool carries out.  With several blocks
under way, the pool always has work, and memory is limited to one block for each thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import copy_context
from typing import TypeVar

from chunkwise.core.base.limits import n_dask_threads, n_processors
from chunkwise.core.base.threads import new_lock, start_thread, until_done
from chunkwise.core.engine.abandoned_changes import EVERYWHERE, Change, be_part_of_change
from chunkwise.core.engine.future import Future, Promise

__all__ = ["n_block_threads", "work_through"]

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
