"""The short way for a write that lies inside one chunk: no plan, nothing opened anew.

It does what :func:`chunkwise.engine.write.write_from` does for a request of integers and slices without
a step; any other request is left to that.  The coders and scratch memory of a write are kept for the next
one, as many of them as there were writes at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy.typing as npt

from chunkwise.driver.stored_array import StoredArray
from chunkwise.engine.change import Changer, ReadWritable, as_modifiable
from chunkwise.engine.chunk_codec import Coder
from chunkwise.engine.failure import failed
from chunkwise.engine.future import Future
from chunkwise.engine.pool import Pool, Stop
from chunkwise.engine.workers import write_load
from chunkwise.plan.partition import Transform
from chunkwise.plan.single_chunk import place_in_chunk

__all__ = ["SingleChunkWriter"]

# Memory that is kept for each write at the same time, in bytes.
_LARGEST = 1 << 20


class SingleChunkWriter:
    """Writes to one array, each to a single chunk.

    Parameters
    ----------
    array : StoredArray
    kv : ReadWritable
        Where its keys are.
    pool : Pool
        Who works on what waits for the storage.
    store_data_equal_to_fill_value : bool
        Whether chunks without anything but the fill value are stored too.
    """

    def __init__(
        self, array: StoredArray, kv: ReadWritable, pool: Pool, *, store_data_equal_to_fill_value: bool
    ) -> None:
        self._array = array
        self._kv = kv
        self._pool = pool
        self._store_fill = store_data_equal_to_fill_value or array.store_fill_chunks
        shape = array.grid.chunk_shape
        plain = array.shard is None and array.part is None and as_modifiable(kv) is None
        small = plain and array.chain.item.nbytes <= _LARGEST
        self._shape = tuple(shape) if small and shape is not None else None
        self._n_elements = prod(shape or ())
        self._order = tuple(range(array.grid.rank))
        self._inline = write_load(pool, kv, array.chain, 1).inline
        self._idle: list[tuple[Changer, Coder]] = []

    def write_from(self, transform: Transform, source: npt.NDArray[Any]) -> Future[None] | None:
        """Store `source` as `write_from` does; None if the request is of another kind."""
        sizes = self._shape
        if sizes is None:
            return None
        place = place_in_chunk(transform, source.shape, sizes)
        if place is None:
            return None
        cell, inside = place
        key = self._array.keys.key(cell)
        if self._inline:
            try:
                self._write(key, inside, source)
            except Exception as e:
                return Future.failed(e)
            return Future.ready(None)

        def open_worker(stop: Stop) -> Callable[[str], None]:
            return lambda key: self._write(key, inside, source)

        return self._pool.run([key], open_worker, _nothing, n_workers=1)

    def _write(self, key: str, inside: tuple[Any, ...], source: npt.NDArray[Any]) -> None:
        try:
            changer, coder = self._idle.pop()
        except IndexError:
            changer = Changer(self._array, self._kv, store_fill=self._store_fill)
            coder = Coder(self._array.chain, self._order)
        try:
            if source.size != self._n_elements:
                changer.change(key, coder, inside, source)
            elif changer.is_fill(source):
                self._kv.delete(key)
            else:
                self._kv.write(key, coder.encode(source.reshape(self._array.chain.item.shape)))
        except Exception as e:
            raise failed(e, changer.operation, self._kv, self._array, key) from e.__cause__
        self._idle.append((changer, coder))


def _nothing() -> None:
    return None
