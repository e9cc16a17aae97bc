"""Data chunk iterators, written while they run: pieces are assembled into whole chunks."""

# A chunk, or shard, that is written in parts is read and encoded again for each of them.  So parts wait
# here until their chunk is whole.  Along axes that pieces span, neighbouring chunks wait together: rows
# that are as wide as the array fill one row of chunks.

# Pieces are put together to whole chunks.  Encoding and storing is done by the worker pool while the iterator
# makes the next piece; what has been handed over and is not stored yet is limited.

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise import Future
from chunkwise.extension.inside import positions
from chunkwise.hdmf.conventions.base import Convention
from chunkwise.hdmf.model.element import Element
from chunkwise.hdmf.model.physical import PhysicalArray
from chunkwise.hdmf.model.values import as_values

__all__ = [
    "BUFFER_NBYTES",
    "ArrayStream",
    "Box",
    "ChunkAssembler",
    "RowPieces",
    "StreamOptions",
    "StreamProgress",
    "intersect",
    "join",
    "nbytes_of",
    "slices",
]

# -- assembly -----------------------------------------------------------------------------------------

Box: TypeAlias = tuple[tuple[int, int], ...]
"""Start and stop along each axis."""

Extents: TypeAlias = Sequence[int | None]


class _Block:
    """Chunks that lie together and are not whole yet."""

    __slots__ = ("box", "filled", "values")

    def __init__(self, box: Box, dtype: np.dtype[Any]) -> None:
        self.box = box
        self.values = np.empty([stop - start for start, stop in box], dtype)
        self.filled: list[Box] = []

    @property
    def is_whole(self) -> bool:
        """True if all is filled; parts don't overlap."""
        return sum(_size(box) for box in self.filled) == self.values.size

    def overlaps(self, box: Box) -> bool:
        """Return True if a part of the box was filled before."""
        return any(intersect(box, other) for other in self.filled)

    def fill(self, box: Box, values: npt.NDArray[Any]) -> None:
        """Copy values to their place."""
        self.part(box)[...] = values
        self.filled.append(box)
        while len(self.filled) > 1 and (joined := join(*self.filled[-2:])) is not None:
            self.filled[-2:] = [joined]

    def part(self, box: Box) -> npt.NDArray[Any]:
        """Return the memory of a box."""
        origin = [start for start, _ in self.box]
        return self.values[slices(box, origin)]


