"""Reads of the chunks of a plan into the caller's memory.

1. The plan is made, and the result looked at in its order.
2. A strategy is chosen: source, target, threads, size of a batch.
3. The plan is cut into products of neighbours; each worker opens its source and target once.
4. One loop fetches, decodes and puts the chunks of a batch, whatever they are.
5. What no storage dimension depends on is repeated at the end.

A small request that lies in one chunk is a batch of one, made by division, without a plan or a pool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.driver.stored_array import StoredArray, shard_layout
from chunkwise.engine.chunk_codec import CodecLimit, StagingBuffer
from chunkwise.engine.future import Future
from chunkwise.engine.memory import pages_of
from chunkwise.engine.pool import OpenWorker, Pool, Stop
from chunkwise.engine.shards import ShardSource, index_cache
from chunkwise.engine.sources import (
    FILLED,
    ManySource,
    Source,
    StoreSource,
    cache_source,
    store_source,
)
from chunkwise.engine.strategy import STAGING_NBYTES, ReadStrategy, read_strategy
from chunkwise.engine.targets import Batch, Target, lies_in_one_piece
from chunkwise.errors import NotFoundError
from chunkwise.fork import Lock, new_lock
from chunkwise.index_space import IndexTransform
from chunkwise.kvstore.protocol import Readable
from chunkwise.kvstore.traits import traits_of
from chunkwise.plan.axis import PlanAxis, is_indexed
from chunkwise.plan.ndarray_view import with_strides
from chunkwise.plan.partition import Transform
from chunkwise.plan.plan import Plan, keys, place_in_chunk, plan_read, split
from chunkwise.plan.shard import ShardAxis, plan_shards, shard_requests, split_shards

__all__ = ["SmallReader", "choose_strategy", "explain_read", "read_chunks", "read_into"]

Array: TypeAlias = "npt.NDArray[Any]"
_NOTHING_HELD = nullcontext()
Batches: TypeAlias = "list[Any]"  # products of PlanAxis, of shards those of ShardAxis


def read_chunks(
    batches: Iterable[Batch],
    source: Source,
    stop: Stop,
    *,
    fill_missing: bool,
    fetching: AbstractContextManager[object] | None = None,
) -> None:
    """Fetch, decode and put chunks: the one loop of all reads."""
    # It ends as soon as `stop` is true.  A chunk that isn't stored reads as the fill value, or is an error.
    # With `fetching` one call decodes the chunks of a batch; it is held while they are fetched.
    for batch in batches:
        names, memory, slots, copy_out = batch
        encoded = None if fetching is None or slots is not None else memory.encoded
        borrowed: Array | None = None
        at = 0
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
                            borrowed = chunk[None]  # what is selected is copied from there
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


def choose_strategy(
    array: StoredArray, store: Readable, plan: Plan, view: Array, n_processors: int
) -> ReadStrategy:
    """Return the strategy for a plan; `view` is the result in its order."""
    level = array if array.shard is None else array.shard
    chain, shape = level.chain, level.grid.chunk_shape
    cache = cache_source(array, store)
    if cache is not None and shape is not None and cache.holds_all(keys(plan.axes, array.keys)):
        return read_strategy(
            source="cache",
            decode_rate=0.0,
            chunk_nbytes=chain.item.nbytes,
            n_chunks=plan.n_chunks,
            n_processors=n_processors,
        )
    traits = traits_of(store)
    return read_strategy(
        batches=chain.decodes_batches,
        source="shards" if array.shard is not None else "store" if cache is None else "cache",
        decode_rate=chain.decode_rate,
        chunk_nbytes=chain.item.nbytes,
        n_chunks=plan.n_chunks,
        n_processors=n_processors,
        in_place=shape is None or array.field is not None or lies_in_one_piece(plan.axes, shape, view),
        request_concurrency=traits.request_concurrency,
        io_limit=traits.io_limit,
        shard_nbytes=0 if array.shard is None else array.chain.item.nbytes,
    )


def explain_read(
    array: StoredArray, store: Readable, transform: Transform, n_processors: int
) -> ReadStrategy | None:
    """Return the strategy of a read into new memory, without reading; None if no chunk is touched."""
    plan = plan_read(transform, array.grid if array.shard is None else array.shard.grid)
    if plan.n_chunks == 0:
        return None
    one, shape = np.empty((), array.numpy_dtype), tuple(transform.input_shape)
    strides = [one.itemsize * prod(shape[dim + 1 :]) for dim in range(len(shape))]
    memory = with_strides(one, shape, strides)  # looked at, never touched
    return choose_strategy(array, store, plan, plan.layout.view(memory), n_processors)


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
    """Fill `out` with what `transform` selects; the future gives `out`, perhaps at once."""
    # The transform leads to storage coordinates, none of which is outside the array.  `out` has any strides,
    # must not overlap itself, and is not looked at before the future is done.  The future fails with what the
    # store or a codec raised, with ``Error reading <key>`` in front, or with NotFoundError for a missing
    # chunk that is not to be filled.
    assert out.dtype == array.numpy_dtype, f"result of {out.dtype} for an array of {array.numpy_dtype}"
    assert out.shape == tuple(transform.input_shape), f"result of shape {out.shape} for {transform}"
    plan = plan_read(transform, array.grid if array.shard is None else array.shard.grid)
    if plan.n_chunks == 0:
        return Future.ready(out)
    view = plan.layout.view(out)
    if strategy is None:
        strategy = choose_strategy(array, store, plan, view, pool.n_workers)
    open_worker = _open_chunks if array.shard is None else _open_shards
    limit = pool.codec_limit(strategy.n_workers)
    batches, work_on = open_worker(array, store, plan, view, strategy, fill_missing, limit)

    def finish() -> Array:
        plan.layout.broadcast(out)
        return out

    return pool.run(
        batches,
        work_on,
        finish,
        n_workers=max(1, strategy.n_workers),
        n_threads=strategy.n_threads,
        inline=not strategy.n_workers,
    )


def _n_batches(plan: Plan, chunk_nbytes: int, strategy: ReadStrategy) -> int:
    return max(1, -(-plan.n_chunks * chunk_nbytes // strategy.batch_nbytes))


def _open_chunks(
    array: StoredArray,
    store: Readable,
    plan: Plan,
    view: Array,
    strategy: ReadStrategy,
    fill_missing: bool,
    limit: CodecLimit,
) -> tuple[Batches, OpenWorker[Any]]:
    """Return the batches of a read of whole values, and what opens a worker for them."""
    pages = pages_of(view)
    cache = cache_source(array, store) if strategy.source == "cache" else None
    fetching = new_lock() if strategy.together else None

    def open_worker(stop: Stop) -> Callable[[tuple[PlanAxis, ...]], None]:
        source = cache or store_source(array, store)
        target = Target(
            array.chain,
            view,
            staged=strategy.target == "staged",
            regular=array.grid.chunk_shape is not None,
            field=array.field,
            limit=limit,
            together=strategy.together,
        )

        def work(axes: tuple[PlanAxis, ...]) -> None:
            if pages is not None:
                pages.prepare(view[_hull(axes)])
            names: Iterable[str] = keys(axes, array.keys)
            if isinstance(source, ManySource):
                names = source.expect(names)
            batches = target.batches(axes, names)
            read_chunks(batches, source, stop, fill_missing=fill_missing, fetching=fetching)

        return work

    return split(plan.axes, _n_batches(plan, array.chain.item.nbytes, strategy)), open_worker


def _open_shards(
    array: StoredArray,
    store: Readable,
    plan: Plan,
    view: Array,
    strategy: ReadStrategy,
    fill_missing: bool,
    limit: CodecLimit,
) -> tuple[Batches, OpenWorker[Any]]:
    """Return the batches of a read of inner chunks, and what opens a worker for them."""
    assert array.shard is not None, "there are shards"
    chain, layout = array.shard.chain, shard_layout(array, array.shard)
    axes = plan_shards(plan.axes, layout.chunks_per_shard)
    batches, shared = split_shards(axes, _n_batches(plan, chain.item.nbytes, strategy))
    indexes = index_cache(store, shared=shared)
    locks: dict[str, Lock] | None = {} if shared else None
    fetching = new_lock() if strategy.together else None
    pages = pages_of(view)

    def open_worker(stop: Stop) -> Callable[[tuple[ShardAxis, ...]], None]:
        source = ShardSource(array, chain, layout, store, indexes, locks)
        target = Target(
            chain,
            view,
            staged=strategy.target == "staged",
            regular=True,
            limit=limit,
            together=strategy.together,
        )

        def work(axes: tuple[ShardAxis, ...]) -> None:
            for request in shard_requests(axes, array.keys):
                if stop:
                    return
                if pages is not None:
                    pages.prepare(view[_hull(request.axes)])
                names = source.open_shard(request)
                batches = target.batches(request.axes, names)
                read_chunks(batches, source, stop, fill_missing=fill_missing, fetching=fetching)

        return work

    return batches, open_worker


def _hull(axes: tuple[PlanAxis, ...]) -> tuple[Any, ...]:
    """Return the index of the part of the result that a product of sets fills, or of all of it."""
    if is_indexed(axes):
        return (...,)
    return (*(slice(axis.out[0].start, axis.out[-1].stop) for axis in axes), ...)


class SmallReader:
    """Reads of one array, of one chunk each."""

    # Sources and memory of a read are kept for the next one, as many of them as there were reads at the same
    # time.

    def __init__(self, array: StoredArray, store: Readable, pool: Pool) -> None:
        self._array = array
        self._store = store
        self._key = array.keys.key
        self._cache = cache_source(array, store)
        self._idle: list[tuple[StoreSource, StagingBuffer]] = []
        chain = array.chain
        strategy = read_strategy(
            source="store" if self._cache is None else "cache",
            decode_rate=chain.decode_rate,
            chunk_nbytes=chain.item.nbytes,
            n_chunks=1,
            n_processors=pool.n_workers,
            request_concurrency=traits_of(store).request_concurrency,
        )
        self._decodes = strategy.n_workers == 0 and chain.item.nbytes <= STAGING_NBYTES
        plain = array.shard is None and array.field is None and array.grid.chunk_shape is not None
        takes = plain and (self._decodes or self._cache is not None)
        self._chunk_shape = tuple(array.grid.chunk_shape or ()) if takes else None

    def read_into(
        self, transform: IndexTransform, out: npt.NDArray[Any], *, fill_missing: bool
    ) -> Future[npt.NDArray[Any]] | None:
        """Fill `out` as `read_into` does; None if the request is not of the kind that is read here."""
        if self._chunk_shape is None or out.nbytes > STAGING_NBYTES:
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
            if not self._decodes and not (self._cache and self._cache.holds(key)):
                return None
            read_chunks((Batch((key,), memory, None, copy_out),), source, [], fill_missing=fill_missing)
        except Exception as e:
            return Future.failed(e)
        self._idle.append(worker)
        return Future.ready(out)

    def _open(self) -> tuple[StoreSource, StagingBuffer]:
        return self._cache or StoreSource(self._array, self._store), StagingBuffer(self._array.chain, 1)
