"""Writes of the caller's memory to the chunks of a plan.

1. The plan is made, and the source viewed in plan order.
2. A chunk that is overwritten entirely is encoded directly from the source and stored without reading the old
   chunk, so even corrupt data is replaced.
3. Any other chunk is read, decoded, changed and stored on condition that its generation is unchanged;
   otherwise this is repeated.  So writers of different elements lose nothing.  Elements of a chunk beyond the
   bounds of the array are kept, and count as not overwritten.
4. A chunk that equals the fill value everywhere is deleted, unless it must be stored, or was changed in part
   in a store without conditional deletion.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from chunkwise.core.driver.stored_array import StoredArray, failed
from chunkwise.core.engine.abandoned_changes import abandoned, before
from chunkwise.core.engine.chunk_codec import Coder
from chunkwise.core.engine.future import Future
from chunkwise.core.engine.pool import Pool, Stop
from chunkwise.core.engine.shard_write import write_shards_from
from chunkwise.core.engine.strategy import STAGING_NBYTES, write_strategy
from chunkwise.core.engine.update import (
    Changer,
    ReadWritable,
    SingleValueStore,
    as_transactional,
    defer,
    open_writer,
)
from chunkwise.core.engine.write_batches import WriteBatch, WriteBatches, write_chunks
from chunkwise.core.index_space import IndexTransform
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.protocol import Buffer, KvStoreDriver
from chunkwise.core.plan.partition import PlanAxis, Transform
from chunkwise.core.plan.plan import keys, place_in_chunk, plan_write, split

__all__ = ["ReadWritable", "SmallWriter", "referencing", "write_from"]

Array: TypeAlias = "npt.NDArray[Any]"
Batch: TypeAlias = "tuple[PlanAxis, ...]"


def write_from(
    array: StoredArray,
    store: ReadWritable,
    transform: Transform,
    source: Array,
    *,
    pool: Pool,
    store_data_equal_to_fill_value: bool = False,
) -> Future[None]:
    """Store `source` in the selection of `transform`; the future is done when everything is stored."""
    # The transform maps to storage coordinates inside the array.  If an element gets several values, the last
    # in C order of the domain is stored.  `source` must not change before the future is done.  The future
    # fails with the error of the store or a codec, prefixed with ``Error writing <key>``, or with ``Error
    # reading <key>`` for a chunk that must be read to be changed.  Other chunks may be stored even so.
    assert source.dtype == array.numpy_dtype, f"source of {source.dtype} for an array of {array.numpy_dtype}"
    assert source.shape == tuple(transform.input_shape), f"source of shape {source.shape} for {transform}"
    store_fill = store_data_equal_to_fill_value or array.store_fill_chunks
    if array.shard is not None:
        return write_shards_from(
            array, array.shard, store, transform, source, pool=pool, store_fill=store_fill
        )
    plan = plan_write(transform, array.grid)
    if plan.n_chunks == 0:
        return Future.ready(None)
    if as_transactional(store) is not None:
        source = source.copy()  # it is read again when the transaction is committed
    view = plan.layout.view(source, last=True)
    strategy = write_strategy(pool, store, array.chain, plan.n_chunks)
    limit = pool.codec_limit(0 if strategy.inline else strategy.n_workers)

    def open_worker(stop: Stop) -> Callable[[Batch], None]:
        sink = _StoreSink(array, store, store_fill=store_fill)
        source = WriteBatches(
            array.chain,
            view,
            regular=array.grid.chunk_shape is not None,
            field=array.field,
            limit=limit,
        )

        def work(axes: Batch) -> None:
            write_chunks(source.batches(axes, keys(axes, array.keys)), sink, stop)
            sink.flush()

        return work

    batches = split(plan.axes, strategy.n_batches)
    return pool.run(
        batches,
        open_worker,
        _nothing,
        n_workers=strategy.n_workers,
        n_threads=strategy.n_threads,
        inline=strategy.inline,
        writes=store.identity,
    )


class _StoreSink:
    """The values of one store, each one chunk; for one worker."""

    def __init__(self, array: StoredArray, store: ReadWritable, *, store_fill: bool) -> None:
        self._array = array
        self._store = store
        self._store_fill = store_fill
        self._changer = Changer(array, store, store_fill=store_fill)
        self.is_fill = self._changer.is_fill
        self._later = as_transactional(store)
        self.change = self._changer.change if self._later is None else self._defer
        # for chunks that are overwritten entirely; others need generations
        writer = open_writer(store)
        self.write: Callable[[str, Buffer], Any] = store.write if writer is None else writer.write
        self.delete: Callable[[str], Any] = store.delete if writer is None else writer.delete
        self.flush: Callable[[], None] = _nothing if writer is None else writer.flush

    def _defer(self, name: str, coder: Coder, inside: tuple[Any, ...], values: Array) -> None:
        """Overwrite a part of a chunk when the transaction is committed."""
        assert self._later is not None

        def do(store: SingleValueStore) -> None:
            sink = _StoreSink(self._array, store, store_fill=self._store_fill)
            sink.change(name, coder.again(), inside, values)

        defer(self._later, name, do)

    def failed(self, error: Exception, name: str) -> Exception:
        """Return `error` with operation, key and cell."""
        return failed(error, self._changer.operation, self._store, self._array, name)


class SmallWriter:
    """Writes to one array inside one chunk each, found by division, without a plan."""

    # The sinks and coders of a write are kept for the next one, as many as there were simultaneous writes.

    def __init__(
        self, array: StoredArray, store: ReadWritable, pool: Pool, *, store_data_equal_to_fill_value: bool
    ) -> None:
        self._array = array
        self._store = store
        self._pool = pool
        self._store_fill = store_data_equal_to_fill_value or array.store_fill_chunks
        shape = array.grid.chunk_shape
        plain = array.shard is None and array.field is None and as_transactional(store) is None
        small = plain and array.chain.item.nbytes <= STAGING_NBYTES
        self._shape = tuple(shape) if small and shape is not None else None
        self._n_elements = prod(shape or ())
        self._order = tuple(range(array.grid.rank))
        strategy = write_strategy(pool, store, array.chain, 1)
        self._inline, self._n_threads = strategy.inline, strategy.n_threads
        self._limit = pool.codec_limit(0 if self._inline else 1)
        self._idle: list[tuple[_StoreSink, Coder]] = []

    def write_from(self, transform: IndexTransform, source: Array) -> Future[None] | None:
        """Store `source` like `write_from`; None for other requests."""
        sizes = self._shape
        if sizes is None:
            return None
        place = place_in_chunk(transform, source.shape, sizes)
        if place is None:
            return None
        key, elements = self._array.keys.key(place[0]), source
        inside: tuple[Any, ...] | None = place[1]
        if source.size == self._n_elements:
            inside, elements = None, source.reshape(sizes)
        if self._inline and not (abandoned and before(self._store.identity)):
            try:
                self._write(key, inside, elements)
            except Exception as e:
                return Future.failed(e)
            return Future.ready(None)

        def open_worker(stop: Stop) -> Callable[[str], None]:
            return lambda key: self._write(key, inside, elements)

        return self._pool.run(
            [key],
            open_worker,
            _nothing,
            n_workers=1,
            n_threads=self._n_threads,
            inline=self._inline,
            writes=self._store.identity,
        )

    def _write(self, key: str, inside: tuple[Any, ...] | None, elements: Array) -> None:
        try:
            sink, coder = worker = self._idle.pop()
        except IndexError:
            sink = _StoreSink(self._array, self._store, store_fill=self._store_fill)
            sink, coder = worker = sink, Coder(self._array.chain, self._order, limit=self._limit)
        write_chunks((WriteBatch((key,), coder, (elements,), inside),), sink, [])
        if inside is None:
            sink.flush()
        self._idle.append(worker)


def _nothing() -> None:
    return None


def referencing(store: KvStoreDriver, source: npt.NDArray[Any]) -> KvStoreDriver | None:
    """Return a store that doesn't copy values in the memory of `source`; None if `store` must always copy."""
    # Chunks that are encoded without change, such as raw ones, are in the memory of `source`.
    return cast(KvStoreDriver, _Referencing(store, source)) if isinstance(store, MemoryStore) else None


class _Referencing:
    def __init__(self, store: MemoryStore, source: npt.NDArray[Any]) -> None:
        self._store = store
        self._source = source

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        if not if_equal and np.may_share_memory(np.frombuffer(value, np.uint8), self._source):
            return self._store.write(key, value, copy=False)
        return self._store.write(key, value, if_equal=if_equal)
