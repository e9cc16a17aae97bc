"""Memory for the result of a read, which the system has to hand over page by page.

A fault for each small page takes a fifth of the time of reading a compressed array, half of it the fault and
not the page.  So a worker asks for the pages that a batch is going to fill before it fills them, with one
call for 2 MiB: 256 MiB of small pages in 0.13 s instead of 0.19 s.

NumPy asks for huge pages for large arrays.  They are there in a quarter of the time of small ones, where
the system has them.  A virtual machine that gives its free memory back to its host (free page reporting)
has few left after some seconds: each is then taken from the host again, 2 MiB in 2 to 5 ms, while small pages
come from what it kept.  So the rest of a result has small pages as soon as a huge one took long; the first
few are looked at before anybody works on the result.

A result whose memory is that of an earlier one has its pages already.

The buffer of one freed result is cached, since the system clears each page that it hands over, which takes a
fifth of the time of reading zstd chunks, and half of that of raw ones.  Programs that go through an array
block by block let go of one result and ask for another of the same size, again and again.

There is never more than one kept piece, and it goes when a result is asked for that does not fit, or after
some seconds.  Until then it is the system's to take back (``MADV_FREE``), which does so when memory gets
scarce, although it counts as resident before.
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

from chunkwise.core.base.fork import in_child
from chunkwise.core.base.processors import n_dask_threads
from chunkwise.core.base.thread import start_thread
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
_MOST = 1 << 30  # bytes that are kept
_LONGEST = 10.0  # seconds after which no program is expected to ask for the next result
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
    # What a fork has in common with its parent would have to be copied, page by page; Dask counts what its
    # workers keep as memory that they use.
    if process != os.getpid() or n_dask_threads() or advise(address, len(pages), _FREE):
        return
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


_LARGE = 1 << 24  # bytes; less is not worth a call
_UNIT = 1 << 21  # bytes, of a huge page
_TRIED = 1 << 23  # bytes, and no more than a sixteenth of the result
_SLOW = 1_500_000  # nanoseconds for a unit; small pages need some 1,000,000, a huge one at hand 200,000
_NO_HUGE_PAGES: int = getattr(mmap, "MADV_NOHUGEPAGE", 0)  # 0 where there is no such thing
_POPULATE = 23  # MADV_POPULATE_WRITE, since Linux 5.14

_results: dict[int, ResultPages] = {}


def empty_result(
    shape: tuple[int, ...], dtype: np.dtype[Any], order: Literal["C", "F"] = "C"
) -> npt.NDArray[Any]:
    """Return an array like ``numpy.empty``, all of which is going to be filled."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < _LARGE or dtype.hasobject or (advise := _madvise()) is None:
        return np.empty(shape, dtype, order)
    found = large_memory(nbytes, advise)
    if found is None:
        return np.empty(shape, dtype, order)  # or the error that NumPy has for that
    memory, used_before = found
    if not used_before:
        start = memory.ctypes.data
        pages = _results[id(memory)] = ResultPages(start, start + nbytes, advise)
        weakref.finalize(memory, _results.pop, id(memory)).atexit = False
        pages.ask_for(start, start + min(_TRIED, nbytes // 16))
    return np.ndarray(shape, dtype, memory, order=order)


def check_result(
    out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], order: Literal["C", "F"] = "C"
) -> None:
    """Raise unless `out` is an array that what is read, of the given shape and type, can be put into."""
    if not isinstance(out, np.ndarray):
        raise InvalidArgumentError(f"out: expected a NumPy array, but received: {type(out).__name__}")
    if order != "C":
        raise InvalidArgumentError(f"order: the memory layout is that of `out`, but received: {order!r}")
    if out.shape != tuple(shape):
        raise InvalidArgumentError(f"out: has shape {list(out.shape)}, but what is read has {list(shape)}")
    if out.dtype != dtype:
        raise InvalidArgumentError(f"out: has data type {out.dtype}, but what is read has {dtype}")
    if not out.flags.writeable:
        raise InvalidArgumentError("out: the array can't be written to")
    if any(step == 0 and n > 1 for step, n in zip(out.strides, out.shape, strict=True)):
        raise InvalidArgumentError("out: several elements of the array share their memory")


def pages_of(out: npt.NDArray[Any]) -> ResultPages | None:
    """Return the pages of the result that `out` is a part of; None if they need no care."""
    return _results.get(id(out.base)) if _results else None


class ResultPages:
    """The pages of one result, between two addresses; the system may not have handed over all of them yet."""

    def __init__(self, start: int, stop: int, advise: Advise) -> None:
        self._start = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
        self._stop = stop // mmap.PAGESIZE * mmap.PAGESIZE
        self._advise = advise
        self._first = start // _UNIT
        self._asked = bytearray(-(-stop // _UNIT) - self._first)
        self._small = False

    def prepare(self, part: npt.NDArray[Any]) -> None:
        """Ask for the pages between the first and the last byte of `part`, unless somebody has."""
        if part.size:
            start = stop = part.ctypes.data
            for size, stride in zip(part.shape, part.strides, strict=True):
                if stride < 0:
                    start += (size - 1) * stride
                else:
                    stop += (size - 1) * stride
            self.ask_for(start, stop + part.itemsize)

    def ask_for(self, start: int, stop: int) -> None:
        """Ask for the pages between two addresses."""
        asked, first = self._asked, self._first
        for unit in range(start // _UNIT - first, min(-(-stop // _UNIT) - first, len(asked))):
            if asked[unit]:
                continue
            asked[unit] = 1  # two workers may meet here, and then both ask
            begin = max(self._start, (first + unit) * _UNIT)
            end = min(self._stop, (first + unit + 1) * _UNIT)
            if begin >= end:
                continue
            began = time.thread_time_ns()
            if self._advise(begin, end - begin, _POPULATE):
                asked[:] = b"\1" * len(asked)  # not with this system: pages come when they are touched
                return
            if not self._small and time.thread_time_ns() - began > _SLOW:
                self._small = True
                self._advise(self._start, self._stop - self._start, _NO_HUGE_PAGES)


@cache
def _madvise() -> Advise | None:
    """Return the system's function, None where there is none or no huge pages."""
    if not _NO_HUGE_PAGES:
        return None
    try:
        function = ctypes.CDLL(None).madvise
    except (AttributeError, OSError):
        return None
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    madvise: Advise = function
    return madvise
