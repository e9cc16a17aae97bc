"""Threads that process the batches of reads and writes.

A job is a number of batches and a function that opens a worker for them.  It enters the queue once for each
thread that it may use, not once for each batch.  The thread that takes an entry opens a worker, which owns
its reader, its codecs' contexts and its scratch memory, and takes batches until none is left.  Between
batches, a job makes room for others that wait.

Threads are started when there is work for them, are daemons, and are not inherited by a fork: the child
starts its own.  If the system can't start more threads, the existing ones or the caller do the work.  When
Python ends, they are told to stop and waited for, since a daemon would otherwise continue in a codec while
its objects are destroyed.  Work submitted by a thread of a pool is done at once by that thread, so that
waiting for it can't deadlock.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import count
from operator import call, length_hint
from queue import SimpleQueue
from threading import get_ident
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from chunkwise.core.base.limits import n_dask_threads, n_processors
from chunkwise.core.base.threads import in_child, new_lock, put_in_order_in_child, start_thread, until_done
from chunkwise.core.engine.abandoned_changes import Change, after, be_part_of_change, before
from chunkwise.core.engine.completion import give_up
from chunkwise.core.engine.future import Future, Promise
from chunkwise.core.kvstore.request_limits import Slots
from chunkwise.errors import AbortedError, CancelledError

__all__ = [
    "OpenWorker",
    "Pool",
    "Stop",
    "give_up_since",
    "in_event_loop",
    "is_idle",
    "n_changes",
    "n_threads",
    "pool_of",
    "work_here",
]

B = TypeVar("B")
T = TypeVar("T")

Stop: TypeAlias = "list[None]"
"""True as soon as the work is no longer wanted; checked once for each chunk."""

OpenWorker: TypeAlias = Callable[[Stop], Callable[[B], None]]
"""Called in the working thread; returns the function to call with each batch."""


class _Here(threading.local):
    """State of a thread: `working` in threads of a pool, and `stop` of its current job."""

    working = False
    stop: Stop | None = None
    n_changes = 0  # changes that it has begun


_here = _Here()
_pools: weakref.WeakSet[Pool] = weakref.WeakSet()
_jobs: set[_Job[Any, Any]] = set()
_LAST_WAIT = 10.0  # seconds to wait for a chunk, or a server that does not answer


class Pool:
    """Threads shared by all reads and writes of a context."""

    # `n_workers` batches are processed at the same time; by default one for each processor that this process
    # may use.  With `slots`, a user chose the number; then, and in a Dask worker with a given number of
    # threads, it is `bounded`: local files that mostly wait get no more threads either.  If that is one
    # thread, it is the one that runs the task.

    _n_threads = 0

    def __init__(self, n_workers: int | None = None, *, slots: Slots | None = None) -> None:
        n_dask = 0 if n_workers else n_dask_threads()
        self.n_workers = n_workers or n_processors()
        self.bounded = slots is not None or n_dask > 0
        self._slots = slots or Slots(self.n_workers)
        self._is_caller = n_dask == 1
        self._lock = new_lock()
        self.after_fork()
        put_in_order_in_child(self)
        _pools.add(self)

    def after_fork(self) -> None:
        """Start anew, since threads and their work exist only in the parent."""
        self._queue: SimpleQueue[_Turn[Any] | None] = SimpleQueue()
        self._n_threads = 0

    def __del__(self) -> None:
        for _ in range(self._n_threads):
            self._queue.put(None)

    def run(
        self,
        batches: Sequence[B],
        open_worker: OpenWorker[B],
        finish: Callable[[], T],
        *,
        n_workers: int,
        n_threads: int | None = None,
        inline: bool = False,
        writes: Hashable = None,
        apart: bool = False,
    ) -> Future[T]:
        """Process `batches`; the first failure stops the rest and fails the future."""
        # `finish` is called once after the last batch, and returns the result.  `n_workers` may exceed the
        # pool's number for work that mostly waits.  `n_threads` is the number that the job may use together
        # with other jobs under way; by default the number of processors.  With `inline`, the calling thread
        # does the work, because that is faster than handing it over.  `writes` is the identity of the store
        # that is changed, or `EVERYWHERE`: abandoned changes there are finished first.  Work that is `apart`
        # waits for no other work, so that a thread of another pool may wait for it.
        n = max(1, min(n_workers, len(batches)))
        earlier = before(writes)
        inline = (inline and not earlier) or (_here.working and not apart) or (self._is_caller and n == 1)
        most = min(n_threads or self.n_workers, n + len(_jobs))
        if inline or not batches or not self.start_threads(max(n, most)):
            return _run_here(batches, open_worker, finish)
        promise: Promise[T]  # not Promise[T].new(): the alias takes as long as the call
        promise, future = Promise.new()
        job = _Job(batches, open_worker, finish, promise, self, n, writes)
        turns = [_Turn(job) for _ in range(n)]
        steps: list[Any] = [_jobs.add, *[self._queue.put] * n]
        left = iter([job, *turns])
        begin = partial(any, map(call, steps, left))
        try:
            if earlier:
                after(earlier, begin)
            else:
                begin()  # one call, so that an interrupt comes before or after all steps
        except BaseException as e:  # Ctrl-C, and the caller has no future to cancel
            job.stop.append(None)  # it may still begin after others
            if job in _jobs:
                if isinstance(e, MemoryError):  # that turn and the next were not queued
                    for _ in range(1 + length_hint(left)):
                        job.end_turn()
                give_up(future)
            raise
        return future

    def codec_limit(self, n_workers: int) -> Slots | None:
        """Return the limit that workers hold while they decode, encode or copy, or None."""
        # If most workers wait for storage, there are more of them than processors.
        if self.bounded and n_workers:
            return self._slots
        # One more, which may wait for the interpreter lock.  Without a limit, workers that start together
        # would encode together, finish together, and then all wait for the disk while none encodes.
        n = self.n_workers + 1
        return Slots(n) if n_workers > n else None

    def start_threads(self, n_wanted: int) -> bool:
        """Start threads up to `n_wanted`, or as many as possible; return whether there is any."""
        # A thread that is busy with another job makes room between batches.
        if self._n_threads < n_wanted:
            with self._lock:
                while self._n_threads < n_wanted:
                    self._n_threads += 1  # before an interrupt
                    if not start_thread(_serve, self._queue, prepare=_be_worker):
                        self._n_threads -= 1
                        break
        return self._n_threads > 0


def work_here() -> None:
    """Make the calling thread do all its work itself, like a thread of a pool."""
    _here.working = True


def in_event_loop() -> bool:
    """Return True if this thread runs an event loop, which must not wait for its own coroutines."""
    if "asyncio" not in sys.modules:  # no loop can have been started
        return False
    from asyncio import _get_running_loop

    return _get_running_loop() is not None


def n_changes() -> int:
    """Return the number of changes to stored data that this thread has begun, for `give_up_since`."""
    return _here.n_changes


def give_up_since(n: int) -> None:
    """Give up the changes that this thread, which was interrupted, has begun since `n_changes` was `n`."""
    thread = get_ident()
    for job in list(_jobs):
        if job.begun[0] == thread and job.begun[1] > n:
            give_up(job.promise.future)


def is_idle() -> bool:
    """Return True if no pool has work under way."""
    return not _jobs


def n_threads() -> int:
    """Return the number of threads that all pools have started."""
    return sum(pool._n_threads for pool in list(_pools))


def _be_worker() -> None:
    _here.working = True
    be_part_of_change()


def _serve(queue: SimpleQueue[_Turn[Any] | None]) -> None:
    while (turn := queue.get()) is not None:
        try:
            turn()
        except BaseException as e:  # there was no memory to report another failure, but there may be now
            until_done(turn.fail, e)
        del turn  # otherwise its arrays would live until there is other work


def _run_here(batches: Sequence[B], open_worker: OpenWorker[B], finish: Callable[[], T]) -> Future[T]:
    stop = _here.stop
    if stop is None:
        stop = []
    try:
        if batches:
            work = open_worker(stop)
            for batch in batches:
                if not stop:
                    work(batch)
        if stop:
            raise CancelledError("the surrounding work was given up")
        return Future.ready(finish())
    except Exception as e:
        return Future.failed(e)


class _Job(Generic[B, T]):
    """The batches of one read or write, and their progress."""

    def __init__(
        self,
        batches: Sequence[B],
        open_worker: OpenWorker[B],
        finish: Callable[[], T],
        promise: Promise[T],
        pool: Pool,
        n_turns: int,
        writes: Hashable,
    ) -> None:
        self.batches = deque(batches)
        self.open_worker = open_worker
        self.finish = finish
        self.promise = promise
        self.pool = pool  # the pool must not end before its jobs
        self.queue = pool._queue
        self.stop: Stop = []
        self.errors: list[BaseException] = []
        self._ended = count(1)
        self._n_turns = n_turns
        stop = self.stop
        promise.future.add_done_callback(lambda _: stop.append(None))  # the future was cancelled
        self._change: Change | None = None
        self.begun = 0, 0  # thread and number of the change
        if writes is not None:
            self._change = Change(writes, promise.future)
            _here.n_changes += 1
            self.begun = get_ident(), _here.n_changes

    def end_turn(self) -> None:
        """Count a stopped worker; the last one completes the promise."""
        if next(self._ended) < self._n_turns:
            return
        self.leave()
        if not self.errors and not self.stop:
            try:
                self.promise.set_result(self.finish())
                return
            except BaseException as e:
                self.errors.append(e)
        if self.errors:
            self.promise.set_exception(self.errors[0])

    def leave(self) -> None:
        """Leave the set of jobs under way."""
        _jobs.discard(self)
        if self._change is not None:
            self._change.end()


class _Turn(Generic[B]):
    """A job's entry in the queue, with the worker that was opened for it."""

    __slots__ = ("_job", "_work")

    def __init__(self, job: _Job[B, Any]) -> None:
        self._job = job
        self._work: Callable[[B], None] | None = None

    def __call__(self) -> None:
        job = self._job
        _here.stop = job.stop
        try:
            if not job.stop and job.batches:
                if self._work is None:
                    self._work = job.open_worker(job.stop)
                while not job.stop:
                    try:
                        batch = job.batches.popleft()
                    except IndexError:
                        break
                    self._work(batch)
                    if not job.queue.empty() and job.batches:
                        job.queue.put(self)
                        return
        except BaseException as e:
            job.errors.append(e)
            job.stop.append(None)
        _here.stop = None  # callbacks are not part of the job
        job.end_turn()

    def fail(self, error: BaseException) -> None:
        """End the job with `error`, whatever its other workers do."""
        job = self._job
        job.stop.append(None)
        job.leave()
        job.promise.set_exception(error)


def _stop_jobs() -> None:
    """Stop all threads before Python finalizes."""
    end = time.monotonic() + _LAST_WAIT
    while _jobs and time.monotonic() < end:
        for job in list(_jobs):  # other threads may submit more
            if not job.stop:
                job.errors.append(AbortedError("the program ended before the work was done"))
            job.stop.append(None)
        time.sleep(0.001)


atexit.register(_stop_jobs)


@in_child
def _forget_threads() -> None:
    _here.working = False
    _jobs.clear()


class _Limit(Protocol):
    """A concurrency limit of a context: a number of threads, or None for those of the whole process."""

    limit: int | None
    slots: Slots | None
    pool: Pool | None


_shared: list[Pool] = []
_shared_lock = new_lock()


def pool_of(limit: _Limit) -> Pool:
    """Return the pool for `limit`, made on first use."""
    if limit.pool is None:
        with _shared_lock:
            if limit.limit is not None:
                limit.pool = limit.pool or Pool(limit.limit, slots=limit.slots)
            else:
                if not _shared:
                    _shared.append(Pool())
                limit.pool = _shared[0]
    return limit.pool
