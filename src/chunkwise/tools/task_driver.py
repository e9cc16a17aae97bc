"""The loop that has tasks done by an executor, whatever it is made of.

1. Tasks are numbers.  A batch is a run of them, some 30 s of work, smaller towards the end; one or two
   batches for each worker are under way.
2. A worker that is lost is not a task that fails: its batch is done again.  A batch that has lost workers
   runs alone, since nobody knows which of those under way it was; after three losses it is halved, and a
   single task is named in the error.
3. What runs 3 times longer than the median gets a second try, when a worker has nothing else to do.  The
   first result counts.
4. The loop ends when nothing is under way any more, slow tries included: nothing is written afterwards.  What
   only reads isn't waited for.
5. The first failure, or an interrupt, lets what is under way end, and is raised.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from dataclasses import dataclass
from statistics import median
from typing import Any, Generic, Protocol, TypeVar

from chunkwise.errors import AbortedError

__all__ = ["LostWorkersError", "Submit", "run_tasks"]

R = TypeVar("R")

BATCH_SECONDS = 30.0
_WINDOW = 2  # batches under way for each worker
_MOST_LOSSES = 3
_SLOW = 3.0  # times the median: how long a try may take before there is a second one
_SLOW_SECONDS = 2.0
_N_MEASURED = 101
_LOST = {
    "KilledWorker",
    "FutureCancelledError",
    "WorkerCrashedError",
    "ActorDiedError",
    "TerminatedWorkerError",
}
_TICK = 1.0


class LostWorkersError(AbortedError):
    """A task during which every worker ended that tried it."""


class Submit(Protocol):
    """Has the tasks from `start` up to, but without, `stop` done somewhere."""

    def __call__(self, start: int, stop: int) -> Future[Any]: ...


@dataclass(eq=False)
class _Batch:
    start: int
    stop: int
    n_losses: int = 0
    n_running: int = 0  # tries that are under way
    n_tries: int = 0
    submitted: float = 0.0
    done: bool = False


class _Queue:
    """The tasks that nobody works on."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._ranges = deque((start, stop) for start, stop in ranges if start < stop)
        self._suspects: deque[_Batch] = deque()
        self.n_left = sum(stop - start for start, stop in self._ranges)

    def take(self, size: int) -> _Batch | None:
        """Return the next batch of `size` tasks at most."""
        if not self._ranges:
            return None
        start, stop = self._ranges.popleft()
        if stop - start > size:
            self._ranges.appendleft((start + size, stop))
            stop = start + size
        self.n_left -= stop - start
        return _Batch(start, stop)

    def take_suspect(self) -> _Batch | None:
        """Return the next batch that is to run alone."""
        return self._suspects.popleft() if self._suspects else None

    def put_back(self, batch: _Batch, n_losses: int) -> None:
        """Take back a batch that has lost workers."""
        batch.n_losses += n_losses
        if batch.n_losses < _MOST_LOSSES:
            self._suspects.append(_Batch(batch.start, batch.stop, batch.n_losses))
            return
        middle = (batch.start + batch.stop) // 2
        if middle == batch.start:
            raise LostWorkersError(f"task {batch.start} has ended {batch.n_losses} workers that tried it")
        self._suspects += [_Batch(batch.start, middle), _Batch(middle, batch.stop)]


