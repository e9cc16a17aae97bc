"""Cells of one shape from any origin, cut off at the bounds of a domain."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["OffsetGrid"]


class OffsetGrid(NamedTuple):
    """A regular grid of cells of `shape` from `origin`, inside a domain that may be infinite."""

    shape: tuple[int, ...]
    origin: tuple[int, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def chunk_shape(self) -> None:
        """None: cells at the bounds are smaller."""
        return

    def cell(self, dim: int, index: int) -> tuple[int, int, int]:
        """Return ``(cell, start, stop)`` along `dim` for the cell that holds element `index`."""
        number = (index - self.origin[dim]) // self.shape[dim]
        return (number, *self.bounds(dim, number))

    def cells(self, dim: int, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the cell along `dim` of each of `indices`."""
        return (indices - self.origin[dim]) // self.shape[dim]

    def bounds(self, dim: int, cell: int) -> tuple[int, int]:
        """Return ``(start, stop)`` of cell number `cell` along `dim`, inside the domain."""
        start = self.origin[dim] + cell * self.shape[dim]
        return max(start, self.lower[dim]), min(start + self.shape[dim], self.upper[dim])

    def n_cells(self, dim: int, size: int) -> int:
        """Return how many cells along `dim` a run of `size` elements from the lower bound meets."""
        first = self.cell(dim, self.lower[dim])[0]
        return self.cell(dim, self.lower[dim] + size - 1)[0] - first + 1 if size else 0
