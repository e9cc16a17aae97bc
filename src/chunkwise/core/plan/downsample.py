"""Reads of a downsampled array as a plan: parts of the base, and the destinations of their cells.

1. Cell i along a dimension covers those of the base indices ``[i * f, (i + 1) * f)`` that exist.  Only the
   first and the last cell can be smaller, so there are at most three *classes* of cells.
2. The request is partitioned by classes, as other requests are by chunks: the cells of one class in every
   dimension have equal shapes.
3. These cells are cut into pieces of limited size, at chunks of the base if possible.
4. For each piece the base is read as one array, which is viewed as a block of cells.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.core.index_space import IndexDomain, IndexTransform, OutputIndexMap
from chunkwise.core.index_space.output_map import single_map
from chunkwise.core.plan.partition import Layout, PlanAxis, Transform, partition

__all__ = ["CellPiece", "DownsamplePlan", "plan_downsample"]

Array = npt.NDArray[Any]


class DownsamplePlan(NamedTuple):
    """A read of a downsampled array."""

    pieces: list[CellPiece]
    layout: Layout
    n_elements: int  # elements of the base that are read


class _Cells(NamedTuple):
    """Some cells of one class along one connected set."""

    dims: tuple[int, ...]  # base dimensions
    # for each of `dims`, the first base index of each cell, a range or an array
    starts: tuple[range | npt.NDArray[np.int64], ...]
    extents: tuple[int, ...]  # for each of `dims`, the size of a cell
    out: Any  # a slice of the result, or index arrays for an indexed set

    @property
    def indexed(self) -> bool:
        return not isinstance(self.starts[0], range)

    @property
    def n(self) -> int:
        return len(self.starts[0])

    def take(self, start: int, stop: int) -> _Cells:
        starts = tuple(along[start:stop] for along in self.starts)
        if not self.indexed:
            return self._replace(starts=starts, out=slice(self.out.start + start, self.out.start + stop))
        out = tuple(
            a.reshape(-1)[start:stop].reshape([-1 if n > 1 else 1 for n in a.shape]) for a in self.out
        )
        return self._replace(starts=starts, out=out)


class CellPiece(NamedTuple):
    """Cells of equal shape: the outer product of those along each connected set."""

    sets: tuple[_Cells, ...]

    def single(self) -> IndexDomain | None:
        """Return the part of the base that a single cell covers; None for several cells."""
        if any(s.n != 1 for s in self.sets):
            return None
        bounds = {
            dim: (int(starts[0]), int(starts[0]) + extent)
            for s in self.sets
            for dim, starts, extent in zip(s.dims, s.starts, s.extents, strict=True)
        }
        return IndexDomain(
            inclusive_min=[bounds[dim][0] for dim in sorted(bounds)],
            exclusive_max=[bounds[dim][1] for dim in sorted(bounds)],
        )

    def request(self) -> IndexTransform:
        """Return the request to the base: one dimension for each strided set, several for an indexed one."""
        shape = self._shape()
        if not any(s.indexed for s in self.sets):
            quick = self._strided(shape)
            if quick is not None:
                return quick
        output: list[OutputIndexMap | None] = [None] * sum(len(s.dims) for s in self.sets)
        axis = 0
        for s in self.sets:
            if not s.indexed:
                (dim,), (along,), (extent,) = s.dims, s.starts, s.extents
                assert isinstance(along, range)
                if extent == along.step or len(along) == 1:
                    output[dim] = OutputIndexMap(input_dimension=axis, offset=along.start, stride=1)
                elif extent == 1:
                    output[dim] = OutputIndexMap(input_dimension=axis, offset=along.start, stride=along.step)
                else:
                    values = np.arange(along.start, along.stop, along.step)[:, None] + np.arange(extent)
                    output[dim] = OutputIndexMap(_along(values.reshape(-1), (axis,), len(shape)))
                axis += 1
                continue
            for k, (dim, starts, extent) in enumerate(zip(s.dims, s.starts, s.extents, strict=True), 1):
                values = np.asarray(starts)[:, None] + np.arange(extent)
                output[dim] = OutputIndexMap(_along(values, (axis, axis + k), len(shape)))
            axis += 1 + len(s.dims)
        return IndexTransform(IndexDomain(shape=shape), [m for m in output if m is not None])

    def _strided(self, shape: list[int]) -> IndexTransform | None:
        """Return the request for adjacent whole cells, the common case; otherwise None."""
        output: dict[int, OutputIndexMap] = {}
        for axis, s in enumerate(self.sets):
            along = s.starts[0]
            assert isinstance(along, range)
            if s.extents[0] != along.step and len(along) > 1:
                return None
            output[s.dims[0]] = single_map(along.start, 1, axis)
        maps = tuple([output[dim] for dim in sorted(output)])
        return IndexTransform._make(IndexDomain._of_shape(shape), maps)

    def block(self, values: Array) -> Array:
        """Return the data read as a block of shape ``(n0, e0, n1, e1, ...)``, by base dimension."""
        shape: list[int] = []
        axes: dict[int, tuple[int | None, int]] = {}
        for s in self.sets:
            first = len(shape)
            shape.append(s.n)
            for k, (dim, extent) in enumerate(zip(s.dims, s.extents, strict=True)):
                axes[dim] = (first if k == 0 else None, len(shape))
                shape.append(extent)
        order, expand = [], []
        for dim in sorted(axes):
            n_axis, e_axis = axes[dim]
            order += [e_axis] if n_axis is None else [n_axis, e_axis]
            expand += [None if n_axis is None else slice(None), slice(None)]
        out: Array = values.reshape(shape).transpose(order)[(*expand, ...)]
        return out

    def put(self, view: Array, cells: Array) -> None:
        """Store one value for each cell, of shape ``(n0, n1, ...)``, in the caller's array."""
        firsts = {s.dims[0] for s in self.sets}
        kept = cells[(*(slice(None) if d in firsts else 0 for d in range(cells.ndim)), ...)]
        position = {d: i for i, d in enumerate(sorted(firsts))}
        at: list[Any] = []
        for s in self.sets:
            at += s.out if s.indexed else [s.out]
        view[(*at, ...)] = kept.transpose([position[s.dims[0]] for s in self.sets])

    def _shape(self) -> list[int]:
        shape: list[int] = []
        for s in self.sets:
            shape += [s.n, *s.extents] if s.indexed else [s.n * s.extents[0]]
        return shape


