"""The protocol of chunk grids, as the planner sees them."""

from __future__ import annotations

from math import prod
from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["ChunkGrid", "n_array_cells"]


class ChunkGrid(Protocol):
    """A division of index space, from 0 upwards in each dimension, into cells.

    A grid does not know the shape of the array; cells beyond that shape are valid too.
    """

    @property
    def rank(self) -> int: ...

    @property
    def chunk_shape(self) -> tuple[int, ...] | None:
        """Shape shared by all cells, in elements; None if cells differ (a rectilinear grid)."""
        ...

    def cell(self, dim: int, index: int) -> tuple[int, int, int]:
        """Return ``(cell, start, stop)`` along `dim` for the cell that holds element `index`."""
        ...

    def cells(self, dim: int, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the cell along `dim` of each of `indices`, in their shape."""
        ...

    def bounds(self, dim: int, cell: int) -> tuple[int, int]:
        """Return ``(start, stop)`` of cell number `cell` along `dim`, in elements."""
        ...

    def n_cells(self, dim: int, size: int) -> int:
        """Return the number of cells along `dim` that meet ``[0, size)``."""
        ...


def n_array_cells(grid: ChunkGrid, shape: tuple[int, ...]) -> int:
    """Return the number of cells of `grid` that meet an array of `shape`."""
    return prod(grid.n_cells(dim, size) for dim, size in enumerate(shape))
