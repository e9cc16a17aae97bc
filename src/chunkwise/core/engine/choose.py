"""The strategy of a read of an array, from its plan, its store and the cache."""

from __future__ import annotations

from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.driver.stored_array import StoredArray, shard_layout
from chunkwise.core.engine.batch import batch_of_thread
from chunkwise.core.engine.pool import in_event_loop
from chunkwise.core.engine.sources import cache_source
from chunkwise.core.engine.strategy import ReadStrategy, read_strategy
from chunkwise.core.engine.targets import lies_in_one_piece
from chunkwise.core.kvstore.protocol import Readable
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.plan.ndarray_view import with_strides
from chunkwise.core.plan.partition import Transform
from chunkwise.core.plan.plan import Plan, ShardAxis, keys, plan_read, plan_shards

__all__ = ["choose_strategy", "explain_read", "plan_array"]

Array: TypeAlias = "npt.NDArray[Any]"


def choose_strategy(
    array: StoredArray,
    store: Readable,
    plan: Plan,
    view: Array,
    n_processors: int,
    shards: tuple[ShardAxis, ...] | None,
) -> ReadStrategy:
    """Return the strategy for a plan; `view` is the result in plan order, `shards` is `plan` by shard."""
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
        beside_others=batch_of_thread() is not None or in_event_loop(),
        n_shards=0 if shards is None else prod([axis.n_entries for axis in shards]),
    )


def explain_read(
    array: StoredArray, store: Readable, transform: Transform, n_processors: int
) -> ReadStrategy | None:
    """Return the strategy of a read into new memory, without reading; None if it touches no chunk."""
    plan, shards = plan_array(array, transform)
    if plan.n_chunks == 0:
        return None
    one, shape = np.empty((), array.numpy_dtype), tuple(transform.input_shape)
    strides = [one.itemsize * prod(shape[dim + 1 :]) for dim in range(len(shape))]
    memory = with_strides(one, shape, strides)  # its pages are never touched
    return choose_strategy(array, store, plan, plan.layout.view(memory), n_processors, shards)


def plan_array(
    array: StoredArray, transform: Transform, chunks_per_shard: tuple[int, ...] | None = None
) -> tuple[Plan, tuple[ShardAxis, ...] | None]:
    """Return the plan of a read, and the same by shard if there are shards."""
    if array.shard is None:
        return plan_read(transform, array.grid), None
    plan = plan_read(transform, array.shard.grid)
    if chunks_per_shard is None:
        chunks_per_shard = shard_layout(array, array.shard).chunks_per_shard
    return plan, plan_shards(plan.axes, chunks_per_shard)
