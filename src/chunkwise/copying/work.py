"""``Work``: tasks that workers do, in this process or in others.

A worker in another process gets the specs of the arrays, and opens them once.  Before it does anything, it
checks that it has the same version of the library and sees the same arrays.

Fence: a task writes whole chunks or shards, and their bytes follow from the source, so it may be done twice.
But nothing may be written after the work was published, since another process may have written there by then.
So the driver ends only when no try is under way, and a worker, also a thread of the same process, looks at
the journal before and after each task (`chunkwise.copying.fence`): it stops if its driver no longer owns it,
or if others have done the rest of its batch.
"""

from __future__ import annotations

import os
import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, runtime_checkable

from chunkwise.copying.executors import OpenExecutor, Workers
from chunkwise.copying.fence import Fence, Guard, Tasks
from chunkwise.copying.tasks import Chain, Stage, run_tasks
from chunkwise.core.base.threads import new_lock
from chunkwise.core.engine.pool import work_here
from chunkwise.errors import AbortedError, ChunkwiseError, FailedPreconditionError
from chunkwise.version import __version__

__all__ = ["DivisibleStep", "Step", "Stop", "TaskRunner", "Work"]

_MOST_KEPT = 4


class Step(Protocol):
    """A kind of numbered tasks."""

    @property
    def is_remote(self) -> bool:
        """True if a task waits for a server, so that it needs threads beside its own."""
        ...

    def run(self, tasks: Iterable[int]) -> Any:
        """Do tasks, writing under their guard (`chunkwise.copying.fence`); return their results."""
        ...

    def check_visible(self) -> None:
        """Raise FailedPreconditionError unless this worker sees the same data as the driver."""
        ...


@runtime_checkable
class DivisibleStep(Step, Protocol):
    """A step that is too large to be sent as a whole with each batch."""

    def part(self, start: int, stop: int) -> DivisibleStep:
        """Return the step with only some of its tasks, under the same numbers."""
        ...


class Stop(threading.Event):
    """Set in this process when no more tasks are wanted; never set in others."""

    def __reduce__(self) -> tuple[object, ...]:
        return Stop, ()


@dataclass(repr=False)
class Work:
    """Steps, called with the number of one and a range of its tasks.

    The first call in a process unpickles and keeps them, since an executor can't report a failure before
    that.
    """

    what: str  # "copy", "verify" ...: name on a dashboard
    steps: Sequence[Step]
    fence: Fence | None = None  # None if nothing is written, and there is no journal
    stop: Stop = field(default_factory=Stop)
    name: str = field(default_factory=lambda: os.urandom(16).hex())
    _blob: bytes = b""

    def __post_init__(self) -> None:
        self.__name__ = f"chunkwise-{self.what}"

    def __repr__(self) -> str:
        return f"Work({self.what!r})"

    def __call__(self, step: int, start: int, stop: int) -> Any:
        """Do some tasks of a step; raise AbortedError when no more are wanted."""
        numbers = self._wanted(start, stop)
        if self.fence is None:
            return self.steps[step].run(numbers)
        guard = Guard(self.fence, step, start, stop)
        try:
            return self.steps[step].run(Tasks(numbers, guard))
        except BaseException:  # an interrupt too: the data of the tasks may have to be deleted
            with suppress(ChunkwiseError):  # the first error is the cause
                guard.check()
            raise

    def part(self, step: int, start: int, stop: int) -> Work:
        """Return the message for some tasks of a step."""
        whole = self.steps[step]
        if not isinstance(whole, DivisibleStep):
            return self
        steps = [*self.steps[:step], whole.part(start, stop), *self.steps[step + 1 :]]
        return replace(self, steps=steps, name=os.urandom(16).hex(), _blob=b"")

    def _wanted(self, start: int, stop: int) -> Iterator[int]:
        for number in range(start, stop):
            if self.stop.is_set():
                raise AbortedError(f"the {self.what} was stopped")
            yield number

    def __reduce__(self) -> tuple[object, ...]:
        if not self._blob:
            self._blob = pickle.dumps({"what": self.what, "steps": self.steps, "fence": self.fence})
        return _SentWork, (__version__, self.name, self._blob)


class _SentWork:
    """A `Work` as it arrives in another process."""

    def __init__(self, version: str, name: str, blob: bytes) -> None:
        self._version, self._name, self._blob = version, name, blob

    def __reduce__(self) -> tuple[object, ...]:
        return _SentWork, (self._version, self._name, self._blob)

    def __call__(self, step: int, start: int, stop: int) -> Any:
        if self._version != __version__:
            raise FailedPreconditionError(
                f"a worker has version {__version__} of chunkwise, and {self._version} has sent it work"
            )
        return _loaded(self._name, self._blob)(step, start, stop)


_lock = new_lock()
_kept: OrderedDict[str, Work] = OrderedDict()


def _loaded(name: str, blob: bytes) -> Work:
    with _lock:
        work = _kept.get(name)
        if work is None:
            work = Work(**pickle.loads(blob), name=name)
            if work.fence is not None:
                work.fence.check_visible()
            work.steps[0].check_visible()
            _kept[name] = work
        _kept.move_to_end(name)
        while len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
    if not any(step.is_remote for step in work.steps):
        work_here()  # a task has one thread: the executor decides how many there are
    return work


class TaskRunner:
    """Runs tasks with workers; a context manager."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers
        self._stack = ExitStack()
        self._opened: OpenExecutor | None = None
        self._stops: set[Stop] = set()  # of the tasks under way

    def __enter__(self) -> Self:
        self._opened = self._stack.enter_context(self.workers.open())
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def stage(
        self,
        work: Work,
        step: int,
        pending: Iterable[tuple[int, int]],
        done: Callable[[int, int, Any], None],
        **how: Any,
    ) -> Stage:
        """Return the tasks of a step as a stage for `run_all`; `how` has its other members."""

        def submit(start: int, stop: int) -> Future[Any]:
            assert self._opened is not None, "it was entered"
            return self._opened.executor.submit(work.part(step, start, stop), step, start, stop)

        self._stops.add(work.stop)
        ranges, counts = list(pending), self.workers.task_counts
        counts.n_begun += sum(max(0, stop - start) for start, stop in ranges)

        def counted(start: int, stop: int, result: object) -> None:
            if result is None:
                raise FailedPreconditionError(
                    f"the executor gave None for tasks {start} to {stop} of {work.what}: the future that its "
                    "submit() returns has to give what the function returns"
                )
            counts.n_done += stop - start
            done(start, stop, result)

        writes = work.fence is not None and work.fence.writes
        return Stage(submit, ranges, counted, writes=writes, **how)

    def run_all(self, chains: Iterable[Chain], tick: Callable[[], None] = lambda: None) -> None:
        """Run the tasks of chains, as `chunkwise.copying.tasks.run_tasks` describes."""
        assert self._opened is not None, "it was entered"
        renew = self._opened.renew

        def renewed() -> None:
            assert renew is not None
            self._opened = OpenExecutor(renew(), renew)

        def stop() -> None:
            for each in self._stops:
                each.set()

        try:
            run_tasks(
                chains,
                n_workers=self.workers.n_workers,
                batch_seconds=self.workers.batch_seconds,
                tick=tick,
                stop=stop,
                renew=None if renew is None else renewed,
            )
        finally:
            self._stops.clear()

    def run(
        self,
        work: Work,
        step: int,
        pending: Iterable[tuple[int, int]],
        done: Callable[[int, int, Any], None],
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        """Run tasks of one step."""
        self.run_all([[self.stage(work, step, pending, done)]], tick)
