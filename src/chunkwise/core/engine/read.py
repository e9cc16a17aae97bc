"""Reads of the chunks of a plan into the caller's memory.

1. The plan is made, and the result viewed in plan order.
2. A strategy is chosen: source, target, threads, size of a batch.
3. The plan is cut into products of neighbours; each worker opens its source and target once.
4. One loop fetches, decodes and puts the chunks of a batch, for all kinds of chunks.
5. Dimensions that no storage dimension depends on are filled by repetition at the end.

A small request inside one chunk is a batch of one, found by division, without a plan or a pool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.cached import cached_property
from chunkwise.core.base.limits import hold, release
from chunkwise.core.base.threads import new_lock
from chunkwise.core.codec.protocol import PreparedChain
from chunkwise.core.codec.sharding import ShardLayout
from chunkwise.core.driver.stored_array import StoredArray, StoredField, shard_layout
from chunkwise.core.engine.batch import SharedReads, batch_of_thread
from chunkwise.core.engine.choose import choose_strategy, plan_array
from chunkwise.core.engine.chunk_codec import CodecLimit, StagingBuffer
from chunkwise.core.engine.future import Future
from chunkwise.core.engine.memory import pages_of
from chunkwise.core.engine.pool import OpenWorker, Pool, Stop
from chunkwise.core.engine.shards import KeptIndexes, ShardSource
from chunkwise.core.engine.sources import FILLED, ManySource, Source, cache_source, store_source
from chunkwise.core.engine.strategy import STAGING_NBYTES, ReadStrategy, read_strategy
from chunkwise.core.engine.targets import Batch, Target
from chunkwise.core.index_space import IndexTransform
from chunkwise.core.kvstore.protocol import Readable
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.plan.partition import PlanAxis, Transform, is_indexed
from chunkwise.core.plan.plan import (
    Plan,
    ShardAxis,
    keys,
    place_in_chunk,
    shard_requests,
    split,
    split_shards,
)
from chunkwise.errors import NotFoundError

__all__ = ["ArrayReader", "read_chunks", "read_into"]

Array: TypeAlias = "npt.NDArray[Any]"
_NOTHING_HELD = nullcontext()
Batches: TypeAlias = "list[Any]"  # products of PlanAxis, or ShardAxis with shards


def read_chunks(
    batches: Iterable[Batch],
    source: Source,
    stop: Stop,
    *,
    fill_missing: bool,
    fetching: AbstractContextManager[object] | None = None,
) -> None:
    """Fetch, decode and put chunks, or the fill value of a missing chunk: the one loop of all reads."""
    # It ends as soon as `stop` is true.  With `fetching`, which is held while chunks are fetched, one call
    # decodes the chunks of a batch.
    for batch in batches:
        names, memory, slots, copy_out = batch
        encoded = None if fetching is None or slots is not None else memory.encoded
        borrowed: Array | None = None
        at = 0
        [before] = map(hold, (memory.chain.bound,))
        try:
            with fetching or _NOTHING_HELD:
                for chunk in source.fetch(batch):
                    if stop:
                        return
                    if chunk is None:
                        if not fill_missing:
                            raise source.missing(names[at])
                        chunk = memory.missing
                    if isinstance(chunk, np.ndarray):
                        if copy_out is not None and len(names) == 1:
                            borrowed = chunk[None]  # the selection is copied from there
                        else:
                            (slots or memory.slots)[at][...] = chunk
                    elif chunk is not FILLED and (encoded is None or not encoded.add(at, chunk)):
                        memory.decode(chunk, (slots or memory.slots)[at])
                    at += 1
            if encoded is not None:
                for at, chunk in encoded.decode():
                    memory.decode(chunk, memory.slots[at])
            if copy_out is not None:
                copy_out(memory.elements(memory.chunks[: len(names)] if borrowed is None else borrowed))
        except NotFoundError:
            raise
        except Exception as e:
            raise source.failed(e, names[min(at, len(names) - 1)]) from e.__cause__
        finally:
            release(before)


def read_into(
    array: StoredArray,
    store: Readable,
    transform: Transform,
    out: Array,
    *,
    pool: Pool,
    fill_missing: bool = True,
    strategy: ReadStrategy | None = None,
) -> Future[Array]:
    """Fill `out` like `ArrayReader.read_planned`."""
    reader = ArrayReader(array, store, pool)
    return reader.read_planned(transform, out, fill_missing=fill_missing, strategy=strategy)


def _n_batches(plan: Plan, chunk_nbytes: int, strategy: ReadStrategy) -> int:
    return max(1, -(-plan.n_chunks * chunk_nbytes // strategy.batch_nbytes))


def _hull(axes: tuple[PlanAxis, ...]) -> tuple[Any, ...]:
    """Return the index of the part of the result that a product of sets fills, or of the whole result."""
    # It may be too small if positions don't ascend: it is only used to request memory before filling it.
    if is_indexed(axes):
        return (...,)
    return (*(slice(axis.out[0].start, axis.out[-1].stop) for axis in axes), ...)


class _Worker(NamedTuple):
    """A worker's means of reading and decoding."""

    source: Any  # a StoreSource or a ShardSource
    memories: dict[tuple[int, ...], StagingBuffer]  # by chunk shape


