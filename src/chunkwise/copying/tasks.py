"""Tasks: their stages, chains of stages, batches, and the loop that runs them on any executor."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from chunkwise.errors import AbortedError

__all__ = ["Batch", "Chain", "LostWorkersError", "RunningChain", "Stage", "Submit", "run_tasks"]

# -- stages -------------------------------------------------------------------------------------------


class LostWorkersError(AbortedError):
    """A task that killed every worker that tried it."""


class Submit(Protocol):
    """Runs the tasks from `start` up to, but without, `stop` somewhere."""

    def __call__(self, start: int, stop: int) -> Future[Any]: ...


@dataclass(eq=False)
class Stage:
    """Tasks of one kind, which can be done in any order and twice.

    Attributes
    ----------
    submit : Submit
    pending : iterable of (int, int)
        The tasks, as ranges.
    done : callable
        Called in the thread of the loop with the range and the result of each batch, once for each task.
    kind : str
        Tasks of one kind take about as long for each unit of `cost`.
    cost : float
        Cost of a task, in any unit.
    n_together : int
        Tasks of a batch that a worker does at the same time.
    writes : bool
        Whether the stage ends only when no try is under way, not even a second one: needed if tasks write.
    failed : callable
        Called with the error of a task, before it is raised.
    name : callable
        Returns the name of a task in messages.
    """

    submit: Submit
    pending: Iterable[tuple[int, int]]
    done: Callable[[int, int, Any], None]
    kind: str = ""
    cost: float = 1.0
    n_together: int = 1
    writes: bool = True
    failed: Callable[[BaseException], None] = lambda error: None
    name: Callable[[int], str] = "task {}".format


Chain = Iterable[Stage]
"""Stages, one after the other: each is requested, and begins, when the one before has ended."""


@dataclass(eq=False)
class Batch:
    """Tasks of a stage that go to one worker."""

    of: RunningChain
    stage: Stage
    start: int
    stop: int
    n_losses: int = 0
    n_running: int = 0  # tries that are under way
    n_tries: int = 0
    submitted: float = 0.0
    done: bool = False

    @property
    def cost(self) -> float:
        """Cost of all its tasks."""
        return (self.stop - self.start) * self.stage.cost


@dataclass(eq=False)
class RunningChain:
    """A chain and its current stage."""

    rest: Iterator[Stage]
    stage: Stage = field(init=False)
    ranges: deque[tuple[int, int]] = field(default_factory=deque)  # not given out yet
    n_left: int = 0  # tasks in them
    n_begun_with: int = 0  # tasks of the stage
    n_open: int = 0  # batches that aren't done
    n_tries: int = 0  # that are under way

    def advance(self) -> bool:
        """Continue with the next stage that has tasks; return whether there is one."""
        for stage in self.rest:
            self.stage = stage
            self.ranges = deque((start, stop) for start, stop in stage.pending if start < stop)
            self.n_left = self.n_begun_with = sum(stop - start for start, stop in self.ranges)
            if self.ranges:
                return True
        return False

    def has_ended(self) -> bool:
        """Return True if the stage has nothing to do or to wait for."""
        return not (self.ranges or self.n_open or (self.stage.writes and self.n_tries))

    def take(self, size: int) -> Batch:
        """Return the next batch of `size` tasks at most."""
        start, stop = self.ranges.popleft()
        if stop - start > size:
            self.ranges.appendleft((start + size, stop))
            stop = start + size
        self.n_left -= stop - start
        self.n_open += 1
        return Batch(self, self.stage, start, stop)

    def halves(self, batch: Batch) -> list[Batch]:
        """Return the two halves of a batch that has lost too many workers; raise if it is one task."""
        middle = (batch.start + batch.stop) // 2
        if middle == batch.start:
            raise LostWorkersError(
                f"{self.stage.name(batch.start)} has ended {batch.n_losses} workers that tried it"
            )
        self.n_open += 1
        return [Batch(self, self.stage, *at) for at in ((batch.start, middle), (middle, batch.stop))]


# -- the loop -----------------------------------------------------------------------------------------

# 1. Tasks are numbers.  A batch is a run of them, some 30 s of work, smaller towards the end; one or two
#    batches for each worker are under way.  Tasks of one kind form a stage.  In a chain, each stage begins
#    when the one before has ended; chains don't wait for each other, so all form one stream.
# 2. A lost worker is not a failed task: its batch is done again.  A batch that has lost workers runs
#    alone, since any of those under way may be the cause; after three losses it is halved, and a single
#    task is named in the error.
# 3. A batch that takes 3 times the median gets a second try, when a worker has nothing else to do.  The first
#    result counts.
# 4. A stage ends when nothing of it is under way any more, slow tries included: nothing is written
#    afterwards.  Stages that only read don't wait for slow tries.
# 5. After the first failure or an interrupt, the batches under way end, and the error is raised.

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


class _Driver:
    def __init__(
        self,
        chains: Iterable[Chain],
        n_workers: int,
        seconds: float,
        tick: Callable[[], None],
        stop: Callable[[], None],
        renew: Callable[[], None] | None,
    ) -> None:
        self._chains = iter(chains)
        self._n_workers, self._seconds = n_workers, seconds
        self._tick, self._stop, self._renew = tick, stop, renew
        self._begun: list[RunningChain] = []
        self._suspects: deque[Batch] = deque()
        self._running: dict[Future[Any], Batch] = {}
        self._measured: dict[str, deque[float]] = {}  # seconds for a unit of cost, by kind
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
        """Submit batches while there is room; return whether any is under way."""
        is_idle = False
        while len(self._running) < (0 if self._alone else _WINDOW * self._n_workers):
            batch = self._take()
            if batch is None:
                is_idle = True
                break
            self._start(batch)
        if not self._running:
            was_alone = self._alone
            self._alone = bool(self._suspects)
            if self._alone:
                self._start(self._suspects.popleft())
            elif was_alone:
                return self._fill()
        if is_idle and not self._alone:
            self._try_again()
        return bool(self._begun)

    def _take(self) -> Batch | None:
        """Return the next batch, of the first chain that has one; None if all wait."""
        for running in self._begun:
            if running.ranges:
                return running.take(self._batch_size(running))
        for chain in self._chains:
            running = RunningChain(iter(chain))
            if running.advance():
                self._begun.append(running)
                return running.take(self._batch_size(running))
        return None

    def _advance(self, running: RunningChain) -> None:
        """Go on to the next stage of a chain if this one has ended."""
        if running in self._begun and running.has_ended() and not running.advance():
            self._begun.remove(running)

    def _start(self, batch: Batch) -> None:
        batch.submitted = time.monotonic()
        batch.n_running += 1
        batch.of.n_tries += 1
        batch.n_tries += 1
        try:
            future = batch.stage.submit(batch.start, batch.stop)
        except BrokenExecutor as e:
            future = Future()
            future.set_exception(e)
        self._running[future] = batch

    def _stopped(self, future: Future[Any]) -> Batch:
        """Count a try as one that isn't under way any more."""
        batch = self._running.pop(future)
        batch.n_running -= 1
        batch.of.n_tries -= 1
        return batch

    def _put_back(self, batch: Batch, n_losses: int) -> None:
        """Take back a batch that has lost workers."""
        batch.n_losses += n_losses
        if batch.n_losses < _MOST_LOSSES:
            self._suspects.append(Batch(batch.of, batch.stage, batch.start, batch.stop, batch.n_losses))
        else:
            self._suspects += batch.of.halves(batch)

    def _try_again(self) -> None:
        """Start slow tasks a second time on idle workers."""
        n_idle = self._n_workers - len(self._running)
        if n_idle <= 0:
            return
        now = time.monotonic()
        slow = [
            batch
            for batch in self._running.values()
            if not batch.done
            and batch.n_tries == 1
            and (each := self._each(batch.stage)) is not None
            and now - batch.submitted > max(_SLOW_SECONDS, _SLOW * each * batch.cost)
        ]
        for batch in sorted(slow, key=lambda batch: batch.submitted)[:n_idle]:
            self._start(batch)

    def _each(self, stage: Stage) -> float | None:
        """Return the seconds that a unit of cost takes, None if that isn't known."""
        measured = self._measured.get(stage.kind)
        return float(np.median(measured)) if measured else None

    def _batch_size(self, running: RunningChain) -> int:
        each, stage = self._each(running.stage), running.stage
        n_in_time = 1 if each is None else int(self._seconds / max(each * stage.cost, 1e-6))
        share = -(-running.n_left // (2 * _WINDOW * self._n_workers))
        n_together = min(stage.n_together, -(-running.n_begun_with // self._n_workers))
        return max(1, min(share, n_in_time), n_together)

    def _collect(self, timeout: float | None) -> None:
        finished, _ = wait(self._running, timeout=timeout, return_when=FIRST_COMPLETED)
        broken: BaseException | None = None
        for future in finished:
            batch = self._stopped(future)
            try:
                result = future.result()
            except BaseException as e:
                if isinstance(e, BrokenExecutor):
                    broken = e
                if batch.done:
                    self._advance(batch.of)
                    continue
                if not _is_lost(e):
                    batch.stage.failed(e)
                    raise
                if not batch.n_running:
                    self._put_back(batch, _MOST_LOSSES if type(e).__name__ == "KilledWorker" else 1)
                continue
            self._count(batch, result)
            self._advance(batch.of)
        if broken is not None:
            if self._renew is None:
                raise AbortedError(f"the executor is broken: {broken}") from broken
            for future in list(self._running):  # all of them are lost
                if not (future.done() and not future.cancelled() and future.exception() is None):
                    batch = self._stopped(future)
                    if not batch.n_running and not batch.done:
                        self._put_back(batch, 1)
                    self._advance(batch.of)
            self._renew()

    def _count(self, batch: Batch, result: object) -> None:
        """Note the result of a batch, unless another try was faster."""
        if batch.done:
            return
        batch.done = True
        batch.of.n_open -= 1
        # Some of it was waiting for a worker: batches are rather too small.
        measured = self._measured.setdefault(batch.stage.kind, deque(maxlen=_N_MEASURED))
        measured.append((time.monotonic() - batch.submitted) / max(batch.cost, 1e-9))
        batch.stage.done(batch.start, batch.stop, result)

    def _end(self) -> None:
        """Wait for the batches under way, and record the finished ones."""
        self._stop()
        for future in list(self._running):
            if future.cancel():
                self._stopped(future)
        while self._running:
            finished, _ = wait(self._running, timeout=_TICK, return_when=FIRST_COMPLETED)
            for future in finished:
                batch = self._stopped(future)
                if not future.cancelled() and future.exception() is None:
                    with suppress(BaseException):  # such as of `progress` again: the first error is raised
                        self._count(batch, future.result())


def run_tasks(
    chains: Iterable[Chain],
    *,
    n_workers: int,
    batch_seconds: float = BATCH_SECONDS,
    tick: Callable[[], None] = lambda: None,
    stop: Callable[[], None] = lambda: None,
    renew: Callable[[], None] | None = None,
) -> None:
    """Run the tasks of all chains; return when all are done.

    A slow task is tried a second time, so it must be safe to do a task twice.

    Parameters
    ----------
    chains : iterable of iterable of Stage
        A chain begins when all tasks of those before it have been given out.
    n_workers : int
    batch_seconds : float
        Wanted time of a batch; 0 for batches of one task.
    tick : callable
        Called once in a second, in this thread.
    stop : callable
        Called when no more tasks are wanted, after a failure.
    renew : callable, optional
        Called if the executor is broken; afterwards stages submit to another one.

    Raises
    ------
    LostWorkersError
        If a task has ended every worker that tried it.
    AbortedError
        If the executor is broken and there is no other.
    """
    _Driver(chains, n_workers, batch_seconds, tick, stop, renew).run()


def _is_lost(error: BaseException) -> bool:
    names = {cls.__name__ for cls in type(error).__mro__}
    return isinstance(error, BrokenExecutor | CancelledError) or bool(names & _LOST)
