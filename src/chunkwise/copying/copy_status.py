"""Progress of an unfinished copy of an array or a tree, from its journals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from chunkwise.copying.copy_passes import LARGE, SMALL, is_array_journal, is_pyramid_journal, is_tree_journal
from chunkwise.copying.copy_place import begun_at
from chunkwise.copying.journal import may_live
from chunkwise.copying.journal_document import JournalDocument, Ranges
from chunkwise.copying.part import Part
from chunkwise.copying.parts import PartJournals, n_parts
from chunkwise.core.base.binding import JSON
from chunkwise.core.trees.location import Location

__all__ = ["CopyStatus", "PartStatus", "TaskCount", "copy_status"]


class TaskCount(NamedTuple):
    """Numbers of tasks and of finished tasks."""

    tasks: int
    done: int


class PartStatus(NamedTuple):
    """Progress of a part: what it has done of each pass."""

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
    found = begun_at(location)
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
