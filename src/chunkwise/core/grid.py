"""Chunk grids: cells of one shape, or of sizes that differ from one row to the next.

Cells lie side by side from the origin, or from an offset and cut off at bounds.

Specification
-------------
Zarr v3 core, "Regular grids": element ``i`` lies in cell ``i // chunk_shape``.  Zarr v2 (``chunks``)
and N5 (``blockSize``) have no other grid.

Zarr extensions registry, chunk grid ``rectilinear``
(https://github.com/zarr-developers/zarr-extensions/tree/main/chunk-grids/rectilinear).  Along each
dimension the sizes of the cells are either one integer, repeated without end, or a list whose entries
are sizes and ``[size, count]`` runs.  The sizes add up to at least the extent of the array.

Names
-----
zarr3: ``regular``, ``rectilinear``

Configuration
-------------
>>> RegularGrid.parse({"chunk_shape": [64, 64]}).to_json()
{'chunk_shape': [64, 64]}
>>> RectilinearGrid.parse({"kind": "inline", "chunk_shapes": [4, [[5, 3], 2]]}).to_json()
{'kind': 'inline', 'chunk_shapes': [4, [[5, 3], 2]]}

Compatibility
-------------
``encoded_chunk_shapes``, a later addition to the registry entry, is refused.  With it, a chunk may decode to
more elements than it adds to the array.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, Members, expect_array, expect_int, expect_one_of, parse_array
from chunkwise.errors import OutOfRangeError, SpecError, UnsupportedError

__all__ = [
    "ChunkGrid",
    "OffsetGrid",
    "PlanGrid",
    "RectilinearGrid",
    "RegularGrid",
    "Sizes",
    "n_array_cells",
    "parse_sizes",
    "sizes_to_json",
]


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


Sizes: TypeAlias = "int | tuple[int | tuple[int, int], ...]"
"""Sizes of the cells along one dimension: one for all, or a list of sizes and ``(size, count)`` runs."""

# No element lies beyond it; an integer size is repeated up to here.
_UNBOUNDED = 2**63 - 1


class _Runs(NamedTuple):
    """Cells along one dimension as runs of equal size, never expanded, since a count is untrusted input."""

    sizes: tuple[int, ...]
    first_cells: tuple[int, ...]
    starts: tuple[int, ...]
    n_cells: int
    stop: int


def _runs(sizes: Sizes) -> _Runs:
    if isinstance(sizes, int):
        return _Runs((sizes,), (0,), (0,), -(-_UNBOUNDED // sizes), _UNBOUNDED)
    pairs = [(item, 1) if isinstance(item, int) else item for item in sizes]
    first_cells, starts = [], []
    cell = start = 0
    for size, count in pairs:
        first_cells.append(cell)
        starts.append(start)
        cell += count
        start += size * count
    return _Runs(tuple(size for size, _ in pairs), tuple(first_cells), tuple(starts), cell, start)


@dataclass(frozen=True, slots=True)
class RectilinearGrid:
    """Cells whose sizes are given separately for each dimension."""

    name: ClassVar[str] = "rectilinear"
    chunk_shape: ClassVar[None] = None

    # One entry for each dimension, as in the metadata: a size in elements, or a tuple of sizes and
    # ``(size, count)`` runs.
    chunk_shapes: tuple[Sizes, ...]
    runs: tuple[_Runs, ...]  # the same, prepared for look-up; made by `of`

    @classmethod
    def of(cls, chunk_shapes: Sequence[Sizes]) -> RectilinearGrid:
        """Return the grid with the given sizes, each entry as in `chunk_shapes`."""
        return cls(tuple(chunk_shapes), tuple(_runs(sizes) for sizes in chunk_shapes))

    @classmethod
    def parse(cls, configuration: Mapping[str, JSON]) -> RectilinearGrid:
        """Read the configuration object of Zarr v3."""
        if "encoded_chunk_shapes" in configuration:
            raise UnsupportedError('"encoded_chunk_shapes" of a "rectilinear" chunk grid is not supported')
        members = Members(configuration)
        members.take("kind", lambda value: expect_one_of(value, ("inline",)))
        shapes = members.take("chunk_shapes", lambda value: parse_array(value, parse_sizes))
        members.finish()
        return cls.of(shapes)

    def to_json(self) -> dict[str, JSON]:
        """Return the configuration object; inverse of `parse`."""
        return {"kind": "inline", "chunk_shapes": list(map(sizes_to_json, self.chunk_shapes))}

    @property
    def canonical_shapes(self) -> tuple[Sizes, ...]:
        """The same sizes in the one form that grids with equal cells share."""
        return tuple(
            sizes
            if isinstance(sizes, int)
            else tuple(size if n == 1 else (size, n) for size, n in _merged(sizes))
            for sizes in self.chunk_shapes
        )

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.runs)

    def cell(self, dim: int, index: int) -> tuple[int, int, int]:
        """Return ``(cell, start, stop)`` along `dim` for the cell that holds element `index`."""
        runs = self.runs[dim]
        if not 0 <= index < runs.stop:
            raise OutOfRangeError(self._beyond(dim, index))
        run = bisect_right(runs.starts, index) - 1
        size = runs.sizes[run]
        within = (index - runs.starts[run]) // size
        start = runs.starts[run] + within * size
        return runs.first_cells[run] + within, start, start + size

    def cells(self, dim: int, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the cell along `dim` of each of `indices`."""
        runs = self.runs[dim]
        beyond = (indices < 0) | (indices >= runs.stop)
        if beyond.any():
            raise OutOfRangeError(self._beyond(dim, int(indices[beyond][0])))
        starts = np.array(runs.starts, np.int64)
        run = np.searchsorted(starts, indices, side="right") - 1
        within = (indices - starts[run]) // np.array(runs.sizes, np.int64)[run]
        cells: npt.NDArray[np.int64] = np.array(runs.first_cells, np.int64)[run] + within
        return cells

    def bounds(self, dim: int, cell: int) -> tuple[int, int]:
        """Return ``(start, stop)`` of cell number `cell` along `dim`, in elements."""
        runs = self.runs[dim]
        if not 0 <= cell < runs.n_cells:
            raise OutOfRangeError(
                f"Cell {cell} is outside the chunk grid, which has {runs.n_cells} along dimension {dim}"
            )
        run = bisect_right(runs.first_cells, cell) - 1
        size = runs.sizes[run]
        start = runs.starts[run] + (cell - runs.first_cells[run]) * size
        return start, start + size

    def n_cells(self, dim: int, size: int) -> int:
        """Return the number of cells along `dim` that meet ``[0, size)``."""
        return self.cell(dim, size - 1)[0] + 1 if size > 0 else 0

    def reaching(self, shape: Sequence[int]) -> RectilinearGrid:
        """Return the grid with one more cell in each dimension where the cells end before `shape`."""
        return RectilinearGrid.of(
            [
                sizes if isinstance(sizes, int) or size <= runs.stop else (*sizes, size - runs.stop)
                for sizes, runs, size in zip(self.chunk_shapes, self.runs, shape, strict=True)
            ]
        )

    def continues(self, other: RectilinearGrid) -> bool:
        """Return True if all cells of `other` are cells of this grid too."""
        return self.rank == other.rank and all(map(_continues, self.chunk_shapes, other.chunk_shapes))

    def _beyond(self, dim: int, index: int) -> str:
        return (
            f"Index {index} is outside the chunk grid, which ends at {self.runs[dim].stop} in dimension {dim}"
        )


