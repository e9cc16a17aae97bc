"""The short way for a small read that lies inside one chunk: no plan, no pool, nothing opened anew.

It does what :func:`chunkwise.engine.read.read_into` does for a request of integers and slices without
a step; any other request is left to that.  The reader, decoder and scratch memory of a read are kept
for the next one, as many of them as there were reads at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.codec.decode import open_raw_view
from chunkwise.codec.protocol import Buffer, DecodeInto
from chunkwise.driver.stored_array import StoredArray
from chunkwise.engine.failure import describe, failed, missing_chunk
from chunkwise.engine.future import Future
from chunkwise.engine.place_in_chunks import place_in_chunks
from chunkwise.engine.pool import Pool
from chunkwise.engine.workers import read_load
from chunkwise.kvstore.protocol import Readable, Reader
from chunkwise.plan.partition import Transform

__all__ = ["SingleChunkReader", "place_in_chunk"]

# Memory that is kept for each read at the same time, in bytes.
_LARGEST = 1 << 20


class _Worker(NamedTuple):
    """What one read at a time needs."""

    fetch: Reader
    decode: DecodeInto
    scratch: npt.NDArray[Any]


class SingleChunkReader:
    """Reads of one array, of at most one chunk each.

    Parameters
    ----------
    array : StoredArray
    kv : Readable
        Where its keys are.
    pool : Pool
        Who would work on what is too large to be done by the caller.
    """

    def __init__(self, array: StoredArray, kv: Readable, pool: Pool) -> None:
        self._array = array
        self._kv = kv
        shape = array.grid.chunk_shape
        small = array.shard is None and array.part is None and array.chain.item.nbytes <= _LARGEST
        if small and shape is not None and read_load(pool, kv, array.chain, 1).inline:
            self._shape: tuple[int, ...] | None = tuple(shape)
        else:
            self._shape = None
        self._idle: list[_Worker] = []
        self._raw_view: Callable[[Buffer], npt.NDArray[Any]] | None = None
        stages = getattr(array.chain, "stages", None)
        if self._shape is not None and stages is not None:
            self._raw_view = open_raw_view(stages)

    def read_into(
        self, transform: Transform, out: npt.NDArray[Any], *, fill_missing: bool
    ) -> Future[npt.NDArray[Any]] | None:
        """Fill `out` as `read_into` does; None if the request is not of the kind that is read here."""
        sizes = self._shape
        if sizes is None:
            return None
        place = place_in_chunk(transform, out.shape, sizes)
        if place is None:
            return None
        cell, inside = place
        key = self._array.keys.key(cell)
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = self._open()
        fetch, decode, scratch = worker
        try:
            encoded = fetch(key)
            if encoded is not None:
                if self._raw_view is not None:
                    chunk = self._raw_view(encoded)
                else:
                    decode(encoded, scratch)
                    chunk = scratch
                out[...] = chunk[inside]
            elif fill_missing:
                out[...] = self._array.fill_value
            else:
                return Future.failed(missing_chunk(cell, describe(self._kv, key)))
        except Exception as e:
            error = failed(e, "reading", self._kv, self._array, key)
            error.__cause__ = e.__cause__
            return Future.failed(error)
        self._idle.append(worker)
        return Future.ready(out)

    def _open(self) -> _Worker:
        chain = self._array.chain
        # N5 and transposed chunks are stored with the first dimension fastest: no need to turn them around
        order: Literal["C", "F"] = "F" if chain.codecs[0].name in ("n5_block", "transpose") else "C"
        scratch = np.empty(chain.item.shape, chain.item.dtype, order)
        return _Worker(self._kv.open_reader(), chain.open_decoder(), scratch)


def place_in_chunk(
    transform: Transform, shape: tuple[int, ...], sizes: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[Any, ...]] | None:
    """Return the one chunk that a request is about, and which part of it.

    Parameters are those of :func:`place_in_chunks`.

    Returns
    -------
    (cell, inside) or None
        None if there are several, or none, or the request is not one of integers and slices without a step.
    """
    place = place_in_chunks(transform, shape, sizes)
    if place is None:
        return None
    cell, inside, n_chunks = place
    if n_chunks != 1:
        return None
    return tuple(cell), (*inside, ...)  # the ellipsis makes the part an array even at rank 0
