"""Starting a thread, and finding out what the calling thread is already doing.

``threading.Thread.start`` waits until the thread reports that it runs.  If the thread never does, for want of
memory or because Ctrl-C interrupted the wait, the call hangs.  A thread that can't report anything, since it
lacks memory for its first frame, drops its arguments: that ends the wait in `start_thread`.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from _thread import LockType, allocate_lock, start_new_thread
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVarTuple

__all__ = ["is_within", "start_thread", "until_done"]

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
