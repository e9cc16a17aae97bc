"""How a future is completed, once, and how a thread waits for it.

An interrupted wait gives up the work: parts that have not begun are cancelled, and changes to stored data
that have begun are waited for, so that nothing changes any more once the caller sees the interruption.  A
second interruption ends that wait too.  A timeout only ends the wait.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from _thread import allocate_lock
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, Protocol

from chunkwise.core.base.arguments import as_float
from chunkwise.core.base.threads import in_child
from chunkwise.errors import FailedPreconditionError

__all__ = [
    "CANCELLED",
    "ERROR",
    "PENDING",
    "VALUE",
    "Process",
    "collecting",
    "complete",
    "give_up",
    "go_on_until",
    "raise_cancelled",
    "run_callbacks",
    "seconds_left",
    "wait",
]

PENDING, VALUE, ERROR, CANCELLED = range(4)


def complete(future: Any, state: int, value: Any) -> bool:
    """Complete a pending future; return False if it is already complete, or about to be."""
    if future._state != PENDING:
        return False
    claim = state, value
    try:
        if future._claims.setdefault("end", claim) is not claim:
            return False
        _settle(future, state, value)
    except BaseException:  # Ctrl-C; waiters must be notified even so
        if future._claims.get("end") is claim:
            _settle(future, state, value)
        raise
    return True


def _settle(future: Any, state: int, value: Any) -> None:
    if future._failure is not None:
        future._failure = future._failure(value) if state == ERROR else None
    future._value = value
    future._state = state
    future._start.clear()
    run_callbacks(future)


def run_callbacks(future: Any) -> None:
    """Call what waits for a future that is complete, each callback once."""
    callbacks = future._callbacks
    while True:
        try:
            callback = callbacks.popleft()
        except IndexError:
            return
        try:
            callback(future)
        except BaseException:  # the completing code must not fail, nor other callbacks be skipped
            with suppress(MemoryError):
                from traceback import print_exc

                print_exc()


def raise_cancelled() -> NoReturn:
    """Raise the exception of a future that was cancelled."""

    from asyncio import CancelledError  # the package is slow to load, and most programs never cancel

    raise CancelledError


# Seconds.  Windows delivers Ctrl-C only between waits.  Elsewhere a signal ends a wait, unless it arrives
# just before, or in another thread.
_LONGEST_WAIT = 0.1 if sys.platform == "win32" else 1.0


class Process:
    """This process."""

    n_forks = 0  # how many forks have led to it


@in_child
def _count_fork() -> None:
    Process.n_forks += 1


class Awaited(Protocol):
    """The part of `Future` needed for waiting."""

    _forks: int

    def done(self) -> bool: ...
    def cancel(self) -> bool: ...
    def result(self) -> Any: ...
    def add_done_callback(self, callback: Callable[[Any], Any], /) -> None: ...
    def remove_done_callback(self, callback: Callable[[Any], Any], /) -> int: ...


class _Thread(threading.local):
    """Changes of this thread that continue after cancellation."""

    collected: list[Awaited] | None = None


_thread = _Thread()


@contextmanager
def collecting() -> Iterator[list[Awaited]]:
    """Collect the ends of all changes that are cancelled in the block but continue for a while."""
    before, collected = _thread.collected, list[Awaited]()
    _thread.collected = collected
    try:
        yield collected
    finally:
        _thread.collected = before


def go_on_until(ended: Awaited) -> None:
    """Tell the code that is cancelling work that stored data changes until `ended` is done."""
    if _thread.collected is not None:
        _thread.collected.append(ended)


def give_up(future: Awaited) -> None:
    """Cancel `future`, and wait for changes to stored data that have begun."""
    with collecting() as begun:
        future.cancel()
    for ended in begun:
        _wait_until(ended.done, ended, None)


def wait(future: Awaited, left: float | None) -> None:
    """Wait until `future` is done; raise TimeoutError after `left` seconds."""
    forks = Process.n_forks

    def is_over() -> bool:
        return future.done() or future._forks != Process.n_forks

    try:
        in_time = _wait_until(is_over, future, left)
    except BaseException:  # Ctrl-C; abandoned work is given up
        if forks == Process.n_forks:
            give_up(future)
        raise
    if future.done():
        return
    if not in_time:
        raise TimeoutError
    raise FailedPreconditionError(
        "The work was under way in a parent process when this process was forked, "
        "and its result will not arrive here"
    )


def _wait_until(is_over: Callable[[], bool], future: Awaited, left: float | None) -> bool:
    gate = allocate_lock()
    gate.acquire()

    def wake(_: object) -> None:
        gate.release()

    future.add_done_callback(wake)
    end = None if left is None else time.monotonic() + left
    try:
        while not is_over():
            longest = _LONGEST_WAIT
            if end is not None:
                longest = min(longest, end - time.monotonic())
                if longest <= 0:
                    return False
            gate.acquire(True, longest)  # a signal handler that raises ends the wait
    finally:
        future.remove_done_callback(wake)
    return True


def seconds_left(timeout: float | None, deadline: float | None) -> float | None:
    """Return how long a caller wants to wait; None means for ever."""
    limits = []
    if timeout is not None:
        limits.append(as_float(timeout, "timeout"))
    if deadline is not None:
        limits.append(as_float(deadline, "deadline") - time.time())
    if any(map(math.isnan, limits)):
        return 0.0  # as in TensorStore; comparing with NaN would wait for ever
    return min(limits, default=None)
