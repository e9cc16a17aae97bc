"""The helper processes of this process: when they are started, and which are there.

A helper takes some 0.2 s of another processor to start, and 50 MB.  So the first is started when as much
work for helpers has come together as makes up for that, and nobody waits for it: a job has those helpers
that are ready when it begins, and a long one also those that get ready meanwhile.
"""

from __future__ import annotations

import atexit
import os
import threading
from contextlib import suppress

from chunkwise.catalogue import codecs, data_types, grids, key_encodings
from chunkwise.execute.helper.process import HelperGoneError, HelperProcess, can_help

__all__ = ["late_helpers", "n_helpers", "ready_helpers"]

# Nanoseconds of one thread.
_WORTH_STARTING = 300_000_000
_WORTH_ASKING = 15_000_000
# However many processors there are: files of one directory are not written faster by more.
_MOST = 7
_VARIABLE = "CHUNKWISE_HELPERS"
# What is registered here at run time is not known to another process.
_KNOWN = (codecs, data_types, grids, key_encodings)

_helpers: list[HelperProcess] = []
_lock = threading.Lock()
_waited = 0  # nanoseconds of work that helpers could have done
_failed = False


def n_helpers() -> int:
    """Return how many helper processes there are."""
    return len(_helpers)


def ready_helpers(n: int, nanoseconds: int, *, small_pieces: bool = False) -> list[HelperProcess]:
    """Return up to `n` helpers that are ready for a job that takes one thread so long.

    Of a job that is handed over in small pieces, half of what is else worth it will do.  Helpers that would
    have been of use, but are not there, are started.
    """
    global _waited, _failed
    n = min(n, _most())
    least = _WORTH_ASKING // 4 if small_pieces else _WORTH_ASKING
    if nanoseconds < least or n < 1 or any(registry.changed for registry in _KNOWN):
        return []
    with _lock:
        ready = _ready()
        _waited += nanoseconds
        if _waited >= _WORTH_STARTING and not _failed:
            try:
                while len(_helpers) < n:
                    _helpers.append(HelperProcess())
            except OSError:  # no more processes or memory: it goes on without
                _failed = True
        return ready[:n]


def late_helpers() -> list[HelperProcess]:
    """Return the helpers that are ready and have no job."""
    with _lock:
        return _ready()


def _ready() -> list[HelperProcess]:
    ready = []
    for helper in list(_helpers):
        if not helper.lock.acquire(blocking=False):  # another job has it
            continue
        try:
            if helper.is_ready():
                ready.append(helper)
        except HelperGoneError:
            _helpers.remove(helper)
            helper.close()
        finally:
            helper.lock.release()
    return ready


def _most() -> int:
    """Return how many helpers there may be at most."""
    value = os.environ.get(_VARIABLE)
    if value is None:
        return _MOST if can_help() else 0
    if not value.isdecimal():
        raise ValueError(f"Expected {_VARIABLE} to be a number of processes, but received: {value!r}")
    return int(value) if can_help() else 0


def _close() -> None:
    with _lock:
        while _helpers:
            _helpers.pop().close()


def _forget() -> None:
    global _lock, _waited
    _lock, _waited = threading.Lock(), 0
    while _helpers:
        with suppress(OSError):
            _helpers.pop().forget()


atexit.register(_close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
