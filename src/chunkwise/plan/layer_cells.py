"""The cells between the bounds of some layers, as a grid to partition a request by."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import numpy.typing as npt

from chunkwise.plan.layers import LayerBoxes

__all__ = ["LayerCells"]


class LayerCells:
    """Cells each of which lies wholly inside or outside of any layer."""

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
