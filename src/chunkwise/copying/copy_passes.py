"""The passes of a copy's journals, those of its parts, and the progress of unfinished copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from chunkwise.copying.copy_arrays import check_memory
from chunkwise.copying.copy_place import find_unfinished_copy
from chunkwise.copying.executors import Room
from chunkwise.copying.journal import MOST_PARTS, STEM, Journal, Part, may_live, part_of_key
from chunkwise.copying.journal_document import JournalDocument, Ranges, parse_journal, read_journal
from chunkwise.copying.tree_plan import TreePlan
from chunkwise.core.base.binding import JSON
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.trees.location import Location
from chunkwise.errors import AlreadyExistsError, FailedPreconditionError

__all__ = [
    "LARGE",
    "SMALL",
    "CopyPasses",
    "CopyStatus",
    "PartJournals",
    "PartStatus",
    "TaskCount",
    "copy_status",
    "is_array_journal",
    "is_pyramid_journal",
    "is_tree_journal",
    "journalled_room",
    "n_parts",
]

# -- passes -------------------------------------------------------------------------------------------

# In a copy in parts, each part does a share of every pass but the second; the process that puts the parts
# together does that.

SMALL, LARGE = 0, 1


class CopyPasses:
    """The passes of the journal of an array or a tree, and the data that they copy."""

    def __init__(self, plan: TreePlan) -> None:
        self._plan = plan
        self.n_arrays = [len(plan.small), len(plan.large)]
        self.n_tasks = [*self.n_arrays]
        self._first = []
        for job in plan.large.values():
            self._first.append(len(self.n_tasks))
            self.n_tasks += [step.blocks.n_blocks for step in job.steps]

    def arrays(self, journal: Journal | None = None) -> list[tuple[int, int]]:
        """Return the pass and number of each array; with a journal, of those that it says are done."""
        ranges = ([(0, n)] if journal is None else journal.done(at) for at, n in enumerate(self.n_arrays))
        return [(at, n) for at, own in enumerate(ranges) for start, stop in own for n in range(start, stop)]

    def first(self, number: int) -> int:
        """Return which pass is the first over one of the larger arrays."""
        return self._first[number]

    def copying(self) -> Iterator[int]:
        """Yield the passes that copy elements."""
        if self._plan.small:
            yield SMALL
        yield from range(LARGE + 1, len(self.n_tasks))

    def nbytes_of(self, part: Part) -> int:
        """Return about how many bytes a part is to copy."""
        start, stop = part.share(len(self._plan.small))
        small = sum(array.nbytes for array in self._plan.small[start:stop])
        return small + sum(job.nbytes for job in self._plan.large.values()) // part.n

    def nbytes_done(self, journal: Journal) -> int:
        """Return how many bytes are copied."""
        small = self._plan.small
        total = sum(small[n].nbytes for start, stop in journal.done(SMALL) for n in range(start, stop))
        for number, job in enumerate(self._plan.large.values()):
            if journal.is_done(number, LARGE):
                total += job.nbytes
                continue
            for at, step in enumerate(job.steps, self._first[number]):
                total += job.share(step.nbytes_of(journal.done(at)))
        return total


def is_array_journal(journal: JournalDocument) -> bool:
    """Return True for a journal of a single array."""
    return "plan" in journal["task"] and len(journal["tasks"]) > LARGE


def is_pyramid_journal(journal: JournalDocument) -> bool:
    """Return True for a journal of a pyramid."""
    return "steps" in journal["task"] and len(journal["tasks"]) > LARGE


def is_tree_journal(journal: JournalDocument) -> bool:
    """Return True for a journal of a tree."""
    return "room" in journal["task"] and len(journal["tasks"]) > LARGE


def journalled_room(journal: JournalDocument | None, memory: int | None) -> Room | None:
    """Return the resources that the workers of an unfinished copy had, None if there is none."""
    found = None if journal is None else journal["task"].get("room")
    if not isinstance(found, list) or [type(value) for value in found] != [int, int, bool] or found[1] < 1:
        return None
    room = Room(*found)
    check_memory(memory, room.memory)
    return room


# -- journals of parts --------------------------------------------------------------------------------

# 1. The first part writes the journal of the whole, which has the plan and no owner.
# 2. Each part notes in its own journal beside it which of its tasks are done.  It begins the second pass when
#    all parts have done the first.
# 3. The part that sees that everything is done takes over the journal of the whole, merges those of the parts
#    into it, and publishes.  If it is killed, any part that is run again does this.


class PartJournals:
    """The journals of all parts of a copy."""

    def __init__(
        self,
        location: Location,
        task: Mapping[str, JSON],
        n_tasks: Sequence[int],
        n: int,
        *,
        command: str = "chunkwise cp --resume",
    ) -> None:
        self._location, self._task, self._n_tasks, self._n = location, task, n_tasks, n
        self._command = command

    def of(self, part: Part) -> Journal:
        """Return the journal of a part."""
        return Journal(self._location, self._task, self._n_tasks, part=part, command=self._command)

    def begin(self, part: Part, whole: Journal) -> Journal:
        """Return the journal of a part, as its owner.

        Raises
        ------
        FailedPreconditionError
            If the journal of the whole belongs to other work, or another process is merging the parts.
        """
        document = whole.check_idle()
        own = self.of(part)
        own.leave_out(document["done"])  # by a process that merged parts and was then killed
        try:
            own.begin()
        except AlreadyExistsError:
            own.resume()
        return own

    def read(self) -> Iterator[tuple[Part, JournalDocument]]:
        """Yield the journals of the parts that have begun."""
        kv, path = self._location.store, self._location.path
        keys = KeyRange.of_prefix(f"{path}{STEM}.")
        found = {part_of_key(key[len(path) :]) for key in kv.list(keys.start, keys.stop)}
        for part in sorted(part for part in found if part is not None and part.n == self._n):
            value = kv.read(path + part.key).value
            if value is None:  # deleted since the listing
                continue
            document = parse_journal(value, where := kv.describe(path + part.key))
            if document["tasks"] != list(self._n_tasks):
                raise FailedPreconditionError(f"{where} is the journal of another copy")
            yield part, document

    def n_missing(self) -> list[int]:
        """Return for each pass how many tasks are left, for all parts."""
        whole = read_journal(self._location)
        if whole is None or whole["tasks"] != list(self._n_tasks):  # another process has made the copy
            return [0] * len(self._n_tasks)
        done = [Ranges(ranges) for ranges in whole["done"]]
        for _, document in self.read():
            for known, ranges in zip(done, document["done"], strict=True):
                for start, stop in ranges:
                    known.add(start, stop)
        return [n - len(known) for n, known in zip(self._n_tasks, done, strict=True)]

    def restart(self, passes: Sequence[int], own: Part) -> None:
        """Note that no part has done some passes; except the `own` one, and those that are at work."""
        for part, _ in self.read():
            if part != own:
                journal = self.of(part)
                with suppress(FailedPreconditionError):
                    journal.resume()
                    journal.restart(passes)
                    journal.save()

    def join(self, whole: Journal) -> None:
        """Merge the journals of all parts into the journal of the whole, which this process owns.

        Raises
        ------
        FailedPreconditionError
            If a part is at work.
        """
        begun = [self.of(part) for part, _ in self.read()]
        taken = [whole]
        try:
            for journal in begun:
                journal.resume()
                taken.append(journal)
        except FailedPreconditionError:
            for journal in taken:  # otherwise that part would wait for this process
                journal.save()
            raise
        for journal in begun:
            for at in range(len(self._n_tasks)):
                ranges = journal.done(at)
                # The sum of a part counts once, even if a process was killed while it merged.
                known = any(whole.is_done(start, at) for start, _ in ranges)
                for i, (start, stop) in enumerate(ranges):
                    whole.mark(start, stop, at, 0 if i or known else journal.fingerprint(at))
        whole.write()
        for journal in begun:
            journal.delete()


def n_parts(journal: JournalDocument) -> int | None:
    """Return the number of parts in the journal of the whole; None for a copy without parts."""
    found = journal["task"].get("number of parts")
    return found if type(found) is int and 1 <= found <= MOST_PARTS else None


# -- progress -----------------------------------------------------------------------------------------


class TaskCount(NamedTuple):
    """Numbers of tasks and of finished tasks."""

    tasks: int
    done: int


class PartStatus(NamedTuple):
    """Progress of a part: the tasks of each pass that it has done."""

    part: Part
    passes: list[TaskCount]
    owner: str | None
    owner_ended: bool


class CopyStatus(NamedTuple):
    """Progress of a copy."""

    source: JSON
    owner: str | None  # process that writes the journal, or None
    owner_ended: bool  # whether that is a process of this machine that has ended
    passes: list[TaskCount]  # one for a whole tree, in which an array is one task or many
    arrays: TaskCount | None  # of a tree or an image
    parts: list[PartStatus]
    command: str  # that continues the copy, given its arguments and --resume


def copy_status(location: Location) -> CopyStatus | None:
    """Return the progress of the unfinished copy at `location`, or None."""
    found = find_unfinished_copy(location)
    if found is None:
        return None
    location, journal = found
    n = n_parts(journal)
    parts = {} if n is None else dict(PartJournals(location, {}, journal["tasks"], n).read())
    passes = list(_passes(journal, *parts.values()))
    arrays, first = None, 0
    if is_tree_journal(journal):
        arrays = _sum(passes[SMALL], passes[LARGE])
        passes = [_sum(passes[SMALL], *passes[LARGE + 1 :])]
    elif is_pyramid_journal(journal):
        arrays, first = passes[LARGE], LARGE + 1
    elif is_array_journal(journal):
        first = LARGE + 1
    return CopyStatus(
        journal["task"].get("source"),
        journal["owner"],
        _has_ended(journal),
        passes[first:],
        arrays,
        [
            PartStatus(part, list(_passes(own))[first:], own["owner"], _has_ended(own))
            for part, own in parts.items()
        ],
        _command(journal),
    )


def _command(journal: JournalDocument) -> str:
    if "steps" in journal["task"]:
        return "chunkwise pyramid"
    if is_tree_journal(journal):
        return "chunkwise cp -r"
    return "chunkwise cp"


def _has_ended(journal: JournalDocument) -> bool:
    return journal["owner"] is not None and not may_live(journal["owner"])


def _passes(*journals: JournalDocument) -> Iterator[TaskCount]:
    """Yield for each pass the number of tasks, and of those done by any part."""
    for at, n in enumerate(journals[0]["tasks"]):
        yield TaskCount(n, len(Ranges(found for journal in journals for found in journal["done"][at])))


def _sum(*counts: TaskCount) -> TaskCount:
    return TaskCount(sum(count.tasks for count in counts), sum(count.done for count in counts))
