"""The strategy of a read or a write: all choices are made once, by one pure function each.

A chunk costs many hand-overs of the interpreter lock between threads, one for each system call.  Two threads
are faster than one only if the work without the lock, copying and above all (de)compressing, takes longer
than that.  Rates and limits are measured on local files in memory, where waiting for the lock costs most,
with 16³ to 64³ chunks of uint16, one worker against two (benchmarks/processor_time.py).
"""

from __future__ import annotations

import sys
from typing import Literal, NamedTuple

from chunkwise.core.codec.protocol import PreparedChain
from chunkwise.core.engine.pool import Pool, is_idle
from chunkwise.core.kvstore.traits import traits_of

__all__ = ["STAGING_NBYTES", "ReadStrategy", "WriteStrategy", "read_strategy", "write_strategy"]

STAGING_NBYTES = 1 << 20
"""Bytes of decoded chunks that a worker stages: few enough to stay in a processor's cache."""

# Nanoseconds; rates are for each decoded byte and without the interpreter lock.  Measured on local files in
# memory, one worker against two, with benchmarks/processor_time.py.
_COPY_RATE, _WRITE_COPY_RATE = 0.15, 0.45
_CHUNK, _WRITE_CHUNK = 10_000, 40_000  # Python and system calls of a chunk
_WORTH_A_THREAD, _WRITE_WORTH_A_THREAD = 40_000, 120_000  # for a chunk: two threads are as fast as one
# When dozens of small chunks are staged, one thread fetches a batch while others decode, with one call per
# batch.  The interpreter lock is then passed once for each batch, so two threads pay off earlier: chunks of
# 16³ in zstd take one thread 22.8 us each, two 12.2.
_TOGETHER, _TOGETHER_WORTH_A_THREAD = 8, 5_000
# Inner chunks take no system calls: shards of 128³ with 16³ in zstd take one thread 243 ms, two 160.
_WRITE_INNER_CHUNK, _WRITE_INNER_WORTH_A_THREAD = 10_000, 30_000
# A single shard is cut if compressing takes most of its time: 128 inner chunks of 64 KiB in zstd take one
# thread 59 ms (processor time 59), two 32 (55), but 160 of 128 KiB in Blosc 13.6 (13.6) and 11.9 (19.9).
_PIECES_WORTH, _PIECES_RATE = 4_000_000, 2.0
# Opening a shard and reading its index: a chunk in each of 8 shards takes 60 us more than 8 chunks of one.
_SHARD = 60_000
# Work that the caller's thread does itself.  Handing over, and passing the interpreter lock, costs two
# threads as much as they gain in some milliseconds: 8 inner chunks of 64 KiB in zstd, a 48^3 box, take one
# thread 2.4 ms of processor time, two 3.7; 8 chunks of 512 KiB one 4.8 ms, two 6.6.
_INLINE = 4_000_000
_INLINE_BESIDE_OTHERS = (
    500_000  # if the caller has more to do meanwhile: other reads of a batch, its event loop
)
_INLINE_WRITE, _INLINE_WRITE_ALONE = 500_000, 2_000_000
# With write batches of 2, 4 and 8 ms, 256³ uint16 in zstd chunks of 32³ take 111, 105 and 92 ms of processor
# time; raw chunks and chunks of 64³ take the same time with each.
_BATCH, _WRITE_BATCH = 2_000_000, 8_000_000
_BATCHES_PER_WORKER = 4  # so that the others have work while the slowest one finishes
_LEAST_BATCH = 1_000_000  # nanoseconds; less is not worth a queue entry
# Longest time that a thread waits for the disk while the others encode; more threads disturb each other.
_DISK = 50_000_000
# Fewest decoded bytes of the pieces into which a shard on a slow store is cut.
_SHARD_PIECE = 1 << 25


_SOURCES = {
    "store": "whole chunks from the store",
    "cache": "chunks from the cache",
    "shards": "ranges of shards",
}


# Threads that pass an interpreter lock have the thresholds above.  Free-threaded Python was not measured.
_HAS_LOCK: bool = getattr(sys, "_is_gil_enabled", lambda: True)()


class ReadStrategy(NamedTuple):
    """The way in which the chunks of one read are fetched, decoded and put in place."""

    # a value of the store for each chunk, a cache of decoded chunks, or parts of shards
    source: Literal["store", "cache", "shards"]
    # the result itself, or staging memory from which several chunks are copied to it together
    target: Literal["direct", "staged"]
    n_workers: int  # number of threads; 0 for the caller's own
    batch_nbytes: int  # decoded bytes of a worker's batch
    n_threads: int | None = None  # as for `Pool.run`
    together: bool = False  # True if one call decodes all staged chunks

    def __str__(self) -> str:
        threads = {0: "the calling thread", 1: "1 thread"}.get(self.n_workers, f"{self.n_workers} threads")
        # Cached chunks are decoded; an array that is small or in pieces needs no other staging memory.
        done = "copied" if self.source == "cache" else "decoded together" if self.together else "decoded"
        place = "into the result" if self.target == "direct" else "beside the result and copied to it"
        return f"{_SOURCES[self.source]}, {done} {place}, by {threads}, {self.batch_nbytes:,} bytes at a time"


