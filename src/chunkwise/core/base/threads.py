"""Threads: starting them, locks that survive a fork, and counts that need no lock.

A forked process has a copy of the memory, but only the thread that forked.  A lock held by another thread
would stay locked for ever, a change in progress would stay half done, and code that waits for a thread would
never return.  So all locks come from here, and other state of threads is registered here, to be put in order
once all locks are free.

A thread that forks while it holds a lock no longer holds it in the child.  Python's own locks are not made
anew: if another thread is importing a module for the first time, a child forked then can't import that
module.

``threading.Thread.start`` waits until the thread reports that it runs.  If the thread never does, for want of
memory or because Ctrl-C interrupted the wait, the call hangs.  A thread that can't report anything, since it
lacks memory for its first frame, drops its arguments: that ends the wait in `start_thread`.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from _thread import LockType, allocate_lock, start_new_thread
from collections.abc import Callable, Hashable, Iterator
from itertools import count
from types import FrameType
from typing import Any, Protocol, TypeAlias, TypeVar, TypeVarTuple
from weakref import WeakSet

__all__ = [
    "Counter",
    "KeyLocks",
    "Lock",
    "counter_values",
    "in_child",
    "is_within",
    "locks",
    "new_lock",
    "new_rlock",
    "put_in_order_in_child",
    "start_thread",
    "until_done",
]


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


Ts = TypeVarTuple("Ts")


class _Arguments:
    """Resources that a thread holds from its start to its end."""

    __slots__ = ("__weakref__",)


def _nothing() -> None:
    pass


def start_thread(
    work: Callable[[*Ts], object], *arguments: *Ts, prepare: Callable[[], object] = _nothing
) -> bool:
    """Call `work` in a new thread that Python does not wait for; return False if no thread can be started.

    `prepare` is called in it before this function returns, which returns False if that fails.
    """
    if sys.is_finalizing():  # a new thread would never run
        return False
    running: list[_Arguments | None] = [None]
    try:
        gate = allocate_lock()
        gate.acquire()
        held = _Arguments()
        # No function of Python can be called in a thread without memory for a frame; this is one of C.
        release: Any = gate.__exit__  # takes any arguments
        dropped = weakref.ref(held, release)
        start_new_thread(_run, (held, running, gate, prepare, work, arguments))
    except (RuntimeError, MemoryError):  # too many threads, or Python is about to end
        return False
    del held
    try:
        gate.acquire()
    except BaseException:  # Ctrl-C; the answer comes all the same
        gate.acquire()
        raise
    del dropped  # from here on the thread may end as it likes
    return running[0] is not None


def until_done(report: Callable[[BaseException], object], error: BaseException) -> None:
    """Report the end of work; while there is no memory for that, try again."""
    while True:
        try:
            report(error)
        except MemoryError:
            time.sleep(0.01)
        else:
            return


def is_within(function: Callable[..., object], **variables: object) -> bool:
    """Return True if the calling thread is in another call of `function`, with these local variables."""
    # A signal handler that waits for the work it interrupted, on the same thread, would wait for ever.
    code = function.__code__
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_code is code:
            found = frame.f_locals
            if all(found.get(name) == value for name, value in variables.items()):
                return True
        frame = frame.f_back
    return False


def _run(
    held: _Arguments,
    running: list[_Arguments | None],
    gate: LockType,
    prepare: Callable[[], object],
    work: Callable[[*Ts], object],
    arguments: tuple[*Ts],
) -> None:
    prepare()
    running[0] = held  # which takes no memory
    gate.release()
    # A new thread has neither function yet.  Python raises RuntimeError if two threads set one at the same
    # time.
    trace, profile = threading.gettrace(), threading.getprofile()
    if trace is not None:
        sys.settrace(trace)
    if profile is not None:
        sys.setprofile(profile)
    work(*arguments)


class Counter:
    """A count; `name` is a path, ``/chunkwise/...``, or TensorStore's path of the same metric."""

    def __init__(self, name: str) -> None:
        self.name = name
        numbers = count()
        self.add = numbers.__next__
        self._numbers = numbers
        _counters.append(self)

    @property
    def value(self) -> int:
        """Number of calls of `add`."""
        return int(repr(self._numbers)[len("count(") : -1])  # repr shows the next number without taking it


_counters: list[Counter] = []


def counter_values() -> dict[str, int]:
    """Return the values of all counters by name."""
    return {counter.name: counter.value for counter in _counters}
