"""Locks that keep writers of one process from updating the same object at the same time.

What makes an update safe is the generation that the conditional write compares.  A lock only saves the
work of the loser, who would read, decode and encode again; so a holder that takes long is not waited
for without end, and no order of locks can block anything.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from chunkwise.fork import KeyLocks

__all__ = ["change_alone"]

_N_LOCKS = 256
_PATIENCE = 5.0  # seconds

_locks = KeyLocks(_N_LOCKS)


def change_alone(store: Hashable, key: str, attempt: Callable[[], bool]) -> None:
    """Call `attempt` until it returns True, holding the lock of `key` if that can be had soon."""
    # `store` is the identity of the kvstore that the key is in.
    lock = _locks.of(store, key)
    [held] = map(lock.acquire, [True], [_PATIENCE])  # unpacked: see chunkwise.kvstore.file_protocol
    try:
        while not attempt():
            pass
    finally:
        if held:
            lock.release()
