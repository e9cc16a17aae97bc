"""One connected set of a plan: dimensions that can be divided among chunks without looking at the others.

Input and storage dimensions that depend on each other through the output index maps form a *connected
set*.  Each set is partitioned alone, and the touched chunks are the outer product of the sets, so
planning costs the sum of the chunks along the dimensions and not their product.  For a slice the set is
one dimension, and is made here; :mod:`chunkwise.plan.indexed` makes the others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from chunkwise.grid.protocol import ChunkGrid

__all__ = ["PlanAxis", "strided_axis"]


class PlanAxis(NamedTuple):
    """A connected set: parallel tuples with one entry for each group of cells that it touches.

    Attributes
    ----------
    dims : tuple of int
        Storage dimensions of the set, ascending.
    cells : tuple of tuple of int
        For each of `dims`, the position in the grid of each entry.
    extents : tuple of tuple of int
        For each of `dims`, the size of the cell of each entry, in elements.
    chunk : tuple
        What each entry selects inside the chunk: a slice, or for an indexed set a tuple of index arrays,
        one for each of `dims`, shaped so that those of several sets broadcast to their product.
    out : tuple
        Where that lies in the result, as seen through :meth:`Layout.view`.
    whole : tuple of bool
        Whether an entry leaves out nothing of the chunk along these dimensions, as the kind of plan
        needs it: to be decoded in place for a read, to be overwritten entirely for a write.
    indexed : bool
        Whether `chunk` and `out` hold tuples of index arrays.
    """

    dims: tuple[int, ...]
    cells: tuple[tuple[int, ...], ...]
    extents: tuple[tuple[int, ...], ...]
    chunk: tuple[Any, ...]
    out: tuple[Any, ...]
    whole: tuple[bool, ...]
    indexed: bool

    @property
    def n_entries(self) -> int:
        """Number of groups of cells."""
        return len(self.whole)

    def take(self, entries: slice) -> PlanAxis:
        """Return the set with some of its entries only."""
        return PlanAxis(
            self.dims,
            tuple(along[entries] for along in self.cells),
            tuple(along[entries] for along in self.extents),
            self.chunk[entries],
            self.out[entries],
            self.whole[entries],
            self.indexed,
        )


def strided_axis(grid: ChunkGrid, dim: int, offset: int, stride: int, size: int) -> PlanAxis:
    """Partition ``offset + stride * i``, for i in ``[0, size)``, by the cells of `grid` along `dim`.

    `stride` is positive: a negative one is turned around by the layout of the result, once.  A cell
    without a selected element, which a stride larger than the chunk jumps over, has no entry.
    """
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
