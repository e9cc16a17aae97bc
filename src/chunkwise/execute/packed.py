"""Whole chunks that lie in memory one after the other, as they are before they are encoded.

That is how they are handed from process to process: who has the caller's array copies between it and the
row of chunks, and the other one encodes or decodes each in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.codec.decode import open_decompressor
from chunkwise.codec.encode import open_compressor
from chunkwise.codec.protocol import Buffer, PreparedChain
from chunkwise.codec.rows import copy_rows
from chunkwise.execute.runs import Row, copy_to_chunks
from chunkwise.execute.selected import selected_runs
from chunkwise.plan.axis import PlanAxis

__all__ = ["PackedReader", "PackedWriter", "element_type", "pack", "pick", "unpack"]


def element_type(chain: PreparedChain, *, encode: bool) -> tuple[np.dtype[Any], np.dtype[Any]] | None:
    """Return the type of the elements of such chunks, and that as which the caller's are looked at.

    None if chunks of `chain` have no such form.
    """
    stages = getattr(chain, "stages", None)
    if stages is None:
        return None
    if encode:
        layout = open_compressor(stages)
        return None if layout is None else (layout[0], layout[0])
    packed = open_decompressor(stages)
    return None if packed is None else (packed.stored, packed.memory)


# Bytes that are decoded between two looks at whether to go on.
_LARGEST_ROW = 1 << 20


class PackedReader:
    """Memory that chunks are decoded to; it takes the place of a :class:`~chunkwise.execute.scatter.Scatter`.

    Parameters
    ----------
    chain : PreparedChain
        Of the chunks.
    memory : ndarray of uint8
        Room for all of them.
    """

    def __init__(self, chain: PreparedChain, memory: npt.NDArray[np.uint8]) -> None:
        packed = open_decompressor(chain.stages)  # type: ignore[attr-defined]
        assert packed is not None, "the other process has looked"
        self.packed = packed
        self._chunks = _chunks(chain, self.packed.stored, memory)
        self._memory = memory.data
        self._start = 0

    def rows(self, axes: tuple[PlanAxis, ...]) -> Iterator[Row]:
        """Yield memory for the chunks of a batch, which follows that of the batch before."""
        return self.next_rows(prod(axis.n_entries for axis in axes))

    def next_rows(self, n_chunks: int) -> Iterator[Row]:
        """Yield memory for some chunks, which follows that of those before."""
        nbytes = self.packed.nbytes
        most = max(1, _LARGEST_ROW // nbytes)
        for first in range(0, n_chunks, most):
            chunks, buffers = zip(*islice(self._chunks, min(most, n_chunks - first)), strict=True)
            stop = self._start + len(chunks) * nbytes
            yield Row(chunks, buffers, self._memory[self._start : stop])
            self._start = stop


class PackedWriter:
    """Memory that chunks are encoded from; it takes the place of a :class:`~chunkwise.execute.runs.Gather`.

    Parameters
    ----------
    chain : PreparedChain
        Of the chunks.
    memory : ndarray of uint8
        All of them.
    """

    def __init__(self, chain: PreparedChain, memory: npt.NDArray[np.uint8]) -> None:
        layout = open_compressor(chain.stages)  # type: ignore[attr-defined]
        assert layout is not None, "the other process has looked"
        dtype, self._compress = layout
        self._chunks = _chunks(chain, dtype, memory)

    def chunks(
        self, axes: tuple[PlanAxis, ...]
    ) -> tuple[Callable[[Buffer], Buffer] | None, Iterator[tuple[npt.NDArray[Any], memoryview]]]:
        """Return what encodes the bytes of a chunk, if anything, and each chunk with its bytes."""
        return self._compress, self._chunks


def _chunks(
    chain: PreparedChain, dtype: np.dtype[Any], memory: npt.NDArray[np.uint8]
) -> Iterator[tuple[npt.NDArray[Any], memoryview]]:
    shape = chain.item.shape
    nbytes = prod(shape) * dtype.itemsize
    for start in range(0, len(memory), nbytes):
        raw = memory[start : start + nbytes]
        yield raw.view(dtype).reshape(shape), raw.data


def unpack(parts: Sequence[tuple[PlanAxis, ...]], chunks: npt.NDArray[Any], view: npt.NDArray[Any]) -> None:
    """Copy chunks to their places.

    Parameters
    ----------
    parts : sequence of tuple of PlanAxis
        Products of whole chunks; with shards, one for each.
    chunks : ndarray
        The chunks, in that order, along the first axis.
    view : ndarray
        The caller's array in the order of the plan.
    """
    for place, packed in _places(parts, chunks, view):
        copy_rows(place, packed)


def pack(parts: Sequence[tuple[PlanAxis, ...]], view: npt.NDArray[Any], chunks: npt.NDArray[Any]) -> None:
    """Copy what belongs to `chunks` from the caller's array; see :func:`unpack`."""
    for place, packed in _places(parts, chunks, view):
        copy_to_chunks(packed, place)


def pick(axes: tuple[PlanAxis, ...], chunks: npt.NDArray[Any], view: npt.NDArray[Any]) -> None:
    """Copy what is selected of chunks, which need not be whole, to its places.

    Parameters
    ----------
    axes : tuple of PlanAxis
        A part of a plan.
    chunks, view : ndarray
        As for :func:`unpack`.
    """
    most = max(1, _LARGEST_ROW * len(chunks) // chunks.nbytes)
    first = 0
    for n, copy in selected_runs(axes, view, most):
        copy(chunks[first : first + n])
        first += n


def _places(
    parts: Sequence[tuple[PlanAxis, ...]], chunks: npt.NDArray[Any], view: npt.NDArray[Any]
) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
    """Yield each part of `view` and its chunks with the axes in the same order."""
    shape = chunks.shape[1:]
    rank = len(shape)
    order = [axis for dim in range(rank) for axis in (dim, rank + dim)]
    first = 0
    for axes in parts:
        counts = tuple(axis.n_entries for axis in axes)
        box = tuple(slice(axis.out[0].start, axis.out[-1].stop) for axis in axes)
        n = prod(counts)
        split = [size for pair in zip(counts, shape, strict=True) for size in pair]
        packed = chunks[first : first + n].reshape(*counts, *shape).transpose(order)
        yield view[box].reshape(split), packed
        first += n
