"""The loop of all writes, and the chunks of the caller's array.

A whole chunk is a view of the caller's array.  Small neighbours are copied together to staging memory first:
the rows of several are longer than those of one, so memory is read in its own order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, product
from math import prod
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.codec.protocol import Buffer, PreparedChain
from chunkwise.core.driver.stored_array import StoredField
from chunkwise.core.engine.chunk_codec import CodecLimit, Coder, open_coders
from chunkwise.core.engine.pool import Stop
from chunkwise.core.engine.strategy import STAGING_NBYTES
from chunkwise.core.plan.partition import PlanAxis, is_indexed
from chunkwise.core.plan.plan import chunk_order, extents, selections, wholes

__all__ = ["Sink", "WriteBatch", "WriteBatches", "write_chunks"]

Array: TypeAlias = "npt.NDArray[Any]"


class WriteBatch(NamedTuple):
    """Chunks that are encoded and stored one after the other."""

    names: Sequence[Any]  # keys, or numbers in a shard
    coder: Coder
    chunks: Sequence[Array]  # each a whole chunk, or the elements to put into one
    # their index in the chunk, in the coder's axis order; None for whole chunks
    inside: tuple[Any, ...] | None


class Sink(Protocol):
    """Stores one worker's chunks."""

    def is_fill(self, chunk: Array) -> bool:
        """Return True for a chunk that need not be stored."""
        ...

    def write(self, name: Any, encoded: Buffer) -> None: ...
    def delete(self, name: Any) -> None: ...
    def change(self, name: Any, coder: Coder, inside: tuple[Any, ...], values: Array) -> None:
        """Overwrite a part of a stored chunk; other writers' simultaneous changes are not lost."""
        ...

    def failed(self, error: Exception, name: Any) -> Exception:
        """Return `error` with the write operation before its message."""
        ...


def write_chunks(batches: Iterable[WriteBatch], sink: Sink, stop: Stop) -> None:
    """Encode and store chunks until `stop` is true: the one loop of all writes."""
    for names, coder, chunks, inside in batches:
        for name, chunk in zip(names, chunks, strict=True):
            if stop:
                return
            try:
                if inside is not None:
                    sink.change(name, coder, inside, chunk)
                elif sink.is_fill(chunk):
                    sink.delete(name)
                else:
                    sink.write(name, coder.encode(chunk))
            except Exception as e:
                raise sink.failed(e, name) from e.__cause__


class WriteBatches:
    """The caller's array in plan order, for one worker; with a `field`, no chunk is whole."""

    def __init__(
        self,
        chain: PreparedChain,
        view: Array,
        *,
        regular: bool,
        field: StoredField | None = None,
        limit: CodecLimit = None,
    ) -> None:
        self._chain = chain
        self._view = view
        self._field = field
        self._limit = limit
        self._regular = regular
        self._staged: Array | None = None
        self._coders: dict[tuple[int, ...], Any] = {}

    def batches(self, axes: tuple[PlanAxis, ...], names: Iterable[Any]) -> Iterator[WriteBatch]:
        """Yield the chunks of a product of connected sets; `names` are in plan order."""
        # A batch must be stored before the next one is taken.
        rest, view, order = iter(names), self._view, chunk_order(axes)
        coder_for = self._coders.get(order) or self._coders.setdefault(
            order, open_coders(self._chain, order, self._field, self._limit)
        )
        in_order = not is_indexed(axes)
        if self._field is None and self._regular and in_order and all(all(axis.whole) for axis in axes):
            shape = self._chain.item.shape
            coder, n = coder_for(shape), self._n_staged(axes, shape)
            if n == 1:
                for name, at in zip(rest, selections(axes)[1], strict=True):
                    yield WriteBatch((name,), coder, (view[at],), None)
                return
            if self._staged is None or len(self._staged) < n:
                self._staged = np.empty((n, *shape), view.dtype)
            for region in _regions(axes, shape, view, n):
                some = self._staged[: region.shape[-2]]
                _copy_in(np.moveaxis(some, 0, -2), region)
                yield WriteBatch(list(islice(rest, len(some))), coder, list(some), None)
            return
        entire = self._field is None  # other fields of a record always stay
        for name, extent, inside, at, whole in zip(
            rest, extents(axes), *selections(axes), wholes(axes), strict=True
        ):
            coder = coder_for(extent)
            if not (whole and entire):
                yield WriteBatch((name,), coder, (view[at],), inside)
            elif in_order:
                yield WriteBatch((name,), coder, (view[at],), None)
            else:
                coder.ordered[inside] = view[at]
                yield WriteBatch((name,), coder, (coder.scratch,), None)

    def _n_staged(self, axes: tuple[PlanAxis, ...], shape: tuple[int, ...]) -> int:
        """Return how many whole chunks to copy together, 1 if that gains nothing."""
        view, rank = self._view, len(shape)
        if rank < 2 or rank != view.ndim or rank != len(axes) or prod(shape[:-1]) == 1:
            return 1  # a chunk of one row is contiguous
        if any(axis.dims != (dim,) for dim, axis in enumerate(axes)) or view.strides[-1] != view.itemsize:
            return 1
        return max(1, min(axes[-1].n_entries, STAGING_NBYTES // max(1, prod(shape) * view.itemsize)))


def _regions(
    axes: tuple[PlanAxis, ...], shape: tuple[int, ...], view: Array, n_chunks: int
) -> Iterator[Array]:
    """Yield the regions of some neighbours, with the number of the chunk before the last axis."""
    last = axes[-1].out
    bounds = [
        (last[i].start, last[min(i + n_chunks, len(last)) - 1].stop) for i in range(0, len(last), n_chunks)
    ]
    for at in product(*[axis.out for axis in axes[:-1]]):
        rows = view[at]
        for start, stop in bounds:
            yield rows[..., start:stop].reshape(*shape[:-1], -1, shape[-1])


def _copy_in(chunks: Array, source: Array) -> None:
    """Copy `source` to chunks, both with the number of the chunk before the last axis."""
    if source.itemsize in (1, 2, 4, 8) and source.dtype.names is None and not source.dtype.hasobject:
        # A ufunc processes memory in the order of its operands' axes, here the rows of the source.  A plain
        # copy follows the target's strides, which takes 1.8 times as long for rows of 32 elements of uint16
        # (a tenth of a write of 32³ chunks; benchmarks/processor_time.py).
        bits = np.dtype(f"u{source.itemsize}")
        np.positive(source.view(bits), out=chunks.view(bits))
    else:
        np.copyto(chunks, source)
