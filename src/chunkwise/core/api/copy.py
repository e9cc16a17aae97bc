"""Copies of one array to another, in blocks, with memory independent of their size.

1. The source is aligned with the target, and repeated along dimensions that it lacks: by position in copies,
   and by label in assignments, as in TensorStore.
2. A small source is copied with one read and one write.
3. Otherwise the target is divided into blocks of whole write chunks.  A few threads take one block after
   the other: read, convert, write.
4. The first failure, or cancellation, stops the threads after the current block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy.typing as npt

from chunkwise.core.api.array_view import ArrayView, not_writable
from chunkwise.core.base.cached import cached_property
from chunkwise.core.base.threads import start_thread
from chunkwise.core.dtypes.conversion import Convert, implicit_converter
from chunkwise.core.engine.abandoned_changes import EVERYWHERE, Change, be_part_of_change
from chunkwise.core.engine.batch import Batch
from chunkwise.core.engine.completion import collecting
from chunkwise.core.engine.concurrent_requests import work_through
from chunkwise.core.engine.derived_futures import WriteFutures, link
from chunkwise.core.engine.future import Future, Promise
from chunkwise.core.index_space import IndexDomain, align, align_by_position
from chunkwise.core.plan.blocks import Blocks, block_shape
from chunkwise.errors import ChunkwiseError, InvalidArgumentError

__all__ = ["BLOCK_NBYTES", "BlockCopy", "copy_into", "divide", "item_nbytes"]

BLOCK_NBYTES = 32 << 20
"""Largest block in bytes, unless one write chunk of the target is larger."""

_SMALL_NBYTES = 64 << 20

A = TypeVar("A", bound=ArrayView)


class BlockCopy(Generic[A]):
    """A copy in blocks, from `source`, aligned by position and broadcast, to `target`."""

    def __init__(
        self,
        target: A,
        source: A,
        *,
        block_nbytes: int = BLOCK_NBYTES,
        convert: Convert | None = None,
    ) -> None:
        if not source.readable:
            raise InvalidArgumentError("Source does not support reading.")
        if not target.writable:
            raise not_writable(target)
        self.convert = convert or implicit_converter(source.dtype, target.dtype)
        self.source = source[align_by_position(source.domain, target.domain)]
        self.target = target
        self._block_nbytes = block_nbytes

    @cached_property
    def blocks(self) -> Blocks:
        """Blocks of the target."""
        return divide(self.target, self.source, self._block_nbytes)

    def read(self, block: IndexDomain) -> npt.NDArray[Any]:
        """Return the elements of a block in the form to store."""
        return self.convert(self.source[block].read().result())

    def copy(self, block: IndexDomain) -> None:
        """Copy one block."""
        self.target[block].write(self.read(block)).result()

    def nbytes(self, block: IndexDomain) -> int:
        """Return the size of a block in the target's data type."""
        return int(block.size) * item_nbytes(self.target)


def copy_into(target: ArrayView, source: ArrayView, batch: Batch | None = None) -> WriteFutures:
    """Assign `source`, aligned by label, to `target`; with a `batch`, everything is read before writing."""
    try:
        copy = BlockCopy(target, source[align(source.domain, target.domain)])
    except ChunkwiseError as e:
        return WriteFutures.failed(e)
    if batch is not None:
        return _in_one_go(copy, copy.source.read(batch=batch))
    if copy.source.size * item_nbytes(source) <= _SMALL_NBYTES:
        return _in_one_go(copy, copy.source.read())
    done = work_through(copy.blocks.domains(), copy.copy)
    return WriteFutures.of(done, done)


def divide(target: ArrayView, source: ArrayView, block_nbytes: int = BLOCK_NBYTES) -> Blocks:
    """Divide the domain of `target` at its write chunks, considering the chunks of `source`."""
    layout = target.chunk_layout
    unit = _extents(layout.write_chunk.shape, target)
    origin = [
        lo if at is None else at
        for lo, at in zip(target.origin, layout.grid_origin or (None,) * target.rank, strict=True)
    ]
    read_chunk = _extents(source.chunk_layout.read_chunk.shape, source)
    largest = max(item_nbytes(target), item_nbytes(source))
    shape = block_shape(target.shape, unit, read_chunk, largest, block_nbytes)
    return Blocks(target.domain, tuple(origin), shape)


def _extents(shape: Sequence[int | None] | None, store: ArrayView) -> list[int]:
    # Along a dimension without chunks, any cut is as good as another.
    return [n or 1 for n in shape or (None,) * store.rank]


def item_nbytes(store: ArrayView) -> int:
    """Return how many bytes an element takes in memory, at least 1."""
    return max(1, store.dtype.memory_dtype.itemsize)


def _in_one_go(copy: BlockCopy[A], reading: Future[npt.NDArray[Any]]) -> WriteFutures:
    copied, copied_future = Promise[None].new()
    stored, stored_future = Promise[None].new()

    def write(done: Future[npt.NDArray[Any]]) -> None:
        change = Change(EVERYWHERE, stored_future)
        try:
            if stored.done():  # cancelled
                return
            writing = copy.target.write(copy.convert(done.result()))
            link(writing.copy, copied)
            with collecting() as begun:
                link(writing.commit, stored)
            for ended in begun:  # cancelled just before
                ended.result()
        except BaseException as e:
            copied.set_exception(e)
            stored.set_exception(e)
        finally:
            change.end()

    if reading.done():
        write(reading)
        return WriteFutures.of(copied_future, stored_future)

    def start(done: Future[npt.NDArray[Any]]) -> None:
        # A thread of the pool would do the whole write alone.
        if not start_thread(write, done, prepare=be_part_of_change):
            write(done)

    reading.add_done_callback(start)
    stored_future.add_done_callback(lambda _: reading.cancel())
    stored_future._start.append(lambda _: reading.force())
    copied_future._start.append(lambda _: reading.force())
    return WriteFutures.of(copied_future, stored_future)
