"""``Journal``: the progress of unfinished work, in a small document in its destination.

It is written before the first chunk, now and then during the work, and deleted at the very end.  Each write
is conditional on the one before, so two processes can't both continue the same work: a process stops when it
finds that another has written.  A process that takes a journal over first waits until the owner has been
silent for some time, measured by its own clock.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from uuid import uuid4
from weakref import WeakValueDictionary

from chunkwise.copying.journal_difference import difference
from chunkwise.copying.journal_document import JournalDocument, Ranges, owner_text, parse_journal
from chunkwise.copying.part import Part
from chunkwise.core.base.binding import JSON
from chunkwise.core.base.fork import new_lock
from chunkwise.core.kvstore.protocol import MISSING_GENERATION
from chunkwise.core.kvstore.this_process import process_name
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.node import JOURNAL
from chunkwise.errors import AbortedError, AlreadyExistsError, FailedPreconditionError, UnsafeWriteError

__all__ = ["Journal", "may_live"]

_SECONDS = 1.0
_BEAT = 5.0
_SILENCE = 20.0  # seconds of silence after which an owner is assumed to be dead
_POLL = 0.5
_MASK = (1 << 64) - 1

_here: WeakValueDictionary[str, Journal] = WeakValueDictionary()


class Journal:
    """The tasks of each pass that are done, and the sum of their fingerprints; for several threads."""

    def __init__(
        self,
        location: Location,
        task: Mapping[str, JSON],  # what is done and how; must be the same to resume
        n_tasks: int | Sequence[int],  # of each pass
        *,
        command: str = "chunkwise cp --resume",
        silence: float | None = None,  # seconds of silence after which an owner is assumed to be dead
        part: Part | None = None,  # a part, with only its share of the tasks
    ) -> None:
        self._command = command
        self._kv = location.store
        self._part = part
        self.key = location.path + (JOURNAL if part is None else part.key)
        self._task = json.loads(json.dumps(task))
        self._n_tasks = [n_tasks] if isinstance(n_tasks, int) else list(n_tasks)
        self._silence = _SILENCE if silence is None else silence
        self._lock = new_lock()
        self._done = [Ranges() for _ in self._n_tasks]
        self._others = [Ranges() for _ in self._n_tasks]
        self._sums = [0] * len(self._n_tasks)
        self._saved = 0.0
        self._generation = MISSING_GENERATION
        self.owner = ":".join((process_name().host, str(os.getpid()), uuid4().hex))
        _here[self.owner] = self

    def check_store(self) -> None:
        """Raise UnsafeWriteError if the store can't hold a journal; call it before any change."""
        traits = traits_of(self._kv)
        if not traits.conditional_writes(self.key):
            why = traits.why_unsafe()
            raise UnsafeWriteError(
                f"{self._where()}: the journal of unfinished work is changed by conditional writes, "
                f"which this store does not promise{f', since {why}' if why else ''}; if nobody else "
                'writes there, set "single_writer" in the kvstore, for fsspec {"driver": "object", "object": '
                'fs, "path": path, "single_writer": true}; of a bucket give the URL, such as s3://…'
            )

    def begin(self, *, owned: bool = True) -> None:
        """Write the journal of new work, as its owner or not; raise AlreadyExistsError if there is one."""
        self.check_store()
        if not self._write(self.owner if owned else None):
            raise AlreadyExistsError(
                "a copy to this destination was begun and not finished: --resume goes on with it, "
                "--overwrite starts again"
            )

    def resume(self) -> None:
        """Take over the journal of unfinished work.

        Raises
        ------
        FailedPreconditionError
            If it belongs to other work, or its owner is at work.
        """
        document = self.check_idle()
        self._done = [Ranges(ranges) for ranges in document["done"]]
        self._sums = [int(text, 16) for text in document["fingerprints"]]
        if not self._write(self.owner):
            raise self._at_work(self._read())

    def check_idle(self) -> JournalDocument:
        """Return the content of the journal; raise as `resume` does."""
        document = self._wait_for_silence(self.check())
        if document["tasks"] != self._n_tasks:
            raise FailedPreconditionError(
                f"{self._where()} can't be used: tasks are {document['tasks']}, not {self._n_tasks}"
            )
        return document

    def check(self) -> JournalDocument:
        """Return the content of the journal; raise FailedPreconditionError if it belongs to other work."""
        document = self._read()
        different = difference(document["task"], self._task)
        if different:
            raise FailedPreconditionError(
                f"the unfinished copy can't be resumed: {different}; "
                "use the same source and options, or --overwrite to start again"
            )
        return document

    def _read(self) -> JournalDocument:
        found = self._kv.read(self.key)
        if found.value is None:  # its generation would let a later write make it again
            raise AbortedError(f"another process has ended the work, or deleted it: {self._where()} is gone")
        self._generation = found.generation
        return parse_journal(found.value, self._where())

    def _where(self) -> str:
        return self._kv.describe(self.key)

    def _wait_for_silence(self, document: JournalDocument) -> JournalDocument:
        """Return the content of the journal once nobody is at work; raise if somebody is."""
        owner = document["owner"]
        if owner is None or not may_live(owner):
            return document
        give_up = time.monotonic() + self._silence
        generation = self._generation
        while time.monotonic() < give_up:
            time.sleep(min(_POLL, self._silence))
            document = self._read()
            if self._generation != generation:
                if document["owner"] is None:
                    return document
                raise self._at_work(document)
        return document

    def _at_work(self, document: JournalDocument) -> FailedPreconditionError:
        return FailedPreconditionError(f"{owner_text(document['owner'])} is at work on it: {self._where()}")

    def is_done(self, number: int, at: int = 0) -> bool:
        """Return True if a task of pass `at` is done."""
        return number in self._done[at]

    def done(self, at: int = 0) -> list[tuple[int, int]]:
        """Return the tasks of pass `at` that are done, as ranges."""
        return list(self._done[at])

    def missing(self, at: int = 0) -> list[tuple[int, int]]:
        """Return the tasks of pass `at` that are left, as ranges."""
        n = self._n_tasks[at]
        done = Ranges((*self._done[at], *self._others[at]))
        return list(done.missing(*(0, n) if self._part is None else self._part.share(n)))

    def leave_out(self, done: Sequence[Iterable[Iterable[int]]]) -> None:
        """Count tasks of each pass as done, without noting them as done by this process."""
        self._others = [Ranges(ranges) for ranges in done]

    def fingerprint(self, at: int = 0) -> int:
        """Return the sum of the fingerprints of the tasks of pass `at`."""
        return self._sums[at]

    def mark(self, start: int, stop: int | None = None, at: int = 0, fingerprint: int = 0) -> None:
        """Note that tasks are done; written to the store after at most a second."""
        with self._lock:
            self._done[at].add(start, start + 1 if stop is None else stop)
            self._sums[at] = (self._sums[at] + fingerprint) & _MASK
            if time.monotonic() - self._saved >= _SECONDS:
                self._save(self.owner)

    def beat(self) -> None:
        """Write a sign of life if nothing was written for some seconds."""
        with self._lock:
            if time.monotonic() - self._saved >= _BEAT:
                self._save(self.owner)

    def write(self) -> None:
        """Write the current state."""
        with self._lock:
            self._save(self.owner)

    def save(self) -> None:
        """Write the current state, without an owner."""
        with self._lock:
            self._save(None)

    def restart(self, passes: Sequence[int] | None = None) -> None:
        """Note that no task, or none of some passes, is done: what was written can't be trusted."""
        with self._lock:
            for at in range(len(self._n_tasks)) if passes is None else passes:
                self._done[at], self._sums[at] = Ranges(), 0
            self._save(self.owner)

    def delete(self) -> None:
        """Delete the journal: the work is done; raise AbortedError if another process has taken it over."""
        with self._lock:
            if not traits_of(self._kv).conditional_deletes:
                self._kv.delete(self.key)
            elif self._kv.delete(self.key, if_equal=self._generation) is None:
                found = self._kv.read(self.key)
                if found.value is not None:
                    owner = parse_journal(found.value, self._where())["owner"]
                    if owner not in (None, self.owner):
                        raise AbortedError(f"another process has taken over: {self._where()}")
                self._kv.delete(self.key, if_equal=found.generation)

    def _save(self, owner: str | None) -> None:
        if not self._write(owner):
            # The store may have stored a write that it reported as failed; then this process finds its own
            # write.
            known = self._generation
            if self._read()["owner"] == self.owner and self._write(owner):
                return
            self._generation = known  # a later write must not replace the other's
            raise AbortedError(f"another process has taken over: {self._where()}")

    def _write(self, owner: str | None) -> bool:
        generation = self._kv.write(self.key, self._text(owner), if_equal=self._generation)
        self._saved = time.monotonic()
        if generation is None:
            return False
        self._generation = generation
        return True

    def _text(self, owner: str | None) -> bytes:
        state = {
            "about": f"an unfinished copy by chunkwise; `{self._command}` goes on with it",
            "task": self._task,
            "tasks": self._n_tasks,
            "done": [list(ranges) for ranges in self._done],
            "fingerprints": [f"{total:016x}" for total in self._sums],
            "owner": owner,
        }
        return json.dumps(state, indent=2).encode()


def may_live(owner: str) -> bool:
    """Return False if the process that owns a journal has certainly ended."""
    host, _, rest = owner.partition(":")
    pid, _, _ = rest.partition(":")
    if host != process_name().host or not (pid.isascii() and pid.isdigit()):
        return True
    if int(pid) == os.getpid():
        return owner in _here
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it is another user's, or no process has that number
        pass
    return True