_MOST_SHARED = 4096  # most chunks of a read that is announced to others of its batch
_KEPT = 1 << 20  # most bytes of staging memory that an idle worker keeps


class ArrayReader:
    """Reads of one open array."""

    # Sources and memory of a read in the caller's thread are kept for the next one, as many as there were
    # simultaneous reads; so are the indexes of shards.

    def __init__(self, array: StoredArray, store: Readable, pool: Pool) -> None:
        self._array = array
        self._store = store
        self._pool = pool
        self._key = array.keys.key
        self._cache = cache_source(array, store)
        self._idle: list[_Worker] = []
        self._keeps = traits_of(store).current_readers  # otherwise a kept source would be outdated
        level = array if array.shard is None else array.shard
        self._chain = chain = level.chain
        self._item, self._n_elements = chain.item, prod(chain.item.shape)
        strategy = read_strategy(
            source="store",  # of one chunk, the number of threads is the same for all sources
            decode_rate=chain.decode_rate,
            chunk_nbytes=chain.item.nbytes,
            n_chunks=1,
            n_processors=pool.n_workers,
            request_concurrency=traits_of(store).request_concurrency,
            n_shards=0 if array.shard is None else 1,
        )
        self._decodes = strategy.n_workers == 0 and chain.item.nbytes <= STAGING_NBYTES
        plain = array.field is None and array.grid.chunk_shape is not None
        takes = plain and (self._decodes or self._cache is not None)
        self._chunk_shape = tuple(level.grid.chunk_shape or ()) if takes else None

    @cached_property
    def _layout(self) -> ShardLayout:
        assert self._array.shard is not None, "there are shards"
        return shard_layout(self._array, self._array.shard)

    @cached_property
    def _indexes(self) -> KeptIndexes:
        return KeptIndexes(self._store)

    def read_into(self, transform: IndexTransform, out: Array, *, fill_missing: bool) -> Future[Array]:
        """Fill `out` with the selection of `transform`; return a future of `out`, perhaps completed."""
        done = self.read_chunk(transform, out, fill_missing=fill_missing)
        return self.read_planned(transform, out, fill_missing=fill_missing) if done is None else done

    def read_chunk(
        self, transform: IndexTransform, out: Array, *, fill_missing: bool
    ) -> Future[Array] | None:
        """Fill `out` from one chunk, found by division; None for other requests."""
        if self._chunk_shape is None or out.nbytes > STAGING_NBYTES:
            return None
        place = place_in_chunk(transform, out.shape, self._chunk_shape)
        if place is None:
            return None
        cell, inside = place
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = self._open(None)
        source: Any = self._cache or worker.source
        try:
            if self._array.shard is None:
                name: Any = self._key(cell)
                if not self._decodes and not (self._cache and self._cache.holds(name)):
                    return None
            else:
                name = 0
                shard, position = self._layout.place(cell)
                source.open_shard(self._key(shard), np.array((position,)))
            memory = worker.memories.get(self._item.shape)
            if memory is None:
                memory = worker.memories[self._item.shape] = StagingBuffer(self._chain, 1)
            if out.size == self._n_elements and out.flags.c_contiguous:  # elements may have no bytes
                batch = Batch((name,), memory, (out.reshape(self._chunk_shape),), None)
            else:
                batch = Batch((name,), memory, None, lambda chunks: np.copyto(out, chunks[(0, *inside)]))
            read_chunks((batch,), source, [], fill_missing=fill_missing)
        except Exception as e:
            return Future.failed(e)
        if self._keeps:
            self._idle.append(worker)
        return Future.ready(out)

    def read_planned(
        self,
        transform: Transform,
        out: Array,
        *,
        fill_missing: bool = True,
        strategy: ReadStrategy | None = None,
    ) -> Future[Array]:
        """Fill `out` with the selection of `transform`; return a future of `out`, perhaps completed."""
        # The transform maps to storage coordinates inside the array.  `out` may have any strides, must not
        # overlap itself, and must not be used before the future is done.  The future fails with the error of
        # the store or a codec, prefixed with ``Error reading <key>``, or with NotFoundError for a missing
        # chunk that is not to be filled.
        array, pool = self._array, self._pool
        assert out.dtype == array.numpy_dtype, f"result of {out.dtype} for an array of {array.numpy_dtype}"
        assert out.shape == tuple(transform.input_shape), f"result of shape {out.shape} for {transform}"
        counts = None if array.shard is None else self._layout.chunks_per_shard
        plan, shards = plan_array(array, transform, counts)
        if plan.n_chunks == 0:
            return Future.ready(out)
        view = plan.layout.view(out)
        if strategy is None:
            strategy = choose_strategy(array, self._store, plan, view, pool.n_workers, shards)
        limit = pool.codec_limit(strategy.n_workers)
        read = _Read(view, strategy, fill_missing, limit, self._shared(plan, shards))
        n_batches = _n_batches(plan, self._chain.item.nbytes, strategy)
        batches: Batches
        open_worker: OpenWorker[Any]
        if shards is None:
            batches, open_worker = split(plan.axes, n_batches), self._open_chunks(read)
        else:
            batches, open_worker = split_shards(shards, n_batches), self._open_shards(read)

        def finish() -> Array:
            plan.layout.broadcast(out)
            return out

        return pool.run(
            batches,
            open_worker,
            finish,
            n_workers=max(1, strategy.n_workers),
            n_threads=strategy.n_threads,
            inline=not strategy.n_workers,
        )

    def _shared(self, plan: Plan, shards: tuple[ShardAxis, ...] | None) -> SharedReads | None:
        """Announce this read to others of its batch, if there is one and the store is slow."""
        shared = batch_of_thread()
        if (
            shared is None
            or traits_of(self._store).request_concurrency is None
            or plan.n_chunks > _MOST_SHARED
        ):
            return None
        if shards is None:
            for key in keys(plan.axes, self._array.keys):
                shared.expect(self, key)
        else:
            for request in shard_requests(shards, self._array.keys):
                shared.expect(self, request.key, request.positions().tolist())
        return shared

    def _open_chunks(self, read: _Read) -> OpenWorker[tuple[PlanAxis, ...]]:
        """Return a function that opens a worker for a read of whole values."""
        array, strategy = self._array, read.strategy
        pages = pages_of(read.view)
        cache = self._cache if strategy.source == "cache" else None
        fetching = new_lock() if strategy.together else None

        def open_worker(stop: Stop) -> Callable[[tuple[PlanAxis, ...]], None]:
            worker = self._worker(strategy)
            if read.shared is not None and cache is None:
                worker.source.share(read.shared, self)
            source = cache or worker.source
            target = read.target(
                array.chain, worker, regular=array.grid.chunk_shape is not None, field=array.field
            )

            def work(axes: tuple[PlanAxis, ...]) -> None:
                if pages is not None:
                    pages.prepare(read.view[_hull(axes)])
                names: Iterable[str] = keys(axes, array.keys)
                if isinstance(source, ManySource):
                    names = source.expect(names)
                batches = target.batches(axes, names)
                read_chunks(batches, source, stop, fill_missing=read.fill_missing, fetching=fetching)
                if not strategy.n_workers:
                    self._give_back(worker)

            return work

        return open_worker

    def _open_shards(self, read: _Read) -> OpenWorker[tuple[ShardAxis, ...]]:
        """Return a function that opens a worker for a read of inner chunks."""
        array, strategy = self._array, read.strategy
        pages = pages_of(read.view)
        indexes = None if self._indexes.lasts else KeptIndexes(self._store)  # workers share it
        fetching = new_lock() if strategy.together else None

        def open_worker(stop: Stop) -> Callable[[tuple[ShardAxis, ...]], None]:
            worker = self._worker(strategy, indexes)
            source = worker.source
            if read.shared is not None:
                source.share(read.shared, self)
            target = read.target(self._chain, worker, regular=True)

            def work(axes: tuple[ShardAxis, ...]) -> None:
                for request in shard_requests(axes, array.keys):
                    if stop:
                        return
                    if pages is not None:
                        pages.prepare(read.view[_hull(request.axes)])
                    names = source.open_shard(request.key, request.positions())
                    batches = target.batches(request.axes, names)
                    read_chunks(batches, source, stop, fill_missing=read.fill_missing, fetching=fetching)
                if not strategy.n_workers:
                    self._give_back(worker)

            return work

        return open_worker

    def _worker(self, strategy: ReadStrategy, indexes: KeptIndexes | None = None) -> _Worker:
        """Return a worker: a kept one, for the caller's thread, or a new one."""
        if not strategy.n_workers:
            with suppress(IndexError):
                return self._idle.pop()
        return self._open(indexes)

    def _open(self, indexes: KeptIndexes | None) -> _Worker:
        array, store = self._array, self._store
        if array.shard is not None:
            if indexes is None:
                indexes = self._indexes if self._indexes.lasts else KeptIndexes(store)
            return _Worker(ShardSource(array, self._layout, store, indexes), {})
        return _Worker(store_source(array, store), {})

    def _give_back(self, worker: _Worker) -> None:
        """Keep a finished worker, if its source stays up to date."""
        if not self._keeps:
            return
        if isinstance(worker.source, ShardSource):
            if not self._indexes.lasts:
                return
            worker.source.close_shard()
        memories = worker.memories
        if len(memories) > 1 or any(m.n_chunks * self._chain.item.nbytes > _KEPT for m in memories.values()):
            memories.clear()
        self._idle.append(worker)


class _Read(NamedTuple):
    """The common state of the workers of one read."""

    view: Array  # the result in plan order
    strategy: ReadStrategy
    fill_missing: bool
    limit: CodecLimit
    shared: SharedReads | None  # shared with other reads of a batch

    def target(
        self, chain: PreparedChain, worker: _Worker, *, regular: bool, field: StoredField | None = None
    ) -> Target:
        """Return the result for a worker to fill."""
        memories = worker.memories if self.limit is None else None  # memory that is not kept has no limit
        return Target(
            chain,
            self.view,
            staged=self.strategy.target == "staged",
            regular=regular,
            field=field,
            limit=self.limit,
            together=self.strategy.together,
            memories=memories,
        )
