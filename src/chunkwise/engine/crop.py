"""Chunks at the edge of an array without what lies beyond it, where chunks have shapes of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["crop"]


def crop(chunk: npt.NDArray[Any], cell: tuple[int, ...], shape: tuple[int, ...]) -> tuple[slice, ...] | None:
    """Return the part of a chunk that lies inside the array; None if all of it is to be stored."""
    # Nothing is cut off that is not zero to the bit: another writer, who knows a larger shape, may have put
    # it there.
    sizes = [min(size, n - i * size) for size, i, n in zip(chunk.shape, cell, shape, strict=True)]
    if list(chunk.shape) == sizes or any(size <= 0 for size in sizes):
        return None
    inside = tuple(slice(0, size) for size in sizes)
    bits = chunk if chunk.dtype.hasobject else chunk.view(f"u{chunk.dtype.itemsize}")
    return inside if np.count_nonzero(bits) == np.count_nonzero(bits[inside]) else None
