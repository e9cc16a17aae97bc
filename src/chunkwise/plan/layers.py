"""Which of many boxes meet a region: found without looking at all of them.

Along the dimension in which they lie apart best, the boxes are sorted by their lower bounds, and the largest
upper bound so far is kept for each.  The boxes that can meet an interval are a run of that order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["LayerBoxes"]

Numbers = npt.NDArray[np.int64]


class LayerBoxes:
    """Boxes in index space, numbered from 0.

    Parameters
    ----------
    lower, upper : sequence of sequence of int
        Bounds; a box that is empty meets nothing.
    """

    __slots__ = ("_dim", "_edges", "_highest", "_lowest", "_order", "lower", "rank", "upper")

    def __init__(self, lower: Sequence[Sequence[int]], upper: Sequence[Sequence[int]], rank: int) -> None:
        self.rank = rank
        self.lower: Numbers = np.asarray(lower, np.int64).reshape(len(lower), rank)
        self.upper: Numbers = np.asarray(upper, np.int64).reshape(len(lower), rank)
        self._edges: list[Numbers | None] = [None] * rank
        distinct = [len(np.unique(self.lower[:, d])) for d in range(rank)]
        self._dim = max(range(rank), key=distinct.__getitem__) if rank else 0
        if not rank:
            return
        self._order = np.argsort(self.lower[:, self._dim], kind="stable")
        self._lowest = self.lower[self._order, self._dim]
        self._highest = np.maximum.accumulate(self.upper[self._order, self._dim])

    def meeting(self, lower: Sequence[int], upper: Sequence[int]) -> Numbers:
        """Return the numbers of the boxes that have an index in common with ``[lower, upper)``, ascending."""
        if not self.rank:
            return np.arange(len(self.lower))
        stop = int(np.searchsorted(self._lowest, upper[self._dim], "left"))
        start = int(np.searchsorted(self._highest, lower[self._dim], "right"))
        run = np.sort(self._order[start:stop])
        meets = (self.lower[run] < np.asarray(upper, np.int64)) & (
            self.upper[run] > np.asarray(lower, np.int64)
        )
        meets &= self.lower[run] < self.upper[run]
        found: Numbers = run[meets.all(axis=1)]
        return found

    def edge_before(self, dim: int, index: int, lowest: int) -> int:
        """Return the greatest bound of any box along `dim` that is not above `index`, or else `lowest`."""
        edges = self._edges[dim]
        if edges is None:
            edges = self._edges[dim] = np.unique(np.concatenate([self.lower[:, dim], self.upper[:, dim]]))
        place = int(np.searchsorted(edges, index, "right"))
        return int(edges[place - 1]) if place else lowest
