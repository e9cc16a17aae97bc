"""Assembly of streamed pieces into whole chunks."""

# A chunk, or shard, that is written in parts is read and encoded again for each of them.  So parts wait
# here until their chunk is whole.  Along axes that pieces span, neighbouring chunks wait together: rows
# that are as wide as the array fill one row of chunks.

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Box", "ChunkAssembler", "intersect", "join", "nbytes_of", "slices"]

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
