"""``Fence`` and ``Guard``: proof that the work whose tasks are done is still open.

A task may come late: an executor repeats it, or its worker was stopped or cut off.  By then others may have
done the same task, the work may have ended, and another process may have changed its result.  So

1. a worker looks at the journal before each task, and again after it: the owner must be the same, and the
   task still open.  If each look is a request to a server, one look in two seconds is enough;
2. a chunk is written on condition that nothing is there, and replaced only after a look that is newer than
   what it replaces (`chunkwise.core.kvstore.adapter.guarded`);
3. anything written after the work had ended is deleted, unless another process has written there since.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

from chunkwise.copying.journal_document import JournalDocument, Ranges, parse_journal
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.arrays.base_array import in_transaction
from chunkwise.core.base.threads import new_lock
from chunkwise.core.engine.concurrent_requests import is_slow
from chunkwise.core.kvstore.adapter.guarded import GuardedStore, Written
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.trees.change import delete_below
from chunkwise.core.trees.location import locate
from chunkwise.errors import AbortedError, ChunkwiseError, FailedPreconditionError

__all__ = ["Fence", "Guard", "Tasks", "guard_of"]

_LOOK = 2.0  # seconds between two looks at a journal that is a request away


@dataclass
class Fence:
    """The journal of data that is written, or checked before it is published."""

    kv: KvStoreDriver
    key: str
    owner: str
    writes: bool = True
    first: int = 0  # which pass of the journal the first step is
    _known: tuple[bytes, JournalDocument] | None = field(default=None, repr=False, compare=False)
    _looked: float = field(default=float("-inf"), repr=False, compare=False)
    _lock: Any = field(default_factory=new_lock, repr=False, compare=False)

    def __reduce__(self) -> tuple[object, ...]:
        return Fence, (self.kv, self.key, self.owner, self.writes, self.first)

    def reading(self) -> Self:
        """Return the same fence for tasks that write nothing."""
        return replace(self, writes=False)

    def look(self, step: int, start: int, stop: int, *, fresh: bool = True) -> None:
        """Raise unless the owner is the same, and some of the tasks are open.

        Unless `fresh`, a recent look by any thread of this process is enough.
        """
        document = self.check(fresh=fresh)
        if not self.writes:
            return
        if next(Ranges(document["done"][self.first + step]).missing(start, stop), None) is None:
            raise AbortedError(f"another worker has done tasks {start} to {stop}: {self._where()}")

    def check(self, *, fresh: bool = True) -> JournalDocument:
        """Return the journal; raise AbortedError unless the owner is the same."""
        document = self._read(fresh=fresh)
        if document is None or document["owner"] != self.owner:
            raise AbortedError(f"another process has taken over, or the work has ended: {self._where()}")
        return document

    def has_ended(self) -> bool:
        """Return True if the journal is gone."""
        return self.kv.read(self.key).value is None

    def check_visible(self) -> None:
        """Raise FailedPreconditionError unless this worker sees the journal."""
        value = self.kv.read(self.key).value
        if value is None or self.owner.encode() not in bytes(value):
            raise FailedPreconditionError(
                f"a worker doesn't see the destination: {self._where()} isn't there, or is "
                "another's; it has to be on storage that all workers see under the same name"
            )

    def _read(self, *, fresh: bool) -> JournalDocument | None:
        """Return the content of the journal, which is parsed only when it has changed."""
        if fresh or not is_slow(self.kv):
            return self._ask()
        with self._lock:  # tasks that begin together make one request
            known = self._known
            return known[1] if known and time.monotonic() - self._looked < _LOOK else self._ask()

    def _ask(self) -> JournalDocument | None:
        known, self._looked = self._known, time.monotonic()
        found = self.kv.read(self.key, if_not_equal=known[0] if known else None)
        if found.value is not None:
            document = parse_journal(found.value, self._where())
            self._known = (found.generation, document) if found.generation else None
            return document
        return known[1] if known and found.generation == known[0] else None

    def _where(self) -> str:
        return self.kv.describe(self.key)


class Guard:
    """The tasks of one call of a worker; each begins and ends while its work is open."""

    def __init__(self, fence: Fence, step: int, start: int, stop: int) -> None:
        self._fence, self._step, self._stop = fence, step, stop
        self._at = start
        self._written: list[Written] = []
        self._passing: list[TensorStore] = []

    def begin(self, number: int) -> None:
        """Raise AbortedError unless a task is open."""
        self._at = number
        self._written.clear()
        self.look()

    def look(self) -> None:
        """Raise AbortedError as `check` does, unless the last look is new enough."""
        self.check(fresh=False)

    def check(self, *, fresh: bool = True) -> None:
        """Raise AbortedError, and undo what was written, unless the current task is open."""
        try:
            self._fence.look(self._step, self._at, self._stop, fresh=fresh)
        except AbortedError:
            self._undo()
            raise

    def guarded(self, store: TensorStore, *, passing: bool = False) -> TensorStore:
        """Return an array that is written only while the work is open; if `passing`, it is deleted after
        that."""
        if passing:
            self._passing = [store]

        def wrap(base: KvStoreDriver, atomic: bool) -> KvStoreDriver:
            return GuardedStore(base, self.check, self._written.append)

        return TensorStore._make(in_transaction(store._array, wrap), store._transform)

    def of(self, number: int) -> Guard:
        """Return a guard for one task, which may run beside others."""
        return Guard(self._fence, self._step, number, number + 1)

    def inside(self, numbers: Iterable[int]) -> Tasks:
        """Return the parts of the current task."""
        return Tasks(numbers, self, whole=False)

    def _undo(self) -> None:
        with suppress(ChunkwiseError):
            for written in self._written:
                written.undo()
            if self._written and self._passing and self._fence.has_ended():
                place = self._passing[0].kvstore
                assert place is not None, "it is stored"
                delete_below(locate(place))
        self._written.clear()


class Tasks(Iterable[int]):
    """Numbers of tasks with their guard; those that are not `whole` are parts of one."""

    def __init__(self, numbers: Iterable[int], guard: Guard, *, whole: bool = True) -> None:
        self._numbers, self.guard, self._whole = numbers, guard, whole

    def __iter__(self) -> Iterator[int]:
        for number in self._numbers:
            if self._whole:
                self.guard.begin(number)
            yield number
            self.guard.look()

    def apart(self) -> list[Tasks]:
        """Return the tasks one by one, each with a guard of its own."""
        return [Tasks((number,), self.guard.of(number)) for number in self._numbers]


def guard_of(tasks: Iterable[int]) -> Guard | None:
    """Return the guard of tasks; None if nothing has to be checked."""
    return tasks.guard if isinstance(tasks, Tasks) else None
