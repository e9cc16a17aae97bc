"""Memory that chunks are decoded to before what is selected of them is copied to the result.

Small chunks go there a run at a time, for the reasons given in :mod:`chunkwise.engine.runs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.codec.decode import open_decompressor
from chunkwise.codec.protocol import PreparedChain
from chunkwise.codec.rows import copy_rows
from chunkwise.engine.runs import Row, Run, regions, run_length
from chunkwise.engine.selected import selected_runs
from chunkwise.plan.axis import PlanAxis

__all__ = ["Scatter"]

# Memory of a worker, in bytes: the result must be what takes the room.
_LARGEST = 1 << 20


class Scatter:
    """Memory of one worker.

    Parameters
    ----------
    chain : PreparedChain
        Of the chunks.
    view : ndarray
        The result in the order of the plan.

    Attributes
    ----------
    packed : Packed or None
        How a chunk is decoded to its place; None if there is no such way.
    """

    def __init__(self, chain: PreparedChain, view: npt.NDArray[Any]) -> None:
        stages = getattr(chain, "stages", None)
        self.packed = None if stages is None else open_decompressor(stages)
        self._shape = chain.item.shape
        self._view = view
        self._run: Run | None = None

    def rows(self, axes: tuple[PlanAxis, ...]) -> Iterator[Row] | None:
        """Return memory for the chunks of a batch, a run at a time.

        What is there when the next run is taken, or the iterator ends, goes to the result.  None if chunks
        had better be decoded straight into the result, or one by one.
        """
        packed = self.packed
        if packed is None:
            return None
        view = self._view.view(packed.memory)
        if all(all(axis.whole) for axis in axes):
            n = run_length(axes, self._shape, view, _LARGEST, reversible=True)
            if n > 1:
                return _whole(self._memory(n), regions(axes, self._shape, view, n))
            return None
        n = min(axes[-1].n_entries, _LARGEST // packed.nbytes)
        if n <= 1:
            return None
        return _selected(self._memory(n), selected_runs(axes, view, n))

    def _memory(self, n_chunks: int) -> Run:
        if self._run is None or len(self._run.chunks) < n_chunks:
            assert self.packed is not None, "there is something to be put there"
            self._run = Run(self._shape, self.packed.stored, n_chunks)
        return self._run


def _whole(run: Run, parts: Iterator[npt.NDArray[Any]]) -> Iterator[Row]:
    nbytes = len(run.buffers[0])
    forward = None
    for part in parts:
        n = part.shape[-2]
        yield Row(run.chunks[:n], run.buffers[:n], run.memory[: n * nbytes])
        if part.strides[-1] > 0:
            copy_rows(part, run.rows(n))
            continue
        # Elements are reversed one by one, at half the cost in the long rows of the result.
        if forward is None or forward.shape != part.shape:
            forward = np.empty(part.shape, run.elements.dtype)
        copy_rows(forward, run.rows(n))
        np.copyto(part, forward)


def _selected(run: Run, parts: Iterator[tuple[int, Callable[[npt.NDArray[Any]], None]]]) -> Iterator[Row]:
    nbytes = len(run.buffers[0])
    for n, copy in parts:
        yield Row(run.chunks[:n], run.buffers[:n], run.memory[: n * nbytes])
        copy(run.elements[:n])
