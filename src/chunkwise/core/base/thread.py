"""Starting a thread, and finding out what the calling thread is already doing.

``threading.Thread.start`` waits until the thread reports that it runs.  If the thread never does, for want of
memory or because Ctrl-C interrupted the wait, the call hangs.
"""

from __future__ import annotations

import sys
import threading
from _thread import start_new_thread
from collections.abc import Callable
from types import FrameType
from typing import TypeVarTuple

__all__ = ["is_within", "start_thread"]

Ts = TypeVarTuple("Ts")


def start_thread(work: Callable[[*Ts], object], *arguments: *Ts) -> bool:
    """Call `work` in a new thread that Python does not wait for; return False if no thread can be started."""
    try:
        start_new_thread(_run, (work, arguments))
    except (RuntimeError, MemoryError):  # too many threads, or Python is about to end
        return False
    return True


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


def _run(work: Callable[[*Ts], object], arguments: tuple[*Ts]) -> None:
    # A new thread has neither function yet.  Python raises RuntimeError if two threads set one at the same
    # time.
    trace, profile = threading.gettrace(), threading.getprofile()
    if trace is not None:
        sys.settrace(trace)
    if profile is not None:
        sys.setprofile(profile)
    work(*arguments)
