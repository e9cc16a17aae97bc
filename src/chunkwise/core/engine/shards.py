"""Reading inner chunks of shards.

1. If most of a shard is wanted, it is read whole.  Otherwise its index is read, the wanted byte ranges are
   sorted and close ones joined, and each joined range is one request.  If the store can, the shard is opened
   once for all this.  Indexes are kept with the generation of their shard; opening the shard, or the next
   answer, shows whether an index is current.
2. If a shard is replaced between two requests, reading it starts again.
3. The index is checked before memory is allocated for its claims: the checksum, that each range is inside the
   shard, and its size if the codecs fix one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import add
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.threads import new_lock, put_in_order_in_child
from chunkwise.core.codec.sharding import MISSING, ShardLayout
from chunkwise.core.driver.stored_array import StoredArray, missing_chunk
from chunkwise.core.engine.batch import SharedReads
from chunkwise.core.engine.sources import Fetched
from chunkwise.core.engine.targets import Batch
from chunkwise.core.kvstore.caches import ShardIndexCache, ShardIndexes
from chunkwise.core.kvstore.protocol import (
    MOST_LOST,
    Buffer,
    ByteRange,
    OpenValue,
    RangeReadable,
    Readable,
    ValueOpenable,
    describe,
    offers,
)
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.kvstore.value import coalesce_ranges, resolve_range
from chunkwise.errors import AbortedError, DataCorruptionError, NotFoundError, OutOfRangeError, prefix

__all__ = ["GAP", "LARGEST_REQUEST", "WHOLE_SHARE", "KeptIndexes", "ShardSource"]

WHOLE_SHARE = 0.6
"""Share of a shard from which one request and one pass over memory beat picking ranges."""
# Raw shards in memory, milliseconds of processor time for picking and for the whole: 64³ with inner chunks of
# 16³: half 30 and 30, three quarters 52 and 45; 128³ with 64³: half 14 and 19, all 22 and 19.
GAP = 1 << 15
"""Largest gap, in bytes, that is read too, since another request would take longer."""
# Every second inner chunk of a local shard of 256³ uint16 takes 28 ms of processor time if gaps of 8 KiB are
# read, otherwise 35 ms; with gaps of 64 KiB 20 ms, otherwise 15 ms.
LARGEST_REQUEST = 1 << 26
"""Bytes of one request, which a worker holds in memory."""
# Half a shard of 33 MB takes as long in requests of 1 MiB as in one.
# A larger range is checked before memory is allocated for it.
_UNCHECKED = 1 << 24

Index: TypeAlias = "npt.NDArray[np.uint64]"
Entry: TypeAlias = "tuple[Index, Any]"  # with the shard's generation or stamp

_BUFFER = 1 << 20  # bytes of memory for encoded chunks that a worker keeps
_KEPT = 1 << 22  # bytes of indexes that an open array keeps, for a store that answers at once


class _ReplacedError(Exception):
    """The shard was replaced since its index was read."""


class KeptIndexes:
    """Indexes of the shards of an open array, each read once for all simultaneous reads."""

    def __init__(self, store: Readable) -> None:
        own = traits_of(store).shard_indexes
        self.cache: ShardIndexes = ShardIndexCache(_KEPT) if own is None else own
        # False if a later read couldn't notice an old index, so indexes are kept for one read only.
        self.lasts = own is not None or offers(store, ValueOpenable)
        self._lock = new_lock()
        self._reading: dict[str, list[Any]] = {}  # a lock, and how many readers hold it or wait
        put_in_order_in_child(self)

    def after_fork(self) -> None:
        """Forget the readers, which are the parent's threads."""
        self._reading = {}

    def find(self, key: str, read: Callable[[], Entry | None]) -> Entry | None:
        """Return the entry of `key`, by calling `read` if it isn't kept; None if the shard is missing."""
        found: Entry | None = self.cache.get(key)
        if found is not None:
            return found
        with self._lock:
            turn = self._reading.setdefault(key, [new_lock(), 0])
            turn[1] += 1
        try:
            with turn[0]:
                found = self.cache.get(key)
                if found is None and (found := read()) is not None:
                    self.cache.put(key, found, found[0].nbytes)
                return found
        finally:
            with self._lock:
                turn[1] -= 1
                if not turn[1]:
                    self._reading.pop(key, None)