class _Driver(Generic[R]):
    def __init__(
        self,
        submit: Submit,
        pending: Iterable[tuple[int, int]],
        done: Callable[[int, int, R], None],
        n_workers: int,
        seconds: float,
        tick: Callable[[], None],
        stop: Callable[[], None],
        renew: Callable[[], Submit] | None,
        wait_for_all: bool,
    ) -> None:
        self._submit, self._done, self._n_workers, self._seconds = submit, done, n_workers, seconds
        self._tick, self._stop, self._renew = tick, stop, renew
        self._wait_for_all = wait_for_all
        self._queue = _Queue(pending)
        self._running: dict[Future[R], _Batch] = {}
        self._measured: deque[float] = deque(maxlen=_N_MEASURED)  # seconds a task
        self._alone = False

    def run(self) -> None:
        try:
            while self._fill():
                self._collect(_TICK)
                self._tick()
        except BaseException:  # an interrupt too: no task may be under way when it is passed on
            self._end()
            raise

    def _fill(self) -> bool:
        """Submit what there is room for; return whether anything is to be waited for."""
        while len(self._running) < (0 if self._alone else _WINDOW * self._n_workers):
            batch = self._queue.take(self._batch_size())
            if batch is None:
                break
            self._start(batch)
        if not self._running:
            suspect = self._queue.take_suspect()
            self._alone = suspect is not None
            if suspect is not None:
                self._start(suspect)
            elif self._queue.n_left:
                return self._fill()
        if not self._alone and not self._queue.n_left:
            self._try_again()
        return bool(self._running) and (self._wait_for_all or not all(b.done for b in self._running.values()))

    def _start(self, batch: _Batch) -> None:
        batch.submitted = time.monotonic()
        batch.n_running += 1
        batch.n_tries += 1
        try:
            future = self._submit(batch.start, batch.stop)
        except BrokenExecutor as e:
            future = Future()
            future.set_exception(e)
        self._running[future] = batch

    def _try_again(self) -> None:
        """Give what is slow a second try, as far as workers have nothing to do."""
        n_idle = self._n_workers - len(self._running)
        if n_idle <= 0 or not self._measured:
            return
        now, each = time.monotonic(), median(self._measured)
        slow = [
            batch
            for batch in self._running.values()
            if not batch.done
            and batch.n_tries == 1
            and now - batch.submitted > max(_SLOW_SECONDS, _SLOW * each * (batch.stop - batch.start))
        ]
        for batch in sorted(slow, key=lambda batch: batch.submitted)[:n_idle]:
            self._start(batch)

    def _batch_size(self) -> int:
        if not self._measured:
            return 1
        share = -(-self._queue.n_left // (2 * _WINDOW * self._n_workers))
        return max(1, min(share, int(self._seconds / max(median(self._measured), 1e-6))))

    def _collect(self, timeout: float | None) -> None:
        finished, _ = wait(self._running, timeout=timeout, return_when=FIRST_COMPLETED)
        broken: BaseException | None = None
        for future in finished:
            batch = self._running.pop(future)
            batch.n_running -= 1
            try:
                result = future.result()
            except BaseException as e:
                if isinstance(e, BrokenExecutor):
                    broken = e
                if batch.done:
                    continue
                if not _is_lost(e):
                    raise
                if not batch.n_running:
                    self._queue.put_back(batch, _MOST_LOSSES if type(e).__name__ == "KilledWorker" else 1)
                continue
            self._count(batch, result)
        if broken is not None:
            if self._renew is None:
                raise AbortedError(f"the executor is broken: {broken}") from broken
            for future, batch in list(self._running.items()):  # all of them are lost
                if not (future.done() and not future.cancelled() and future.exception() is None):
                    del self._running[future]
                    batch.n_running -= 1
                    if not batch.n_running and not batch.done:
                        self._queue.put_back(batch, 1)
            self._submit = self._renew()

    def _count(self, batch: _Batch, result: R) -> None:
        """Note the result of a batch, unless another try was faster."""
        if batch.done:
            return
        batch.done = True
        # Some of it was waiting for a worker: batches are rather too small.
        self._measured.append((time.monotonic() - batch.submitted) / (batch.stop - batch.start))
        self._done(batch.start, batch.stop, result)

    def _end(self) -> None:
        """Let what is under way end, and note what is done."""
        self._stop()
        for future in list(self._running):
            if future.cancel():
                del self._running[future]
        while self._running:
            finished, _ = wait(self._running, timeout=_TICK, return_when=FIRST_COMPLETED)
            for future in finished:
                batch = self._running.pop(future)
                if not future.cancelled() and future.exception() is None:
                    self._count(batch, future.result())


def run_tasks(
    submit: Submit,
    pending: Iterable[tuple[int, int]],
    done: Callable[[int, int, R], None],
    *,
    n_workers: int,
    batch_seconds: float = BATCH_SECONDS,
    tick: Callable[[], None] = lambda: None,
    stop: Callable[[], None] = lambda: None,
    renew: Callable[[], Submit] | None = None,
    wait_for_all: bool = True,
) -> None:
    """Have tasks done, in any order; return when all are.

    What runs long is tried a second time, so tasks have to be such that they may be done twice.

    Parameters
    ----------
    submit : Submit
    pending : iterable of (int, int)
        The tasks, as ranges.
    done : callable
        Is told the range and the result of each batch, in this thread; never twice of a task.
    n_workers : int
    batch_seconds : float
        How long a batch is to take; 0 for batches of one task.
    tick : callable
        Called once in a second, in this thread.
    stop : callable
        Called when no more tasks are wanted, after a failure.
    renew : callable, optional
        Returns what takes the place of `submit` if the executor is broken.
    wait_for_all : bool
        Whether to return only when no try is under way, also of what another try has done by then: needed if
        tasks write.

    Raises
    ------
    LostWorkersError
        If a task has ended every worker that tried it.
    AbortedError
        If the executor is broken and there is no other.
    """
    _Driver(submit, pending, done, n_workers, batch_seconds, tick, stop, renew, wait_for_all).run()


def _is_lost(error: BaseException) -> bool:
    names = {cls.__name__ for cls in type(error).__mro__}
    return isinstance(error, BrokenExecutor | CancelledError) or bool(names & _LOST)
