"""Writing many values to a bucket without waiting for each."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import numpy as np

from chunkwise.fork import new_rlock
from chunkwise.kvstore.object_key import check_object_key
from chunkwise.kvstore.object_read import DirectPut
from chunkwise.kvstore.protocol import Buffer
from chunkwise.kvstore.request_limits import DEFAULT_CONCURRENCY, Limits

__all__ = ["LARGEST_SENT", "ObjectSender"]

LARGEST_SENT = 1 << 24
"""Bytes of the largest value that is sent like this: each is kept in memory until it is stored."""
# Beyond the usual number of requests there are only as many as keep their values within this, and none
# before one has succeeded or after one was refused: the server may have enough to do.
_MOST_BYTES = 1 << 26
_MOST_REFUSED = 8
_NOTHING = np.empty(0, np.uint8)


class ObjectSender:
    """Writes and deletes of one job, whatever was there; for any number of threads.

    Parameters
    ----------
    direct : DirectPut
        Makes the requests.
    limits : Limits
        Of the users of the store.
    refused_characters : str
        Characters that the server does not take in a key.
    """

    def __init__(self, direct: DirectPut, limits: Limits, refused_characters: str) -> None:
        self._direct = direct
        self._limits = limits
        self._refused_characters = refused_characters
        self._refused: deque[tuple[str, Buffer | None]] = deque()
        self._spare: list[Any] = []  # memory of values that are stored
        self._changed = threading.Condition(new_rlock())
        self._n_under_way = self._n_bytes = 0
        self._succeeds = False

    def write(self, key: str, value: Buffer) -> bool:
        """Begin to replace the value of `key`, which is copied; return False if the store should do it."""
        return memoryview(value).nbytes <= LARGEST_SENT and self._send(key, value)

    def delete(self, key: str) -> bool:
        """Begin to delete `key`; return False if the store should do it."""
        return self._send(key, None)

    def _send(self, key: str, value: Buffer | None) -> bool:
        if len(self._refused) >= _MOST_REFUSED:
            return False
        check_object_key(key, self._refused_characters)
        limits = self._limits
        if limits.write_pace is not None:
            limits.write_pace.wait()
        nbytes = 0 if value is None else memoryview(value).nbytes
        limits.slots.sent.take()
        self._wait_for_room(nbytes)
        try:
            copy = None if value is None else self._copy(value)
        except BaseException:
            self._end(nbytes)
            raise

        def done(stored: bool) -> None:
            if not stored:
                self._refused.append((key, copy))
            else:
                self._succeeds = True
                if copy is not None:
                    self._spare.append(copy.obj)
            self._end(nbytes)

        try:
            self._direct.send(key, copy, done)
        except Exception:  # who writes it otherwise finds out why
            done(False)
        return True

    def _wait_for_room(self, nbytes: int) -> None:
        """Count a value as under way, once that takes neither too much memory nor too much of the server."""

        def may_begin() -> bool:
            if self._n_under_way < DEFAULT_CONCURRENCY:
                return True
            return self._succeeds and not self._refused and self._n_bytes + nbytes <= _MOST_BYTES

        with self._changed:
            self._changed.wait_for(may_begin)
            self._n_under_way += 1
            self._n_bytes += nbytes

    def _end(self, nbytes: int) -> None:
        self._limits.slots.sent.give_back()
        with self._changed:
            self._n_under_way -= 1
            self._n_bytes -= nbytes
            self._changed.notify_all()

    def _copy(self, value: Buffer) -> memoryview:
        """Return a copy, in memory that was used before if there is some: new memory takes longer."""
        n = memoryview(value).nbytes
        try:
            memory = self._spare.pop()
        except IndexError:
            memory = _NOTHING
        if len(memory) < n:
            memory = np.empty(n + (n >> 3), np.uint8)  # which isn't cleared
        copy = memoryview(memory)[:n]
        if n:
            np.copyto(np.frombuffer(copy, np.uint8), np.frombuffer(value, np.uint8))  # without the GIL
        return copy

    def wait(self) -> None:
        """Return when nothing is under way any more."""
        with self._changed:
            self._changed.wait_for(lambda: not self._n_under_way)

    def take_refused(self) -> list[tuple[str, Buffer | None]]:
        """Return what is not known to be stored, None for what was to be deleted: the store has to do it."""
        refused = list(self._refused)
        self._refused.clear()
        return refused
