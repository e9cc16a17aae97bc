"""Starting a thread, which may fail, and may be interrupted; what a thread is at already.

``threading.Thread.start`` waits until the thread says that it runs.  Where it can't say so, for want of
memory or because the wait was interrupted by Ctrl-C, that is for ever.
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
    """Call `work` in a new thread that Python does not wait for; return False if there can't be another."""
    try:
        start_new_thread(_run, (work, arguments))
    except (RuntimeError, MemoryError):  # there are too many, or Python is about to end
        return False
    return True


def is_within(function: Callable[..., object], **variables: object) -> bool:
    """Return True if the calling thread is in another call of `function`, with these local variables."""
    # A signal handler runs in the middle of what its thread is doing, and waits for it in vain.
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
    # A new thread has neither.  Python raises RuntimeError where two threads set one at the same time.
    trace, profile = threading.gettrace(), threading.getprofile()
    if trace is not None:
        sys.settrace(trace)
    if profile is not None:
        sys.setprofile(profile)
    work(*arguments)
