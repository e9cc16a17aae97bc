"""Cache of one freed result buffer.

The system clears each page that it hands over, which takes a fifth of the time of reading zstd chunks, and
half of that of raw ones.  Programs that go through an array block by block let go of one result and ask
for another of the same size, again and again.

There is never more than one kept piece, and it goes when a result is asked for that does not fit, or after
some seconds.  Until then it is the system's to take back (``MADV_FREE``), which does so when memory gets
scarce, although it counts as resident before.
"""

from __future__ import annotations

import mmap
import os
import time
import weakref
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.fork import in_child
from chunkwise.thread import start_thread

__all__ = ["Advise", "forget_kept_memory", "large_memory"]

Advise: TypeAlias = Callable[[int, int, int], int]
"""The system's ``madvise``: address, number of bytes, advice."""

_VARIABLE = "CHUNKWISE_KEPT_BYTES"
_MOST = 1 << 30  # bytes that are kept
_LONGEST = 10.0  # seconds
_FREE: int = getattr(mmap, "MADV_FREE", 0)  # 0 where there is no such thing
_HUGE_PAGES: int = getattr(mmap, "MADV_HUGEPAGE", 0)

_kept: list[tuple[mmap.mmap, float]] = []  # with the time at which it was given back
_watched: list[None] = []  # true while a thread waits for it to get old


def large_memory(nbytes: int, advise: Advise) -> tuple[npt.NDArray[np.uint8], bool] | None:
    """Return memory with anything in it, and True if an earlier result had it; None if there is none."""
    # Arrays made on it have it as their base; it is kept when the last is gone.
    size = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    most = _most()
    pages = _take(size)
    used_before = pages is not None
    if pages is None:
        try:
            pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError, ValueError):
            return None
    memory = np.frombuffer(pages, np.uint8, nbytes)
    if not used_before and _HUGE_PAGES:
        advise(memory.ctypes.data, size, _HUGE_PAGES)  # as NumPy does
    if _FREE and size <= most:
        weakref.finalize(memory, _keep, pages, memory.ctypes.data, advise, os.getpid()).atexit = False
    return memory, used_before


def forget_kept_memory() -> None:
    """Give what is kept back to the system."""
    _kept.clear()


def _most() -> int:
    value = os.environ.get(_VARIABLE)
    if value is None:
        return _MOST
    if not value.isdecimal():
        raise ValueError(f"Expected {_VARIABLE} to be a number of bytes, but received: {value!r}")
    return int(value)


def _take(size: int) -> mmap.mmap | None:
    """Return the kept pages, cut to `size`; let them go if they are too few, or more than twice as many."""
    try:
        pages, _ = _kept.pop()
    except IndexError:
        return None
    if not size <= len(pages) <= 2 * size:
        return None
    try:
        if len(pages) > size:
            pages.resize(size)
    except (BufferError, OSError):  # the array that had them is just being taken apart
        return None
    return pages


def _keep(pages: mmap.mmap, address: int, advise: Advise, process: int) -> None:
    """Keep what nobody has any more; called in any thread, wherever it is, so there are no locks."""
    if process != os.getpid() or advise(address, len(pages), _FREE):
        return  # what a fork has in common with its parent would have to be copied, page by page
    if not _watched:
        _watched.append(None)
        if not start_thread(_watch):
            _watched.clear()
            return
    _kept[:] = [(pages, time.monotonic())]


def _watch() -> None:
    """Give back what has been kept for too long; end when there is nothing."""
    while True:
        try:
            given_back = _kept[0][1]
            time.sleep(max(0.0, given_back + _LONGEST - time.monotonic()))
            if _kept[0][1] == given_back:
                _kept.clear()
        except IndexError:
            _watched.clear()
            if not _kept or _watched:
                return
            _watched.append(None)  # something was given back in this moment


@in_child
def _forget_all() -> None:
    _kept.clear()
    _watched.clear()
