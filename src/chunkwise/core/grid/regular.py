"""The protocol of chunk grids, and grids whose cells all have the same shape.

Cells lie side by side from the origin, or from an offset and cut off at bounds.

Specification
-------------
Zarr v3 core, "Regular grids": element ``i`` lies in cell ``i // chunk_shape``.  Zarr v2 (``chunks``)
and N5 (``blockSize``) have no other grid.

Names
-----
zarr3: ``regular``

Configuration
-------------
>>> RegularGrid.parse({"chunk_shape": [64, 64]}).to_json()
{'chunk_shape': [64, 64]}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, Members, expect_int, parse_array

__all__ = ["ChunkGrid", "OffsetGrid", "PlanGrid", "RegularGrid", "n_array_cells"]


class PlanGrid(Protocol):
    """A division of index space, from 0 upwards in each dimension, into cells.

    A grid does not know the shape of the array; cells beyond that shape are valid too.
    """

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


class ChunkGrid(PlanGrid, Protocol):
    """The grid of a stored array."""

    @property
    def rank(self) -> int: ...

    def n_cells(self, dim: int, size: int) -> int:
        """Return the number of cells along `dim` that meet ``[0, size)``."""
        ...


def n_array_cells(grid: ChunkGrid, shape: tuple[int, ...]) -> int:
    """Return the number of cells of `grid` that meet an array of `shape`."""
    return prod(grid.n_cells(dim, size) for dim, size in enumerate(shape))


@dataclass(frozen=True, slots=True)
class RegularGrid:
    """Cells of one shape, counted from the origin."""

    name: ClassVar[str] = "regular"

    chunk_shape: tuple[int, ...]  # extent of every cell, in elements; each at least 1

    @classmethod
    def parse(cls, configuration: Mapping[str, JSON]) -> RegularGrid:
        """Read the configuration object of Zarr v3."""
        members = Members(configuration)
        shape = members.take("chunk_shape", lambda value: parse_array(value, lambda n: expect_int(n, 1)))
        members.finish()
        return cls(tuple(shape))

    def to_json(self) -> dict[str, JSON]:
        """Return the configuration object; inverse of `parse`."""
        return {"chunk_shape": list(self.chunk_shape)}

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.chunk_shape)

    def cell(self, dim: int, index: int) -> tuple[int, int, int]:
        """Return ``(cell, start, stop)`` along `dim` for the cell that holds element `index`."""
        size = self.chunk_shape[dim]
        cell = index // size
        start = cell * size
        return cell, start, start + size

    def cells(self, dim: int, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the cell along `dim` of each of `indices`."""
        return indices // self.chunk_shape[dim]

    def bounds(self, dim: int, cell: int) -> tuple[int, int]:
        """Return ``(start, stop)`` of cell number `cell` along `dim`, in elements."""
        size = self.chunk_shape[dim]
        return cell * size, (cell + 1) * size

    def n_cells(self, dim: int, size: int) -> int:
        """Return the number of cells along `dim` that meet ``[0, size)``."""
        return -(-size // self.chunk_shape[dim])


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
