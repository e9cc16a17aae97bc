"""Keeping writers of one process from changing the same object at the same time.

What makes an update safe is the generation that the conditional write compares.  A lock only saves the
work of the loser, who would read, decode and encode again; so a holder that takes long is not waited
for without end, and no order of locks can block anything.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

__all__ = ["key_lock"]

_N_LOCKS = 256
_PATIENCE = 5.0  # seconds

_locks = [threading.Lock() for _ in range(_N_LOCKS)]


@contextmanager
def key_lock(store: Hashable, key: str) -> Iterator[None]:
    """Hold the lock of `key` in the kvstore whose identity is `store`, if it can be had soon."""
    lock = _locks[hash((store, key)) % _N_LOCKS]
    held = lock.acquire(timeout=_PATIENCE)
    try:
        yield
    finally:
        if held:
            lock.release()


def _forget_holders() -> None:
    _locks[:] = [threading.Lock() for _ in range(_N_LOCKS)]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_holders)
