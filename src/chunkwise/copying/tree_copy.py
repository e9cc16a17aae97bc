"""``TreeCopy``: a group with everything in it, copied to another location, format or store.

1. The copy of each node is planned (`chunkwise.copying.tree_plan`).
2. The destination is listed once, to make sure that it is empty, instead of a request for each array.
3. A journal at the top of the copy says what is done, and who is at work.  In a copy in parts each part has
   its own (`chunkwise.copying.parts`), and the part that finishes last continues with 5.
4. The tasks of all arrays form one stream: first the blocks of larger arrays, then small arrays as wholes.
   Each becomes an array when it is complete and, if asked for, compared with the source.
5. Groups come last, with their links, and the top after all others: an unfinished copy is not a group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from typing import Any

from chunkwise.copying.array_template import template_options
from chunkwise.copying.copy_arrays import intermediate_name, room_of
from chunkwise.copying.copy_job import CopyJob
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_report import CopyReport
from chunkwise.copying.copy_work import LostBlockError, StepResult
from chunkwise.copying.destination import Destination, unfinished
from chunkwise.copying.executors import Workers, workers_of
from chunkwise.copying.fence import Fence
from chunkwise.copying.journal import Journal
from chunkwise.copying.journal_difference import INFORMATIVE, told_options
from chunkwise.copying.journal_document import read_journal
from chunkwise.copying.narrowing import MisfitError, Narrowing
from chunkwise.copying.part import Part
from chunkwise.copying.parts import PartJournals, n_parts
from chunkwise.copying.sessions import is_session, journal_location
from chunkwise.copying.small_arrays import SmallArrays, n_together
from chunkwise.copying.task_stages import Chain, Stage
from chunkwise.copying.tree_groups import Place, publish_groups
from chunkwise.copying.tree_journal import LARGE, SMALL, TreePasses, journalled_room
from chunkwise.copying.tree_plan import ArrayOptions, plan_tree
from chunkwise.copying.work import TaskRunner, Work
from chunkwise.core.engine.together import is_slow
from chunkwise.core.trees.change import delete_below
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.resolve import ResolvedNode
from chunkwise.core.trees.tree import Tree
from chunkwise.errors import (
    AlreadyExistsError,
    ChunkwiseError,
    DataCorruptionError,
    FailedPreconditionError,
    InvalidArgumentError,
    prefix,
)

__all__ = ["Progress", "TreeCopy"]

Progress = Callable[[str, int], object]

_COMMAND = "chunkwise cp -r --resume"


class TreeCopy:
    """A copy of a node and everything below it, made by `begin` and `run`."""

    def __init__(
        self,
        source: ResolvedNode,
        target: Tree,
        names: Sequence[str],
        fields: Mapping[str, Any],
        how: CopyOptions,
        *,
        destination: Destination | None = None,  # by default the destination must be empty
        workers: Workers | None = None,  # by default threads of this process
        consolidated: bool = False,  # whether the copy gets consolidated metadata of its own
    ) -> None:
        target.check_writable()
        self._source, self._target, self._names = source, target, tuple(names)
        self._top = top = target.location(names)
        self._destination = destination or Destination(top, top)
        self._journal_at, self._session = journal_location(top), is_session(top.store)
        here = source.node.location
        if here.store.identity == top.store.identity and top.path.startswith(here.path):
            raise InvalidArgumentError(f"{here.text} can't be copied to {top.text}, which is inside it")
        self._how, self._part, self._consolidated = how, how.part, consolidated
        self.workers = workers_of(workers)
        self._fields = template_options(fields)
        # An unfinished copy in its place is deleted when this one begins.
        self._begun = None if how.overwrite else read_journal(top)
        if self._begun is not None and not how.go_on:
            raise unfinished(top)
        self._follow()
        self._place = Place(top, target.format, self._destination.location)
        self._own: list[Location] = []  # is deleted if values don't fit
        self._done_before: list[tuple[int, int]] = []  # pass and number of arrays
        self._progress: Progress = lambda path, nbytes: None
        self.nbytes_done = 0  # before
        self.complete = False  # True if an equal copy is there already, and this is a part

    def _follow(self) -> None:
        """Plan the copy, as it was begun if it was."""
        # A process that resumes may have other memory and processors.
        room = journalled_room(self._begun, self._how.memory) or room_of(self.workers, self._how.memory)
        begun = None if self._begun is None else self._begun["task"].get("intermediate")
        between = intermediate_name(begun)
        how, options = self._how, ArrayOptions(self._fields, self._how, room, between)
        root = None if self._names else self._destination.location
        self.plan = plan = plan_tree(self._source, self._target, self._names, options, root=root)
        self._passes = TreePasses(plan)
        here, top, format = self._source.node.location, self._top, self._target.format
        part = self._part
        parts = part.n if part is not None else n_parts(self._begun) if self._begun is not None else None
        task = {
            "source": here.journal_json(),
            "source metadata": plan.digest,
            "format": format,
            "room": list(room),
            "intermediate": between,
            **({"cast": how.cast} if how.cast != "error" else {}),
            **({"fingerprint": "kept"} if how.keep_fingerprint else {}),
            **({} if parts is None else {"number of parts": parts}),
            INFORMATIVE: told_options(self._fields),
        }
        n_tasks = self._passes.n_tasks
        self._whole = self._journal = Journal(self._journal_at, task, n_tasks, command=_COMMAND)
        self._parts = (
            None if parts is None else PartJournals(self._journal_at, task, n_tasks, parts, command=_COMMAND)
        )
        self._small = SmallArrays(here, top, format, plan.small, how)
        if is_slow(here.store) or is_slow(top.store):
            self._small.n_together = n_together(plan.small, room)
        self._report = CopyReport(notes=list(plan.notes), left_out=list(plan.left_out))
        self.nbytes = plan.nbytes if part is None else self._passes.nbytes_of(part)

    def begin(self) -> None:
        """Write the journal of a new copy, or take over that of an unfinished one; see `complete`."""
        if self._how.overwrite:
            self._destination.clear()
        if self._part is not None:
            self._begin_part(self._part)
        elif self._begun is not None:
            self._journal.resume()
            if self._parts is not None:
                self._parts.join(self._journal)
            self._done_before = [
                (at, number)
                for at in (SMALL, LARGE)
                for start, stop in self._journal.done(at)
                for number in range(start, stop)
            ]
        else:
            into_group = not self._names
            self._done_before = done = self._place.check(
                self.plan, self._small, resume=self._how.resume, into_group=into_group
            )
            self._own = [] if done else self._place.free_names(self.plan.top_names())
            self._journal.begin()
            if self._session:
                self._publish_groups()
            for at, number in done:
                self._journal.mark(number, at=at)
        if not self.complete:
            self.nbytes_done = self._passes.nbytes_done(self._journal)

    def _begin_part(self, part: Part) -> None:
        if self._begun is None:
            try:
                self.complete = self._place.is_whole(self.plan, self._small)
                if self.complete:
                    if self._destination.is_made:
                        self._destination.commit()
                    return
                self._place.check(self.plan, self._small, resume=False)
                self._whole.begin(owned=False)
            except AlreadyExistsError:
                self._begun = read_journal(self._top)
                if self._begun is None:
                    raise
                self._follow()  # another part was faster: its plan counts
        assert self._parts is not None, "there are parts"
        self._journal, _ = self._parts.begin(part, self._whole)

    def run(self, progress: Progress = lambda path, nbytes: None) -> CopyReport:
        """Copy what is left and make it a tree; `progress` gets the path of an array and bytes."""
        self._progress, plan, counts = progress, self.plan, self.workers.task_counts
        report = self._report
        if not self.complete:
            missing = (b - a for at in self._passes.copying() for a, b in self._journal.missing(at))
            counts.n_expected = counts.n_begun + sum(missing)
            try:
                with TaskRunner(self.workers) as runner:
                    report.n_left = self._run_part(runner)
                    if report.n_left is None:
                        runner.run_all(self._chains(runner), self._journal.beat)
                        self._journal.write()  # or another process may have finished it
                if report.n_left is None and not self._session:
                    self._publish_groups()
            except BaseException as e:
                self._interrupted(e)
                raise
            if report.n_left is None:
                self._journal.delete()
                if self._destination.replacement is not None:
                    self._destination.commit()
        report.n_groups, report.n_links = len(plan.groups), len(plan.links)
        report.n_arrays, report.nbytes = len(plan.small) + len(plan.large), self.nbytes
        return report

    def _publish_groups(self) -> None:
        consolidated = self._consolidated and not self._session
        publish_groups(self.plan, self._place, self._target, self._names, consolidated=consolidated)

    def _run_part(self, runner: TaskRunner) -> int | None:
        """Do the share of a part, if it is one; return how many tasks are left, None to go on."""
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
        left = self._parts.n_missing()
        n_left = sum(left[at] for at in self._passes.copying())
        if not n_left:
            try:
                self._whole.resume()
                self._parts.join(self._whole)
            except FailedPreconditionError:  # another process does it
                return 0
            self._journal, self._part = self._whole, None
            return None
        return n_left

    def _copying(
        self, runner: TaskRunner, number: int, path: str, job: CopyJob, *, passes: Sequence[int]
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
                journal.restart(range(first, first + len(job.steps)))
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
            for at, number in self._done_before:
                yield self._comparison(runner, at, number)

    def _comparison(self, runner: TaskRunner, at: int, number: int) -> Iterator[Stage]:
        """Yield the stages that compare an array copied earlier with its source."""
        if at == SMALL:
            path, job = self.plan.small[number].path, self._small.job(self.plan.small[number])
            job.follow(job.arrays.plan_whole(), summed=False, intermediate="")
        else:
            path, job = list(self.plan.large.items())[number]

        failed = self._naming("verifying", path)
        yield from job.verify_stages(runner, self._fence(SMALL), lambda nbytes: None, failed=failed)

    def _small_stage(self, runner: TaskRunner) -> Stage:
        plan, journal = self.plan, self._journal
        work = Work("copy-arrays", [self._small], self._fence(SMALL))

        def done(start: int, stop: int, results: list[StepResult]) -> None:
            journal.mark(start, stop, SMALL)
            for array, result in zip(plan.small[start:stop], results, strict=True):
                self._note_changes(array.path, array.narrowing, result.n_changed)
                self._progress(array.path, result.nbytes)

        return runner.stage(
            work,
            0,
            journal.missing(SMALL),
            done,
            kind="small",
            n_together=self._small.n_together,
            name=lambda number: f"the copy of {plan.small[number].path}",
        )

    def _stages_of(self, runner: TaskRunner, number: int, path: str, job: CopyJob) -> Iterator[Stage]:
        """Yield the passes over one of the larger arrays, then make it an array."""
        journal, first = self._journal, self._passes.first(number)
        passes = range(first, first + len(job.steps))
        name_array = self._naming("copying", path)

        def distrust(error: BaseException) -> None:
            if isinstance(error, DataCorruptionError):
                journal.restart(passes)
            name_array(error)

        if self._session:
            job.publish()
        yield from self._copying(runner, number, path, job, passes=range(len(job.steps)))
        try:
            journal.write()
            job.check_passes([journal.fingerprint(at) for at in passes])
            if self._how.verify:
                fence = self._fence(first)
                yield from job.verify_stages(runner, fence, lambda nbytes: None, failed=distrust)
            job.check_source()
            if not self._session or self._how.keep_fingerprint:
                job.publish(journal.fingerprint(passes[-1]) if self._how.keep_fingerprint else None)
        except Exception as e:
            distrust(e)
            raise
        journal.mark(number, at=LARGE)

    def _naming(self, doing: str, path: str) -> Callable[[BaseException], None]:
        """Return a function that puts the name of an array in front of an error."""

        def failed(error: BaseException) -> None:
            if isinstance(error, Exception):
                prefix(error, f"Error {doing} {path or self._top.text}")

        return failed

    def _fence(self, first: int) -> Fence:
        return Fence(self._journal_at.store, self._journal.key, self._journal.owner, first=first)

    def _note_changes(self, path: str, narrowing: Narrowing | None, n_changed: int) -> None:
        """Note what became of values that the new type doesn't hold."""
        if narrowing is not None:
            own = copy(narrowing)
            own.n_changed = n_changed
            if text := str(own):
                self._report.notes.append((path, text))

    def _interrupted(self, error: BaseException) -> None:
        # A copy with values that don't fit could only be resumed with another rule, so nothing of it is kept.
        if (isinstance(error, MisfitError) or self._session) and self._own:
            for location in self._own:
                delete_below(location)
            self._journal.delete()
            return
        with suppress(ChunkwiseError):  # such as a full disk, which may be the first error
            self._journal.save()
