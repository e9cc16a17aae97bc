"""Inner chunks of shards.

1. Where most of a shard is wanted it is read in one go.  Otherwise its index is read, the byte ranges wanted
   are put in order and joined where they are close, and each joined range is one request.  A store that
   answers slowly may remember indexes; whether one is current shows in the next answer.
2. A shard that was replaced between two requests is started again.
3. Everything the index claims is checked before memory is taken for it: the checksum, that each range lies
   in the shard, its size where the codecs fix one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.codec.protocol import PreparedChain
from chunkwise.codec.shard_layout import MISSING, ShardLayout
from chunkwise.driver.stored_array import StoredArray, describe, missing_chunk
from chunkwise.engine.sources import Fetched
from chunkwise.engine.targets import Batch
from chunkwise.errors import AbortedError, DataCorruptionError, NotFoundError, OutOfRangeError, prefix
from chunkwise.fork import Lock, new_lock
from chunkwise.kvstore.byte_range import coalesce_ranges
from chunkwise.kvstore.protocol import MOST_LOST, Buffer, ByteRange, RangeReadable, Readable, offers
from chunkwise.kvstore.shard_index_cache import ShardIndexCache, ShardIndexes
from chunkwise.kvstore.traits import traits_of
from chunkwise.plan.plan import cells
from chunkwise.plan.shard import ShardRequest

__all__ = ["GAP", "LARGEST_REQUEST", "WHOLE_SHARE", "ShardSource", "index_cache"]

WHOLE_SHARE = 0.6
"""With this share of a shard wanted, one request and one pass over the memory beat picking."""
# Raw shards in memory, milliseconds of processor time for picking and for the whole: 64³ with inner chunks of
# 16³, half of them 30 and 30, three quarters 52 and 45; 128³ with 64³, half 14 and 19, all of it 22 and 19.
GAP = 1 << 15
"""Bytes that are read along, since another request would take longer."""
# Every second inner chunk of a local shard of 256³ uint16: 28 ms of processor time where gaps of 8 KiB are
# read along, else 35; where gaps of 64 KiB are, 20, else 15.
LARGEST_REQUEST = 1 << 26
"""Bytes of one request, which a worker holds."""
# Half a shard of 33 MB takes as long in requests of 1 MiB as in one.
# A range that is larger than this is looked at before memory is taken for it.
_UNCHECKED = 1 << 24

Index: TypeAlias = "npt.NDArray[np.uint64]"


class _ReplacedError(Exception):
    """The shard is no longer the one whose index was read."""


def index_cache(store: Readable, *, shared: bool) -> ShardIndexes | None:
    """Return the index cache of the store, or one of the read where workers share shards."""
    indexes = traits_of(store).shard_indexes
    return ShardIndexCache() if indexes is None and shared else indexes


class ShardSource:
    """Inner chunks of one shard after the other, for one worker."""

    # Where workers read parts of the same shards, the lock of a key is held while its index is read.

    def __init__(
        self,
        array: StoredArray,
        chain: PreparedChain,
        layout: ShardLayout,
        store: Readable,
        indexes: ShardIndexes | None,
        locks: dict[str, Lock] | None,
    ) -> None:
        self._array = array
        self._chain = chain
        self._layout = layout
        self._store = store
        self._read = store.open_reader()
        self._indexes = indexes
        self._locks = locks
        coalescing = traits_of(store).coalescing
        self._gap = GAP if coalescing is None else coalescing.gap
        self._largest = LARGEST_REQUEST if coalescing is None else coalescing.largest
        self._touched: ShardRequest | None = None
        self._positions: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._encoded: list[Buffer | None] = []
        self._number = 0  # of the inner chunk that is looked at while a shard is opened, for messages

    def open_shard(self, request: ShardRequest) -> range:
        """Read the inner chunks of a part of a shard, encoded; return their names."""
        self._touched, self._positions = request, request.positions()
        self._encoded = []  # those of the last shard go before these come
        self._number = 0
        for _ in range(MOST_LOST):
            try:
                self._encoded = self._fetch_encoded(request.key, self._positions)
                return range(len(self._positions))
            except _ReplacedError:
                if self._indexes is not None:
                    self._indexes.evict(request.key)
            except Exception as e:
                raise self.failed(e, self._number) from e.__cause__
        where = describe(self._store, request.key)
        raise AbortedError(f"{where} was replaced {MOST_LOST} times while it was read")

    def fetch(self, batch: Batch) -> Iterator[Fetched]:
        """Yield inner chunks of the open shard; names are numbers in the order of the plan."""
        for number in batch.names:
            yield self._encoded[number]

    def failed(self, error: Exception, name: Any) -> Exception:
        """Return `error` with the entry and the shard's key."""
        return prefix(error, f"Error reading {self._where(name)}")

    def missing(self, name: Any) -> NotFoundError:
        """Return the error of an inner chunk that isn't stored."""
        assert self._touched is not None, "a shard is open"
        return missing_chunk(next(islice(cells(self._touched.axes), name, None)), self._where(name))

    def _where(self, number: int) -> str:
        assert self._touched is not None, "a shard is open"
        entry = self._layout.entry(int(self._positions[number]))
        return f"{entry} in {describe(self._store, self._touched.key)}"

    def _fetch_encoded(self, key: str, positions: npt.NDArray[np.int64]) -> list[Buffer | None]:
        """Return the encoded inner chunks at some positions, None for those that are missing."""
        nothing: list[Buffer | None] = [None] * len(positions)
        if len(positions) >= WHOLE_SHARE * self._layout.n_chunks:
            shard = self._read(key)
            if shard is None:
                return nothing
            view = memoryview(shard).cast("B")
            index = self._layout.decode_shard(view)[positions]
            self._check_sizes(index)
            return [
                None if offset == MISSING else view[offset : offset + length]
                for offset, length in index.tolist()
            ]
        found = self._read_index(key)
        if found is None:
            return nothing
        index, generation = found
        return self._read_ranges(key, index[positions], generation)

    def _read_index(self, key: str) -> tuple[Index, bytes] | None:
        """Return the index of a shard and the shard's generation; None if the shard is missing."""
        if self._locks is None:
            return self._find_index(key)
        # or each worker would ask for it
        with self._locks.get(key) or self._locks.setdefault(key, new_lock()):
            return self._find_index(key)

    def _find_index(self, key: str) -> tuple[Index, bytes] | None:
        known: tuple[Index, bytes] | None = None if self._indexes is None else self._indexes.get(key)
        if known is not None:
            return known
        nbytes = self._layout.index_nbytes
        where = ByteRange(-nbytes) if self._layout.at_end else ByteRange(0, nbytes)
        try:
            found = self._store.read(key, byte_range=where)
            if found.value is None:
                return None
            index = self._layout.decode(found.value)
        except OutOfRangeError as e:
            raise DataCorruptionError(f"Error reading shard index: {e.message}") from e
        except DataCorruptionError as e:
            raise prefix(e, "Error reading shard index")  # noqa: B904 - the same error
        if self._indexes is not None:
            self._indexes.put(key, (index, found.generation), index.nbytes)
        return index, found.generation

    def _read_ranges(self, key: str, index: Index, generation: bytes) -> list[Buffer | None]:
        """Return the encoded inner chunks with the given entries, read in the order of their offsets."""
        self._check_sizes(index)
        encoded: list[Buffer | None] = [None] * len(index)
        numbers = np.flatnonzero(index[:, 0] != MISSING)
        numbers = numbers[np.argsort(index[numbers, 0], kind="stable")]
        offsets, lengths = index[numbers, 0], index[numbers, 1]
        runs = coalesce_ranges(offsets, lengths, gap=self._gap, largest=self._largest)
        if not runs and self._indexes is not None:
            self._check_generation(key, generation)  # nothing else would show that the index is old
        starts, stops, names = offsets.tolist(), (offsets + lengths).tolist(), numbers.tolist()
        spans = [(starts[run.start], max(stops[run])) for run in runs]
        for run, data in zip(runs, self._request(key, spans, generation), strict=True):
            view, first = memoryview(data).cast("B"), starts[run.start]
            for number, start, stop in zip(names[run], starts[run], stops[run], strict=True):
                encoded[number] = view[start - first : stop - first]
        return encoded

    def _request(self, key: str, spans: list[tuple[int, int]], generation: bytes) -> Iterator[Buffer]:
        """Yield byte ranges of the shard, all from the one that has the given generation."""
        store = self._store
        try:
            if len(spans) > 1 and offers(store, RangeReadable):
                found = store.read_ranges(key, *map(list, zip(*spans, strict=True)))
                self._check_generation(key, generation)
                yield from found or ()
                return
            for start, stop in spans:
                if stop - start > _UNCHECKED:
                    store.read(key, byte_range=ByteRange(stop - 1, stop))
                stamped = store.read(key, byte_range=ByteRange(start, stop))
                if stamped.value is None or stamped.generation != generation:
                    raise _ReplacedError
                yield stamped.value
        except OutOfRangeError as e:
            self._check_generation(key, generation)
            raise DataCorruptionError(e.message) from e

    def _check_generation(self, key: str, generation: bytes) -> None:
        now = self._store.read(key, byte_range=ByteRange(0, 0), if_not_equal=generation)
        if now.generation != generation:
            raise _ReplacedError

    def _check_sizes(self, index: Index) -> None:
        """Raise if an inner chunk has not the size that its codecs give every chunk."""
        expected = self._chain.encoded_nbytes
        if expected is None:
            return
        wrong = (index[:, 0] != MISSING) & (index[:, 1] != expected)
        if wrong.any():
            self._number = int(np.argmax(wrong))
            raise DataCorruptionError(f"Inner chunk has {index[self._number, 1]} bytes, expected {expected}")