@contextmanager
def _index_errors() -> Iterator[None]:
    try:
        yield
    except OutOfRangeError as e:
        raise DataCorruptionError(f"Error reading shard index: {e.message}") from e
    except DataCorruptionError as e:
        raise prefix(e, "Error reading shard index")  # noqa: B904 - the same error


class ShardSource:
    """Inner chunks, one shard after the other, for one worker."""

    def __init__(self, array: StoredArray, layout: ShardLayout, store: Readable, kept: KeptIndexes) -> None:
        assert array.shard is not None, "there are shards"
        self._array = array
        self._encoded_nbytes, self._bound = array.shard.chain.encoded_nbytes, array.shard.chain.bound
        self._layout = layout
        self._decode_index = layout.open_index_decoder()
        nbytes = layout.index_nbytes
        self._index_range = ByteRange(-nbytes) if layout.at_end else ByteRange(0, nbytes)
        self._store = store
        self._read = store.open_reader()
        self._open = store.open_value if offers(store, ValueOpenable) else None
        self._kept = kept
        coalescing = traits_of(store).coalescing
        self._gap = GAP if coalescing is None else coalescing.gap
        self._largest = LARGEST_REQUEST if coalescing is None else coalescing.largest
        self._key = ""
        self._positions: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._encoded: list[Buffer | None] = []
        self._memory: memoryview | None = None  # memory for encoded chunks of opened shards
        self._number = 0  # number of the inner chunk being checked while a shard is opened, for messages
        self._fetch = self._fetch_encoded

    def share(self, shared: SharedReads, owner: Hashable) -> None:
        """Fetch the parts of a shard that several reads of a batch of `owner` want together."""

        def fetch(key: str, positions: npt.NDArray[np.int64]) -> list[Buffer | None]:
            def read_all(some: Sequence[int]) -> list[Buffer | None]:
                self._number = 0
                return self._fetch_encoded(key, np.asarray(some, np.int64))

            return list(shared.take(owner, key, positions.tolist(), read_all))

        self._fetch = fetch

    def open_shard(self, key: str, positions: npt.NDArray[np.int64]) -> range:
        """Read the inner chunks at some positions of a shard, encoded; return their names."""
        self._key, self._positions = key, positions
        self._encoded = []  # the last shard's are freed before these are read
        self._number = 0
        for _ in range(MOST_LOST):
            try:
                self._encoded = self._fetch(key, positions)
                return range(len(positions))
            except _ReplacedError:
                self._kept.cache.evict(key)
            except Exception as e:
                raise self.failed(e, self._number) from e.__cause__
        where = describe(self._store, key)
        raise AbortedError(f"{where} was replaced {MOST_LOST} times while it was read")

    def close_shard(self) -> None:
        """Free the data read from the last shard."""
        self._encoded = []

    def fetch(self, batch: Batch) -> Iterator[Fetched]:
        """Return the inner chunks of the open shard; names are numbers in plan order."""
        return map(self._encoded.__getitem__, batch.names)

    def failed(self, error: Exception, name: Any) -> Exception:
        """Return `error` with the entry and the shard's key."""
        return prefix(error, f"Error reading {self._where(name)}")

    def missing(self, name: Any) -> NotFoundError:
        """Return the error for a missing inner chunk."""
        array, counts = self._array, self._layout.chunks_per_shard
        shard = array.keys.cell(self._key, array.grid.rank) or ()
        inside = np.unravel_index(int(self._positions[name]), counts) if counts else ()
        cell = tuple([s * n + int(i) for s, n, i in zip(shard, counts, inside, strict=True)])
        return missing_chunk(cell, self._where(name))

    def _where(self, number: int) -> str:
        entry = self._layout.entry(int(self._positions[number]))
        return f"{entry} in {describe(self._store, self._key)}"

    def _fetch_encoded(self, key: str, positions: npt.NDArray[np.int64]) -> list[Buffer | None]:
        """Return the encoded inner chunks at some positions, None for missing ones."""
        if len(positions) >= WHOLE_SHARE * self._layout.n_chunks:
            shard = self._read(key)
            if shard is None:
                return [None] * len(positions)
            view = memoryview(shard).cast("B")
            index = self._layout.decode_shard(view)[positions]
            self._check_sizes(index)
            return [
                None if offset == MISSING else view[offset : offset + length]
                for offset, length in index.tolist()
            ]
        if self._open is not None:
            return self._fetch_opened(self._open, key, positions)
        found = self._kept.find(key, lambda: self._read_index(key))
        if found is None:
            return [None] * len(positions)
        index, generation = found

        def check() -> None:  # if no range is read, nothing else would reveal an old index
            if self._kept.lasts:
                self._check_generation(key, generation)

        return self._read_ranges(index[positions], lambda spans: self._request(key, spans, generation), check)

    def _fetch_opened(
        self, open_value: Callable[[str], OpenValue | None], key: str, positions: npt.NDArray[np.int64]
    ) -> list[Buffer | None]:
        """Like `_fetch_encoded`, for a shard that is opened once and whose index may be known."""
        value = open_value(key)
        if value is None:
            return [None] * len(positions)
        try:
            stamp, known = value.stamp, None
            if stamp is not None:
                known = self._kept.cache.get(key)
            if known is not None and known[1] == stamp:
                index = known[0]
            else:
                index = self._index_of(value)
                if stamp is not None:
                    self._kept.cache.put(key, (index, stamp), index.nbytes)
            try:
                encoded = self._read_ranges(
                    index[positions], lambda spans: self._read_spans(value, spans), None
                )
            except OutOfRangeError as e:
                if value.changed():
                    raise _ReplacedError from None
                raise DataCorruptionError(e.message) from e
            if value.changed():
                raise _ReplacedError
            return encoded
        finally:
            value.close()

    def _read_spans(self, value: OpenValue, spans: list[tuple[int, int]]) -> list[memoryview]:
        """Return byte ranges of an open shard, valid until the next one is opened."""
        # Recently used memory needs no new pages: this saves a twentieth of the time of a box of 48³.
        starts, stops = zip(*spans, strict=True)
        n_bytes = sum(stops) - sum(starts)
        if n_bytes <= _BUFFER and (self._memory is None or len(self._memory) < n_bytes):
            self._memory = np.empty(min(_BUFFER, max(1 << 16, 2 * n_bytes)), np.uint8).data
        return value.read(starts, stops, self._memory)

    def _index_of(self, value: OpenValue) -> Index:
        with _index_errors():
            start, stop = resolve_range(*self._index_range, value.size)
            return self._decode_index(value.read((start,), (stop,))[0])

    def _read_index(self, key: str) -> Entry | None:
        """Return the index of a shard and the shard's generation; None if the shard is missing."""
        with _index_errors():
            found = self._store.read(key, byte_range=self._index_range)
            return None if found.value is None else (self._decode_index(found.value), found.generation)

    def _read_ranges(
        self,
        index: Index,
        request: Callable[[list[tuple[int, int]]], Iterable[Buffer]],
        check: Callable[[], None] | None,
    ) -> list[Buffer | None]:
        """Return the encoded inner chunks with the given entries, read in the order of their offsets."""
        self._check_sizes(index)
        encoded: list[Buffer | None] = [None] * len(index)
        entries = index.tolist()
        order = sorted(range(len(entries)), key=entries.__getitem__)
        while order and entries[order[-1]][0] == MISSING:
            order.pop()
        if not order:
            if check is not None:
                check()
            return encoded
        starts, lengths = zip(*map(entries.__getitem__, order), strict=True)
        runs = coalesce_ranges(starts, lengths, gap=self._gap, largest=self._largest)
        spans = []
        for run in runs:
            spans.append((starts[run.start], max(map(add, starts[run], lengths[run]))))
        for run, (first, _), data in zip(runs, spans, request(spans), strict=True):
            view = memoryview(data).cast("B")
            for number in order[run]:
                start, length = entries[number]
                encoded[number] = view[start - first : start - first + length]
        return encoded

    def _request(self, key: str, spans: list[tuple[int, int]], generation: bytes) -> Iterator[Buffer]:
        """Yield byte ranges of the shard, all with the given generation."""
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
        """Raise if an inner chunk has another size than its codecs store, or more than they ever do."""
        expected, bound = self._encoded_nbytes, self._bound
        if expected is not None:
            wrong = (index[:, 0] != MISSING) & (index[:, 1] != expected)
        elif bound is not None:
            wrong = (index[:, 0] != MISSING) & (index[:, 1] > bound.nbytes)
        else:
            return
        if wrong.any():
            self._number = int(np.argmax(wrong))
            most = f"at most {bound.nbytes}" if expected is None and bound is not None else expected
            raise DataCorruptionError(f"Inner chunk has {index[self._number, 1]} bytes, expected {most}")
