"""Boxes of blocks: one task writes a box, which is made of whole chunks (or shards) of the target if
possible."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Boxes"]

_LARGEST_NBYTES = 256 << 20
"""Larger chunks of the target are written in parts, one block at a time."""

_MOST_BLOCKS = 1 << 12


class Boxes:
    """Division of an array into boxes of whole blocks, numbered in C order; they grow to `wanted_nbytes`."""

    def __init__(
        self,
        chunks: Sequence[Sequence[int]],
        aligned: Sequence[Sequence[int] | None],
        itemsize: int,
        wanted_nbytes: int,
    ) -> None:
        # `aligned`: sizes of the target's chunks by dimension; None where any cut will do.
        self._starts = [_edges(sizes) for sizes in chunks]
        every = [np.arange(len(edges)) for edges in self._starts]
        self._cuts = [
            cuts if sizes is None else np.flatnonzero(np.isin(edges, _edges(sizes)))
            for cuts, edges, sizes in zip(every, self._starts, aligned, strict=True)
        ]
        self.aligned = self._nbytes(self._cuts, itemsize) <= _LARGEST_NBYTES
        if not self.aligned:
            self._cuts = every
        growing = True
        while growing:
            growing = False
            for dim in reversed(range(len(self._cuts))):
                cuts = list(self._cuts)
                cuts[dim] = _every_other(cuts[dim])
                if len(cuts[dim]) == len(self._cuts[dim]):
                    continue
                n_blocks = prod(int(np.diff(c).max(initial=1)) for c in cuts)
                if n_blocks <= _MOST_BLOCKS and self._nbytes(cuts, itemsize) <= wanted_nbytes:
                    self._cuts, growing = cuts, True

    @property
    def n_boxes(self) -> int:
        """Number of boxes."""
        return prod(len(cuts) - 1 for cuts in self._cuts)

    def blocks(self, number: int) -> list[range]:
        """Return the blocks of a box along each dimension."""
        out = []
        for cuts in reversed(self._cuts):
            number, at = divmod(number, len(cuts) - 1)
            out.append(range(int(cuts[at]), int(cuts[at + 1])))
        return out[::-1]

    def slices(self, first: Sequence[int], last: Sequence[int]) -> tuple[slice, ...]:
        """Return where the blocks from `first` up to, but without, `last` are in the array."""
        return tuple(
            slice(int(edges[a]), int(edges[b])) for edges, a, b in zip(self._starts, first, last, strict=True)
        )

    def number_of(self, block: Sequence[int]) -> int:
        """Return the number of the box that a block is in."""
        number = 0
        for cuts, at in zip(self._cuts, block, strict=True):
            number = number * (len(cuts) - 1) + int(np.searchsorted(cuts, at, side="right")) - 1
        return number

    def _nbytes(self, cuts: list[npt.NDArray[Any]], itemsize: int) -> int:
        longest = (int(np.diff(e[c]).max(initial=0)) for e, c in zip(self._starts, cuts, strict=True))
        return prod(longest) * itemsize


def _edges(sizes: Sequence[int]) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def _every_other(cuts: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.unique(np.append(cuts[:-1:2], cuts[-1]))
