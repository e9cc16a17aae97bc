"""``PlannedCopy``: the arrays of a plan, copied by tasks, with the groups and metadata around them.

1. A journal at the top of the copy lists the finished tasks, and names the owner.  In a copy in parts each
   part has its own (`chunkwise.copying.journal`), and the part that finishes last continues with 3.
2. The tasks of all arrays form one stream: first the blocks of larger arrays, then small arrays as wholes.
   After two passes over an array, their fingerprints have to be equal: the second has read what the first
   has written.
3. Each array becomes one when it is complete and, if asked for, compared with the source: an unfinished copy
   never looks like an array, since the metadata document is written last.
4. The groups and metadata around the arrays follow; then the journal is deleted.

All this happens beside the data that the copy replaces, which stays until the end
(`chunkwise.copying.copy_place`).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from itertools import islice
from typing import ClassVar

from chunkwise.copying.copy_arrays import LostBlockError, StepResult
from chunkwise.copying.copy_job import ArrayJob
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_passes import LARGE, SMALL, CopyPasses, PartJournals, n_parts
from chunkwise.copying.copy_place import CopyPlace, is_session, journal_location, unfinished_copy_error
from chunkwise.copying.executors import Workers, workers_of
from chunkwise.copying.fence import Fence
from chunkwise.copying.journal import Journal, Part
from chunkwise.copying.journal_document import JournalDocument, read_journal
from chunkwise.copying.losses import CopyReport
from chunkwise.copying.narrowing import MisfitError, Narrowing
from chunkwise.copying.small_arrays import SmallArrays
from chunkwise.copying.tasks import Chain, Stage
from chunkwise.copying.tree_plan import TreePlan
from chunkwise.copying.work import TaskRunner
from chunkwise.copying.worker_view import check_reachable
from chunkwise.core.base.binding import JSON
from chunkwise.core.trees.key_ownership import delete_own
from chunkwise.errors import (
    AlreadyExistsError,
    ChunkwiseError,
    DataCorruptionError,
    FailedPreconditionError,
    prefix,
)
from chunkwise.extension.inside import HeldError
from chunkwise.extension.trees import ArchivePlace, Location, check_outside_arrays, is_inside_array

__all__ = ["PlannedCopy", "Progress"]

Progress = Callable[[str, int], object]


class PlannedCopy(ABC):
    """A copy made by `begin` and `run`; subclasses define the arrays, and the groups around them."""

    plan: TreePlan
    command: ClassVar[str]  # that continues the copy
    archive: ArchivePlace | None = None  # that the copy is put into at the end

    def __init__(self, destination: CopyPlace, how: CopyOptions, workers: Workers | None) -> None:
        self._destination, self._top = destination, destination.place
        self._journal_at = journal_location(self._top)
        self._session = is_session(self._top.store)
        self._how, self._part = how, how.part
        self.workers = workers_of(workers)  # by default threads of this process
        # An unfinished copy in its place is deleted when this one begins.
        self._begun = None if how.overwrite else read_journal(self._top)
        self._done_before: list[tuple[int, int]] = []  # pass and number of arrays
        self._report = CopyReport()
        self._progress: Progress = lambda path, nbytes: None
        self._compared: Progress = self._progress
        self._distrusted = range(0)  # passes that were restarted last
        self.nbytes_done = 0  # before
        self.seconds_compared = 0.0  # how long it took to read larger arrays again
        self.left: list[int] | None = None  # tasks of each pass that are left for other parts
        self.complete = False  # True if an equal copy is there already
        self._is_cleared = False  # True after its keys were deleted because of an array around it
        self._follow()

    @abstractmethod
    def _make_plan(self, begun: JournalDocument | None) -> tuple[TreePlan, SmallArrays, dict[str, JSON]]:
        """Return the plan, as it was begun if it was, its small arrays, and the task for the journal."""

    @abstractmethod
    def _is_there(self) -> bool:
        """Return True if an equal copy is there already; only asked if that is no error."""

    @abstractmethod
    def _check_free(self) -> list[tuple[int, int]]:
        """Raise AlreadyExistsError if something is in the way; return pass and number of those made."""

    @abstractmethod
    def _delete_own(self) -> bool:
        """Delete the data of this copy, if no other process may have written; return True if it did."""

    @abstractmethod
    def _own_parts(self) -> Sequence[Location]:
        """Return the parts of the destination that only this copy writes to, as far as they are known."""

    @abstractmethod
    def _surround_first(self) -> None:
        """Make everything that has to exist before the arrays."""

    @abstractmethod
    def _surround(self) -> None:
        """Make everything that follows the arrays."""

    @abstractmethod
    def _commit(self, confirm: Callable[[], None]) -> None:
        """Let the copy, whose journal is deleted, take its place, if `confirm` doesn't raise just before."""

    def _name_of(self, path: str) -> str:
        """Return the name of an array in errors, or nothing."""
        return path or self._top.text

    def _follow(self) -> None:
        """Plan the copy."""
        self.plan, self._small, task = self._make_plan(self._begun)
        self._passes = CopyPasses(self.plan)
        part = self._part
        parts = part.n if part is not None else n_parts(self._begun) if self._begun is not None else None
        task |= {} if parts is None else {"number of parts": parts}
        at, n_tasks, command = self._journal_at, self._passes.n_tasks, self.command
        self._whole = self._journal = Journal(at, task, n_tasks, command=command)
        self._parts = None if parts is None else PartJournals(at, task, n_tasks, parts, command=command)
        self._report.notes, self._report.left_out = list(self.plan.notes), list(self.plan.left_out)
        self.nbytes = self.plan.nbytes if part is None else self._passes.nbytes_of(part)

    def begin(self) -> None:
        """Write the journal of a new copy, or take over that of an unfinished one; see `complete`."""
        if self._begun is not None and not self._how.go_on:
            raise unfinished_copy_error(self._top)
        # The first array alone: others are in the same place, or made of it.
        first = (job.arrays.source for job in islice(self.plan.large.values(), 1))
        check_reachable(self.workers, (self._top, self._small.source), first)
        with self._destination.alone() if self._how.overwrite else nullcontext():
            self._begin()
        self.nbytes_done = self.nbytes if self.complete else self._passes.nbytes_done(self._journal)

    def _begin(self) -> None:
        if self._how.overwrite:
            self._destination.clear()
        if self._part is not None:
            self._begin_part(self._part)
        elif self._begun is not None:
            self._journal.resume()
            if self._parts is not None:
                self._parts.join(self._journal)
            self._done_before = self._passes.arrays(self._journal)
        elif not (self._how.resume and self._found_complete()):
            self._done_before = done = self._begin_new(self._journal)
            if self._session:
                self._surround_first()
            for at, number in done:
                self._journal.mark(number, at=at)

    def _begin_new(self, journal: Journal, *, owned: bool = True) -> list[tuple[int, int]]:
        """Write a new journal where nothing is in the way; return the arrays that are there already."""
        while True:
            done = self._check_free()
            try:
                journal.begin(owned=owned)
            except HeldError as e:  # what was there is being replaced or deleted
                e.wait()
                continue
            try:
                self._destination.check_vacant(self._own_parts())  # others look last, too
            except BaseException:  # an interrupt too
                journal.delete()
                raise
            return done

    def _begin_part(self, part: Part) -> None:
        if self._begun is None:
            if self._found_complete():
                return
            try:
                self._begin_new(self._whole, owned=False)
            except AlreadyExistsError:
                self._begun = read_journal(self._top)
                if self._begun is None:
                    raise
                self._follow()  # another part was faster: its plan counts
        assert self._parts is not None, "there are parts"
        self._journal = self._parts.begin(part, self._whole)

    def _found_complete(self) -> bool:
        """Return True if the copy was made before."""
        self.complete = self._is_there()
        if self.complete:
            self._done_before = self._passes.arrays()
        return self.complete

    def run(
        self,
        progress: Progress = lambda path, nbytes: None,
        compared: Progress = lambda path, nbytes: None,
    ) -> CopyReport:
        """Do the remaining tasks; both functions get the path of an array and bytes, copied or compared.

        An error about elements that differ names the first one; after two passes it says only that some do.
        """
        self.copy_arrays(progress, compared)
        return self.publish()

    def tell_start(self, tell: Callable[[], None]) -> None:
        """Report the progress before the first task; if that fails, another run can continue at once."""
        with nullcontext() if self.complete else self._saving_journal():
            tell()

    def copy_arrays(self, progress: Progress, compared: Progress) -> None:
        """Copy the arrays that are left, or this part's share of them."""
        self._progress, self._compared = progress, compared
        counts = self.workers.task_counts
        if self.complete:
            if self._how.verify:
                with TaskRunner(self.workers) as runner:
                    runner.run_all(self._comparison(runner, *array, None) for array in self._done_before)
            return
        missing = (b - a for at in self._passes.copying() for a, b in self._journal.missing(at))
        counts.n_expected = counts.n_begun + sum(missing)
        again: set[range] = set()
        with self._saving_journal(), TaskRunner(self.workers) as runner:
            while True:
                try:
                    self.left = self._run_part(runner)
                    if self.left is None:
                        runner.run_all(self._chains(runner), self._tick)
                        self._journal.write()  # or another process may have finished it
                    return
                except LostBlockError:
                    # Data that an earlier process wrote between two passes wasn't on the disk yet.
                    if self._begun is None or self._distrusted in again:
                        raise
                    again.add(self._distrusted)

    def publish(self) -> CopyReport:
        """Make groups and metadata around the arrays, except those of other parts; return the report."""
        plan, report = self.plan, self._report
        if self.complete:
            with self._destination.alone() as confirm:
                if self._destination.is_made:  # a process was killed before it could take its place
                    self._destination.commit(confirm)
        elif self.left is None:
            with self._saving_journal(), self._journal.beating():
                self._surround()
                check_outside_arrays(self._destination.location)  # others look when they have written, too
            with self._clearing_inside(), ExitStack() as stack:
                with self._journal.beating():
                    confirm = stack.enter_context(self._destination.alone())
                self._journal.write()  # or another process has begun again
                self._journal.delete()
                self._commit(confirm)
        if self.archive is not None:
            self.archive.pack()
        report.n_left = None if self.left is None else sum(self.left)
        report.n_groups, report.n_links = plan.n_groups, len(plan.links)
        report.n_arrays, report.nbytes = len(plan.small) + len(plan.large), self.nbytes
        return report

    @contextmanager
    def _saving_journal(self) -> Iterator[None]:
        """If the block fails, save the journal."""
        try:
            with self._clearing_inside():
                yield
        except BaseException as e:  # an interrupt too: finished tasks are not repeated
            # A copy with values that don't fit could only be resumed with another rule, so nothing is kept.
            is_gone = (isinstance(e, MisfitError) or self._session) and self._delete_own()
            if not (is_gone or self._is_cleared):
                with suppress(ChunkwiseError):  # such as a full disk, which may be the first error
                    self._journal.save()
            raise

    @contextmanager
    def _clearing_inside(self) -> Iterator[None]:
        """If the block fails, delete the keys of this copy that are inside an array of others."""
        try:
            yield
        except BaseException:  # an interrupt too
            with suppress(ChunkwiseError):  # the store may have failed permanently
                parts = self._own_parts() if is_inside_array(self._top) else ()
                if parts:
                    self._journal.delete()  # first, since it says that their chunks are there
                    self._is_cleared = True
                for part in parts:
                    delete_own(part, ())
            raise

    def _tick(self) -> None:
        """Be called once in a second while tasks run."""
        self._journal.beat()

    def _run_part(self, runner: TaskRunner) -> list[int] | None:
        """Run this part's share.  Return the tasks left per pass; None if the copy can be finished here."""
        if self._part is None or self._parts is None:
            return None
        journal, beat = self._journal, self._journal.beat
        large = [(n, path, job) for n, (path, job) in enumerate(self.plan.large.items())]
        first = (self._copying(runner, *each, passes=[0]) for each in large)
        runner.run_all([*first, [self._small_stage(runner)]], beat)
        two_passes = [each for each in large if len(each[2].steps) > 1]
        if two_passes:
            journal.write()
            left = self._parts.n_missing()
            ready = [each for each in two_passes if not left[self._passes.first(each[0])]]
            runner.run_all((self._copying(runner, *each, passes=[1]) for each in ready), beat)
        journal.save()
        missing = self._parts.n_missing()
        left = [missing[at] for at in self._passes.copying()]
        if any(left):
            return left
        try:
            self._whole.resume()
            self._parts.join(self._whole)
        except FailedPreconditionError:  # another process does it
            return left
        self._journal, self._part = self._whole, None
        return None

    def _copying(
        self, runner: TaskRunner, number: int, path: str, job: ArrayJob, *, passes: Sequence[int]
    ) -> Iterator[Stage]:
        """Yield some of the passes over one of the larger arrays."""
        journal, first = self._journal, self._passes.first(number)

        def done(at: int, start: int, stop: int, result: StepResult) -> None:
            journal.mark(start, stop, first + at, result.fingerprint)
            self._progress(path, job.share(result.nbytes))

        def pending(at: int) -> Sequence[tuple[int, int]]:
            if at not in passes:
                return ()
            if at:
                journal.write()  # late tasks of the first pass then do nothing
            return journal.missing(first + at)

        def failed(error: BaseException) -> None:
            if isinstance(error, LostBlockError):
                self._distrust(range(first, first + len(job.steps)))
            name_array(error)

        name_array = self._naming("copying", path)
        yield from job.copy_stages(runner, self._fence(first), pending, done, failed=failed)
        self._note_changes(path, job.narrowing, 0 if job.narrowing is None else job.narrowing.n_changed)

    def _chains(self, runner: TaskRunner) -> Iterator[Chain]:
        for number, (path, job) in enumerate(self.plan.large.items()):
            if not self._journal.is_done(number, LARGE):
                yield self._stages_of(runner, number, path, job)
        yield [self._small_stage(runner)]
        if self._how.verify:  # the process that copied them may not have done it
            for array in self._done_before:
                yield self._comparison(runner, *array, self._fence(SMALL))

    def _comparison(self, runner: TaskRunner, at: int, number: int, fence: Fence | None) -> Iterator[Stage]:
        """Yield the stages that compare an array copied earlier with its source."""
        job: ArrayJob
        if at == SMALL:
            path, job = self.plan.small[number].path, self._small.job(self.plan.small[number])
            job.use_plan(job.arrays.plan_whole(), summed=False, intermediate="")
        else:
            path, job = list(self.plan.large.items())[number]
        distrusted = None if fence is None else range(0)
        yield from self._comparing(runner, path, job, fence, self._naming("verifying", path, distrusted))

    def _comparing(
        self,
        runner: TaskRunner,
        path: str,
        job: ArrayJob,
        fence: Fence | None,
        failed: Callable[[BaseException], None],
    ) -> Iterator[Stage]:
        started = time.monotonic()
        yield from job.verify_stages(runner, fence, partial(self._compared, path), failed=failed)
        self.seconds_compared += time.monotonic() - started

    def _small_stage(self, runner: TaskRunner) -> Stage:
        def done(start: int, stop: int, results: list[StepResult]) -> None:
            self._journal.mark(start, stop, SMALL)
            for array, result in zip(self.plan.small[start:stop], results, strict=True):
                self._note_changes(array.path, array.narrowing, result.n_changed)
                self._progress(array.path, result.nbytes)
                if self._how.verify:
                    self._compared(array.path, result.nbytes)

        return self._small.stage(runner, self._fence(SMALL), self._journal.missing(SMALL), done)

    def _stages_of(self, runner: TaskRunner, number: int, path: str, job: ArrayJob) -> Iterator[Stage]:
        """Yield the passes over one of the larger arrays, then make it an array."""
        journal, first = self._journal, self._passes.first(number)
        passes = range(first, first + len(job.steps))
        distrust = self._naming("copying", path, passes)
        if self._session:
            job.publish()
        yield from self._copying(runner, number, path, job, passes=range(len(job.steps)))
        try:
            journal.write()
            job.check_passes([journal.fingerprint(at) for at in passes])
            if self._how.verify:
                yield from self._comparing(runner, path, job, self._fence(first), distrust)
                journal.write()  # or another process may have finished it
            job.check_source()
            if not self._session:
                self._surround_first()
            if not self._session or self._how.keep_fingerprint:
                kept = journal.fingerprint(passes[-1]) if self._how.keep_fingerprint else None
                job.publish(kept, self._fence(first).check)
        except Exception as e:
            distrust(e)
            raise
        journal.mark(number, at=LARGE)

    def _naming(
        self, doing: str, path: str, distrusted: range | None = None
    ) -> Callable[[BaseException], None]:
        """Return a function that names an array in an error; wrong elements restart `distrusted` passes."""

        def failed(error: BaseException) -> None:
            if isinstance(error, DataCorruptionError) and distrusted is not None:
                self._distrust(distrusted)
            if isinstance(error, Exception) and (name := self._name_of(path)):
                prefix(error, f"Error {doing} {name}")

        return failed

    def _distrust(self, passes: range) -> None:
        """Restart some passes: other elements were found than were written."""
        before = self._passes.nbytes_done(self._journal)
        self._journal.restart(passes)
        if self._part is not None and self._parts is not None:
            self._parts.restart(passes, self._part)
        self._distrusted, left = passes, self._passes.nbytes_done(self._journal)
        self.nbytes_done = min(self.nbytes_done, left)
        self._progress("", left - before)

    def _fence(self, first: int) -> Fence:
        return Fence(self._journal_at.store, self._journal.key, self._journal.owner, first=first)

    def _note_changes(self, path: str, narrowing: Narrowing | None, n_changed: int) -> None:
        """Record the treatment of values that the new type doesn't hold."""
        if narrowing is not None and (text := narrowing.text(n_changed)):
            self._report.notes.append((path, text))
