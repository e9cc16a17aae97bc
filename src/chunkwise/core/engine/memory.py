"""Memory for the result of a read, which the system provides page by page.

Faults for small pages take a fifth of the time of reading a compressed array, half of it for the faults
themselves.  So a worker requests the pages that a batch will fill beforehand, with one call for 2 MiB: 256
MiB of small pages take 0.13 s instead of 0.19 s.

NumPy requests huge pages for large arrays.  If the system has them, they take a quarter of the time of small
ones.  A virtual machine that returns free memory to its host (free page reporting) has few left after some
seconds: it must get each from the host again, 2 MiB in 2 to 5 ms, while small pages come from memory that it
kept.  So once a huge page takes long, the rest of a result gets small pages; the first few are timed before
work on the result begins.

A result that reuses the memory of an earlier one already has its pages.

The buffer of one freed result is cached, since the system clears each page that it provides, which takes a
fifth of the time of reading zstd chunks, and half of the time for raw ones.  Programs that process an array
block by block keep freeing one result and requesting another of the same size.

At most one buffer is kept, until a result is requested that does not fit, or for some seconds.  Meanwhile the
system may take it back (``MADV_FREE``) when memory gets scarce, although until then it counts as resident.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import time
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.limits import n_dask_threads
from chunkwise.core.base.threads import in_child, start_thread
from chunkwise.errors import InvalidArgumentError

__all__ = [
    "Advise",
    "ResultPages",
    "check_result",
    "empty_result",
    "forget_kept_memory",
    "large_memory",
    "pages_of",
]

Advise: TypeAlias = Callable[[int, int, int], int]
"""The system's ``madvise``: address, number of bytes, advice."""

_VARIABLE = "CHUNKWISE_KEPT_BYTES"
_MOST = 1 << 30  # most bytes to keep
_LONGEST = 10.0  # seconds after which no next result is expected
_FREE: int = getattr(mmap, "MADV_FREE", 0)  # 0 if unsupported
_HUGE_PAGES: int = getattr(mmap, "MADV_HUGEPAGE", 0)

_kept: list[tuple[mmap.mmap, float]] = []  # with the time at which it was freed
_watched: list[None] = []  # True while a thread waits for it to expire


def large_memory(nbytes: int, advise: Advise) -> tuple[npt.NDArray[np.uint8], bool] | None:
    """Return uninitialized memory, and True if an earlier result had it; None if there is none."""
    # It is the base of arrays made on it, and is kept when the last one is gone.
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
        advise(memory.ctypes.data, size, _HUGE_PAGES)  # as in NumPy
    if _FREE and size <= most:
        weakref.finalize(memory, _keep, pages, memory.ctypes.data, advise, os.getpid()).atexit = False
    return memory, used_before


def forget_kept_memory() -> None:
    """Return the kept memory to the system."""
    _kept.clear()


def _most() -> int:
    value = os.environ.get(_VARIABLE)
    if value is None:
        return _MOST
    if not value.isdecimal():
        raise ValueError(f"Expected {_VARIABLE} to be a number of bytes, but received: {value!r}")
    return int(value)


def _take(size: int) -> mmap.mmap | None:
    """Return the kept pages, cut to `size`; free them if they are too few, or more than twice as many."""
    try:
        pages, _ = _kept.pop()
    except IndexError:
        return None
    if not size <= len(pages) <= 2 * size:
        return None
    try:
        if len(pages) > size:
            pages.resize(size)
    except (BufferError, OSError):  # the array that had them is just being destroyed
        return None
    return pages


def _keep(pages: mmap.mmap, address: int, advise: Advise, process: int) -> None:
    """Keep unused memory; called in any thread at any point, so there are no locks."""
    # Pages shared with a fork would have to be copied one by one; Dask counts memory kept by its workers as
    # used.
    if process != os.getpid() or n_dask_threads() or advise(address, len(pages), _FREE):
        return
    _kept[:] = [(pages, time.monotonic())]  # before the thread looks, which ends if there is none
    if not _watched:
        _watched.append(None)
        if not start_thread(_watch):
            _watched.clear()
            _kept.clear()


def _watch() -> None:
    """Free memory that was kept for too long; end when there is none."""
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
            _watched.append(None)  # memory was freed at this moment


@in_child
def _forget_all() -> None:
    _kept.clear()
    _watched.clear()


