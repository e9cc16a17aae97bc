"""``Lease``: a small document that one owner holds at a time, and that another can take over.

The document is made on condition that there is none, and changed only on condition of the version that its
owner knows, so two owners can't both hold it.  While it is held, it is written again every few seconds.  An
owner that has ended (of the same machine), or that has been silent for some time, measured by the clock of
the process that waits, is replaced.  It may still be running: what it does under the lease has to be
conditional on `Lease.check`.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from weakref import WeakValueDictionary, ref

from chunkwise.core.base.binding import load_json
from chunkwise.core.base.threads import new_lock, start_thread
from chunkwise.core.kvstore.atomic import AtomicWritable, Directories
from chunkwise.core.kvstore.places.staging import (
    APPEND,
    has_ended,
    in_staging,
    new_owner,
    staging_prefix,
    upwards,
)
from chunkwise.core.kvstore.protocol import (
    MISSING_GENERATION,
    Buffer,
    KvStoreDriver,
    Stamped,
    SyncedLater,
    offers,
)
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.kvstore.value import read_bounded
from chunkwise.errors import (
    AbortedError,
    ChunkwiseError,
    FailedPreconditionError,
    LostAnswerError,
    PermissionDeniedError,
)

__all__ = [
    "CLEARS",
    "HeldError",
    "Lease",
    "Patience",
    "check_alone",
    "check_not_held",
    "check_owner",
    "end_turn",
    "having_turn",
    "in_one_step",
    "is_blank",
    "is_of_ended",
    "looks_above",
    "parse_lease",
    "take_turn",
    "takes_turns",
    "wait_inside",
]

CLEARS = "clears"
"""Member of the document of an owner that deletes keys below, whatever they are."""

_BEAT = 5.0
_SILENCE = 20.0  # seconds of silence after which an owner is assumed to be dead
_FIRST_PAUSE, _LONGEST_PAUSE, _LONGEST_REMOTE_PAUSE = 0.001, 0.05, 0.5

_here: WeakValueDictionary[str, Lease] = WeakValueDictionary()


class Lease:
    """A document and its owner; `state` are the members beside those of the lease itself."""

    def __init__(self, kv: KvStoreDriver, key: str, about: str) -> None:
        # Only a change that must outlast a loss of power waits for the disk.
        self._kv = (kv.unsynced() if offers(kv, SyncedLater) else None) or kv
        self._durable, self.key, self._about = kv, key, about
        self.owner = new_owner()
        self.state: dict[str, Any] = {}
        self._generation = MISSING_GENERATION
        self._n_beats = 0
        self._signed = 0.0  # time of the last sign of life
        self._lock = new_lock()
        self._ended = threading.Event()
        self.thread = threading.get_ident()

    @property
    def where(self) -> str:
        """Name of the document."""
        return self._kv.describe(self.key)

    def take(self, state: Mapping[str, Any], *, beats: bool = True) -> Stamped | None:
        """Make the document, and return None; or return the one of another owner.

        Unless it `beats`, nothing is written again: another lease shows that its owner lives.
        """
        self._generation = MISSING_GENERATION
        while True:
            with suppress(LostAnswerError):
                if self._write(state):
                    break
            found = read_bounded(self._kv, self.key)
            if is_blank(found.value):
                self._generation = found.generation
                continue
            if self._is_own(found):  # the answer to the write was lost
                self._generation, self.state = found.generation, dict(state)
                break
            return found
        if beats:
            self._hold()
        return None

    def take_over(self, found: Stamped) -> bool:
        """Take over the document of another owner, if it is still the same."""
        document = parse_lease(found.value or b"", self.where)
        self._generation, self._n_beats = found.generation, document.pop("beat")
        document.pop("owner"), document.pop("about")
        if not self._write(document):
            return False
        self._hold()
        return True

    def check(self) -> None:
        """Raise AbortedError unless the document is still this owner's."""
        check_owner(self._kv, self.key, self.owner)

    def confirm(self) -> None:
        """Do as `check`, but ask the store only if the last sign of life is not recent."""
        if time.monotonic() - self._signed > _SILENCE / 2:
            self.check()

    def change(self, state: Mapping[str, Any], *, durable: bool = False) -> None:
        """Change the state, on disk if `durable`; raise AbortedError if it is no longer this owner's."""
        with self._lock:
            self._replace(state, self._durable if durable else self._kv)

    def release(self) -> bool:
        """Delete the document; return False if another owner has replaced or deleted it."""
        self._ended.set()
        try:
            with self._lock:
                conditional = traits_of(self._kv).conditional_deletes
                if conditional and self._kv.delete(self.key, if_equal=self._generation) is not None:
                    return True
                found = read_bounded(self._kv, self.key)
                if not self._is_own(found):
                    return False
                self._kv.delete(self.key, **({"if_equal": found.generation} if conditional else {}))
                return True
        finally:  # not before, lest another thread takes it for that of an owner that has ended
            self.forget()

    def forget(self) -> None:
        """Give no more signs of life, so that others take the document over."""
        self._ended.set()
        _here.pop(self.owner, None)

    # -- the document -----------------------------------------------------------------------------------

    def _write(self, state: Mapping[str, Any], kv: KvStoreDriver | None = None) -> bool:
        members = {"about": self._about, "owner": self.owner, "beat": self._n_beats, **state}
        text = json.dumps(members, indent=2).encode()
        now = time.monotonic()
        generation = (kv or self._kv).write(self.key, text, if_equal=self._generation)
        if generation is None:
            return False
        self._generation, self.state, self._signed = generation, dict(state), now
        return True

    def _replace(self, state: Mapping[str, Any], kv: KvStoreDriver | None = None) -> None:
        while True:
            lost: LostAnswerError | None = None
            try:
                if self._write(state, kv):
                    return
            except LostAnswerError as e:
                lost = e
            # The store may have stored a write that it reported as failed.
            found = read_bounded(self._kv, self.key)
            if not self._is_own(found):
                raise lost or _lost(self._kv, self.key)
            self._generation = found.generation

    def _is_own(self, found: Stamped) -> bool:
        return _owns(self.owner, found)

    def _hold(self) -> None:
        self._ended.clear()
        _here[self.owner] = self
        start_thread(_beat, ref(self), self._ended)  # without a thread, only a short hold is safe from others

    def _give_sign(self) -> None:
        with self._lock:
            if not self._ended.is_set():
                self._n_beats += 1
                self._replace(self.state)


