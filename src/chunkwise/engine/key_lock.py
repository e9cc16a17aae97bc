"""Keeping writers of one process from changing the same object at the same time.

What makes an update safe is the generation that the conditional write compares.  A lock only saves the
work of the loser, who would read, decode and encode again; so a holder that takes long is not waited
for without end, and no order of locks can block anything.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable

__all__ = ["change_alone"]

_N_LOCKS = 256
_PATIENCE = 5.0  # seconds

_locks = [threading.Lock() for _ in range(_N_LOCKS)]


def change_alone(store: Hashable, key: str, attempt: Callable[[], bool]) -> None:
    """Call `attempt` until it returns True, holding the lock of `key` if that can be had soon.

    Parameters
    ----------
    store : hashable
        The identity of the kvstore that the key is in.
    key : str
    attempt : callable
        Reads, changes and writes once; whether it was written.
    """
    lock = _locks[hash((store, key)) % _N_LOCKS]
    [held] = map(lock.acquire, [True], [_PATIENCE])  # unpacked: see chunkwise.kvstore.file_lock
    try:
        while not attempt():
            pass
    finally:
        if held:
            lock.release()


def _forget_holders() -> None:
    _locks[:] = [threading.Lock() for _ in range(_N_LOCKS)]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_holders)
