"""Making many objects that stay: Python's search for cycles among them is put off until they are made.

The builders and containers of a file are some hundred thousand objects, and none of them is garbage while
the file is read.  Going through all objects of the process again and again meanwhile takes a quarter of the
time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from chunkwise.fork import in_child, new_lock

__all__ = ["many_objects"]

_lock = new_lock()
_depth = 0
_was_enabled = False


@contextmanager
def many_objects() -> Iterator[None]:
    """Put the collection of cycles off, for all threads, until the last of those who asked is done."""
    global _depth, _was_enabled
    with _lock:
        if _depth == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0 and _was_enabled:
                gc.enable()


@in_child
def _forget() -> None:
    """End it in the child of a fork, where those who asked for it don't go on."""
    global _depth
    if _depth and _was_enabled:
        gc.enable()
    _depth = 0
