"""One connected set of a plan: dimensions that are divided among chunks independently of the others.

Input and storage dimensions that depend on each other through the output index maps form a *connected
set*.  Each set is partitioned alone, and the touched chunks are the outer product of the sets, so
planning costs the sum of the chunks along the dimensions and not their product.  The set of a slice is one
dimension, and is made here; `chunkwise.core.plan.partition` makes the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from chunkwise.core.grid.regular import PlanGrid

__all__ = ["PlanAxis", "is_indexed", "strided_axis"]


class PlanAxis(NamedTuple):
    """A connected set: parallel tuples with one entry for each group of cells that it touches."""

    dims: tuple[int, ...]  # storage dimensions of the set, ascending
    cells: tuple[tuple[int, ...], ...]  # for each of `dims`, the position in the grid of each entry
    # for each of `dims`, the size of the cell of each entry, in elements
    extents: tuple[tuple[int, ...], ...]
    # selections inside the chunk: slices, or tuples of index arrays that broadcast to the product of the sets
    chunk: tuple[Any, ...]
    out: tuple[Any, ...]  # the same in the result, seen through `Layout.view`
    # True if the whole chunk is selected along these dimensions, so that it may be decoded in place or
    # overwritten
    whole: tuple[bool, ...]
    indexed: bool  # True if `chunk` and `out` hold tuples of index arrays, not slices

    @property
    def n_entries(self) -> int:
        """Number of groups of cells."""
        return len(self.whole)

    def take(self, entries: slice) -> PlanAxis:
        """Return the set with some of its entries only."""
        cells: tuple[tuple[int, ...], ...]
        extents: tuple[tuple[int, ...], ...]
        if len(self.dims) == 1:
            cells, extents = (self.cells[0][entries],), (self.extents[0][entries],)
        else:
            cells = tuple([along[entries] for along in self.cells])
            extents = tuple([along[entries] for along in self.extents])
        return PlanAxis(
            self.dims,
            cells,
            extents,
            self.chunk[entries],
            self.out[entries],
            self.whole[entries],
            self.indexed,
        )


def is_indexed(axes: Iterable[PlanAxis]) -> bool:
    """Return True if there are index arrays in a product of sets."""
    for axis in axes:  # noqa: SIM110 - a generator is resumed for each set
        if axis.indexed:
            return True
    return False


def strided_axis(grid: PlanGrid, dim: int, offset: int, stride: int, size: int) -> PlanAxis:
    """Partition ``offset + stride * i``, for i in ``[0, size)``, by the cells of `grid` along `dim`."""
    # `stride` is positive: the layout of the result turns a negative one around, once.  A cell that the
    # stride skips has no entry.
    cells, extents, chunk, out, whole = [], [], [], [], []
    i = 0
    while i < size:
        first = offset + stride * i
        cell, start, stop = grid.cell(dim, first)
        n = min((stop - first + stride - 1) // stride, size - i)
        first -= start
        extent = stop - start
        cells.append(cell)
        extents.append(extent)
        chunk.append(slice(first, first + (n - 1) * stride + 1, stride))
        out.append(slice(i, i + n))
        whole.append(n == extent)
        i += n
    return PlanAxis((dim,), (tuple(cells),), (tuple(extents),), tuple(chunk), tuple(out), tuple(whole), False)
