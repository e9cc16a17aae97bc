"""A store whose values are entries of shards, each of which is one value of another store.

A `ShardFormat` decides where an entry is and how a shard is composed.  It reads parts of a shard through a
`ShardReader`, which notices when the shard is replaced; indexes are kept as long as the shard is the same.
Every write replaces the shard, on condition that no other writer has, so it is better to write many values at
once, by `ShardedStore.change`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from chunkwise.core.base.binding import dump
from chunkwise.core.kvstore.atomic import Modification
from chunkwise.core.kvstore.caches import LEAST_INDEX_NBYTES, ShardIndexCache
from chunkwise.core.kvstore.compare_and_swap import ReplacedError, compare_and_swap, while_replaced
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, Buffer, ByteRange, KvStoreDriver, Stamped
from chunkwise.core.kvstore.store_base import StoreBase
from chunkwise.core.kvstore.traits import StoreTraits, traits_of
from chunkwise.core.kvstore.value import check_claim, resolve_range, slice_range
from chunkwise.errors import (
    ChunkwiseError,
    DataCorruptionError,
    InvalidArgumentError,
    OutOfRangeError,
    prefix,
    prefixed,
)

__all__ = ["Place", "Put", "ShardFormat", "ShardReader", "ShardedStore", "SingleShardStore"]


class Place(NamedTuple):
    """Location of the value of a key."""

    shard: str  # the shard's key, without the path of the store
    part: int  # number of the shard's index with the entry
    entry: int  # number of the entry; in the order of keys


class ShardReader:
    """Parts of one shard, all of the same generation."""

    def __init__(self, base: KvStoreDriver, key: str, generation: bytes | None = None) -> None:
        self._base = base
        self._key = key
        self.generation = generation  # None until something is read
        self.time = 0.0  # time at which the shard had that generation

    def __call__(self, start: int, stop: int | None) -> Buffer | None:
        """Return the part of a `ByteRange`; None if there is no shard; raise if it was replaced."""
        try:
            part = self._base.read(self._key, byte_range=ByteRange(start, stop))
        except OutOfRangeError as e:
            if self.generation is None:
                raise DataCorruptionError(f"the shard is shorter than its index: {e.message}") from e
            self._look()
            raise DataCorruptionError(f"bytes {start} to {stop} are not in the shard: {e.message}") from e
        self._see(part)
        return part.value

    def confirm(self) -> None:
        """Raise ReplacedError if nothing was read and the shard has another generation now."""
        if not self.time:
            self._look()

    def _look(self) -> None:
        self._see(self._base.read(self._key, byte_range=ByteRange(0, 0), if_not_equal=self.generation))

    def _see(self, part: Stamped) -> None:
        if self.generation not in (None, part.generation):
            raise ReplacedError
        self.generation, self.time = part.generation, part.time


class EntryIndex(Protocol):
    """Bounds of the entries of a shard, or of a part of them."""

    @property
    def nbytes(self) -> int:
        """Size in memory, in bytes."""
        ...

    def find(self, entry: int) -> tuple[int, int] | None:
        """Return the byte range of an entry in the shard; None if it is not stored."""
        ...


class ShardFormat(Protocol):
    """A format of shards; hashable, and equal to others exactly if they are the same format.

    Attributes
    ----------
    stored_as_is : bool
        True if the bytes of an entry are those of its value.
    """

    @property
    def stored_as_is(self) -> bool: ...
    def place(self, key: str) -> Place:
        """Return the location of the value of `key`; raise InvalidArgumentError for an invalid key."""
        ...

    def key(self, entry: int) -> str:
        """Return the key of an entry."""
        ...

    def describe(self, place: Place) -> str:
        """Return the name of an entry in messages."""
        ...

    def shards(self, names: Callable[[], Iterable[str]]) -> Iterable[str]:
        """Return the names of all possible shards; `names` lists the existing values."""
        ...

    def read_index(self, part: int, read: ShardReader) -> EntryIndex | None:
        """Return one of the indexes of a shard; None if there is no shard."""
        ...

    def read_entries(self, read: ShardReader) -> Iterable[int]:
        """Return the numbers of all entries of a shard, in order if the shard has them in order."""
        ...

    def decode_shard(self, shard: Buffer) -> Mapping[int, Buffer]:
        """Return all entries of a shard in their stored form."""
        ...

    def encode_shard(self, entries: Mapping[int, Buffer]) -> Buffer:
        """Return the shard with the given entries, at least one."""
        ...

    def decode(self, stored: Buffer) -> Buffer:
        """Return the value with the stored form `stored`."""
        ...

    def encode(self, value: Buffer) -> bytes:
        """Return the stored form of a value."""
        ...


T = TypeVar("T")


@dataclass(frozen=True)
class Put:
    """A change that needs no old value, which may be damaged."""

    value: Buffer | None

    def __call__(self, old: Buffer | None) -> Buffer | None:
        return self.value


class _KnownIndex(NamedTuple):
    generation: bytes  # of the shard
    entries: EntryIndex


class ShardedStore(StoreBase):
    """The values in the shards of `base` whose keys begin with `path`."""

    # The generation of every value is that of its shard.

    def __init__(self, base: KvStoreDriver, path: str, format: ShardFormat, cache_nbytes: int = 0) -> None:
        self.base = base
        self.path = path
        self.format = format
        self.cache_nbytes = cache_nbytes  # bytes of indexes to keep, if more than the minimum
        self._indexes = ShardIndexCache(max(cache_nbytes, LEAST_INDEX_NBYTES))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.base, self.path, self.format, self.cache_nbytes)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base!r}, {self.path!r})"

    @property
    def traits(self) -> StoreTraits:
        """The base's traits, except that every change is a conditional write, or deletion, of a shard."""
        base = traits_of(self.base)
        return StoreTraits(
            request_concurrency=base.request_concurrency,
            write_concurrency=None,
            io_limit=base.io_limit,
            coalescing=None,
            suffix_ranges=True,
            conditional_deletes=base.conditional_deletes,
            conditional_writes=lambda key: base.conditional_writes(self._shard_key(self.format.place(key))),
            is_cached=None,
            shard_indexes=None,
            open_writer=None,
            open_into_reader=None,
            own_generations=False,
        )

    @property
    def identity(self) -> Hashable:
        """The identity of the base, with the path and the format."""
        return "sharded", self.base.identity, self.path, self.format

    def describe(self, key: str) -> str:
        """Name the entry and the shard."""
        try:
            place = self.format.place(key)
        except InvalidArgumentError:
            return f"{dump(key)} in {self.base.describe(self.path)}"
        return f"{self.format.describe(place)} in {self.base.describe(self._shard_key(place))}"

    def check_key(self, key: str) -> None:
        """Raise InvalidArgumentError for an invalid key."""
        self.format.place(key)

    def _shard_key(self, place: Place) -> str:
        return self.path + place.shard

    # -- reading ------------------------------------------------------------------------------------

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Return the value of `key` or a part of it, with the generation of its shard."""
        place = self.format.place(key)
        try:
            return while_replaced(
                self.base, self._shard_key(place), lambda: self._read(place, byte_range, if_not_equal)
            )
        except OutOfRangeError:
            raise
        except ChunkwiseError as e:
            raise prefix(e, f"Error reading {self.describe(key)}") from None

    def _read(self, place: Place, byte_range: ByteRange | None, if_not_equal: bytes | None) -> Stamped:
        name = f"{place.part} {place.shard}"
        known: _KnownIndex | None = self._indexes.get(name)
        read = ShardReader(self.base, self._shard_key(place), None if known is None else known.generation)
        try:
            index = self.format.read_index(place.part, read) if known is None else known.entries
            if index is None:
                return Stamped(None, MISSING_GENERATION, read.time)
            assert read.generation is not None
            if known is None:
                self._indexes.put(name, _KnownIndex(read.generation, index), index.nbytes)
            bounds = index.find(place.entry)
            if bounds is not None and byte_range is None:
                try:
                    check_claim(bounds[1] - bounds[0], self.format.describe(place))
                except ChunkwiseError:
                    read.confirm()  # or the known index is that of a shard which was replaced
                    raise
            return self._read_entry(read, bounds, byte_range, if_not_equal)
        except ReplacedError:
            self._indexes.evict(name)
            raise

    def _read_entry(
        self,
        read: ShardReader,
        bounds: tuple[int, int] | None,
        byte_range: ByteRange | None,
        if_not_equal: bytes | None,
    ) -> Stamped:
        generation = read.generation
        assert generation is not None
        if bounds is None or generation == if_not_equal:
            read.confirm()
            return Stamped(None, MISSING_GENERATION if bounds is None else generation, read.time)
        start, stop = bounds
        as_is = self.format.stored_as_is
        if byte_range is not None and as_is:
            try:
                begin, end = resolve_range(*byte_range, stop - start)
            except OutOfRangeError:
                read.confirm()
                raise
            start, stop = start + begin, start + end
        if start == stop:
            read.confirm()
        stored = b"" if start == stop else read(start, stop)
        assert stored is not None
        value = self.format.decode(stored)
        if byte_range is not None and not as_is:
            value = slice_range(memoryview(value), *byte_range)
        return Stamped(value, generation, read.time)

    # -- changing -----------------------------------------------------------------------------------

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Replace the shard by one with the new value of `key`; return its generation."""
        new = bytes(value)
        return self._change_one(key, Put(new), if_equal)

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Replace the shard by one without `key`, or delete it if that was its only value."""
        done = self._change_one(key, Put(None), if_equal)
        return None if done is None else MISSING_GENERATION

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Delete the keys in ``[start, stop)``; shards are replaced one after the other."""
        keys = KeyRange.between(start, stop)
        for name in self.format.shards(self._names):
            self._change_shard(name, {}, deleted=(keys,))

    def change(self, changes: Mapping[str, Modification]) -> None:
        """Make many changes, with one write for each affected shard."""
        shards: dict[str, dict[int, Modification]] = {}
        for key, change in changes.items():
            place = self.format.place(key)
            shards.setdefault(place.shard, {})[place.entry] = change
        for name, own in shards.items():
            self._change_shard(name, own)

    def _change_one(self, key: str, change: Modification, if_equal: bytes | None) -> bytes | None:
        place = self.format.place(key)
        conditions = {place.entry: if_equal} if if_equal else {}
        return self._change_shard(place.shard, {place.entry: change}, conditions)[1]

    def _change_shard(
        self,
        name: str,
        changes: Mapping[int, Modification],
        conditions: Mapping[int, bytes] | None = None,
        deleted: Sequence[KeyRange] = (),
    ) -> tuple[int | None, bytes | None]:
        """Return an entry whose generation differs from `conditions`, or else the new shard's generation."""
        shard_key = self.path + name
        out: tuple[int | None, bytes | None] = None, None

        def attempt() -> bytes | None:
            nonlocal out
            before = self.base.read(shard_key)
            with prefixed(f"Error reading {self.base.describe(shard_key)}", ChunkwiseError):
                entries = {} if before.value is None else self.format.decode_shard(before.value)
                for entry, expected in (conditions or {}).items():
                    if expected != (before.generation if entry in entries else MISSING_GENERATION):
                        out = entry, None
                        return None
                after = self._changed(entries, changes, deleted)
            if after is None:
                out = None, before.generation
                return None
            if after:
                data = self.format.encode_shard(after)
                written = self.base.write(shard_key, data, if_equal=before.generation)
            else:
                written = self.base.delete(shard_key, if_equal=before.generation)
            out = None, written
            return before.generation if written is None else None

        compare_and_swap(self.base, shard_key, attempt)
        return out

    def _changed(
        self, entries: Mapping[int, Buffer], changes: Mapping[int, Modification], deleted: Sequence[KeyRange]
    ) -> dict[int, Buffer] | None:
        """Return the entries after the changes; None if nothing changes."""
        after, written = dict(entries), False
        if deleted:
            for entry in entries:
                if any(self.format.key(entry) in keys for keys in deleted):
                    del after[entry]
        for entry, change in changes.items():
            stored = after.pop(entry, None)
            old = None if stored is None or isinstance(change, Put) else self.format.decode(stored)
            value = change(old)
            if value is not None:
                after[entry], written = self.format.encode(value), True
        return after if written or len(after) < len(entries) else None

    # -- listing ------------------------------------------------------------------------------------

    def _names(self) -> Iterator[str]:
        below = KeyRange.of_prefix(self.path)
        return (key[len(self.path) :] for key in self.base.list(below.start, below.stop))

    def _read_entries(self, shard_key: str) -> Iterable[int]:
        return self.format.read_entries(ShardReader(self.base, shard_key))

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        """Yield the keys in ``[start, stop)``, shard by shard; the indexes of each are read."""
        keys = KeyRange.between(start, stop)
        for name in self.format.shards(self._names):
            shard_key = self.path + name
            with prefixed(f"Error reading {self.base.describe(shard_key)}", ChunkwiseError):
                entries = while_replaced(self.base, shard_key, partial(self._read_entries, shard_key))
            for entry in entries:
                key = self.format.key(entry)
                if key in keys:
                    yield key


class SingleShardStore(ShardedStore):
    """The values in one shard, which many changes replace only once; its key in `base` is `path`."""

    def write_all(
        self,
        values: Mapping[str, Buffer | None],
        *,
        conditions: Mapping[str, bytes],
        deleted: Sequence[KeyRange] = (),
    ) -> str | None:
        """Make many changes with one new shard; see `chunkwise.core.kvstore.atomic.AtomicWritable`."""
        entry_of = {key: self.format.place(key).entry for key in (*values, *conditions)}
        changes = {entry_of[key]: Put(value) for key, value in values.items()}
        expected = {entry_of[key]: generation for key, generation in conditions.items() if generation}
        failed, _ = self._change_shard("", changes, expected, deleted)
        return None if failed is None else self.format.key(failed)
