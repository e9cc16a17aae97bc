"""A model of chunked arrays, resizes included: the NumPy array that a driver must agree with."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.testing.selections import Selection

__all__ = ["ArrayModel"]


class ArrayModel:
    """Elements by storage coordinate, including those that a resize has put outside for a while.

    A resize deletes chunks that are then wholly outside.  Elements beyond the edge in a remaining chunk come
    back when the array grows again.

    Parameters
    ----------
    shape, chunks : tuple of int
    dtype : str
    fill : scalar
        Value of a missing chunk.
    """

    def __init__(self, shape: tuple[int, ...], chunks: tuple[int, ...], dtype: str, fill: Any) -> None:
        self.shape = shape
        self.chunks = chunks
        self.fill = fill
        self._all: npt.NDArray[Any] = np.full([16] * len(shape), fill, dtype)

    def _region(self, shape: tuple[int, ...]) -> tuple[Any, ...]:
        return (*[slice(0, n) for n in shape], ...)

    @property
    def values(self) -> npt.NDArray[Any]:
        """The elements of the array."""
        values: npt.NDArray[Any] = self._all[self._region(self.shape)]
        return values

    def _positions(self, selection: Selection) -> npt.NDArray[np.int64]:
        numbered = np.arange(self._all.size).reshape(self._all.shape)
        return np.asarray(selection.of_array(numbered[self._region(self.shape)]))

    def read(self, selection: Selection) -> npt.NDArray[Any]:
        """Return the selected elements."""
        values: npt.NDArray[Any] = self._all.reshape(-1)[self._positions(selection)]
        return np.asarray(values)

    def write(self, selection: Selection, values: npt.NDArray[Any]) -> None:
        """Replace the selected elements; of several values for one the last stays."""
        self._all.reshape(-1)[self._positions(selection).reshape(-1)] = values.reshape(-1)

    def resize(self, shape: tuple[int, ...]) -> None:
        """Change the shape; elements in chunks that are then wholly outside are lost."""
        kept = tuple(-(-n // c) * c for n, c in zip(shape, self.chunks, strict=True))
        before = tuple(-(-n // c) * c for n, c in zip(self.shape, self.chunks, strict=True))
        lost = np.zeros(self._all.shape, bool)
        lost[self._region(before)] = True
        lost[self._region(kept)] = False
        self._all[lost] = self.fill
        self.shape = shape
