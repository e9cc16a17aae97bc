"""``Journal``: the progress of unfinished work, in small documents in its destination, one for each part."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple
from weakref import WeakValueDictionary

from chunkwise.copying.journal_document import (
    JournalDocument,
    Ranges,
    difference,
    owner_text,
    parse_journal,
)
from chunkwise.core.base.binding import JSON
from chunkwise.core.base.threads import new_lock, start_thread
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, MOST_LOST
from chunkwise.core.kvstore.this_process import process_name
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.node import JOURNAL
from chunkwise.errors import (
    AbortedError,
    AlreadyExistsError,
    ChunkwiseError,
    FailedPreconditionError,
    InvalidArgumentError,
    UnsafeWriteError,
)
from chunkwise.extension.inside import HeldError, check_alone

__all__ = [
    "MOST_PARTS",
    "STEM",
    "Journal",
    "Part",
    "may_live",
    "parse_part",
    "part_of_key",
]

# -- parts of a copy ----------------------------------------------------------------------------------

STEM = JOURNAL.removesuffix(".json")
MOST_PARTS = 1_000_000
_KEY = re.compile(rf"{re.escape(STEM)}\.([0-9]{{1,7}})-of-([0-9]{{1,7}})\.json", re.ASCII)


class Part(NamedTuple):
    """One of `n` parts, numbered from 1."""

    number: int
    n: int

    @property
    def key(self) -> str:
        """Name of its journal."""
        return f"{STEM}.{self.number}-of-{self.n}.json"

    def share(self, n_tasks: int) -> tuple[int, int]:
        """Return its tasks, as a range."""
        return n_tasks * (self.number - 1) // self.n, n_tasks * self.number // self.n


def parse_part(text: str) -> Part:
    """Return the part ``I/N``; raise InvalidArgumentError for another text."""
    match = re.fullmatch(r"([0-9]{1,7})/([0-9]{1,7})", text, re.ASCII) if isinstance(text, str) else None
    if match is None or not 1 <= int(match[1]) <= int(match[2]) <= MOST_PARTS:
        raise InvalidArgumentError(
            f"part: expected I/N from 1/N to N/N, N of at most {MOST_PARTS:,}, but received {text!r}"
        )
    return Part(int(match[1]), int(match[2]))


def part_of_key(key: str) -> Part | None:
    """Return the part whose journal has this name, or None."""
    match = _KEY.fullmatch(key)
    part = None if match is None else Part(int(match[1]), int(match[2]))
    return part if part is not None and 1 <= part.number <= part.n else None


# -- journals -----------------------------------------------------------------------------------------

# It is written before the first chunk, now and then during the work, and deleted at the very end.  Each
# write is conditional on the one before, so two processes can't both continue the same work: a process
# stops when it finds that another has written.  A process that takes a journal over first waits until the
# owner has been silent for some time, measured by its own clock.

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
        task: Mapping[str, JSON],  # the work and its options; must be the same to resume
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
        self.owner = ":".join((process_name().host, str(os.getpid()), os.urandom(16).hex()))
        _here[self.owner] = self

    def check_store(self) -> None:
        """Raise UnsafeWriteError if the store can't hold a journal; call it before any change."""
        traits = traits_of(self._kv)
        if not traits.conditional_writes(self.key):
            why = traits.why_unsafe()
            raise UnsafeWriteError(
                f"{self._where()}: the journal of unfinished work is changed by conditional writes, "
                f"which this store does not promise{f', since {why}' if why else ''}; if no other process "
                'writes there, set "single_writer" in the kvstore, for fsspec {"driver": "object", "object": '
                'fs, "path": path, "single_writer": true}; of a bucket give the URL, such as s3://…'
            )

    def begin(self, *, owned: bool = True) -> None:
        """Write the journal of new work, as its owner or not; raise AlreadyExistsError if there is one.

        It is a HeldError while another process is replacing or deleting what was there.
        """
        self.check_store()
        if not self._write(self.owner if owned else None):
            raise AlreadyExistsError(
                "a copy to this destination was begun and not finished: --resume goes on with it, "
                "--overwrite starts again"
            )
        try:
            check_alone(self._kv, self.key, self._generation)
        except HeldError:  # the journal is deleted again
            self._generation = MISSING_GENERATION
            raise

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
        """Return the content of the journal when its owner is silent; raise if the owner is at work."""
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

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Give signs of life while the block waits for others, who may be waiting for them."""
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(_SECONDS):
                with suppress(ChunkwiseError):  # the next write reports it
                    self.write()

        start_thread(beat)
        try:
            yield
        finally:
            ended.set()

    def write(self) -> None:
        """Write the current state."""
        with self._lock:
            self._save(self.owner)

    def save(self) -> None:
        """Write the current state, without an owner."""
        with self._lock:
            self._save(None)

    def restart(self, passes: Sequence[int] | None = None) -> None:
        """Record that no task, or none of some passes, is done, because the written data can't be trusted."""
        with self._lock:
            for at in range(len(self._n_tasks)) if passes is None else passes:
                self._done[at], self._sums[at] = Ranges(), 0
            self._save(self.owner)

    def delete(self) -> None:
        """Delete the journal: the work is done; raise AbortedError if another process has taken it over."""
        with self._lock:
            if self._kv.delete(self.key, if_equal=self._generation) is None:
                found = self._kv.read(self.key)
                if found.value is not None:
                    owner = parse_journal(found.value, self._where())["owner"]
                    if owner not in (None, self.owner):
                        raise AbortedError(f"another process has taken over: {self._where()}")
                self._kv.delete(self.key, if_equal=found.generation)

    def _save(self, owner: str | None) -> None:
        known = self._generation
        for _ in range(MOST_LOST):
            if self._write(owner):
                return
            # The store may have stored a write that it reported as failed; then this process finds its own
            # write.  In an archive, a change of any key lets the condition fail.
            if self._read()["owner"] != self.owner:
                break
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
