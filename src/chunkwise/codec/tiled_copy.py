"""Copying between arrays whose memory runs in opposite orders.

A chunk in Fortran order that is read into a C-ordered result is transposed on the way.  NumPy's own
copy walks one operand in long strides; where those hold a large power of two, as they do for chunks of
64³ or 128³, all steps fall in the same few cache sets.  Then, and only then, copying tile by tile is
sooner.  Measured on one thread, plain to tiled, in MB/s: 128³ uint8 276 to 1172, uint16 566 to 929,
float32 1138 to 1637; 64³ uint8 473 to 2131.  At 100³ plain is the faster one, and is used.
"""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["copy_tiled"]

_SMALLEST = 1 << 16  # bytes; below, both operands fit the first cache level
_SMALLEST_TILE = 1 << 12  # elements; below, the cost of a Python call per tile shows
_CACHE_WAY = 4096  # bytes after which addresses fall in the same set of a first-level cache
_ALIASING = 1024  # steps that share this factor with it meet at most four sets


def copy_tiled(out: npt.NDArray[Any], source: npt.NDArray[Any]) -> None:
    """Set ``out[...] = source``; the same values as that, sooner where the memory orders differ."""
    itemsize = out.itemsize
    rank = out.ndim
    if (
        rank < 2
        or out.nbytes < _SMALLEST
        or out.strides[-1] != itemsize
        or gcd(source.strides[-1], _CACHE_WAY) < _ALIASING
        or itemsize > 8
    ):
        np.copyto(out, source, casting="equiv")
        return
    inner = min(range(rank - 1), key=lambda d: abs(source.strides[d]) if source.shape[d] > 1 else 1 << 62)
    last = out.shape[-1]
    width = 16 if itemsize < 4 else 8
    height = 32
    between = out.size // (last * out.shape[inner])
    while width * height * between < _SMALLEST_TILE:
        width, height = width * 2, height * 2
    if last <= width or out.shape[inner] < height:
        np.copyto(out, source, casting="equiv")
        return
    where: list[slice] = [slice(None)] * rank
    for i in range(0, last, width):
        where[-1] = slice(i, i + width)
        for j in range(0, out.shape[inner], height):
            where[inner] = slice(j, j + height)
            tile = tuple(where)
            np.copyto(out[tile], source[tile], casting="equiv")