_LARGE = 1 << 24  # bytes; smaller parts are not worth a call
_UNIT = 1 << 21  # bytes of a huge page
_TRIED = 1 << 23  # bytes, at most a sixteenth of the result
_SLOW = 1_500_000  # nanoseconds for a unit; small pages take some 1,000,000, an available huge one 200,000
_NO_HUGE_PAGES: int = getattr(mmap, "MADV_NOHUGEPAGE", 0)  # 0 if unsupported
_POPULATE = 23  # MADV_POPULATE_WRITE, since Linux 5.14

_results: dict[int, ResultPages] = {}


def empty_result(
    shape: tuple[int, ...], dtype: np.dtype[Any], order: Literal["C", "F"] = "C"
) -> npt.NDArray[Any]:
    """Return an array like ``numpy.empty``, which will be filled completely."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < _LARGE or dtype.hasobject or (advise := _madvise()) is None:
        return np.empty(shape, dtype, order)
    found = large_memory(nbytes, advise)
    if found is None:
        return np.empty(shape, dtype, order)  # or NumPy's error
    memory, used_before = found
    if not used_before:
        start = memory.ctypes.data
        pages = _results[id(memory)] = ResultPages(start, start + nbytes, advise)
        weakref.finalize(memory, _results.pop, id(memory)).atexit = False
        pages.ask_for(start, start + min(_TRIED, nbytes // 16))
    return np.ndarray(shape, dtype, memory, order=order)


def check_result(
    out: npt.NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any], order: Literal["C", "F"] = "C"
) -> None:
    """Raise unless `out` can receive a result of the given shape and type."""
    if order != "C":
        raise InvalidArgumentError(f"order: the memory layout is that of `out`, but received: {order!r}")
    if out.shape != tuple(shape):
        raise InvalidArgumentError(f"out: has shape {list(out.shape)}, but the selection has {list(shape)}")
    if out.dtype != dtype:
        raise InvalidArgumentError(f"out: has data type {out.dtype}, but the array has {dtype}")
    if not out.flags.writeable:
        raise InvalidArgumentError("out: the array can't be written to")
    if any(step == 0 and n > 1 for step, n in zip(out.strides, out.shape, strict=True)):
        raise InvalidArgumentError("out: several elements of the array share their memory")


def pages_of(out: npt.NDArray[Any]) -> ResultPages | None:
    """Return the pages of the result that contains `out`; None if nothing need be done for them."""
    return _results.get(id(out.base)) if _results else None


class ResultPages:
    """The pages of one result, between two addresses; the system may not have provided all of them yet."""

    def __init__(self, start: int, stop: int, advise: Advise) -> None:
        self._start = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
        self._stop = stop // mmap.PAGESIZE * mmap.PAGESIZE
        self._advise = advise
        self._first = start // _UNIT
        self._asked = bytearray(-(-stop // _UNIT) - self._first)
        self._small = False

    def prepare(self, part: npt.NDArray[Any]) -> None:
        """Request the pages between the first and the last byte of `part`, unless already requested."""
        if part.size:
            start = stop = part.ctypes.data
            for size, stride in zip(part.shape, part.strides, strict=True):
                if stride < 0:
                    start += (size - 1) * stride
                else:
                    stop += (size - 1) * stride
            self.ask_for(start, stop + part.itemsize)

    def ask_for(self, start: int, stop: int) -> None:
        """Request the pages between two addresses."""
        asked, first = self._asked, self._first
        for unit in range(start // _UNIT - first, min(-(-stop // _UNIT) - first, len(asked))):
            if asked[unit]:
                continue
            asked[unit] = 1  # two workers may meet here, and both request them
            begin = max(self._start, (first + unit) * _UNIT)
            end = min(self._stop, (first + unit + 1) * _UNIT)
            if begin >= end:
                continue
            began = time.thread_time_ns()
            if self._advise(begin, end - begin, _POPULATE):
                asked[:] = b"\1" * len(asked)  # unsupported by this system: pages come when touched
                return
            if not self._small and time.thread_time_ns() - began > _SLOW:
                self._small = True
                self._advise(self._start, self._stop - self._start, _NO_HUGE_PAGES)


@cache
def _madvise() -> Advise | None:
    """Return the system's function, None if there is none, or no huge pages."""
    if not _NO_HUGE_PAGES:
        return None
    try:
        function = ctypes.CDLL(None).madvise
    except (AttributeError, OSError):
        return None
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    madvise: Advise = function
    return madvise
