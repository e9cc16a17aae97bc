"""Reading inner chunks of shards.

1. The plan is made on the grid of inner chunks and grouped by shard; a few large shards are cut further,
   so that all workers have something to do.
2. Where most of a shard is wanted it is read in one go.  Otherwise its index is read, the byte ranges
   wanted are put in order and joined where they are close, and each joined range is one request.  A store
   that answers slowly may remember indexes; whether one is current shows in the next answer.
3. A shard that was replaced between two requests is started again.
4. Everything the index claims is checked before memory is taken for it: the checksum, that each range
   lies in the shard, its size where the codecs fix one.
5. Inner chunks of a shard that was read whole are decoded by rows if they are small.  Any other is decoded
   straight into the result if it is whole, else by way of scratch memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, repeat
from math import prod
from threading import Lock
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.driver.stored_array import ShardLevel, StoredArray
from chunkwise.errors import AbortedError, DataCorruptionError, NotFoundError, OutOfRangeError, prefix
from chunkwise.engine.chunk_codec import Coder
from chunkwise.engine.failure import describe, missing_chunk
from chunkwise.engine.future import Future
from chunkwise.engine.pool import Pool, Stop
from chunkwise.engine.result_memory import with_pages
from chunkwise.engine.scatter import Scatter
from chunkwise.engine.selected import selected_runs
from chunkwise.engine.shard_index import MISSING, ShardForm, shard_form
from chunkwise.engine.shard_rows import decode_rows
from chunkwise.engine.workers import read_load
from chunkwise.fork import new_lock
from chunkwise.kvstore.protocol import Buffer, ByteRange, RangeReadable, Readable, offers
from chunkwise.kvstore.remembered import Remembered
from chunkwise.plan.partition import Transform
from chunkwise.plan.plan import cells, plan_read, selections, wholes
from chunkwise.plan.ranges import coalesce_ranges
from chunkwise.plan.shard import ShardAxis, ShardPart, plan_shards, shard_parts, split_shards

__all__ = ["GAP", "LARGEST_REQUEST", "WHOLE_SHARE", "read_shards_into"]

# With this share wanted, one request and one pass over the memory beat picking.
WHOLE_SHARE = 0.6
GAP = 1 << 15
LARGEST_REQUEST = 1 << 26
# A range that is larger than this is looked at before memory is taken for it.
_UNCHECKED = 1 << 24
_ATTEMPTS = 100
# A shard on a store that answers slowly is cut into pieces of this many decoded bytes, no smaller.
_PIECE = 1 << 25

Batch: TypeAlias = "tuple[ShardAxis, ...]"
Index: TypeAlias = "npt.NDArray[np.uint64]"
Numbered: TypeAlias = "tuple[int, Buffer | None]"


class _ReplacedError(Exception):
    """The shard is no longer the one whose index was read."""


def read_shards_into(
    array: StoredArray,
    shard: ShardLevel,
    kv: Readable,
    transform: Transform,
    out: npt.NDArray[Any],
    *,
    pool: Pool,
    fill_missing: bool,
) -> Future[npt.NDArray[Any]]:
    """Fill `out` as :func:`chunkwise.engine.read.read_into` does, from a sharded array."""
    plan = plan_read(transform, shard.grid)
    if plan.n_chunks == 0:
        return Future.ready(out)
    form = shard_form(array, shard)
    view = plan.layout.view(out)
    load = read_load(pool, kv, shard.chain, plan.n_chunks, view, sharded=True)
    by_shard = plan_shards(plan.axes, form.chunks_per_shard)

    def open_worker(stop: Stop) -> Callable[[Batch], None]:
        return _ShardReader(array, shard, form, kv, view, fill_missing, indices, lock, stop).read

    open_prepared = with_pages(open_worker, view, shard.grid)
    n_parts = load.n_batches
    if getattr(kv, "request_concurrency", None) is not None:
        n_shards = prod(axis.n_entries for axis in by_shard)
        n_parts = min(n_parts, n_shards * max(1, form.n_chunks * shard.chain.item.nbytes // _PIECE))
    batches, shared = split_shards(by_shard, n_parts)
    indices = _indices(kv, shared)
    lock = new_lock() if shared else None

    def finish() -> npt.NDArray[Any]:
        plan.layout.broadcast(out)
        return out

    return pool.run(batches, open_prepared, finish, n_workers=load.n_workers, inline=load.inline)


class _Indices(Protocol):
    """Indexes of shards, with the generations of the shards, by key; also :class:`Remembered`."""

    def get(self, name: str) -> Any | None: ...
    def put(self, name: str, item: Any, n_bytes: int) -> None: ...
    def drop(self, name: str) -> None: ...


def _indices(kv: Readable, shared: bool) -> _Indices | None:
    memory: _Indices | None = getattr(kv, "remembered", None)
    return Remembered() if memory is None and shared else memory


class _ShardReader:
    """One worker; with a `lock`, others read parts of the same shards."""

    def __init__(
        self,
        array: StoredArray,
        shard: ShardLevel,
        form: ShardForm,
        kv: Readable,
        view: npt.NDArray[Any],
        fill_missing: bool,
        indices: _Indices | None,
        lock: Lock | None,
        stop: Stop,
    ) -> None:
        self.array = array
        self.chain = shard.chain
        self.form = form
        self.kv = kv
        self.fetch = kv.open_reader()
        self.view = view
        self.fill_missing = fill_missing
        self.indices = indices
        self.lock = lock
        coalescing = getattr(kv, "coalescing", None)
        self.gap = GAP if coalescing is None else coalescing.gap
        self.largest = LARGEST_REQUEST if coalescing is None else coalescing.largest
        self.stop = stop
        self.coder = Coder(shard.chain, tuple(range(shard.grid.rank)))
        self.scatter = Scatter(shard.chain, view)
        self.number = 0  # of the inner chunk under way, for messages

    def read(self, axes: Batch) -> None:
        """Read a product of parts of shards."""
        for part in shard_parts(axes, self.array.keys):
            if self.stop:
                return
            for _ in range(_ATTEMPTS):
                try:
                    self.read_part(part)
                    break
                except _ReplacedError:
                    if self.indices is not None:
                        self.indices.drop(part.key)
            else:
                where = describe(self.kv, part.key)
                raise AbortedError(f"{where} was replaced {_ATTEMPTS} times while it was read")

    def read_part(self, part: ShardPart) -> None:
        """Read what is wanted of one shard."""
        positions = part.positions()
        self.number = 0
        try:
            if len(positions) >= WHOLE_SHARE * self.form.n_chunks:
                shard = self.fetch(part.key)
                if shard is None:
                    chunks: Iterator[Numbered] = _all_missing(len(positions))
                else:
                    view = memoryview(shard).cast("B")
                    index = self.form.decode_shard(view)[positions]
                    self.check_sizes(index)
                    if self.decode_rows(part, positions, view, index):
                        return
                    chunks = _cut(view, index)
            else:
                found = self.read_index(part.key)
                if found is None:
                    chunks = _all_missing(len(positions))
                else:
                    chunks = self.read_ranges(part.key, found[0][positions], found[1])
            self.decode(part, positions, chunks)
        except (NotFoundError, _ReplacedError):
            raise
        except Exception as e:
            entry = self.form.entry(int(positions[self.number]))
            raise prefix(e, f"Error reading {entry} in {describe(self.kv, part.key)}") from e.__cause__

    def decode_rows(
        self, part: ShardPart, positions: npt.NDArray[np.int64], shard: memoryview, index: Index
    ) -> bool:
        """Decode the inner chunks of a shard that is in memory if they are small enough."""
        rows, packed = self.scatter.rows(part.axes), self.scatter.packed
        if rows is None or packed is None or packed.fill is None:
            return False
        fill_value = self.array.fill_value.view(packed.memory)

        def missing(chunk: npt.NDArray[Any], number: int) -> None:
            if not self.fill_missing:
                raise self.missing(part, int(positions[number]), number)
            chunk[...] = fill_value

        for self.number in decode_rows(rows, packed, shard, index, missing):
            pass
        return True

    def read_index(self, key: str) -> tuple[Index, bytes] | None:
        """Return the index of a shard and the shard's generation; None if the shard is missing."""
        if self.lock is None:
            return self.find_index(key)
        with self.lock:  # or each worker would ask for it
            return self.find_index(key)

    def find_index(self, key: str) -> tuple[Index, bytes] | None:
        known: tuple[Index, bytes] | None = None if self.indices is None else self.indices.get(key)
        if known is not None:
            return known
        nbytes = self.form.index_nbytes
        where = ByteRange(-nbytes) if self.form.at_end else ByteRange(0, nbytes)
        try:
            found = self.kv.read(key, byte_range=where)
            if found.value is None:
                return None
            index = self.form.decode(found.value)
        except OutOfRangeError as e:
            raise DataCorruptionError(f"Error reading shard index: {e.message}") from e
        except DataCorruptionError as e:
            raise prefix(e, "Error reading shard index")  # noqa: B904 - the same error
        if self.indices is not None:
            self.indices.put(key, (index, found.generation), index.nbytes)
        return index, found.generation

    def read_ranges(self, key: str, index: Index, generation: bytes) -> Iterator[Numbered]:
        """Yield the encoded inner chunks with the given entries, missing ones first, then by offset."""
        self.check_sizes(index)
        missing = index[:, 0] == MISSING
        for number in np.flatnonzero(missing).tolist():
            yield number, None
        numbers = np.flatnonzero(~missing)
        numbers = numbers[np.argsort(index[numbers, 0], kind="stable")]
        offsets, lengths = index[numbers, 0], index[numbers, 1]
        runs = coalesce_ranges(offsets, lengths, gap=self.gap, largest=self.largest)
        if not runs and self.indices is not None:
            self.check_generation(key, generation)  # nothing else would show that the index is old
        starts, stops, names = offsets.tolist(), (offsets + lengths).tolist(), numbers.tolist()
        spans = [(starts[run.start], max(stops[run])) for run in runs]
        for run, data in zip(runs, self.request(key, spans, generation), strict=True):
            self.number = names[run.start]
            view, first = memoryview(data).cast("B"), starts[run.start]
            for number, start, stop in zip(names[run], starts[run], stops[run], strict=True):
                yield number, view[start - first : stop - first]

    def request(self, key: str, spans: list[tuple[int, int]], generation: bytes) -> Iterator[Buffer]:
        """Yield byte ranges of the shard, all from the one that has the given generation."""
        kv = self.kv
        try:
            if len(spans) > 1 and offers(kv, RangeReadable):
                found = kv.read_ranges(key, *map(list, zip(*spans, strict=True)))
                self.check_generation(key, generation)
                yield from found or ()
                return
            for start, stop in spans:
                if stop - start > _UNCHECKED:
                    kv.read(key, byte_range=ByteRange(stop - 1, stop))
                stamped = kv.read(key, byte_range=ByteRange(start, stop))
                if stamped.value is None or stamped.generation != generation:
                    raise _ReplacedError
                yield stamped.value
        except OutOfRangeError as e:
            self.check_generation(key, generation)
            raise DataCorruptionError(e.message) from e

    def check_generation(self, key: str, generation: bytes) -> None:
        now = self.kv.read(key, byte_range=ByteRange(0, 0), if_not_equal=generation)
        if now.generation != generation:
            raise _ReplacedError

    def check_sizes(self, index: Index) -> None:
        """Raise if an inner chunk has not the size that its codecs give every chunk."""
        expected = self.chain.encoded_nbytes
        if expected is None:
            return
        wrong = (index[:, 0] != MISSING) & (index[:, 1] != expected)
        if wrong.any():
            self.number = int(np.argmax(wrong))
            raise DataCorruptionError(f"Inner chunk has {index[self.number, 1]} bytes, expected {expected}")

    def decode(
        self,
        part: ShardPart,
        positions: npt.NDArray[np.int64],
        chunks: Iterator[Numbered],
    ) -> None:
        """Decode inner chunks into the result; each comes with its number in the order of the plan."""
        axes, view, fill = part.axes, self.view, self.array.fill_value
        at = list(selections(axes)[1])
        indexed = any(axis.indexed for axis in axes)
        coder = self.coder
        decode = coder.decode
        in_place = [not indexed and whole for whole in wholes(axes)]
        copies = [] if all(in_place) else [copy for _, copy in selected_runs(axes, view)]
        for number, encoded in chunks:
            self.number = number
            if encoded is None:
                if not self.fill_missing:
                    raise self.missing(part, int(positions[number]), number)
                view[at[number]] = fill
            elif in_place[number]:
                decode(encoded, view[at[number]])
            else:
                coder.fill_scratch(encoded)
                copies[number](coder.scratch[None])

    def missing(self, part: ShardPart, position: int, number: int) -> NotFoundError:
        cell = next(islice(cells(part.axes), number, None))
        return missing_chunk(cell, f"{self.form.entry(position)} in {describe(self.kv, part.key)}")


def _cut(shard: memoryview, index: Index) -> Iterator[Numbered]:
    """Yield the encoded inner chunks of a shard that is in memory, in the order of the plan."""
    for number, (offset, length) in enumerate(index.tolist()):
        yield number, None if offset == MISSING else shard[offset : offset + length]


def _all_missing(n_chunks: int) -> Iterator[Numbered]:
    return zip(range(n_chunks), repeat(None), strict=False)
