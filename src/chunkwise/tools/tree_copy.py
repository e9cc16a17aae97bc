"""``TreeCopy``: a group with all that it holds, copied to another location, format or store.

1. What becomes of each node is planned (`chunkwise.tools.tree_plan`).
2. A listing proves that nothing is there, so that nobody has to ask at each array.
3. A journal at the top of the copy says what is done, and who is at work.
4. The tasks of all arrays form one stream: first the blocks of larger arrays, then small arrays as wholes.
   Each becomes an array when it is whole and, if asked for, compared with the source.
5. Groups come last, with their links, and the top after all others: an unfinished copy is no group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from chunkwise.engine.blockwise import n_block_threads
from chunkwise.errors import (
    AlreadyExistsError,
    ChunkwiseError,
    DataCorruptionError,
    FailedPreconditionError,
    InvalidArgumentError,
    prefix,
)
from chunkwise.hierarchy.change import delete_below
from chunkwise.hierarchy.container import check_container
from chunkwise.hierarchy.location import Location
from chunkwise.hierarchy.new_location import check_free, check_outside_arrays, clear_tree
from chunkwise.hierarchy.node import find_node
from chunkwise.hierarchy.resolve import ResolvedNode
from chunkwise.hierarchy.tree import Tree
from chunkwise.tools.array_template import template_options
from chunkwise.tools.copy_arrays import Room, room_of
from chunkwise.tools.copy_job import CopyJob
from chunkwise.tools.copy_work import StepResult
from chunkwise.tools.executors import Workers, threads_here
from chunkwise.tools.journal import Journal, read_journal
from chunkwise.tools.narrowing import CASTS, Cast, MisfitError, Narrowing
from chunkwise.tools.small_arrays import SmallArrays, location_below
from chunkwise.tools.task_stages import Chain, Stage
from chunkwise.tools.tree_groups import Place, publish_groups
from chunkwise.tools.tree_plan import ArrayOptions, plan_tree
from chunkwise.tools.work import Crew, Fence, Work

__all__ = ["CopyReport", "Progress", "TreeCopy", "is_tree_journal"]

Progress = Callable[[str, int], None]

_SMALL, _LARGE = 0, 1  # passes of the journal: small arrays, and larger ones that are arrays by now


@dataclass
class CopyReport:
    """What was copied, and what could not be.

    Attributes
    ----------
    n_groups, n_arrays, n_links : int
    nbytes : int
        Of all elements of the arrays, in memory.
    notes : list of (str, str)
        Path from the top of the copy, and what the target holds in another way there, or not at all.
    left_out : list of (str, str)
        Path of each array that the target can't hold, and why.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> place = tempfile.mkdtemp()
    >>> tree = chunkwise.create_group(f"{place}/a.n5", format="n5", attributes={"subject": "m7"})
    >>> _ = tree.create_array("raw", np.arange(6))
    >>> report = chunkwise.copy_tree(f"{place}/a.n5", f"{place}/a.zarr", format="zarr3")
    >>> report.n_arrays, report.nbytes
    (1, 48)
    """

    n_groups: int = 0
    n_arrays: int = 0
    n_links: int = 0
    nbytes: int = 0
    notes: list[tuple[str, str]] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)


class TreeCopy:
    """A copy of a node and everything below it, made by `begin` and `run`."""

    def __init__(
        self,
        source: ResolvedNode,
        target: Tree,
        names: Sequence[str],
        *,
        options: Mapping[str, Any] | None = None,
        resume: bool = False,
        overwrite: bool = False,  # whatever is there is deleted, when the copy begins
        verify: bool = False,
        strict: bool = False,
        sync: bool = True,
        cast: Cast = "error",
        keep_fingerprint: bool = False,
        workers: Workers | None = None,  # by default threads of this process
        memory: int | None = None,
        consolidated: bool = False,  # whether the copy gets consolidated metadata of its own
    ) -> None:
        target.check_writable()
        self._target, self._names = target, tuple(names)
        self._top = top = target.location(names)
        here = source.node.location
        if here.store.identity == top.store.identity and top.path.startswith(here.path):
            raise InvalidArgumentError(f"{here.text} can't be copied to {top.text}, which is inside it")
        self._resume, self._verify, self._summed, self._sync = resume, verify, keep_fingerprint, sync
        self._consolidated = consolidated
        self._workers = workers or threads_here(n_block_threads())
        fields = template_options(options or {})
        if cast not in CASTS:
            raise InvalidArgumentError(f"cast: expected one of {', '.join(CASTS)}, not {cast!r}")
        self._overwrite = overwrite
        self._begun = None if overwrite else read_journal(top)
        if self._begun is not None and not resume:
            raise AlreadyExistsError(
                f"a copy to {top.text} was begun and not finished: --resume goes on with it, --overwrite "
                "starts again"
            )
        # Who goes on with it may have other memory and processors.
        room = _journalled_room(self._begun, memory) or room_of(self._workers, memory)
        array_options = ArrayOptions(fields, cast, strict, sync, keep_fingerprint, room)
        self.plan = plan = plan_tree(source, target, self._names, array_options)
        self._first = [2]  # for each larger array, where its passes begin in the journal
        for job in plan.large.values():
            self._first.append(self._first[-1] + len(job.steps))
        n_tasks = [len(plan.small), len(plan.large)]
        for job in plan.large.values():
            n_tasks += [step.blocks.n_blocks for step in job.steps]
        task = {
            "source": here.kvstore_json(),
            "source metadata": plan.digest,
            "format": target.format,
            "room": list(room),
            **({"cast": cast} if cast != "error" else {}),
            **({"fingerprint": "kept"} if keep_fingerprint else {}),
        }
        self._journal = Journal(top, task, n_tasks, command="chunkwise cp -r --resume")
        self._small = SmallArrays(
            here, top, target.format, plan.small, verify=verify, summed=keep_fingerprint, sync=sync
        )
        self._report = CopyReport(notes=list(plan.notes), left_out=list(plan.left_out))
        self._place = Place(top, target.format)
        self._own: list[Location] = []  # what is deleted if values don't fit
        self._done_before: list[tuple[int, int]] = []  # pass and number of arrays
        self._progress: Progress = lambda path, nbytes: None
        self.nbytes = plan.nbytes
        self.nbytes_done = 0  # before

    def begin(self) -> None:
        """Write the journal of a new copy, or take over that of an unfinished one."""
        if self._begun is not None:
            self._journal.resume()
            done = [
                (at, number)
                for at in (_SMALL, _LARGE)
                for start, stop in self._journal.done(at)
                for number in range(start, stop)
            ]
        else:
            found = find_node(self._top) if self._overwrite else None
            if found is not None:
                clear_tree(found)
            check_outside_arrays(self._top)
            if self._target.format == "n5":
                check_container(self._top)
            done = self._check_free()
            self._own = [] if done else self._place.free_names(self.plan.top_names())
            self._journal.begin()
            for at, number in done:
                self._journal.mark(number, at=at)
        self._done_before = done
        self.nbytes_done = self._count_done()

    def _count_done(self) -> int:
        """Return how many bytes were copied before."""
        plan, journal = self.plan, self._journal
        total = sum(plan.small[n].nbytes for start, stop in journal.done(_SMALL) for n in range(start, stop))
        for number, job in enumerate(plan.large.values()):
            if journal.is_done(number, _LARGE):
                total += job.nbytes
                continue
            for at, step in enumerate(job.steps, self._first[number]):
                ranges = journal.done(at)
                sizes = (step.blocks.block(n).size for start, stop in ranges for n in range(start, stop))
                total += job.share(sum(map(int, sizes)) * step.itemsize)
        return total

    def _check_free(self) -> list[tuple[int, int]]:
        """Raise AlreadyExistsError if something is in the way; return the arrays that are there already."""
        plan, place = self.plan, self._place
        place.check_top(self._resume, into_group=not self._names)
        if place.is_empty:
            return []
        place.find_groups(plan.groups, self._resume)
        done = [
            (_SMALL, number)
            for number, array in enumerate(plan.small)
            if place.may_hold(array.path) and self._is_there(array.path, self._small.job(array))
        ]
        done += [
            (_LARGE, number)
            for number, (path, job) in enumerate(plan.large.items())
            if place.may_hold(path) and self._is_there(path, job)
        ]
        return done

    def _is_there(self, path: str, job: CopyJob) -> bool:
        """Return True if an array was copied before; raise AlreadyExistsError if something else is there."""
        if self._resume and job.is_there():
            return True
        check_free(location_below(self._top, path), self._target.format)
        return False

    def run(self, progress: Progress = lambda path, nbytes: None) -> CopyReport:
        """Copy what is left and make it a tree; `progress` gets the path of an array and bytes."""
        self._progress, plan, tally = progress, self.plan, self._workers.tally
        passes = [_SMALL, *range(self._first[0], self._first[-1])]
        missing = (stop - start for at in passes for start, stop in self._journal.missing(at))
        tally.n_expected = tally.n_begun + sum(missing)
        try:
            with Crew(self._workers) as crew:
                crew.run_all(self._chains(crew), self._journal.beat)
            publish_groups(plan, self._place, self._target, self._names, consolidated=self._consolidated)
        except BaseException as e:
            self._interrupted(e)
            raise
        self._journal.delete()
        report = self._report
        report.n_groups, report.n_links = len(plan.groups), len(plan.links)
        report.n_arrays, report.nbytes = len(plan.small) + len(plan.large), self.nbytes
        return report

    def _chains(self, crew: Crew) -> Iterator[Chain]:
        for number, (path, job) in enumerate(self.plan.large.items()):
            if not self._journal.is_done(number, _LARGE):
                yield self._stages_of(crew, number, path, job)
        yield [self._small_stage(crew)]
        if self._verify:  # whoever copied them may not have done it
            for at, number in self._done_before:
                yield self._comparison(crew, at, number)

    def _comparison(self, crew: Crew, at: int, number: int) -> Iterator[Stage]:
        """Yield what compares an array that was copied before with its source."""
        if at == _SMALL:
            path, job = self.plan.small[number].path, self._small.job(self.plan.small[number])
            job.follow(job.arrays.plan_whole(), summed=False)
        else:
            path, job = list(self.plan.large.items())[number]

        def failed(error: BaseException) -> None:
            if isinstance(error, Exception):
                prefix(error, f"Error verifying {path or self._top.text}")

        yield from job.verify_stages(crew, self._fence(_SMALL), lambda nbytes: None, failed=failed)

    def _small_stage(self, crew: Crew) -> Stage:
        plan, journal = self.plan, self._journal
        work = Work("copy-arrays", [self._small], self._fence(_SMALL))

        def done(start: int, stop: int, results: list[StepResult]) -> None:
            journal.mark(start, stop, _SMALL)
            for array, result in zip(plan.small[start:stop], results, strict=True):
                self._note_changes(array.path, array.narrowing, result.n_changed)
                self._progress(array.path, result.nbytes)

        return crew.stage(
            work,
            0,
            journal.missing(_SMALL),
            done,
            kind="small",
            name=lambda number: f"the copy of {plan.small[number].path}",
        )

    def _stages_of(self, crew: Crew, number: int, path: str, job: CopyJob) -> Iterator[Stage]:
        """Yield the passes over one of the larger arrays, then make it an array."""
        journal, first = self._journal, self._first[number]
        passes = range(first, first + len(job.steps))

        def done(at: int, start: int, stop: int, result: StepResult) -> None:
            journal.mark(start, stop, first + at, result.fingerprint)
            self._progress(path, job.share(result.nbytes))

        def failed(error: BaseException) -> None:
            if isinstance(error, Exception):
                prefix(error, f"Error copying {path or self._top.text}")

        def distrust(error: BaseException) -> None:
            if isinstance(error, DataCorruptionError):
                journal.restart(passes)
            failed(error)

        fence = self._fence(first)
        pending = lambda at: journal.missing(first + at)  # noqa: E731
        yield from job.copy_stages(crew, fence, pending, done, failed=failed)
        changed = 0 if job.narrowing is None else job.narrowing.n_changed
        try:
            job.check_passes([journal.fingerprint(at) for at in passes])
            if self._verify:
                yield from job.verify_stages(crew, fence, lambda nbytes: None, failed=distrust)
            job.check_source()
            job.publish(journal.fingerprint(passes[-1]) if self._summed else None)
        except Exception as e:
            distrust(e)
            raise
        self._note_changes(path, job.narrowing, changed)
        journal.mark(number, at=_LARGE)

    def _fence(self, first: int) -> Fence:
        return Fence(self._top.store, self._journal.key, self._journal.owner, first=first)

    def _note_changes(self, path: str, narrowing: Narrowing | None, n_changed: int) -> None:
        """Note what became of values that the new type doesn't hold."""
        if narrowing is not None:
            own = copy(narrowing)
            own.n_changed = n_changed
            if text := str(own):
                self._report.notes.append((path, text))

    def _interrupted(self, error: BaseException) -> None:
        # A copy with values that don't fit can be resumed with another rule only, so nothing of it is kept.
        if isinstance(error, MisfitError) and self._own:
            for location in self._own:
                delete_below(location)
            self._journal.delete()
            return
        with suppress(ChunkwiseError):  # such as a full disk, which is why we are here
            self._journal.save()


def is_tree_journal(journal: Mapping[str, Any]) -> bool:
    """Return True for a journal of a tree: small arrays, larger ones that are whole, then their passes."""
    return "room" in journal.get("task", {})


def _journalled_room(journal: Mapping[str, Any] | None, memory: int | None) -> Room | None:
    """Return what the workers of an unfinished copy had, None if there is none."""
    found = (journal or {}).get("task", {}).get("room")
    if not isinstance(found, list) or [type(value) for value in found] != [int, int, bool] or found[1] < 1:
        return None
    room = Room(*found)
    if memory is not None and memory != room.memory:
        raise FailedPreconditionError(
            f"the unfinished copy can't be resumed: its memory is {room.memory:,} bytes; use the same "
            "options, or --overwrite to start again"
        )
    return room
