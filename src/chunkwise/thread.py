"""Starting a thread, which may fail, and may be interrupted.

``threading.Thread.start`` waits until the thread says that it runs.  Where it can't say so, for want of
memory or because the wait was interrupted by Ctrl-C, that is for ever.
"""

from __future__ import annotations

import sys
import threading
from _thread import start_new_thread
from collections.abc import Callable
from typing import TypeVarTuple

__all__ = ["start_thread"]

Ts = TypeVarTuple("Ts")


def start_thread(work: Callable[[*Ts], object], *arguments: *Ts) -> bool:
    """Call `work` in a new thread that Python does not wait for; return False if there can't be another."""
    try:
        start_new_thread(_run, (work, arguments))
    except (RuntimeError, MemoryError):  # there are too many, or Python is about to end
        return False
    return True


def _run(work: Callable[[*Ts], object], arguments: tuple[*Ts]) -> None:
    sys.settrace(threading.gettrace())
    sys.setprofile(threading.getprofile())
    work(*arguments)
