"""Stages of tasks, chains of stages, and batches of tasks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from chunkwise.errors import AbortedError

__all__ = ["Batch", "Chain", "LostWorkersError", "RunningChain", "Stage", "Submit"]


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
        Of a task, in any unit.
    n_together : int
        Tasks of a batch that a worker does at the same time.
    writes : bool
        Whether the stage ends only when no try is under way, not even a second one: needed if tasks write.
    failed : callable
        Called with the error of a task, before it is raised.
    name : callable
        Returns what a task is called in messages.
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
    n_open: int = 0  # batches that aren't done
    n_tries: int = 0  # that are under way

    def advance(self) -> bool:
        """Continue with the next stage that has tasks; return whether there is one."""
        for stage in self.rest:
            self.stage = stage
            self.ranges = deque((start, stop) for start, stop in stage.pending if start < stop)
            self.n_left = sum(stop - start for start, stop in self.ranges)
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
