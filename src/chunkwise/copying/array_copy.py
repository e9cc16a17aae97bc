"""``ArrayCopy``: a copy of an array to another location, format, chunking or compression.

An unfinished copy never looks like an array: the metadata document is written last.  Until then there are
chunks and a journal (`chunkwise.copying.journal`), with which an interrupted copy can be resumed.

1. The template of the source becomes the metadata of the destination.
2. The passes are planned (`chunkwise.copying.copy_plan`).
3. The journal is written, or read if the copy is resumed.
4. Blocks are copied, several at a time; the journal follows.  A block that stores nothing needs no
   copy, if the fill values are the same.
5. After two passes, their fingerprints have to be equal: the second has read what the first has written.
6. If asked for, every element is read again by the plain reader and compared with the source: bit for bit, or
   by fingerprint if blocks of the destination would read the source many times.
7. The intermediate array is deleted; attributes and groups above are written, then the metadata; then the
   journal is deleted.

All this happens beside the data that the copy replaces, which stays until the end
(`chunkwise.copying.destination`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from chunkwise.copying.copy_arrays import check_memory, intermediate_name, room_of
from chunkwise.copying.copy_job import planned_job
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_plan import CopyPlan
from chunkwise.copying.copy_source import CopySource, stored_source
from chunkwise.copying.copy_work import LostBlockError, StepResult
from chunkwise.copying.destination import Destination
from chunkwise.copying.executors import Workers, workers_of
from chunkwise.copying.fence import Fence
from chunkwise.copying.journal import Journal
from chunkwise.copying.journal_document import JournalDocument, read_journal
from chunkwise.copying.narrowing import MisfitError
from chunkwise.copying.new_array import open_array
from chunkwise.copying.parts import PartJournals, n_parts
from chunkwise.copying.sessions import is_session, journal_location
from chunkwise.copying.task_stages import Stage
from chunkwise.copying.work import TaskRunner
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.binding import JSON
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.trees.change import delete_below
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.new_location import check_free, check_outside_arrays
from chunkwise.core.trees.node import JOURNAL
from chunkwise.core.trees.tree import check_format
from chunkwise.errors import (
    AlreadyExistsError,
    ChunkwiseError,
    DataCorruptionError,
    FailedPreconditionError,
    InvalidArgumentError,
)

__all__ = ["ArrayCopy"]

_SAME = "source and destination are the same array, or the destination holds the source"
_INSIDE = "the destination is, or holds, an array that the source is made of"


class ArrayCopy:
    """A copy of one array, made by `run`, `verify` and `finish`."""

    def __init__(
        self,
        source: Location | CopySource,
        destination: Location,
        format: str,
        fields: dict[str, Any],
        how: CopyOptions,
        *,
        workers: Workers | None = None,  # by default threads of this process
        plan: CopyPlan | None = None,
        extent: tuple[float, float] | None = None,  # of the source; without it "scale" measures it
    ) -> None:
        self._format = check_format(format)
        self._how, self._part = how, how.part
        if isinstance(source, Location):
            source = stored_source(source)
        if how.overwrite:
            check_outside_arrays(destination)
        self._destination = found = Destination.choose(destination, overwrite=how.overwrite, go_on=how.go_on)
        self._location = location = found.place
        self._journal_at, self._session = journal_location(location), is_session(location.store)
        # The copy may read what it replaces, which stays until the copy is complete.
        if source.uses(location, below=found.replacement is not None):
            raise InvalidArgumentError(_SAME if source.is_stored else _INSIDE)
        self._job = planned_job(source, location, format, fields, how, extent=extent)
        self.target, self.narrowing = self._job.target, self._job.narrowing
        self.notes = self._job.target_spec.notes
        self.workers = workers_of(workers)
        begun = read_journal(location) if how.go_on and not how.overwrite else None
        self._intermediate = intermediate_name()
        if plan is None and begun is not None and begun["task"].get("source metadata") == source.digest:
            # A process that resumes may have other memory and processors.
            plan = self._begun_plan(begun)
        task = {
            "source": source.location,
            "source metadata": source.digest,
            "target": self._job.target_spec.spec,
            "number of parts": how.part.n if how.part is not None else n_parts(begun) if begun else None,
            **({} if self.narrowing is None else {"cast": self.narrowing.rule}),
            **({"fingerprint": "kept"} if how.keep_fingerprint else {}),
        }
        self._follow(plan or self._job.arrays.plan(room_of(self.workers, how.memory)), task)
        self.nbytes = self._job.nbytes
        if how.part is not None:
            start, stop = how.part.share(self.nbytes)
            self.nbytes = stop - start
        self.nbytes_done = 0
        self.complete = False  # True if an equal copy is there already, and `resume`
        self._before: frozenset[str] | None = None  # keys that are not of this copy

    @property
    def plan(self) -> CopyPlan:
        """The passes."""
        return self._job.plan

    def _begun_plan(self, journal: JournalDocument) -> CopyPlan | None:
        """Return the plan of an unfinished copy, or None."""
        found = journal["task"].get("plan")
        if found is None:
            return None
        plan = CopyPlan.from_json(found)
        check_memory(self._how.memory, plan.memory)
        self._intermediate = intermediate_name(journal["task"].get("intermediate"))
        return plan

    def _follow(self, plan: CopyPlan, task: dict[str, JSON]) -> None:
        """Take a plan."""
        self._job.follow(plan, summed=self._how.keep_fingerprint, intermediate=self._intermediate)
        between = {} if plan.intermediate is None else {"intermediate": self._intermediate}
        self._task = {**task, "plan": plan.to_json(), **between}
        n_tasks = [blocks.n_blocks for blocks in plan.passes]
        self._whole = self._journal = Journal(self._journal_at, self._task, n_tasks)
        self._parts: PartJournals | None = None
        if task["number of parts"] is not None:
            self._parts = PartJournals(self._journal_at, self._task, n_tasks, task["number of parts"])
        if self._part is not None and self._parts is not None:
            self._journal = self._parts.of(self._part)

    def begin(self) -> None:
        """Write the journal of a new copy, or read that of an unfinished one; see `complete`."""
        location, destination = self._location, self._destination
        if self._how.overwrite:
            destination.clear()
        unfinished = self._journal_at.store.read(location.path + JOURNAL).value is not None
        if unfinished and self._part is not None:
            self._begin_part()
            return
        if unfinished and self._how.resume:
            self._journal.resume()
            if self._parts is not None:
                self._parts.join(self._journal)
            self.nbytes_done = self._count_done()
            return
        if (self._how.resume or self._part is not None) and self._job.is_there():
            if destination.is_made:
                destination.commit()
            self.complete = True
            self.nbytes_done = self.nbytes
            return
        if destination.replacement is not None and not self._how.overwrite:
            raise AlreadyExistsError(f"{location.text} holds another copy, which --overwrite deletes")
        if not unfinished:
            check_outside_arrays(destination.location)
            check_free(location, self._format, among_others=self._how.overwrite)
        if self.narrowing is not None and not unfinished and self._part is None:
            self._before = frozenset(self._keys())
        if self._part is None:
            self._journal.begin()
            if self._session:
                self._destination.create_parents(self._format)
                self._job.publish()
            return
        try:
            self._whole.begin(owned=False)
        except AlreadyExistsError:  # another part was faster: its plan counts
            begun = read_journal(location)
            plan = None if begun is None else self._begun_plan(begun)
            if plan is not None:
                self._follow(plan, self._task)
        self._begin_part()

    def _begin_part(self) -> None:
        assert self._parts is not None and self._part is not None
        self._journal, again = self._parts.begin(self._part, self._whole)
        if again:
            self.nbytes_done = self._count_done()

    def _count_done(self) -> int:
        """Return how many bytes were copied before."""
        return sum(
            self._job.share(int(step.blocks.block(number).size) * step.itemsize)
            for at, step in enumerate(self._job.steps)
            for start, stop in self._journal.done(at)
            for number in range(start, stop)
        )

    def _keys(self) -> Iterator[str]:
        path = self._location.path
        keys = KeyRange.of_prefix(path) if path else KeyRange()
        return self._location.store.list(keys.start, keys.stop)

    def run(self, advance: Callable[[int], object] = lambda nbytes: None) -> None:
        """Copy the remaining blocks; `advance` is called with the bytes of some at a time."""
        job, journal = self._job, self._journal

        def pending(at: int) -> list[tuple[int, int]]:
            if at:
                journal.write()  # late tasks of the first pass then do nothing
                if self._part is not None and self.n_missing()[at - 1]:
                    return []  # the other parts have to be done with it too
            return journal.missing(at)

        def done(at: int, start: int, stop: int, result: StepResult) -> None:
            journal.mark(start, stop, at, result.fingerprint)
            advance(job.share(result.nbytes))

        counts = self.workers.task_counts
        counts.n_expected = counts.n_begun + sum(
            stop - start for at in range(len(job.steps)) for start, stop in journal.missing(at)
        )
        self._drive(lambda runner: job.copy_stages(runner, self._fence(), pending, done))
        journal.write()
        if self._part is None:
            self._check_passes()

    def _fence(self) -> Fence:
        return Fence(self._journal_at.store, self._journal.key, self._journal.owner)

    def _drive(self, stages: Callable[[TaskRunner], Iterator[Stage]]) -> None:
        """Run stages one after the other, and check their results."""
        try:
            with TaskRunner(self.workers) as runner:
                runner.run_all([stages(runner)], (lambda: None) if self.complete else self._journal.beat)
        except BaseException as e:
            self._interrupted(e)
            raise

    def _check_passes(self) -> None:
        """Raise DataCorruptionError unless the second pass has read what the first has written."""
        try:
            self._job.check_passes([self._journal.fingerprint(at) for at in range(len(self._job.steps))])
        except DataCorruptionError:
            self._start_again()
            raise

    def _start_again(self) -> None:
        """Note that nothing copied so far can be trusted."""
        self._journal.restart()
        self._journal.save()

    def n_missing(self) -> list[int]:
        """Return for each pass how many tasks are left, for all parts."""
        if self._parts is not None:
            return self._parts.n_missing()
        return [
            sum(stop - start for start, stop in self._journal.missing(at))
            for at in range(len(self._job.steps))
        ]

    def join(self) -> bool:
        """Merge all parts; return False if some aren't done, or another process does it."""
        if self._part is None or self.complete:
            return True
        self._journal.save()
        if any(self.n_missing()):
            return False
        try:
            self._whole.resume()
            assert self._parts is not None
            self._parts.join(self._whole)
        except FailedPreconditionError:
            return False
        self._journal, self._part = self._whole, None
        self._check_passes()
        return True

    def _interrupted(self, error: BaseException) -> None:
        if self.complete:  # and has no journal
            return
        if self._session:
            with suppress(ChunkwiseError):
                delete_below(self._location)
            return
        if isinstance(error, LostBlockError):
            self._journal.restart()
        # A copy with values that don't fit could only be resumed with another rule, so nothing of it is kept.
        if isinstance(error, MisfitError) and self._before is not None:
            self._destination.clear()
            for key in self._keys():
                if key not in self._before:
                    self._location.store.delete(key)
            return
        with suppress(ChunkwiseError):  # such as a full disk, which may be the first error
            self._journal.save()

    def verify(self, advance: Callable[[int], None] = lambda nbytes: None) -> None:
        """Read source and copy and compare every element; the error names the first one that differs.

        If the copy took two passes, it says only that some differ.
        """
        fence = None if self.complete else self._fence()
        try:
            self._drive(lambda runner: self._job.verify_stages(runner, fence, advance))
        except DataCorruptionError:
            if not self.complete:
                self._start_again()
            raise

    def finish(self) -> TensorStore:
        """Make the copy an array; return it, newly opened."""
        if not self.complete:
            self._journal.write()  # or another process may have finished it
            self._job.check_source()
            if not self._session:
                self._destination.create_parents(self._format)
            last = len(self._job.steps) - 1
            if not self._session or self._how.keep_fingerprint:
                self._job.publish(self._journal.fingerprint(last) if self._how.keep_fingerprint else None)
            self._journal.delete()
            self._destination.commit()
        return open_array(self._destination.location)
