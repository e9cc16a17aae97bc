"""Runs: neighbouring chunks along the last dimension, copied together.

A chunk alone is a few elements of each of many rows of the caller's array, so copying it waits for memory
again and again.  The rows of a run are longer, and one that is as wide as the array is copied as memory
lies: measured with 16³ to 64³ chunks of 512³ uint16, a run takes a third to two thirds of the time that
its chunks take one by one.  Between copies a worker keeps the run in its own memory, a chunk after another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.codec.encode import open_compressor
from chunkwise.codec.protocol import Buffer, PreparedChain
from chunkwise.codec.rows import copy_rows
from chunkwise.plan.axis import PlanAxis

__all__ = [
    "TOGETHER",
    "Gather",
    "Row",
    "Run",
    "copy_to_chunks",
    "regions",
    "run_length",
]

# Memory of a worker, in bytes.
_LARGEST_GATHERED = 1 << 22
TOGETHER = 1 << 19
"""Bytes of chunks that are fetched, or encoded, before anything else is done with them."""
# In bytes: what is better written in the order of the chunks than read in that of the source.
_SHORT_ROW = 64
_SHORT_RUN = 512


class Row(NamedTuple):
    """Memory for decoded chunks that lie one after the other.

    Attributes
    ----------
    chunks : sequence of ndarray
        Each chunk.
    buffers : sequence of memoryview
        The bytes of each.
    memory : memoryview
        The bytes of all.
    """

    chunks: Sequence[npt.NDArray[Any]]
    buffers: Sequence[memoryview]
    memory: memoryview


class Run:
    """Memory of one worker for chunks that lie next to each other.

    Parameters
    ----------
    shape : tuple of int
        Of a chunk.
    dtype : numpy.dtype
        Of its elements as they are encoded.
    n_chunks : int
        How many chunks there is room for.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], n_chunks: int) -> None:
        self.elements = np.empty((n_chunks, *shape), dtype)
        self.chunks = list(self.elements)
        self.buffers = [chunk.reshape(-1).view(np.uint8).data for chunk in self.chunks]
        self.memory = self.elements.reshape(-1).view(np.uint8).data
        self._rows = np.moveaxis(self.elements, 0, -2)

    def rows(self, n_chunks: int) -> npt.NDArray[Any]:
        """Return the first chunks as :func:`regions` has them, their number being the last axis but one."""
        return self._rows[..., :n_chunks, :]


def run_length(
    axes: tuple[PlanAxis, ...],
    shape: tuple[int, ...],
    view: npt.NDArray[Any],
    largest: int,
    *,
    reversible: bool = False,
) -> int:
    """Return how many chunks to copy together, 1 if there is nothing to gain.

    Parameters
    ----------
    axes : tuple of PlanAxis
        Of a batch of whole chunks.
    shape : tuple of int
        Of a chunk.
    view : ndarray
        The caller's array in the order of the plan.
    largest : int
        Memory that a run may take, in bytes.
    reversible : bool
        Whether rows of `view` may run backwards.
    """
    rank = len(shape)
    if rank < 2 or rank != view.ndim or rank != len(axes) or prod(shape[:-1]) == 1:
        return 1  # a chunk of one row is contiguous
    if any(axis.indexed or axis.dims != (dim,) for dim, axis in enumerate(axes)):
        return 1
    if view.strides[-1] not in (view.itemsize, -view.itemsize if reversible else view.itemsize):
        return 1
    n = min(axes[-1].n_entries, largest // max(1, prod(shape) * view.itemsize))
    return max(1, n)


def regions(
    axes: tuple[PlanAxis, ...], shape: tuple[int, ...], view: npt.NDArray[Any], n_chunks: int
) -> Iterator[npt.NDArray[Any]]:
    """Yield the part of `view` that belongs to each run, in the order of the plan's keys.

    A part has the axes of a chunk, with the number of the chunk in front of the last one.
    """
    last = axes[-1].out
    bounds = [
        (last[i].start, last[min(i + n_chunks, len(last)) - 1].stop) for i in range(0, len(last), n_chunks)
    ]
    for at in product(*[axis.out for axis in axes[:-1]]):
        rows = view[at]
        for start, stop in bounds:
            yield rows[..., start:stop].reshape(*shape[:-1], -1, shape[-1])


class Gather:
    """Whole chunks of the caller's array, ready to be encoded; for one worker.

    Parameters
    ----------
    chain : PreparedChain
        Of the chunks.
    view : ndarray
        The caller's array in the order of the plan.
    """

    def __init__(self, chain: PreparedChain, view: npt.NDArray[Any]) -> None:
        stages = getattr(chain, "stages", None)
        self._layout = None if stages is None else open_compressor(stages)
        self._shape = chain.item.shape
        self._view = view
        self._run: Run | None = None

    def chunks(
        self, axes: tuple[PlanAxis, ...]
    ) -> tuple[Callable[[Buffer], Buffer] | None, Iterator[tuple[npt.NDArray[Any], memoryview]]] | None:
        """Return the chunks of a batch, all of which are whole.

        Returns
        -------
        (callable or None, iterator) or None
            What encodes the bytes of a chunk, if anything, and each chunk with its bytes, valid until the
            next one is taken.  None if chunks had better be encoded one by one.
        """
        n = run_length(axes, self._shape, self._view, _LARGEST_GATHERED)
        if n == 1 or self._layout is None:
            return None
        dtype, compress = self._layout
        if self._run is None or len(self._run.chunks) < n:
            self._run = Run(self._shape, dtype, n)
        return compress, _gathered(self._run, regions(axes, self._shape, self._view.view(dtype), n))


def _gathered(run: Run, parts: Iterator[npt.NDArray[Any]]) -> Iterator[tuple[npt.NDArray[Any], memoryview]]:
    for part in parts:
        n = part.shape[-2]
        copy_to_chunks(run.rows(n), part)
        yield from zip(run.chunks[:n], run.buffers, strict=False)


def copy_to_chunks(chunks: npt.NDArray[Any], source: npt.NDArray[Any]) -> None:
    """Copy `source` to chunks, both with the number of the chunk in front of the last axis."""
    n, length = source.shape[-2:]
    row = length * source.itemsize
    if row <= _SHORT_ROW or n * row <= _SHORT_RUN:
        copy_rows(chunks, source)
    else:
        # A ufunc goes through memory in the order of its operands' axes, here that of the rows of the
        # source; a plain copy goes in the order of the target's strides.
        np.positive(source, out=chunks)
