"""The passes of a copy's journal: small arrays, larger ones that are whole, then the passes over these.

In a copy in parts, each part does a share of every pass but the second; the process that puts the parts
together does that.
"""

from __future__ import annotations

from collections.abc import Iterator

from chunkwise.copying.copy_arrays import Room, check_memory
from chunkwise.copying.journal import Journal
from chunkwise.copying.journal_document import JournalDocument
from chunkwise.copying.part import Part
from chunkwise.copying.tree_plan import TreePlan

__all__ = [
    "LARGE",
    "SMALL",
    "CopyPasses",
    "is_array_journal",
    "is_pyramid_journal",
    "is_tree_journal",
    "journalled_room",
]

SMALL, LARGE = 0, 1


class CopyPasses:
    """The passes of the journal of an array or a tree, and what they copy."""

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
    """Return what the workers of an unfinished copy had, None if there is none."""
    found = None if journal is None else journal["task"].get("room")
    if not isinstance(found, list) or [type(value) for value in found] != [int, int, bool] or found[1] < 1:
        return None
    room = Room(*found)
    check_memory(memory, room.memory)
    return room
