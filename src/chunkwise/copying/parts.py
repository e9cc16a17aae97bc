"""Parts of a copy that is made without a scheduler: each does a range of the tasks and has its own journal.

1. The first part writes the journal of the whole, which has the plan and no owner.
2. Each part notes in its own journal beside it which of its tasks are done.  It begins the second pass when
   all parts have done the first.
3. The part that sees that everything is done takes over the journal of the whole, merges those of the parts
   into it, and publishes.  If it is killed, any part that is run again does this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from chunkwise.copying.journal import Journal
from chunkwise.copying.journal_document import JournalDocument, Ranges, parse_journal, read_journal
from chunkwise.copying.part import MOST_PARTS, STEM, Part, part_of_key
from chunkwise.core.base.binding import JSON
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.trees.location import Location
from chunkwise.errors import AlreadyExistsError, FailedPreconditionError

__all__ = ["PartJournals", "n_parts"]


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

    def begin(self, part: Part, whole: Journal) -> tuple[Journal, bool]:
        """Return the journal of a part, as its owner, and whether it existed before.

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
            return own, True
        return own, False

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
