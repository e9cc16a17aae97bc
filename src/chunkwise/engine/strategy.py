"""The strategy of a read: four choices, made once by one pure function.

Two threads beat one only if decoding a chunk takes longer, without the interpreter lock, than the lock's
passes between them, of which there is one for each system call.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["STAGING_NBYTES", "ReadStrategy", "read_strategy"]

STAGING_NBYTES = 1 << 20
"""Bytes of decoded chunks that a worker stages: few enough to stay in a processor's cache."""

# Nanoseconds; the rate is for each decoded byte and without the interpreter lock.  Measured on local files in
# memory, one worker against two, with benchmarks/processor_time.py.
_COPY_RATE = 0.15
_CHUNK = 10_000  # Python and system calls of a chunk
_WORTH_A_THREAD = 40_000  # decoding of a chunk at which two threads are even with one
_INLINE, _INLINE_ALONE = 500_000, 2_000_000  # what is done before another thread would have begun
_BATCH = 2_000_000
_BATCHES_PER_WORKER = 4
# A shard on a store that answers slowly is cut into pieces of no fewer decoded bytes.
_SHARD_PIECE = 1 << 25


class ReadStrategy(NamedTuple):
    """The way in which the chunks of one read are fetched, decoded and put in their places."""

    # a value of the store for each chunk, a cache of decoded ones, or parts of shards
    source: Literal["store", "cache", "shards"]
    # the result itself, or memory from which several chunks are copied to it together
    target: Literal["direct", "staged"]
    n_workers: int  # threads; 0 for the caller's own
    batch_nbytes: int  # decoded bytes of the chunks that a worker takes at a time

    def __str__(self) -> str:
        threads = {0: "the calling thread", 1: "1 thread"}.get(self.n_workers, f"{self.n_workers} threads")
        return f"{self.source}, {self.target}, {threads}, batches of {self.batch_nbytes:,} bytes"


def read_strategy(
    *,
    source: Literal["store", "cache", "shards"],
    decode_rate: float,
    chunk_nbytes: int,
    n_chunks: int,
    n_processors: int,
    in_place: bool = False,
    request_concurrency: int | None = None,
    io_limit: int | None = None,
) -> ReadStrategy:
    """Choose how to read `n_chunks` of `chunk_nbytes` decoded bytes each."""
    # `in_place` means that each chunk is better decoded straight to its place, whatever its size: it is one
    # piece of the result's memory, or elements are taken from chunks that somebody keeps.
    # `request_concurrency` is that of a store where each request takes long; `io_limit` the number of threads
    # that may use the store at all.
    staged = source != "cache" and not in_place and 2 * chunk_nbytes <= STAGING_NBYTES
    target: Literal["direct", "staged"] = "staged" if staged else "direct"
    limit = min(n_chunks, io_limit or n_chunks)
    nbytes = max(1, n_chunks * chunk_nbytes)
    if request_concurrency is not None:
        n = max(1, min(request_concurrency, limit))
        batch = nbytes // (n * _BATCHES_PER_WORKER)
        return ReadStrategy(source, target, n, max(1, batch, _SHARD_PIECE if source == "shards" else 1))
    rate = _COPY_RATE + decode_rate
    parallel = n_processors > 1 and n_chunks > 1 and chunk_nbytes * rate >= _WORTH_A_THREAD
    total = n_chunks * (_CHUNK + chunk_nbytes * rate)
    if total <= (_INLINE if parallel else _INLINE_ALONE):
        return ReadStrategy(source, target, 0, nbytes)
    n = min(n_processors, limit) if parallel else 1
    n_batches = max(n * _BATCHES_PER_WORKER, int(total / _BATCH))
    return ReadStrategy(source, target, n, -(-nbytes // n_batches))