def check_owner(kv: KvStoreDriver, key: str, owner: str) -> None:
    """Raise AbortedError unless a document is still its owner's."""
    if not _owns(owner, read_bounded(kv, key)):
        raise _lost(kv, key)


def _owns(owner: str, found: Stamped) -> bool:
    return found.value is not None and f'"{owner}"'.encode() in bytes(found.value)


def _lost(kv: KvStoreDriver, key: str) -> AbortedError:
    return AbortedError(
        f"another process has taken over {kv.describe(key)}, since this one was silent for {_SILENCE:g} s"
    )


def _beat(lease: ref[Lease], ended: threading.Event) -> None:
    while not ended.wait(_BEAT):
        held = lease()
        if held is None:
            return
        try:
            held._give_sign()
        except AbortedError:
            return
        except ChunkwiseError:  # the store may answer again
            pass
        del held


def is_blank(value: Buffer | None) -> bool:
    """Return True if there is no document, or one of which a loss of power has left no text."""
    return value is None or not bytes(value).strip(b"\0 \n")


def parse_lease(value: Buffer, where: str) -> dict[str, Any]:
    """Return the members of the document of a lease; raise FailedPreconditionError for another document."""
    try:
        document = load_json(bytes(value))
    except ChunkwiseError as e:
        raise FailedPreconditionError(f"{where} is damaged, or another's: {e.message}") from None
    for name, kind in (("about", str), ("owner", str), ("beat", int)):
        if not isinstance(document, dict) or not isinstance(document.get(name), kind):
            raise FailedPreconditionError(
                f'{where} is damaged, or another\'s: "{name}": expected {kind.__name__}'
            )
    assert isinstance(document, dict)
    return document


def is_of_ended(value: Buffer) -> bool:
    """Return True if the document is of a process of this machine that has certainly ended."""
    try:
        return has_ended(parse_lease(value, "")["owner"])
    except FailedPreconditionError:
        return False


class Patience:
    """The wait of one process for documents of others."""

    def __init__(self, kv: KvStoreDriver) -> None:
        is_slow = traits_of(kv).request_concurrency is not None
        self._longest = _LONGEST_REMOTE_PAUSE if is_slow else _LONGEST_PAUSE
        self._pause = _FIRST_PAUSE
        self._seen: tuple[str, bytes] = ("", b"")
        self._since = 0.0

    def is_over(self, key: str, found: Stamped, where: str) -> bool:
        """Wait for a moment; return True at once if the owner of a document has ended, or is silent."""
        owner = parse_lease(found.value or b"", where)["owner"]
        lease = _here.get(owner)
        if lease is not None and lease.thread == threading.get_ident():
            raise FailedPreconditionError(f"{where}: the calling thread itself is at work there")
        is_own = owner.split("-")[:2] == new_owner().split("-")[:2]
        if (is_own and lease is None) or has_ended(owner):
            return True
        now = time.monotonic()
        if self._seen != (key, found.generation):
            self._seen, self._since = (key, found.generation), now
        elif now - self._since > _SILENCE:
            return True

        time.sleep(random.uniform(0.5, 1.0) * self._pause)
        self._pause = min(self._longest, 2 * self._pause)
        return False