class ChunkAssembler:
    """Passes boxes of whole chunks to a function that stores them."""

    def __init__(
        self,
        chunks: tuple[int, ...],
        extents: Extents,
        dtype: np.dtype[Any],
        store: Callable[[Box, npt.NDArray[Any]], None],
        drain: Callable[[], None],
        limit: int,
    ) -> None:
        self._chunks = chunks
        self._extents = list(extents)
        self._dtype = dtype
        self._store = store
        self._drain = drain
        self._limit = limit
        self._spanned: tuple[bool, ...] = ()
        self._blocks: dict[tuple[int, ...], _Block] = {}
        self.nbytes = 0

    def add(self, box: Box, values: npt.NDArray[Any]) -> None:
        """Take the values of a box, which must not change afterwards."""
        for axis, ((_, stop), extent) in enumerate(zip(box, self._extents, strict=True)):
            if extent is not None and stop > extent:  # an iterator that yields more than it announced
                self.flush()
                self._extents[axis] = None
        spanned = tuple(bounds == (0, n) for bounds, n in zip(box, self._extents, strict=True))
        if spanned != self._spanned:
            self.flush()
            self._spanned = spanned
        origin = [start for start, _ in box]
        for part in itertools.product(*(self._segments(axis, *box[axis]) for axis in range(len(box)))):
            if all(self._is_aligned(axis, *bounds) for axis, bounds in enumerate(part)):
                self._store_whole(part, values[slices(part, origin)])
            else:
                for cell in itertools.product(*(self._cells(axis, *part[axis]) for axis in range(len(box)))):
                    self._fill(cell, values[slices(cell, origin)])

    def flush(self) -> None:
        """Store all boxes that wait, whole or not."""
        for key in list(self._blocks):
            self._store_block(key)

    # -- the grid ---------------------------------------------------------------------------------

    def _is_aligned(self, axis: int, start: int, stop: int) -> bool:
        chunk, extent = self._chunks[axis], self._extents[axis]
        return start % chunk == 0 and (stop % chunk == 0 or stop == extent)

    def _segments(self, axis: int, start: int, stop: int) -> list[tuple[int, int]]:
        """Return the whole chunks along an axis, and the parts before and after them."""
        if self._is_aligned(axis, start, stop):
            return [(start, stop)]
        chunk = self._chunks[axis]
        first = -(-start // chunk) * chunk
        last = stop if stop == self._extents[axis] else stop // chunk * chunk
        if first >= last:
            return [(start, stop)]
        return [(a, b) for a, b in ((start, first), (first, last), (last, stop)) if a < b]

    def _cells(self, axis: int, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of a segment that are in one block each."""
        chunk = self._chunks[axis]
        while start < stop:
            end = stop if self._spanned[axis] else min(stop, (start // chunk + 1) * chunk)
            yield start, end
            start = end

    def _block_box(self, cell: Box) -> Box:
        out = []
        for axis, (start, _) in enumerate(cell):
            chunk, extent = self._chunks[axis], self._extents[axis]
            if self._spanned[axis]:
                out.append(cell[axis])
            else:
                first = start // chunk * chunk
                out.append((first, first + chunk if extent is None else min(first + chunk, extent)))
        return tuple(out)

    # -- blocks -----------------------------------------------------------------------------------

    def _store_whole(self, box: Box, values: npt.NDArray[Any]) -> None:
        before = [key for key, block in self._blocks.items() if intersect(box, block.box)]
        for key in before:
            self._store_block(key)
        if before:
            self._drain()
        self._store(box, values)

    def _fill(self, cell: Box, values: npt.NDArray[Any]) -> None:
        box = self._block_box(cell)
        key = tuple(start for start, _ in box)
        block = self._blocks.get(key)
        if block is not None and block.overlaps(cell):
            self._store_block(key)
            self._drain()
            block = None
        if block is None:
            block = self._blocks[key] = _Block(box, self._dtype)
            self.nbytes += block.values.nbytes
        block.fill(cell, values)
        if block.is_whole:
            self._store_block(key)
        while self.nbytes > self._limit and len(self._blocks) > 1:
            self._store_block(next(iter(self._blocks)))

    def _store_block(self, key: tuple[int, ...]) -> None:
        block = self._blocks.pop(key)
        self.nbytes -= block.values.nbytes
        for box in [block.box] if block.is_whole else block.filled:
            self._store(box, block.part(box))


def slices(box: Box, origin: Sequence[int] | None = None) -> tuple[slice, ...]:
    """Return the index of a box in memory that begins at `origin`, 0 by default."""
    origin = origin or [0] * len(box)
    return tuple(slice(start - at, stop - at) for (start, stop), at in zip(box, origin, strict=True))


def nbytes_of(box: Box, dtype: np.dtype[Any]) -> int:
    """Return the size of the elements of a box in bytes."""
    return _size(box) * dtype.itemsize


def _size(box: Box) -> int:
    return math.prod(stop - start for start, stop in box)


def intersect(a: Box, b: Box) -> bool:
    """Return True if two boxes have an element in common."""
    return all(i < n and m < j for (i, j), (m, n) in zip(a, b, strict=True))


def join(a: Box, b: Box) -> Box | None:
    """Return the box that two boxes make, if they do."""
    different = [axis for axis, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
    if len(different) != 1:
        return None
    axis = different[0]
    (start, end), (begin, stop) = sorted((a[axis], b[axis]))
    return (*a[:axis], (start, stop), *a[axis + 1 :]) if end == begin else None


# -- streams ------------------------------------------------------------------------------------------

BUFFER_NBYTES = 1 << 26
"""Bytes that may wait to be stored, by default."""

_MOST_WRITES = 64  # under way: each new one is compared with all
_TOGETHER = 1 << 23  # bytes of neighbours that one write has: enough for all processors

StreamProgress = Callable[[str, int, "int | None"], None]
"""Called with path, rows done and rows expected, None if unknown, after each piece."""


class StreamOptions(NamedTuple):
    """Limit on data that waits to be stored, and the function to call with progress."""

    buffer_nbytes: int
    progress: StreamProgress | None


class ArrayStream:
    """An array that an iterator is being written to."""

    def __init__(
        self,
        array: PhysicalArray,
        element: Element,
        convention: Convention,
        iterator: Any,
        options: StreamOptions,
    ) -> None:
        self.array = array
        self.element = element
        self.convention = convention
        self.iterator = iterator
        self._limit = options.buffer_nbytes
        self._progress = options.progress
        self._waiting: deque[tuple[Future[None], int, Box | None]] = deque()
        self._n_waiting = 0
        self._neighbours: list[tuple[Box, npt.NDArray[Any]]] = []  # they are written together, as one box
        self._box: Box = ()
        self._splits_chunks = False  # a write that waits, perhaps, ends inside a chunk
        self._together = min(_TOGETHER, self._limit // 4)
        self._chunks = array.chunk_shape or (1,) * len(array.shape)
        maxshape = getattr(iterator, "maxshape", None)
        self._assembler = ChunkAssembler(
            self._chunks,
            [None] * len(self._chunks) if maxshape is None else maxshape,
            array.dtype,
            self._store_box,
            self._drain,
            self._limit // 2,
        )
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
        """Store what was assembled so far, and wait until it is stored."""
        self._assembler.flush()
        self._drain()

    def abandon(self) -> None:
        """Wait for all writes, even failed ones: none may run when Python exits."""
        while self._waiting:
            with suppress(Exception):  # the first failure is raised
                self._wait()

    # -- pieces -----------------------------------------------------------------------------------

    def _take(self, piece: Any) -> None:
        selection = piece.selection if isinstance(piece.selection, tuple) else (piece.selection,)
        self._grow(piece)
        shape = self.array.shape
        box = [_bounds(part) for part in positions(selection, shape)]
        data = piece.data
        if any(bounds is None for bounds in box) or data is None:
            if data is not None:
                self._assembler.flush()
                self._drain()
                self._splits_chunks = True
                self._store(selection, self._stored(data))
        else:
            whole: Box = tuple(b for b in box if b is not None)
            values = self._stored(data).reshape([stop - start for start, stop in whole])
            if values.size:
                self._assembler.add(whole, values)
        if self._progress is not None:
            last = box[0][1] if box and box[0] is not None else self._done
            self._done = max(self._done, last)
            maxshape = getattr(self.iterator, "maxshape", None)
            self._progress(self.array.node.path, self._done, maxshape[0] if maxshape else None)

    def _stored(self, data: Any) -> npt.NDArray[Any]:
        values = as_values(np.asarray(data) if self.element.is_plain else data, self.element)
        stored = self.convention.to_stored(values, self.element, self.array)
        # The iterator may use its memory again.
        return np.array(stored, copy=True) if np.shares_memory(stored, np.asarray(data)) else stored

    def _grow(self, piece: Any) -> None:
        needed = tuple(int(n) for n in piece.get_min_bounds())
        shape = self.array.shape
        needed += shape[len(needed) :]
        if any(n > m for n, m in zip(needed, shape, strict=True)):
            # A whole chunk at the end of the array becomes a part of one when the array grows.
            if self._splits_chunks:
                self._drain()
            self.array.grow(tuple(max(n, m) for n, m in zip(needed, shape, strict=True)))

    def _store_box(self, box: Box, values: npt.NDArray[Any]) -> None:
        if any(stop % chunk for (_, stop), chunk in zip(box, self._chunks, strict=True)):
            self._splits_chunks = True
        # Either of two simultaneous writes may be the last.
        if any(other is None or intersect(box, other) for _, _, other in self._waiting) or any(
            intersect(box, other) for other, _ in self._neighbours
        ):
            self._drain()
        joined = join(self._box, box) if self._neighbours else box
        if joined is None or nbytes_of(joined, values.dtype) > self._together:
            self._store_neighbours()
            joined = box
        self._neighbours.append((box, values))
        self._box = joined
        if nbytes_of(joined, values.dtype) >= self._together:
            self._store_neighbours()

    def _store_neighbours(self) -> None:
        if self._neighbours:
            self._store(slices(self._box), self._take_neighbours(), self._box)

    def _take_neighbours(self) -> npt.NDArray[Any]:
        parts, self._neighbours = self._neighbours, []
        if len(parts) == 1:
            return parts[0][1]
        out = np.empty([stop - start for start, stop in self._box], parts[0][1].dtype)
        origin = [start for start, _ in self._box]
        for box, values in parts:
            out[slices(box, origin)] = values
        return out

    def _store(self, selection: Any, values: npt.NDArray[Any], box: Box | None = None) -> None:
        nbytes = max(values.nbytes, 1)
        limit = self._limit - self._together - self._assembler.nbytes
        while self._waiting and (self._n_waiting + nbytes > limit or len(self._waiting) >= _MOST_WRITES):
            self._wait()
        future = self.array.write(selection, values)
        self._waiting.append((future, nbytes, box))
        self._n_waiting += nbytes

    def _wait(self) -> None:
        future, nbytes, _ = self._waiting.popleft()
        self._n_waiting -= nbytes
        future.result()

    def _drain(self) -> None:
        self._store_neighbours()
        while self._waiting:
            self._wait()
        self._splits_chunks = False


class _Piece(NamedTuple):
    data: npt.NDArray[Any]
    selection: slice
    shape: tuple[int, ...]  # of the whole array

    def get_min_bounds(self) -> tuple[int, ...]:
        return self.shape


class RowPieces:
    """An array in pieces along its first axis, as a data chunk iterator gives them."""

    def __init__(
        self,
        read: Callable[[slice], npt.NDArray[Any]],
        shape: tuple[int, ...],
        itemsize: int,
        height: int,  # of a piece, or a part of it
        nbytes: int,  # that a piece should have
    ) -> None:
        self.maxshape = shape
        self._read = read
        row = max(1, itemsize * math.prod(shape[1:]))
        self._step = max(height, nbytes // row // height * height)
        self._next = 0

    def __next__(self) -> _Piece:
        start = self._next
        if start >= self.maxshape[0]:
            raise StopIteration
        stop = self._next = min(self.maxshape[0], start + self._step)
        return _Piece(self._read(slice(start, stop)), slice(start, stop), self.maxshape)


def _bounds(part: Any) -> tuple[int, int] | None:
    """Return start and stop of positions if they are one run, else None."""
    if isinstance(part, range):
        return (part.start, part.start + len(part)) if part.step == 1 else None
    return (part, part + 1) if isinstance(part, int) else None
