"""The number of requests of a read, estimated before it is done.

It follows `chunkwise.core.engine.read` and `chunkwise.core.engine.shards`.  An unsharded chunk is one
request.  A shard of which most is read is one request; any other shard is one for its index, unless that is
cached, and one for each run of close inner chunks.  Only the index tells the number of runs, so without an
index the estimate ranges from one run to one for each inner chunk.  Cached chunks take no request.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.core.codec.sharding import MISSING
from chunkwise.core.driver.stored_array import ShardLevel, StoredArray, shard_layout
from chunkwise.core.engine.shards import GAP, LARGEST_REQUEST, WHOLE_SHARE
from chunkwise.core.kvstore.protocol import Readable
from chunkwise.core.kvstore.traits import StoreTraits, traits_of
from chunkwise.core.kvstore.value import coalesce_ranges
from chunkwise.core.plan.partition import Transform
from chunkwise.core.plan.plan import plan_read, plan_shards, shard_requests

__all__ = ["RequestEstimate", "estimate_requests"]


class RequestEstimate(NamedTuple):
    """The requests of a read, as far as known in advance."""

    n_chunks: int  # touched chunks, or inner chunks of shards
    n_objects: int  # keys to read
    n_shards: int  # keys of shards among them
    n_requests: int
    n_requests_at_most: int  # more than `n_requests` if only a shard's index could tell
    n_decoded_bytes: int  # size of the touched chunks
    n_stored_bytes: int | None  # None if only the storage knows the size
    n_indexes_known: int  # indexes of shards that are known
    n_cache_hits: int  # keys in a cache
    concurrency: int | None  # concurrent requests; None for storage that is not remote


def estimate_requests(array: StoredArray, store: Readable, transform: Transform) -> RequestEstimate:
    """Return the requests to `store` for reading the selection of `transform`; makes none."""
    traits = traits_of(store)
    if array.shard is not None:
        return _of_shards(array, array.shard, traits, transform)
    plan = plan_read(transform, array.grid)
    n_chunks, is_cached = plan.n_chunks, traits.is_cached
    n_hits = 0 if is_cached is None else sum(map(is_cached, plan.keys(array.keys)))
    n, size = n_chunks - n_hits, array.chain.encoded_nbytes
    n_bytes = None if size is None and n else n * (size or 0)
    decoded = n_chunks * array.chain.item.nbytes
    return RequestEstimate(
        n_chunks, n_chunks, 0, n, n, decoded, n_bytes, 0, n_hits, traits.request_concurrency
    )


def _of_shards(
    array: StoredArray, shard: ShardLevel, traits: StoreTraits, transform: Transform
) -> RequestEstimate:
    plan = plan_read(transform, shard.grid)
    layout = shard_layout(array, shard)
    indexes, coalescing, is_cached = traits.shard_indexes, traits.coalescing, traits.is_cached
    gap = GAP if coalescing is None else coalescing.gap
    largest = LARGEST_REQUEST if coalescing is None else coalescing.largest
    suffix = not layout.at_end or traits.suffix_ranges
    n_shards = least = most = n_known = n_hits = 0
    n_bytes: int | None = 0
    for request in shard_requests(plan_shards(plan.axes, layout.chunks_per_shard), array.keys):
        positions = request.positions()
        n_shards += 1
        if is_cached is not None and is_cached(request.key):
            n_hits += 1
            continue
        if len(positions) >= WHOLE_SHARE * layout.n_chunks:
            least, most, n_bytes = least + 1, most + 1, None
            continue
        known = None if indexes is None else indexes.get(request.key)
        if known is not None:
            runs, size = _runs(known[0][positions], gap, largest)
            checks = 1 if runs != 1 else 0  # whether the shard is still the one of the index
            least, most, n_known = least + runs + checks, most + runs + checks, n_known + 1
            n_bytes = None if n_bytes is None else n_bytes + size
            continue
        index = 1 if suffix else 2
        n_bytes = None
        least += index + 1
        most += index + len(positions) + (1 if len(positions) > 1 else 0)
    decoded = plan.n_chunks * shard.chain.item.nbytes
    return RequestEstimate(
        plan.n_chunks,
        n_shards,
        n_shards,
        least,
        most,
        decoded,
        n_bytes,
        n_known,
        n_hits,
        traits.request_concurrency,
    )


def _runs(index: npt.NDArray[np.uint64], gap: int, largest: int) -> tuple[int, int]:
    """Return the number of requests for inner chunks with these entries, and their bytes."""
    entries = index[index[:, 0] != MISSING]
    entries = entries[np.argsort(entries[:, 0], kind="stable")]
    offsets, stops = entries[:, 0], entries[:, 0] + entries[:, 1]
    runs = coalesce_ranges(offsets.tolist(), entries[:, 1].tolist(), gap=gap, largest=largest)
    return len(runs), sum(int(stops[run].max()) - int(offsets[run.start]) for run in runs)
