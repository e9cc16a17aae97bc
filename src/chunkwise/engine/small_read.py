"""Small reads that lie inside one chunk: a table of one row, made by division, without a plan or a pool.

The source and the decoder of a read are used again by the next one; there are as many of them as there were
reads at the same time.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from chunkwise.driver.stored_array import StoredArray
from chunkwise.engine.future import Future
from chunkwise.engine.pool import Pool
from chunkwise.engine.read import read_chunks
from chunkwise.engine.sources import CacheSource, StoreSource, caches_chunks
from chunkwise.engine.strategy import read_strategy
from chunkwise.engine.targets import Batch, ChunkMemory
from chunkwise.index_space import IndexTransform
from chunkwise.kvstore.protocol import Readable
from chunkwise.kvstore.traits import traits_of
from chunkwise.plan.single_chunk import place_in_chunk

__all__ = ["SmallReader"]

# What the caller's thread reads, and memory that is kept for each read at the same time, in bytes.
_LARGEST = 1 << 20


class SmallReader:
    """Reads of one array, of one chunk each."""

    def __init__(self, array: StoredArray, kv: Readable, pool: Pool) -> None:
        self._array = array
        self._kv: Any = kv
        self._key = array.keys.key
        self._is_cached = caches_chunks(array, kv)
        self._idle: list[tuple[StoreSource, ChunkMemory]] = []
        chain = array.chain
        strategy = read_strategy(
            source="cache" if self._is_cached else "store",
            decode_rate=chain.decode_rate,
            chunk_nbytes=chain.item.nbytes,
            n_chunks=1,
            n_processors=pool.n_workers,
            request_concurrency=traits_of(kv).request_concurrency,
        )
        self._decodes = strategy.n_workers == 0 and chain.item.nbytes <= _LARGEST
        plain = array.shard is None and array.part is None and array.grid.chunk_shape is not None
        takes = plain and (self._decodes or self._is_cached)
        self._chunk_shape = tuple(array.grid.chunk_shape or ()) if takes else None

    def read_into(
        self, transform: IndexTransform, out: npt.NDArray[Any], *, fill_missing: bool
    ) -> Future[npt.NDArray[Any]] | None:
        """Fill `out` as `read_into` does; None if the request is not of the kind that is read here."""
        if self._chunk_shape is None or out.nbytes > _LARGEST:
            return None
        place = place_in_chunk(transform, out.shape, self._chunk_shape)
        if place is None:
            return None
        cell, inside = place
        try:
            source, memory = worker = self._idle.pop()
        except IndexError:
            source, memory = worker = self._open()
        key = self._key(cell)

        def copy_out(chunks: npt.NDArray[Any]) -> None:
            out[...] = chunks[(0, *inside)]

        try:
            if not self._decodes:
                assert isinstance(source, CacheSource)
                if not source.holds(key, memory):
                    return None
            read_chunks((Batch((key,), memory, None, copy_out),), source, [], fill_missing=fill_missing)
        except Exception as e:
            return Future.failed(e)
        self._idle.append(worker)
        return Future.ready(out)

    def _open(self) -> tuple[StoreSource, ChunkMemory]:
        source = (CacheSource if self._is_cached else StoreSource)(self._array, self._kv)
        return source, ChunkMemory(self._array.chain, 1)
