"""Parts of a copy that is made without a scheduler: each does a range of the tasks and has its own journal.

1. Who comes first writes the journal of the whole, which has the plan and belongs to nobody.
2. A part notes in a journal beside it which of its tasks are done.  It begins the second pass when all parts
   have done the first.
3. Who sees that all is done takes the journal of the whole, puts those of the parts into it, and publishes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from chunkwise.errors import InvalidArgumentError
from chunkwise.hierarchy.location import Location
from chunkwise.hierarchy.node import JOURNAL
from chunkwise.kvstore.key_range import KeyRange
from chunkwise.tools.journal import Journal, parse_journal
from chunkwise.tools.ranges import Ranges

__all__ = ["Part", "PartJournals", "parse_part", "part_journals"]

_STEM = JOURNAL.removesuffix(".json")


class Part(NamedTuple):
    """One of `n` parts, the first of which is number 1."""

    number: int
    n: int

    @property
    def key(self) -> str:
        """Name of its journal."""
        return f"{_STEM}.{self.number}-of-{self.n}.json"

    def share(self, n_tasks: int) -> tuple[int, int]:
        """Return its tasks, as a range."""
        return n_tasks * (self.number - 1) // self.n, n_tasks * self.number // self.n


def parse_part(text: str) -> Part:
    """Return the part that ``I/N`` says; raise InvalidArgumentError if it says none."""
    match = re.fullmatch(r"([0-9]+)/([0-9]+)", text, re.ASCII)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise InvalidArgumentError(f"{text!r}: expected I/N, a part from 1/N to N/N")
    return Part(int(match[1]), int(match[2]))


class PartJournals:
    """The journals of all parts of a copy."""

    def __init__(self, location: Location, task: Mapping[str, Any], n_tasks: Sequence[int], n: int) -> None:
        self._location, self._task, self._n_tasks, self._n = location, task, n_tasks, n

    def of(self, part: Part) -> Journal:
        """Return the journal of a part."""
        return Journal(self._location, self._task, self._n_tasks, part=part)

    def read(self) -> Iterator[tuple[Part, dict[str, Any]]]:
        """Yield what the parts that have begun have noted."""
        kv, path = self._location.store, self._location.path
        keys = KeyRange.of_prefix(f"{path}{_STEM}.")
        there = set(kv.list(keys.start, keys.stop))
        for number in range(1, self._n + 1):
            part = Part(number, self._n)
            value = kv.read(path + part.key).value if path + part.key in there else None
            if value is not None:
                yield part, parse_journal(value, kv.describe(path + part.key))

    def n_missing(self, at: int) -> int:
        """Return how many tasks of pass `at` are to be done by any part."""
        done = Ranges(range_ for _, journal in self.read() for range_ in journal["done"][at])
        return self._n_tasks[at] - len(done)

    def join(self, whole: Journal) -> None:
        """Put what all parts have noted into the journal of the whole, which is this process's.

        Raises
        ------
        FailedPreconditionError
            If a part is at work.
        """
        begun = [self.of(part) for part, _ in self.read()]
        for journal in begun:
            journal.resume()
        for journal in begun:
            for at in range(len(self._n_tasks)):
                ranges = journal.done(at)
                # The sum of a part counts once, also if a process that did this was killed.
                known = any(whole.is_done(start, at) for start, _ in ranges)
                for i, (start, stop) in enumerate(ranges):
                    whole.mark(start, stop, at, 0 if i or known else journal.fingerprint(at))
        whole.write()
        for journal in begun:
            journal.delete()


def part_journals(location: Location, whole: Mapping[str, Any]) -> PartJournals:
    """Return the journals of the parts of a copy, of which that of the whole says how many there are."""
    task = whole.get("task", {})
    return PartJournals(location, task, whole.get("tasks", []), task.get("number of parts") or 0)
