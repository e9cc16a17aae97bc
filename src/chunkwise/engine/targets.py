"""Targets that chunks are decoded to: the result itself, or staging memory that is copied to it.

A chunk alone is a few elements of each of many rows of the result, so copying it waits for memory again and
again.  The rows of several neighbours are longer: measured with 16³ to 64³ chunks of 512³ uint16, copying
them together takes a third to two thirds of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy.typing as npt

from chunkwise.codec.protocol import PreparedChain
from chunkwise.driver.stored_array import StoredField
from chunkwise.engine.chunk_codec import StagingBuffer, chain_for
from chunkwise.engine.selection import selected_runs
from chunkwise.engine.strategy import STAGING_NBYTES
from chunkwise.plan.axis import PlanAxis
from chunkwise.plan.plan import extents, selections, wholes

__all__ = ["Batch", "Target", "lies_in_one_piece"]

Array: TypeAlias = "npt.NDArray[Any]"

# Chunks that are decoded straight to their places without a look at anything else.
_MANY = 64


class Batch(NamedTuple):
    """Chunks of one shape that are read and put in their places together.

    Attributes
    ----------
    names : sequence
        What the source knows each by: a key, or a position in the shard.
    memory : StagingBuffer
        Decodes them.
    slots : sequence of ndarray or None
        Where each is decoded to, if that is the result itself; else each has a slot of the memory.
    copy_out : callable or None
        ``copy_out(elements)`` copies what is selected of the chunks, given along the first axis, to the
        result; None if they are there.
    """

    names: Sequence[Any]
    memory: StagingBuffer
    slots: Sequence[Array] | None
    copy_out: Callable[[Array], None] | None


class Target:
    """The result of a read, for one worker."""

    # `view` is the result in the order of the plan.  Chunks are staged only if the grid is regular, and all
    # have one shape.

    def __init__(
        self,
        chain: PreparedChain,
        view: Array,
        *,
        staged: bool,
        regular: bool,
        field: StoredField | None = None,
    ) -> None:
        self._chain = chain
        self._view = view
        self._field = field
        self._regular = regular
        self._capacity = max(1, STAGING_NBYTES // max(1, chain.item.nbytes)) if staged and regular else 1
        self._n_inner = 0 if field is None else len(field.shape)
        self._memories: dict[tuple[int, ...], StagingBuffer] = {}

    def batches(self, axes: tuple[PlanAxis, ...], names: Iterable[Any]) -> Iterator[Batch]:
        """Yield the chunks of a product of connected sets; `names` are in the order of the plan."""
        # A batch is to be read, and copied out, before the next one is taken.
        rest, view = iter(names), self._view
        in_place = self._field is None and not any(axis.indexed for axis in axes)
        if self._capacity > 1:
            most = min(self._capacity, axes[-1].n_entries) if axes else 1
            memory = self._memory(self._chain.item.shape, most)
            for n, copy in selected_runs(axes, view, most):
                yield Batch(list(islice(rest, n)), memory, None, copy)
        elif in_place and self._regular and all(all(axis.whole) for axis in axes):
            memory, (_, places) = self._memory(self._chain.item.shape, 1), selections(axes)
            while some := list(islice(rest, _MANY)):
                yield Batch(some, memory, [view[at] for at in islice(places, len(some))], None)
        else:
            places = selections(axes)[1]
            for name, extent, at, whole, (_, copy) in zip(
                rest, extents(axes), places, wholes(axes), selected_runs(axes, view), strict=True
            ):
                memory = self._memory(extent[: len(extent) - self._n_inner], 1)
                if whole and in_place:
                    yield Batch((name,), memory, (view[at],), None)
                else:
                    yield Batch((name,), memory, None, copy)

    def _memory(self, shape: tuple[int, ...], n_chunks: int) -> StagingBuffer:
        memory = self._memories.get(shape)
        if memory is None or memory.n_chunks < n_chunks:
            chain = chain_for(self._chain, shape)
            memory = self._memories[shape] = StagingBuffer(chain, n_chunks, self._field)
        return memory


def lies_in_one_piece(axes: tuple[PlanAxis, ...], shape: tuple[int, ...], view: Array) -> bool:
    """Return True if each whole chunk of the plan is one piece of the result's memory."""
    if any(axis.indexed or not all(axis.whole) for axis in axes) or view.ndim != len(shape):
        return False
    stride = view.itemsize
    for size, n, step in zip(reversed(shape), reversed(view.shape), reversed(view.strides), strict=True):
        if size > 1 and step != stride:
            return False
        stride *= size
        if n != size:
            stride = -1
    return prod(shape) > 0
