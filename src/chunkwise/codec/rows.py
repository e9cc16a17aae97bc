"""Copying between arrays whose rows are short pieces of memory.

NumPy takes as long to begin a row as to copy some 100 bytes of it, so a row is copied as one element of
that many bytes.  Measured on one thread with chunks of ``uint16`` in 512³, plain to this: 64³ out of the
array 170 to 85 ms, into it 105 to 65 ms; 128³ 100 to 50 ms and 63 to 41 ms.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["copy_rows"]

_LARGEST = 2**31 - 1  # bytes of an element of NumPy's


@lru_cache(256)
def _row(nbytes: int) -> np.dtype[np.void]:
    return np.dtype((np.void, nbytes))


def copy_rows(out: npt.NDArray[Any], source: npt.NDArray[Any]) -> None:
    """Set ``out[...] = source``."""
    dtype, shape = out.dtype, out.shape
    nbytes = shape[-1] * dtype.itemsize if shape else 0
    if (
        dtype == source.dtype
        and len(shape) > 1
        and shape[-1] > 1
        and nbytes <= _LARGEST
        and out.strides[-1] == source.strides[-1] == dtype.itemsize
        and not dtype.hasobject
    ):
        row = _row(nbytes)
        out, source = out.view(row), source.view(row)
    np.copyto(out, source)