def _continues(sizes: Sizes, other: Sizes) -> bool:
    """Return True if the cells along a dimension begin with those of another grid."""
    if isinstance(sizes, int) or isinstance(other, int):
        return sizes == other
    long, short = _merged(sizes), _merged(other)
    if not short:
        return True
    last = len(short) - 1
    if long[:last] != short[:last] or len(long) <= last:
        return False
    return long[last][0] == short[last][0] and long[last][1] >= short[last][1]


def _merged(sizes: tuple[int | tuple[int, int], ...]) -> list[tuple[int, int]]:
    """Return runs; no two neighbours have cells of the same size."""
    out: list[tuple[int, int]] = []
    for item in sizes:
        size, count = (item, 1) if isinstance(item, int) else item
        if out and out[-1][0] == size:
            count += out.pop()[1]
        out.append((size, count))
    return out


def parse_sizes(value: JSON) -> Sizes:
    """Read the sizes of the cells along one dimension."""
    if isinstance(value, list | tuple):
        sizes = tuple(parse_array(value, _parse_size))
        total = sum(size if isinstance(size, int) else size[0] * size[1] for size in sizes)
        if total > _UNBOUNDED:
            raise SpecError(f"Chunk sizes add up to {total}, but an array ends at {_UNBOUNDED} at the latest")
        return sizes
    return expect_int(value, 1)


def sizes_to_json(sizes: Sizes) -> JSON:
    """Return the JSON that `parse_sizes` reads."""
    return sizes if isinstance(sizes, int) else [s if isinstance(s, int) else list(s) for s in sizes]


def _parse_size(value: JSON) -> int | tuple[int, int]:
    if isinstance(value, list | tuple):
        size, count = (expect_int(item, 1) for item in expect_array(value, 2))
        return size, count
    return expect_int(value, 1)
