"""Large datasets of a new store, copied by workers after all the rest.

The plan, the tasks, the loop and the journal are those of `chunkwise.copy`.  The journal of all datasets is
at the root of the store, whose documents are not there yet: an unfinished copy is not a store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from chunkwise import TensorStore
from chunkwise.copying.copy_arrays import (
    CopyArrays,
    copy_arrays,
    delete_intermediates,
    intermediate_name,
    room_of,
)
from chunkwise.copying.copy_plan import CopyPlan
from chunkwise.copying.copy_work import CopyStep, StepResult
from chunkwise.copying.executors import Workers
from chunkwise.copying.fence import Fence
from chunkwise.copying.journal import Journal
from chunkwise.copying.journal_document import read_journal
from chunkwise.copying.new_array import open_array
from chunkwise.copying.work import TaskRunner, Work
from chunkwise.errors import (
    ChunkwiseError,
    DataCorruptionError,
    FailedPreconditionError,
    prefix,
)
from chunkwise.extension.trees import Location, tree_format
from chunkwise.hdmf.model.element import Element
from chunkwise.hdmf.model.physical import PhysicalArray
from chunkwise.hdmf.model.tree import Format

__all__ = ["DatasetCopies"]

_LEAST_NBYTES = 1 << 20
"""Smaller datasets are written with the rest: sending them costs more."""

_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class _Dataset:
    path: str
    arrays: CopyArrays
    plan: CopyPlan


class DatasetCopies:
    """The large datasets of one new store."""

    def __init__(
        self,
        location: Location,  # of the root
        workers: Workers,
        task: Mapping[str, Any],  # what is copied and how: it is resumed only if it is the same
        *,
        memory: int | None = None,  # of a process that works on it
        resume: bool = False,
        verify: bool = False,
        compare: Callable[[Location, Collection[str], TaskRunner], None] | None = None,  # all but these paths
        progress: Callable[[int], object] = lambda nbytes: None,
    ) -> None:
        self.location = location
        self._workers, self._memory = workers, memory
        self._task = dict(task)
        self._verify, self._compare_rest, self._progress = verify, compare, progress
        Journal(location, self._task, 0).check_store()
        begun = read_journal(location) if resume else None
        self.begun = begun is not None  # there is a journal, with which others can go on
        self._intermediate = intermediate_name(None if begun is None else begun["task"].get("intermediate"))
        self._plans: dict[str, Any] = {}
        if begun is not None:  # before anything is written
            Journal(location, self._task, 0).check()
            plans = begun["task"].get("plans")
            self._plans = plans if isinstance(plans, dict) else {}
        self._datasets: list[_Dataset] = []
        self._journal: Journal | None = None

    def take(self, array: PhysicalArray, element: Element, source: Location, format: Format) -> bool:
        """Let workers copy `source`, in `format`, to a new array; return False if they can't."""
        if element.kind != "number" or array.size * element.memory_dtype.itemsize < _LEAST_NBYTES:
            return False
        path = array.node.path
        target = open_array(self.location.child(path[1:]))
        try:
            found = open_array(source, read=True)
        except ChunkwiseError:  # h5py has it, such as text or what a filter of its own has made
            return False
        if tree_format(format).reversed_axes != array.rules.reversed_axes:
            found = found.transpose(range(found.rank)[::-1])
        # What is stored otherwise than it is used, such as truth in N5, is translated by conventions.
        dtypes = {found.dtype.memory_dtype, target.dtype.memory_dtype, element.memory_dtype}
        if len(dtypes) != 1 or found.shape != target.shape:
            return False
        arrays = copy_arrays(found, target, self.location.child(path[1:]), None, is_stored=True)
        self._datasets.append(_Dataset(path, arrays, self._plan(path, arrays, target)))
        return True

    def _plan(self, path: str, arrays: CopyArrays, target: TensorStore) -> CopyPlan:
        """Return the plan of an unfinished copy, or a new one."""
        known = self._plans.get(path)
        if known is None:
            return arrays.plan(room_of(self._workers, self._memory))
        plan = CopyPlan.from_json(known)
        if self._memory not in (None, plan.memory) or plan.passes[0].domain.shape != target.shape:
            raise FailedPreconditionError(
                f"the unfinished conversion can't be resumed: its memory is {plan.memory:,} bytes and the "
                f"shape of {path} is {list(plan.passes[0].domain.shape)}"
            )
        return plan

    def run(self) -> None:
        """Copy all of them, and compare them if wanted."""
        name = self._intermediate
        steps = [each.arrays.steps(each.plan, summed=False, name=name) for each in self._datasets]
        plans = {each.path: each.plan.to_json() for each in self._datasets}
        task = {**self._task, "plans": plans, "intermediate": name}
        n_tasks = [step.blocks.n_blocks for each in steps for step in each]
        command = "chunkwise nwb convert --resume"
        self._journal = journal = Journal(self.location, task, n_tasks, command=command)
        if self.begun:
            journal.resume()
        else:
            journal.begin()
        self.begun = True
        try:
            with TaskRunner(self._workers) as runner:
                self._drive(runner, "convert", steps, journal.missing, journal.mark)
                self._check(steps, journal.fingerprint, "intermediate array")
                for each in self._datasets:
                    if each.plan.intermediate is not None:
                        delete_intermediates(self.location.child(each.path[1:]))
                if self._verify:
                    self._compare(runner)
        except BaseException as e:  # an interrupt too
            with suppress(ChunkwiseError):  # such as a full disk, which is why we are here
                if isinstance(e, DataCorruptionError):
                    journal.restart()
                journal.save()
            raise

    def finish(self) -> None:
        """Compare the rest if wanted, and delete the journal: the store is there."""
        if self._verify and self._compare_rest is not None:
            with TaskRunner(self._workers) as runner:
                self._compare_rest(self.location, {each.path for each in self._datasets}, runner)
        if self._journal is not None:
            self._journal.delete()

    def _compare(self, runner: TaskRunner) -> None:
        """Read sources and copies again, with the plain reader."""
        steps = [each.arrays.verify_steps(each.plan, None) for each in self._datasets]
        sums = [0] * sum(map(len, steps))

        def everything(at: int) -> list[tuple[int, int]]:
            return [(0, flat[at].blocks.n_blocks)]

        def add(start: int, stop: int, at: int, fingerprint: int) -> None:
            sums[at] = (sums[at] + fingerprint) & _MASK

        flat = [step for each in steps for step in each]
        self._drive(runner, "verify", steps, everything, add)
        self._check(steps, sums.__getitem__, "copy")

    def _drive(
        self,
        runner: TaskRunner,
        what: str,
        steps: Sequence[Sequence[CopyStep]],  # of each dataset
        pending: Callable[[int], Sequence[tuple[int, int]]],
        mark: Callable[[int, int, int, int], None],
    ) -> None:
        assert self._journal is not None
        journal = self._journal
        fence = Fence(self.location.store, journal.key, journal.owner, what == "convert")
        work = Work(what, [step for each in steps for step in each], fence)
        at = 0

        def done(start: int, stop: int, result: StepResult) -> None:
            mark(start, stop, at, result.fingerprint)
            self._progress(result.nbytes)

        for dataset, own in zip(self._datasets, steps, strict=True):
            for _ in own:
                try:
                    runner.run(work, at, pending(at), done, journal.beat)
                    journal.write()  # late tasks do nothing any more
                except ChunkwiseError as e:
                    raise prefix(e, f"dataset {dataset.path}") from None
                at += 1

    def _check(
        self, steps: Sequence[Sequence[CopyStep]], fingerprint: Callable[[int], int], what: str
    ) -> None:
        """Raise DataCorruptionError unless the steps of each dataset have seen the same elements."""
        at = 0
        for dataset, own in zip(self._datasets, steps, strict=True):
            if len({fingerprint(at + i) for i in range(len(own))}) > 1:
                raise DataCorruptionError(
                    f"dataset {dataset.path}: the {what} was not read as it was written"
                )
            at += len(own)
