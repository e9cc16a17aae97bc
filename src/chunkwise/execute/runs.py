"""Runs: neighbouring chunks along the last dimension, copied together.

A chunk alone is a few elements of each of many rows of the caller's array, so copying it waits for memory
again and again.  The rows of a run are longer, and one that is as wide as the array is copied as memory
lies: measured with 16³ to 64³ chunks of 512³ uint16, a run takes a third to two thirds of the time that
its chunks take one by one.  Between copies a worker keeps the run in its own memory, a chunk after another.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.plan.axis import PlanAxis

__all__ = ["Run", "gathered", "regions", "run_length", "scattered"]


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

    def rows(self, n_chunks: int) -> npt.NDArray[Any]:
        """Return the first chunks as :func:`regions` has them, their number being the last axis but one."""
        return np.moveaxis(self.elements[:n_chunks], 0, -2)


def run_length(
    axes: tuple[PlanAxis, ...], shape: tuple[int, ...], view: npt.NDArray[Any], largest: int
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
    """
    rank = len(shape)
    if rank < 2 or rank != view.ndim or rank != len(axes) or prod(shape[:-1]) == 1:
        return 1  # a chunk of one row is contiguous
    if any(axis.indexed or axis.dims != (dim,) for dim, axis in enumerate(axes)):
        return 1
    if view.strides[-1] != view.itemsize:
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


def gathered(run: Run, parts: Iterator[npt.NDArray[Any]]) -> Iterator[tuple[npt.NDArray[Any], memoryview]]:
    """Yield each chunk of `parts`, of unsigned integers, with its bytes, valid until the next one."""
    for part in parts:
        n = part.shape[-2]
        # A ufunc goes through memory in the order of its operands' axes, here that of the rows of the
        # source; a plain copy goes in the order of the target's strides.
        np.positive(part, out=run.rows(n))
        yield from zip(run.chunks[:n], run.buffers, strict=False)


def scattered(run: Run, parts: Iterator[npt.NDArray[Any]]) -> Iterator[tuple[npt.NDArray[Any], memoryview]]:
    """Yield memory for each chunk of `parts`; what is there when a run is complete goes to its part."""
    for part in parts:
        n = part.shape[-2]
        yield from zip(run.chunks[:n], run.buffers, strict=False)
        np.copyto(part, run.rows(n))
