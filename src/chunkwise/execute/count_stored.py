"""Which chunks are stored: for statistics, and for deleting those that a resize leaves outside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from chunkwise.driver.stored_array import StoredArray
from chunkwise.execute.shard_index import MISSING, shard_form
from chunkwise.kvstore.key_range import KeyRange
from chunkwise.kvstore.protocol import ByteRange, KvStoreDriver
from chunkwise.plan.partition import Transform
from chunkwise.plan.plan import plan_read
from chunkwise.plan.shard import plan_shards, shard_parts

__all__ = ["StoredCount", "count_stored", "delete_outside", "stored_cells"]


class StoredCount(NamedTuple):
    """Chunks that meet a region; inner chunks, where there are shards.

    Attributes
    ----------
    n_chunks, n_stored : int
    """

    n_chunks: int
    n_stored: int


def count_stored(array: StoredArray, kv: KvStoreDriver, transform: Transform) -> StoredCount:
    """Count the chunks that `transform` meets, and those of them that are stored."""
    if array.shard is None:
        plan = plan_read(transform, array.grid)
        found = sum(1 for key in plan.keys(array.keys) if _exists(kv, key))
        return StoredCount(plan.n_chunks, found)
    plan = plan_read(transform, array.shard.grid)
    form = shard_form(array, array.shard)
    n_stored = 0
    fetch = kv.open_reader()
    for part in shard_parts(plan_shards(plan.axes, form.chunks_per_shard), array.keys):
        if form.at_end:
            encoded = fetch(part.key, -form.index_nbytes) if _exists(kv, part.key) else None
        else:
            encoded = fetch(part.key, 0, form.index_nbytes)
        if encoded is not None:
            offsets = form.decode(encoded)[part.positions(), 0]
            n_stored += int((offsets != MISSING).sum())
    return StoredCount(plan.n_chunks, n_stored)


def _exists(kv: KvStoreDriver, key: str) -> bool:
    return kv.read(key, byte_range=ByteRange(0, 0)).value is not None


def stored_cells(array: StoredArray, kv: KvStoreDriver) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the key and cell of every stored object of an array, inside its shape or not."""
    rank = array.grid.rank
    prefix = array.keys.prefix if rank else array.keys.scalar
    keys = KeyRange.of_prefix(prefix)
    for key in kv.list(keys.start, keys.stop):
        cell = array.keys.cell(key, rank)
        if cell is not None:
            yield key, cell


def delete_outside(array: StoredArray, kv: KvStoreDriver, before: tuple[int, ...]) -> int:
    """Delete the chunks that lie wholly outside the array but were inside when its shape was `before`.

    Returns
    -------
    int
        How many were deleted.
    """
    limits = [array.grid.n_cells(dim, size) for dim, size in enumerate(array.shape)]
    outside = [
        key
        for key, cell in stored_cells(array, kv)
        if any(number >= limit for number, limit in zip(cell, limits, strict=True))
    ]
    for key in outside:
        kv.delete(key)
    return len(outside)