def read_strategy(
    *,
    source: Literal["store", "cache", "shards"],
    decode_rate: float,
    chunk_nbytes: int,
    n_chunks: int,
    n_processors: int,
    batches: bool = False,
    in_place: bool = False,
    request_concurrency: int | None = None,
    io_limit: int | None = None,
    n_shards: int = 0,
    beside_others: bool = False,
) -> ReadStrategy:
    """Choose how to read `n_chunks` of `chunk_nbytes` decoded bytes each."""
    # With `batches`, one call decodes several chunks.  `in_place` means that each chunk is better decoded
    # directly to its place, whatever its size: it is contiguous in the result's memory, or elements are taken
    # from cached chunks.  `request_concurrency` is that of a slow store; `io_limit` the number of threads
    # that may use the store at all; `n_shards` the number of shards with the chunks, 0 without shards.  With
    # `beside_others`, the caller has more to do meanwhile.
    staged = source != "cache" and not in_place and 2 * chunk_nbytes <= STAGING_NBYTES
    target: Literal["direct", "staged"] = "staged" if staged else "direct"
    limit = min(n_chunks, io_limit or n_chunks)
    nbytes = max(1, n_chunks * chunk_nbytes)
    if request_concurrency is not None:
        # The number of requests decides: a batch is the chunks of one shard, however few are wanted.
        n = max(1, min(request_concurrency, limit))
        least = min(_SHARD_PIECE, -(-nbytes // n_shards)) if n_shards else 1
        batch = max(least, nbytes // (n * _BATCHES_PER_WORKER))
        most = min(request_concurrency, io_limit or request_concurrency)
        return ReadStrategy(source, target, min(n, -(-nbytes // batch)), batch, most)
    rate = _COPY_RATE + decode_rate
    unlocked = chunk_nbytes * rate
    total = n_shards * _SHARD + n_chunks * (_CHUNK + chunk_nbytes * rate)
    if total <= (_INLINE if _HAS_LOCK else _INLINE_BESIDE_OTHERS):
        inline = not beside_others or n_processors == 1 or total <= _INLINE_BESIDE_OTHERS
        return ReadStrategy(source, target, 0 if inline else 1, nbytes)
    together = batches and staged and (source == "shards" or unlocked < _WORTH_A_THREAD)
    together = together and n_chunks > 1 and chunk_nbytes * _TOGETHER <= STAGING_NBYTES
    worth = _TOGETHER_WORTH_A_THREAD if together else _WORTH_A_THREAD
    parallel = n_processors > 1 and n_chunks > 1 and unlocked >= (worth if _HAS_LOCK else 0)
    n = min(n_processors, limit) if parallel else 1
    n_batches = max(n, min(n * _BATCHES_PER_WORKER, int(total / _LEAST_BATCH)), int(total / _BATCH))
    return ReadStrategy(source, target, n, -(-nbytes // n_batches), together=together)


class WriteStrategy(NamedTuple):
    """The way in which the plan of a write is processed."""

    n_workers: int
    n_batches: int  # number of pieces of the plan
    inline: bool  # True if the calling thread does the work at once
    n_threads: int | None = None  # as for `Pool.run`
    n_pieces: int = 1  # into which a single shard is cut for several threads, if it is entirely overwritten


def write_strategy(
    pool: Pool,
    store: object,
    chain: PreparedChain,
    n_objects: int,
    n_chunks: int = 1,
) -> WriteStrategy:
    """Choose how to write `n_objects` of `n_chunks` each."""
    # A store with a `request_concurrency` answers slowly, so this many requests are kept under way;
    # `write_concurrency` applies to writes only.  `io_limit` is the number of threads that may use the store
    # at all.
    traits = traits_of(store)
    unlocked = chain.item.nbytes * (_WRITE_COPY_RATE + chain.encode_rate)
    requests = traits.request_concurrency
    if requests is None:
        requests = traits.write_concurrency
        if requests is not None:
            waiting = 0 if pool.bounded else int(pool.n_workers * _DISK / max(1, n_chunks * unlocked))
            requests = min(requests, pool.n_workers + waiting)
    limit = traits.io_limit or n_objects
    n_pieces = 1
    if n_objects == 1 < pool.n_workers and chain.encode_rate >= _PIECES_RATE and is_idle():
        long = unlocked >= _WRITE_INNER_WORTH_A_THREAD and n_chunks * unlocked >= _PIECES_WORTH
        n_pieces = min(n_chunks, pool.n_workers * _BATCHES_PER_WORKER) if long else 1
    if requests is not None:
        n = max(1, min(requests, n_objects, limit))
        most = min(requests, traits.io_limit or requests)
        return WriteStrategy(n, n * _BATCHES_PER_WORKER, False, most, n_pieces)
    chunk, worth = _WRITE_CHUNK, _WRITE_WORTH_A_THREAD
    if n_chunks > 1:
        chunk, worth = _WRITE_INNER_CHUNK, _WRITE_INNER_WORTH_A_THREAD
    parallel = pool.n_workers > 1 and n_objects > 1 and unlocked >= (worth if _HAS_LOCK else 0)
    total = n_objects * n_chunks * (chunk + unlocked)
    if total <= (_INLINE_WRITE if parallel else _INLINE_WRITE_ALONE):
        return WriteStrategy(1, 1, True)
    n = min(pool.n_workers, limit) if parallel else 1
    n_batches = max(n * _BATCHES_PER_WORKER, int(total / _WRITE_BATCH))
    return WriteStrategy(n, n_batches, False, n_pieces=n_pieces)
