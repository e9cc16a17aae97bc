"""Repair of a forked process: all locks of the library, and state that belonged to threads, are made anew.

A forked process has a copy of the memory, but only the thread that forked.  A lock held by another thread
would stay locked for ever, a change in progress would stay half done, and code that waits for a thread would
never return.  So all locks come from here, and other state of threads is registered here, to be put in order
once all locks are free.

A thread that forks while it holds a lock no longer holds it in the child.  Python's own locks are not made
anew: if another thread is importing a module for the first time, a child forked then can't import that
module.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Protocol, TypeAlias, TypeVar
from weakref import WeakSet

__all__ = ["KeyLocks", "Lock", "in_child", "locks", "new_lock", "new_rlock", "put_in_order_in_child"]


class Ordered(Protocol):
    """Owner of state that is put in order in the child of a fork; only weakly referenced."""

    def after_fork(self) -> None:
        """Forget the work of threads that don't exist in the child; no other thread is running."""
        ...


Lock: TypeAlias = threading.Lock
"""For annotations."""

F = TypeVar("F", bound=Callable[[], None])

_locks: WeakSet[Any] = WeakSet()
_ordered: WeakSet[Any] = WeakSet()
_functions: list[Callable[[], None]] = []


def new_lock() -> Lock:
    """Return a new lock, which is always free in a new child process."""
    lock = threading.Lock()
    _locks.add(lock)
    return lock


def new_rlock() -> Any:
    """Return a new reentrant lock; see `new_lock`."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


class KeyLocks:
    """A fixed number of locks for any number of things; each thing always has the same one."""

    # With 256 locks, while 16 are held, one thing in 16 has to wait for the lock of an unrelated one.

    def __init__(self) -> None:
        self._locks: list[Any] = [threading.Lock() for _ in range(256)]
        _locks.add(self)

    def of(self, *what: Hashable) -> Lock:
        """Return the lock of `what`."""
        lock: Lock = self._locks[hash(what) % len(self._locks)]
        return lock

    def __iter__(self) -> Iterator[Any]:
        return iter(self._locks)

    def _at_fork_reinit(self) -> None:
        for lock in self._locks:
            lock._at_fork_reinit()


def locks() -> list[Any]:
    """Return all existing locks, to see which are held."""
    several = [lock for lock in _locks if isinstance(lock, KeyLocks)]
    return [lock for lock in _locks if not isinstance(lock, KeyLocks)] + [lock for s in several for lock in s]


def put_in_order_in_child(what: Ordered) -> None:
    """Have ``what.after_fork()`` called in the child of a fork, if `what` still exists then."""
    _ordered.add(what)


def in_child(function: F) -> F:
    """Have `function` called in the child of a fork; a decorator for module-level functions."""
    _functions.append(function)
    return function


def _after_fork() -> None:
    for lock in list(_locks):
        lock._at_fork_reinit()
    for function in _functions:
        function()
    for what in list(_ordered):
        what.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