class HeldError(AbortedError):
    """Another owner holds a document."""

    held: tuple[KvStoreDriver, str, Stamped] | None = None  # its store and key, and the value that was read

    def wait(self) -> None:
        """Wait until the document is free; delete it if its owner has ended or is silent."""
        assert self.held is not None
        _wait(*self.held)


def _wait(kv: KvStoreDriver, key: str, found: Stamped) -> None:
    patience, lease = Patience(kv), Lease(kv, key, "what was begun here is over")
    while not is_blank(found.value):
        if patience.is_over(key, found, lease.where) and lease.take_over(found):
            lease.release()
        found = read_bounded(kv, key)


def check_not_held(kv: KvStoreDriver, key: str) -> None:
    """Raise HeldError if another thread or process holds a document."""
    found = read_bounded(kv, key)
    if not is_blank(found.value):
        own = _here.get(parse_lease(found.value or b"", kv.describe(key))["owner"])
        if own is None or own.thread != threading.get_ident():
            error = HeldError(f"another process is at work at {kv.describe(key)}")
            error.held = kv, key, found
            raise error


def take_turn(kv: KvStoreDriver, path: str, about: str) -> Lease | None:
    """Wait for others at work at a node, and keep them out from now on; None if that can't be."""
    if not traits_of(kv).conditional_writes(path + APPEND):
        return None
    while True:
        lease = Lease(kv, path + APPEND, about)
        other = lease.take({"id": os.urandom(16).hex(), "state": "writing", "arrays": {}, CLEARS: True})
        if other is None:
            return lease
        _wait(kv, lease.key, other)


def end_turn(lease: Lease | None) -> bool:
    """Let others in again; return False if another process had deleted the document, or taken it over."""
    try:
        return lease is None or lease.release()
    except ChunkwiseError:  # the store may have failed for good
        return True


@contextmanager
def having_turn(kv: KvStoreDriver, path: str, about: str) -> Iterator[Callable[[], None]]:
    """Take a turn, once no other clears a group above; yield a function that raises when it is lost."""
    while True:
        lease = take_turn(kv, path, about)
        try:
            for look in [] if lease is None else looks_above(kv, path):
                look()
            break
        except HeldError as e:
            end_turn(lease)  # whoever deletes a group above may be waiting for this one
            e.wait()
        except BaseException:
            end_turn(lease)
            raise
    try:
        yield (lambda: None) if lease is None else lease.confirm
    finally:
        end_turn(lease)


def check_alone(
    kv: KvStoreDriver, key: str, generation: bytes, look: Callable[[], object] = lambda: None
) -> None:
    """Raise HeldError while another owner replaces or deletes the node at the place of a new document.

    Then, or if `look` raises, the document is deleted again.  A staging place has one owner.
    """
    turn = key[: key.rfind("/") + 1] + APPEND
    try:
        look()
        if not in_staging(key) and takes_turns(kv, turn):
            check_not_held(kv, turn)
    except BaseException:  # an interrupt too
        with suppress(ChunkwiseError):  # the store may have failed for good
            kv.delete(key, if_equal=generation)
        raise


def looks_above(kv: KvStoreDriver, path: str) -> list[Callable[[], None]]:
    """Return requests that raise HeldError if another owner clears a group above `path`."""
    return [partial(_check_not_cleared, kv, above + APPEND) for above in upwards(path) if above != path]


def _check_not_cleared(kv: KvStoreDriver, key: str) -> None:
    try:
        check_not_held(kv, key)
    except HeldError as e:
        assert e.held is not None
        if parse_lease(e.held[2].value or b"", kv.describe(key)).get(CLEARS):
            raise
    except (PermissionDeniedError, FailedPreconditionError):  # it is hidden, or none of ours
        pass


def wait_inside(kv: KvStoreDriver, path: str, keys: Iterable[str]) -> bool:
    """Wait until all documents among `keys` below a node at `path` are free; return True if one was held."""
    held = [key for key in keys if key.endswith(f"/{APPEND}") and key != path + APPEND]
    held = [key for key in held if staging_prefix(key, path) is None]
    for key in held:
        _wait(kv, key, read_bounded(kv, key))
    return bool(held)


def in_one_step(kv: KvStoreDriver) -> bool:
    """Return True if a node is replaced by one change of the store."""
    return offers(kv, Directories) or offers(kv, AtomicWritable) or traits_of(kv).nodes_only


def takes_turns(kv: KvStoreDriver, key: str) -> bool:
    """Return True if replacing and deleting a node takes steps, during which others are kept out by `key`."""
    return not in_one_step(kv) and bool(traits_of(kv).conditional_writes(key))
