"""Data chunk iterators, written while they run.

Pieces that follow each other along the first axis are put together to whole rows of chunks, so that no
chunk is read to be changed.  Encoding and storing is done by the worker pool while the iterator makes the
next piece; what has been handed over and is not stored yet is limited.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.engine.future import Future
from chunkwise.hdmf.convention import Convention
from chunkwise.hdmf.element import Element
from chunkwise.hdmf.physical import PhysicalArray
from chunkwise.hdmf.values import as_values

__all__ = ["BUFFER_NBYTES", "ArrayStream", "Piece", "StreamProgress"]

BUFFER_NBYTES = 1 << 26
"""Bytes that may wait to be stored, by default."""

StreamProgress = Callable[[str, int, "int | None"], None]
"""Called with path, rows done and rows expected, None if unknown, after each piece."""


class ArrayStream:
    """An array that an iterator is being written to.

    Parameters
    ----------
    array : PhysicalArray
        Made with the shape that the iterator recommends; it grows as needed.
    element : Element
    convention : Convention
    iterator : AbstractDataChunkIterator
    buffer_nbytes : int
        Limit on what waits to be stored.
    progress : callable, optional
    """

    def __init__(
        self,
        array: PhysicalArray,
        element: Element,
        convention: Convention,
        iterator: Any,
        *,
        buffer_nbytes: int = BUFFER_NBYTES,
        progress: StreamProgress | None = None,
    ) -> None:
        self.array = array
        self.element = element
        self.convention = convention
        self.iterator = iterator
        self._limit = buffer_nbytes
        self._progress = progress
        self._waiting: deque[tuple[Future[None], int]] = deque()
        self._n_waiting = 0
        self._rows: list[npt.NDArray[Any]] = []
        self._first = self._n_rows = 0
        self._done = 0

    def step(self) -> bool:
        """Take one piece from the iterator; return whether there was one."""
        try:
            piece = next(self.iterator)
        except StopIteration:
            return False
        self._take(piece)
        return True

    def run(self) -> None:
        """Write all that is left."""
        try:
            while self.step():
                pass
            self.finish()
        except BaseException:  # an interrupt too: no write may be under way when it is passed on
            self.abandon()
            raise

    def finish(self) -> None:
        """Store what was put together so far and wait until all is stored."""
        self._store_rows(all=True)
        while self._waiting:
            self._wait()

    def abandon(self) -> None:
        """Wait for what was handed over, whatever becomes of it: no thread may be at it when Python ends."""
        while self._waiting:
            with suppress(Exception):  # what is passed on is the first failure
                self._wait()

    # -- pieces -----------------------------------------------------------------------------------

    def _take(self, piece: Any) -> None:
        selection = piece.selection if isinstance(piece.selection, tuple) else (piece.selection,)
        self._grow(piece)
        shape = self.array.shape
        box = [_bounds(part, n) for part, n in zip(selection, shape, strict=False)]
        box += [(0, n) for n in shape[len(box) :]]
        data = piece.data
        if any(bounds is None for bounds in box) or data is None:
            if data is not None:
                self._store(selection, self._stored(data))
        else:
            whole: list[tuple[int, int]] = [b for b in box if b is not None]
            values = self._stored(data).reshape([stop - start for start, stop in whole])
            if whole[1:] == [(0, n) for n in shape[1:]] and values.ndim:
                self._add_rows(whole[0][0], values)
            else:
                self._store(tuple(slice(*b) for b in whole), values)
        if self._progress is not None:
            last = box[0][1] if box and box[0] is not None else self._done
            self._done = max(self._done, last)
            maxshape = getattr(self.iterator, "maxshape", None)
            self._progress(self.array.node.path, self._done, maxshape[0] if maxshape else None)

    def _stored(self, data: Any) -> npt.NDArray[Any]:
        values = as_values(np.asarray(data) if self.element.is_plain else data, self.element)
        stored = self.convention.to_stored(values, self.element, self.array.dtype)
        # The iterator may use its memory again.
        return np.array(stored, copy=True) if np.shares_memory(stored, np.asarray(data)) else stored

    def _grow(self, piece: Any) -> None:
        needed = tuple(int(n) for n in piece.get_min_bounds())
        shape = self.array.shape
        needed += shape[len(needed) :]
        if any(n > m for n, m in zip(needed, shape, strict=True)):
            # Rows that wait may belong to axes that are about to grow.
            self._store_rows(all=needed[1:] != shape[1:])
            if needed[1:] != shape[1:]:
                self._drain()
            self._resize(tuple(max(n, m) for n, m in zip(needed, shape, strict=True)))

    def _resize(self, shape: tuple[int, ...]) -> None:
        self.array.resize(shape)

    def _add_rows(self, start: int, values: npt.NDArray[Any]) -> None:
        if start != self._first + self._n_rows or (
            self._rows and values.shape[1:] != self._rows[0].shape[1:]
        ):
            self._store_rows(all=True)
            self._first = start
        self._rows.append(values)
        self._n_rows += len(values)
        self._store_rows(all=False)

    def _store_rows(self, *, all: bool) -> None:
        """Store the rows that wait, as far as they fill rows of chunks."""
        chunks = self.array.chunk_shape
        height = chunks[0] if chunks else 1
        end = self._first + self._n_rows
        stop = end if all else end - end % height
        n = stop - self._first
        if n <= 0 or not self._rows:
            return
        rows = self._rows[0] if len(self._rows) == 1 else np.concatenate(self._rows)
        self._store(slice(self._first, stop), rows[:n])
        self._rows = [rows[n:]] if n < len(rows) else []
        self._first, self._n_rows = stop, self._n_rows - n

    def _store(self, selection: Any, values: npt.NDArray[Any]) -> None:
        nbytes = max(values.nbytes, 1)
        while self._waiting and self._n_waiting + nbytes > self._limit:
            self._wait()
        future = self.array.write(selection, values)
        self._waiting.append((future, nbytes))
        self._n_waiting += nbytes

    def _wait(self) -> None:
        future, nbytes = self._waiting.popleft()
        self._n_waiting -= nbytes
        future.result()

    def _drain(self) -> None:
        while self._waiting:
            self._wait()


class Piece:
    """Part of an array, as data chunk iterators give them.

    Attributes
    ----------
    data : array_like
    selection : slice
        Which rows it is.
    """

    def __init__(self, data: Any, selection: slice, shape: tuple[int, ...]) -> None:
        self.data = data
        self.selection = selection
        self._shape = shape

    def get_min_bounds(self) -> tuple[int, ...]:
        """Return the shape of the whole array."""
        return self._shape


def _bounds(part: Any, n: int) -> tuple[int, int] | None:
    """Return start and stop of an index if it is one run, else None."""
    if isinstance(part, slice):
        start, stop, step = part.indices(n)
        return (start, max(start, stop)) if step == 1 else None
    if isinstance(part, int | np.integer):
        i = int(part) + (n if part < 0 else 0)
        return (i, i + 1)
    return None