def plan_downsample(
    transform: Transform,
    factors: Sequence[int],
    lower: Sequence[int],
    upper: Sequence[int],
    *,
    chunk: Sequence[int],
    n_elements: int,
) -> DownsamplePlan:
    """Plan a read of cells of `factors` elements of a base with bounds `lower` and `upper`."""
    # `chunk` is the shape of a chunk of the base, aligned with 0; 1 in a dimension without chunks.
    # `n_elements` of the base are read at a time, unless a chunk, or a cell, has more.
    grid = _Classes(factors, lower, upper)
    axes, layout = partition(transform, grid, check_cover=False)
    pieces: list[CellPiece] = []
    total = 0
    for sets in product(*[_entries(axis, grid) for axis in axes]):
        total += prod(s.n * prod(s.extents) for s in sets)
        units = [_unit(s, factors, chunk) for s in sets]
        lengths = _lengths(sets, units, n_elements)
        cuts = [list(_cut(s, n, factors)) for s, n in zip(sets, lengths, strict=True)]
        pieces += map(CellPiece, product(*cuts))
    return DownsamplePlan(pieces, layout, total)


class _Classes:
    """The classes of cells as a grid, so that requests can be partitioned by class."""

    chunk_shape = None

    def __init__(self, factors: Sequence[int], lower: Sequence[int], upper: Sequence[int]) -> None:
        self.factors, self.lower, self.upper = factors, lower, upper
        self._edges = []
        for f, lo, hi in zip(factors, lower, upper, strict=True):
            first, stop = lo // f, -(-hi // f)
            self._edges.append(sorted({first, min(-(-lo // f), stop), max(hi // f, first), stop}))

    def cell(self, dim: int, index: int) -> tuple[int, int, int]:
        number = bisect_right(self._edges[dim], index) - 1
        return (number, *self.bounds(dim, number))

    def cells(self, dim: int, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.searchsorted(self._edges[dim], indices, "right") - 1

    def bounds(self, dim: int, cell: int) -> tuple[int, int]:
        return self._edges[dim][cell], self._edges[dim][cell + 1]

    def extent(self, dim: int, cell: int) -> tuple[int, int]:
        """Return the start of a class's first cell in the base, and the size of its cells."""
        f, first = self.factors[dim], self._edges[dim][cell]
        start = max(first * f, self.lower[dim])
        return start, min((first + 1) * f, self.upper[dim]) - start


def _entries(axis: PlanAxis, grid: _Classes) -> Iterator[_Cells]:
    for i in range(axis.n_entries):
        chunk, starts, extents = axis.chunk[i], [], []
        for k, dim in enumerate(axis.dims):
            start, extent = grid.extent(dim, axis.cells[k][i])
            f = grid.factors[dim]
            extents.append(extent)
            if axis.indexed:
                starts.append(start + f * chunk[k].reshape(-1))
            else:
                starts.append(range(start + f * chunk.start, start + f * chunk.stop, f * chunk.step))
        yield _Cells(axis.dims, tuple(starts), tuple(extents), axis.out[i])


def _unit(cells: _Cells, factors: Sequence[int], chunk: Sequence[int]) -> int:
    """Return how many cells of a strided set lie in a chunk."""
    if cells.indexed:
        return 1
    along = cells.starts[0]
    assert isinstance(along, range)
    return min(cells.n, max(1, chunk[cells.dims[0]] // along.step))


def _lengths(sets: Sequence[_Cells], units: Sequence[int], n_elements: int) -> list[int]:
    """Return how many cells a piece has along each set: as many whole chunks as fit."""
    lengths = list(units)
    size = prod(n * prod(s.extents) for n, s in zip(lengths, sets, strict=True))
    for i in reversed(range(len(sets))):
        n = min(max(1, n_elements // size), -(-sets[i].n // lengths[i]))
        size *= n
        lengths[i] = min(lengths[i] * n, sets[i].n)
    return lengths


def _cut(cells: _Cells, length: int, factors: Sequence[int]) -> Iterator[_Cells]:
    start = 0
    first = length
    if not cells.indexed and length < cells.n:
        along = cells.starts[0]
        assert isinstance(along, range)
        first = length - along.start // along.step % length
    while start < cells.n:
        stop = min(start + (first if start == 0 else length), cells.n)
        yield cells.take(start, stop)
        start = stop


def _along(values: Array, axes: Sequence[int], rank: int) -> Array:
    """Return `values` as an array of `rank` dimensions, with their own dimensions at `axes`."""
    shape = [1] * rank
    for axis, n in zip(axes, values.shape, strict=True):
        shape[axis] = n
    return values.reshape(shape)
