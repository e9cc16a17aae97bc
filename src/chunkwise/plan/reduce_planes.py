"""Cells of equal shape as planes: the elements at one place in each cell, for all cells at once.

A *block* is an array of shape ``(n0, e0, n1, e1, ...)``: ``n0 × n1 × ...`` cells, each of ``e0 × e1 × ...``
elements.  A reduction returns one element for each cell, in an array of shape ``(n0, n1, ...)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["cell_size", "fold", "planes", "rows"]

Array = npt.NDArray[Any]


def cell_size(block: Array) -> int:
    """Return the number of elements of a cell."""
    return prod(block.shape[1::2])


def planes(block: Array) -> Iterator[Array]:
    """Yield, in C order of the cell, views of shape ``(n0, n1, ...)``."""
    for place in product(*map(range, block.shape[1::2])):
        index: list[Any] = []
        for k in place:
            index += [slice(None), k]
        yield block[(*index, ...)]


def fold(block: Array, combine: Callable[..., Array], dtype: np.dtype[Any]) -> Array:
    """Reduce each cell one dimension after the other by ``combine(a, b, out=..., dtype=...)``."""
    # The slowest dimension, whose elements lie together, comes first: later ones have less to do.  A cell of
    # one element may be returned as a view.
    for axis in range(block.ndim // 2):
        at: tuple[Any, ...] = (slice(None),) * (axis + 1)
        n = block.shape[axis + 1]
        out = block[(*at, 0)]
        if n > 1:
            out = combine(out, block[(*at, 1)], dtype=dtype)
            for k in range(2, n):
                combine(out, block[(*at, k)], out=out, dtype=dtype)
        block = out
    return block


def rows(block: Array) -> Array:
    """Return a copy of shape ``(n0, n1, ..., e0 * e1 * ...)``."""
    order = [*range(0, block.ndim, 2), *range(1, block.ndim, 2)]
    return np.array(block.transpose(order)).reshape(*block.shape[::2], -1)
