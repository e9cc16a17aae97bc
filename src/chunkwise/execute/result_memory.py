"""Memory for the result of a read, which the system has to hand over page by page.

NumPy asks for huge pages for large arrays.  They are there in a quarter of the time of small ones, where
the system has them.  A virtual machine that gives its free memory back to its host (free page reporting)
has few left after some seconds: each is then taken from the host again, 2 MiB in 5 ms, while small pages
come from what it kept.  256 MiB measured there: small pages 0.15 s at any time; huge ones 0.03 s right
after others were freed, 0.6 to 0.7 s three seconds later.

So some huge pages are tried, and the rest of the result has small ones if one of them took long.
"""

from __future__ import annotations

import ctypes
import mmap
import time
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

__all__ = ["empty_result"]

_LARGE = 1 << 24  # bytes; less is not worth a try
_HUGE_PAGE = 1 << 21
_TRIED = 1 << 26  # bytes, and no more than a quarter of the result
_SLOW = 1_000_000  # nanoseconds for a huge page; memory alone needs some 100,000


def empty_result(
    shape: tuple[int, ...], dtype: np.dtype[Any], order: Literal["C", "F"] = "C"
) -> npt.NDArray[Any]:
    """Return an array like ``numpy.empty``."""
    out = np.empty(shape, dtype, order)
    if out.nbytes >= _LARGE and not dtype.hasobject and (advise := _madvise()) is not None:
        start, stop = out.ctypes.data, out.ctypes.data + out.nbytes
        first = -(-start // _HUGE_PAGE) * _HUGE_PAGE
        now, byte = time.perf_counter_ns, ctypes.c_char.from_address
        for page in range(first, first + min(_TRIED, out.nbytes // 4), _HUGE_PAGE):
            began = now()
            byte(page).value = b"\0"
            if now() - began > _SLOW:
                page += _HUGE_PAGE
                advise(page, (stop - page) // mmap.PAGESIZE * mmap.PAGESIZE, _NO_HUGE_PAGES)
                break
    return out


_NO_HUGE_PAGES = getattr(mmap, "MADV_NOHUGEPAGE", None)


@cache
def _madvise() -> Any | None:
    """Return the system's function, None where there is none or no huge pages."""
    if _NO_HUGE_PAGES is None:
        return None
    try:
        function = ctypes.CDLL(None).madvise
    except (AttributeError, OSError):
        return None
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return function
