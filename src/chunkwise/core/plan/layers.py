"""Boxes that meet a region, found without checking all boxes.

The boxes are sorted by their lower bounds along the dimension that separates them best, and the largest upper
bound so far is kept for each.  The boxes that can meet an interval are consecutive in that order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["LayerBoxes", "LayerCells"]

Numbers = npt.NDArray[np.int64]

_FAR = 2**62


class LayerBoxes:
    """Boxes in index space, numbered from 0; an empty box meets nothing."""

    __slots__ = ("_all_meet", "_dim", "_edges", "_highest", "_lowest", "_order", "lower", "rank", "upper")

    def __init__(self, lower: Sequence[Sequence[int]], upper: Sequence[Sequence[int]], rank: int) -> None:
        self.rank = rank
        # Bounds along one dimension are adjacent in memory, since they are searched by dimension.
        self.lower: Numbers = np.asfortranarray(np.asarray(lower, np.int64).reshape(len(lower), rank))
        self.upper: Numbers = np.asfortranarray(np.asarray(upper, np.int64).reshape(len(lower), rank))
        self._edges: list[Numbers | None] = [None] * rank
        distinct = [len(_distinct(self.lower[:, d])) for d in range(rank)]
        self._dim = max(range(rank), key=distinct.__getitem__) if rank else 0
        if not rank:
            return
        order = np.argsort(self.lower[:, self._dim], kind="stable")
        self._order = order[(self.lower < self.upper)[order].all(axis=1)]  # except empty ones
        self._lowest = self.lower[self._order, self._dim]
        # An interval that begins before the one and ends after the other meets all boxes along a dimension.
        last, first = self.lower.max(axis=0, initial=-_FAR), self.upper.min(axis=0, initial=_FAR)
        self._all_meet = list(zip(last.tolist(), first.tolist(), strict=True))
        self._highest = np.maximum.accumulate(self.upper[self._order, self._dim])

    def meeting(self, lower: Sequence[int], upper: Sequence[int]) -> Numbers:
        """Return the numbers of the boxes that have an index in common with ``[lower, upper)``, ascending."""
        if not self.rank:
            return np.arange(len(self.lower))
        stop = int(np.searchsorted(self._lowest, upper[self._dim], "left"))
        start = int(np.searchsorted(self._highest, lower[self._dim], "right"))
        run = np.sort(self._order[start:stop])
        for d, (last, first) in enumerate(self._all_meet):
            if lower[d] < first and last < upper[d]:
                continue
            meets = (self.lower[run, d] < upper[d]) & (self.upper[run, d] > lower[d])
            if not meets.all():
                run = run[meets]
        return run

    def edges(self, dim: int) -> Numbers:
        """Return all bounds of boxes along `dim`, ascending, each once."""
        edges = self._edges[dim]
        if edges is None:
            edges = self._edges[dim] = _distinct(np.concatenate([self.lower[:, dim], self.upper[:, dim]]))
        return edges

    def edge_before(self, dim: int, index: int, lowest: int) -> int:
        """Return the greatest bound of a box along `dim` that is at most `index`, or else `lowest`."""
        edges = self.edges(dim)
        place = int(np.searchsorted(edges, index, "right"))
        return int(edges[place - 1]) if place else lowest


class LayerCells:
    """Cells that each lie wholly inside or outside every layer."""

    chunk_shape = None

    def __init__(
        self, boxes: LayerBoxes, numbers: npt.NDArray[np.int64], lower: list[int], upper: list[int]
    ) -> None:
        self.rank = boxes.rank
        self.edges: list[npt.NDArray[np.int64]] = []
        for d, (lo, hi) in enumerate(zip(lower, upper, strict=True)):
            if len(numbers) == len(boxes.lower):
                edges = boxes.edges(d)
            else:
                edges = np.concatenate([boxes.lower[numbers, d], boxes.upper[numbers, d]])
                edges.sort()
                edges = edges[np.diff(edges, prepend=lo) > 0]
            inside = edges[np.searchsorted(edges, lo, "right") : np.searchsorted(edges, hi, "left")]
            self.edges.append(np.concatenate([[lo], inside, [hi]]))
        self._lists = [edges.tolist() for edges in self.edges]

    def cell(self, dim: int, index: int) -> tuple[int, int, int]:
        number = bisect_right(self._lists[dim], index) - 1
        return (number, *self.bounds(dim, number))

    def cells(self, dim: int, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.searchsorted(self.edges[dim], indices, "right") - 1

    def bounds(self, dim: int, cell: int) -> tuple[int, int]:
        edges = self._lists[dim]
        return edges[cell], edges[cell + 1]

    def n_cells(self, dim: int, size: int) -> int:
        return len(self._lists[dim]) - 1


def _distinct(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the distinct `numbers` in order."""
    # Not numpy.unique: its first call loads numpy.ma, which takes as long as reading a hundred layers.
    ordered = np.sort(numbers)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))] if len(ordered) else ordered
