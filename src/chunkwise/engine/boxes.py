"""Boxes of many arrays that are read in the same way, as columns of integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.driver.stored_array import StoredArray

__all__ = ["Boxes"]

Numbers = npt.NDArray[np.int64]


class Boxes(NamedTuple):
    """Boxes of arrays that differ in nothing but their prefixes.

    Attributes
    ----------
    array : StoredArray
        One of the arrays, with chunks of one shape and with the keys that each has below its prefix.
    prefixes : sequence of str
        Of the array of each box.
    first : ndarray
        Where boxes begin in their arrays, of shape ``(n, rank)``.
    start, stop : ndarray
        Where boxes begin and end in the caller's array, as `first`.
    fill_missing : bool
        Whether a missing chunk reads as the fill value.
    """

    array: StoredArray
    prefixes: Sequence[str]
    first: Numbers
    start: Numbers
    stop: Numbers
    fill_missing: bool

    @property
    def n(self) -> int:
        """How many boxes there are."""
        return len(self.prefixes)

    @property
    def cells(self) -> Numbers:
        """The cells in which boxes begin, of the shape of `first`."""
        return self.first // self._chunk

    @property
    def whole(self) -> npt.NDArray[np.bool_]:
        """Which boxes are one whole chunk each."""
        begins, ends = self.first % self._chunk == 0, self.stop - self.start == self._chunk
        whole: npt.NDArray[np.bool_] = (begins & ends).all(axis=1)
        return whole

    @property
    def n_chunks(self) -> int:
        """How many chunks they have, of which one may belong to several boxes."""
        return int(self._counts().prod(axis=1).sum())

    def run(self, start: int, stop: int) -> Boxes:
        """Return some of the boxes, one after the other."""
        some = slice(start, stop)
        return self._replace(
            prefixes=self.prefixes[some], first=self.first[some], start=self.start[some], stop=self.stop[some]
        )

    def in_chunks(self) -> Boxes:
        """Return the boxes divided into such as lie in one chunk each, in the order of the caller's array."""
        chunk, size = self._chunk, self.stop - self.start
        counts = self._counts()
        n_of = counts.prod(axis=1)
        box = np.repeat(np.arange(self.n), n_of)  # of each chunk
        number = np.arange(len(box)) - np.repeat(np.cumsum(n_of) - n_of, n_of)  # of each in its box
        cells = self.cells[box]
        for dim in reversed(range(cells.shape[1])):
            number, along = np.divmod(number, counts[box, dim])
            cells[:, dim] += along
        begin = self.first[box]
        first = np.maximum(begin, cells * chunk)
        end = np.minimum(begin + size[box], (cells + 1) * chunk)
        shift = self.start[box] - begin
        start, stop = first + shift, end + shift
        order = np.lexsort(start.T[::-1]) if cells.shape[1] else slice(None)
        prefixes = [self.prefixes[i] for i in box[order].tolist()]
        return self._replace(prefixes=prefixes, first=first[order], start=start[order], stop=stop[order])

    @property
    def _chunk(self) -> Numbers:
        return np.array(self.array.chain.item.shape, np.int64)

    def _counts(self) -> Numbers:
        """Return how many chunks each box has along each dimension."""
        last = (self.first + (self.stop - self.start) - 1) // self._chunk
        counts: Numbers = last - self.cells + 1
        return counts
