"""The passes of a copy's journals, and the progress that unfinished copies have made in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from chunkwise.copying.copy_arrays import check_memory
from chunkwise.copying.copy_place import find_unfinished_copy
from chunkwise.copying.executors import Room
from chunkwise.copying.journal import Journal, Part, PartJournals, may_live, n_parts
from chunkwise.copying.journal_document import JournalDocument, Ranges
from chunkwise.copying.tree_plan import TreePlan
from chunkwise.core.base.binding import JSON
from chunkwise.core.trees.location import Location

__all__ = [
    "LARGE",
    "SMALL",
    "CopyPasses",
    "CopyStatus",
    "PartStatus",
    "TaskCount",
    "copy_status",
    "is_array_journal",
    "is_pyramid_journal",
    "is_tree_journal",
    "journalled_room",
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
