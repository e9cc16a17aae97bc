"""Values under 64-bit identifiers, many in one value of another store: neuroglancer's sharded format.

Specification
-------------
neuroglancer, "Sharded format"; `chunkwise.kvstore.adapter.sharding_spec` has the layout.  A key is the
identifier as 8 bytes, most significant first, as in TensorStore.

A read takes three requests for parts of the shard; indexes of minishards are kept as long as the shard is the
same.  Every write is a new shard in place of the old one, on condition that nobody else has replaced it, so
many values are better written at once, by `ShardedStore.change`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from chunkwise.binding import dump
from chunkwise.cached import put_bounded
from chunkwise.errors import (
    AbortedError,
    ChunkwiseError,
    DataCorruptionError,
    InvalidArgumentError,
    OutOfRangeError,
    prefix,
)
from chunkwise.kvstore.adapter.sharding_spec import (
    MinishardIndex,
    Sharding,
    decode_shard,
    encode_shard,
    minishard_bounds,
)
from chunkwise.kvstore.byte_range import resolve_range
from chunkwise.kvstore.key_range import KeyRange, decode_key, encode_key
from chunkwise.kvstore.protocol import (
    MISSING_GENERATION,
    MOST_LOST,
    Buffer,
    ByteRange,
    Children,
    KvStoreDriver,
    Reader,
    Stamped,
)
from chunkwise.kvstore.traits import StoreTraits, traits_of

__all__ = ["ShardedStore", "chunk_key"]

_LARGEST_VALUE = 1 << 31

Change: TypeAlias = "Callable[[Buffer | None], Buffer | None]"
"""From the value that a key has to the one that it is to have; None is a missing key."""


class _KnownIndex(NamedTuple):
    generation: bytes  # of the shard
    minishard: MinishardIndex


class _Found(NamedTuple):
    generation: bytes  # of the shard
    time: float
    bounds: tuple[int, int] | None  # of the value in the shard


class _ReplacedError(Exception):
    """The shard is no longer the one whose index was read."""


def chunk_key(chunk: int) -> str:
    """Return the key of a chunk."""
    return decode_key(chunk.to_bytes(8, "big"))


class ShardedStore:
    """The values in the shards whose keys in `base` begin with `directory`."""

    # The generation of every value is that of its shard.

    def __init__(
        self, base: KvStoreDriver, directory: str, sharding: Sharding, largest_value: int = _LARGEST_VALUE
    ) -> None:
        self.base = base
        self.directory = directory
        self.sharding = sharding
        self.largest_value = largest_value  # in bytes; compressed values may claim more
        self._known: dict[tuple[int, int], _KnownIndex] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return ShardedStore, (self.base, self.directory, self.sharding, self.largest_value)

    def __repr__(self) -> str:
        return f"ShardedStore({self.base!r}, {self.directory!r})"

    def over(self, base: KvStoreDriver) -> ShardedStore:
        """Return the same store in another base."""
        return ShardedStore(base, self.directory, self.sharding, self.largest_value)

    @property
    def traits(self) -> StoreTraits:
        """Those of the base, where every change, a deletion too, is a conditional write of a shard."""
        base = traits_of(self.base)
        return StoreTraits(
            request_concurrency=base.request_concurrency,
            write_concurrency=None,
            io_limit=base.io_limit,
            coalescing=None,
            suffix_ranges=True,
            conditional_deletes=True,
            conditional_writes=lambda key: base.conditional_writes(self._shard_of(key)[0]),
            is_cached=None,
            shard_indexes=None,
            open_writer=None,
            open_into_reader=None,
        )

    @property
    def identity(self) -> Any:
        """The identity of the base, with what makes the values."""
        return "uint64_sharded", self.base.identity, self.directory, self.sharding

    def describe(self, key: str) -> str:
        """Name the chunk and the shard."""
        raw = encode_key(key)
        if len(raw) != 8:
            return f"{dump(key)} in {self.base.describe(self.directory)}"
        shard, minishard = self.sharding.place(int.from_bytes(raw, "big"))
        where = self.base.describe(self.directory + self.sharding.shard_name(shard))
        return f"chunk {int.from_bytes(raw, 'big')} in minishard {minishard} in {where}"

    def _shard_of(self, key: str) -> tuple[str, int, int, int]:
        """Return the key of the shard, its number, that of the minishard, and the chunk."""
        raw = encode_key(key)
        if len(raw) != 8:
            raise InvalidArgumentError(f"Invalid key {dump(key)}: expected the 8 bytes of an identifier")
        chunk = int.from_bytes(raw, "big")
        shard, minishard = self.sharding.place(chunk)
        return self.directory + self.sharding.shard_name(shard), shard, minishard, chunk

    # -- reading ------------------------------------------------------------------------------------

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Return the value of `key` or a part of it, with the generation of its shard."""
        shard_key, shard, minishard, chunk = self._shard_of(key)
        try:
            for _ in range(MOST_LOST):
                try:
                    found = self._find(shard_key, shard, minishard, chunk)
                    if found.bounds is None:
                        return Stamped(None, MISSING_GENERATION, found.time)
                    if found.generation == if_not_equal:
                        return Stamped(None, found.generation, found.time)
                    stored = self._part(shard_key, found.bounds, found.generation)
                    value = self.sharding.decode_data(stored.value or b"", self.largest_value)
                    if byte_range is not None:
                        begin, end = resolve_range(*byte_range, len(value))
                        value = memoryview(value)[begin:end]
                    return Stamped(value, found.generation, stored.time)
                except _ReplacedError:
                    self._known.pop((shard, minishard), None)
        except OutOfRangeError:
            raise
        except ChunkwiseError as e:
            raise prefix(e, f"Error reading {self.describe(key)}") from None
        raise AbortedError(
            f"{self.base.describe(shard_key)} was replaced {MOST_LOST} times while it was read"
        )

    def open_reader(self) -> Reader:
        """Return a reader for one worker."""

        def read(key: str, start: int = 0, stop: int | None = None) -> Buffer | None:
            return self.read(
                key, byte_range=None if (start, stop) == (0, None) else ByteRange(start, stop)
            ).value

        return read

    def _find(self, shard_key: str, shard: int, minishard: int, chunk: int) -> _Found:
        known = self._known.get((shard, minishard))
        if known is not None:
            bounds = known.minishard.find(chunk)
            if bounds is not None:
                return _Found(known.generation, 0.0, bounds)  # the read of the value tells if it still holds
            now = self.base.read(shard_key, byte_range=ByteRange(0, 0), if_not_equal=known.generation)
            if now.generation == known.generation:
                return _Found(known.generation, now.time, None)
        try:
            entry = self.base.read(shard_key, byte_range=ByteRange(16 * minishard, 16 * minishard + 16))
        except OutOfRangeError as e:
            raise DataCorruptionError(f"the shard is shorter than its index: {e.message}") from e
        if entry.value is None:
            return _Found(MISSING_GENERATION, entry.time, None)
        ((start, stop),) = minishard_bounds(entry.value, self.sharding)
        stored = self._part(shard_key, (start, stop), entry.generation)
        index = MinishardIndex.decode(stored.value or b"", self.sharding)
        put_bounded(self._known, (shard, minishard), _KnownIndex(entry.generation, index))
        return _Found(entry.generation, stored.time, index.find(chunk))

    def _part(self, shard_key: str, bounds: tuple[int, int], generation: bytes) -> Stamped:
        """Read a part of a shard; raise _ReplacedError if the shard is another one now."""
        if bounds[0] == bounds[1]:
            return Stamped(b"", generation, 0.0)
        try:
            part = self.base.read(shard_key, byte_range=ByteRange(*bounds))
        except OutOfRangeError as e:
            now = self.base.read(shard_key, byte_range=ByteRange(0, 0), if_not_equal=generation)
            if now.generation != generation:
                raise _ReplacedError from None
            raise DataCorruptionError(
                f"bytes {bounds[0]} to {bounds[1]} are not in the shard: {e.message}"
            ) from e
        if part.generation != generation:
            raise _ReplacedError
        return part

    # -- changing -----------------------------------------------------------------------------------

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Replace the shard by one with another value of `key`; return its generation."""
        new = bytes(value)
        return self._change_one(key, lambda _: new, if_equal)

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Replace the shard by one without `key`, or delete it if that is all that it has."""
        done = self._change_one(key, lambda _: None, if_equal)
        return None if done is None else MISSING_GENERATION

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Delete the keys in ``[start, stop)``; shards are replaced one after the other."""
        self.change({key: lambda _: None for key in self.list(start, stop)})

    def change(self, changes: Mapping[str, Change]) -> None:
        """Make many changes, with one write of each shard that they are in."""
        shards: dict[str, dict[int, Change]] = {}
        for key, change in changes.items():
            shard_key, _, _, chunk = self._shard_of(key)
            shards.setdefault(shard_key, {})[chunk] = change
        for shard_key, own in shards.items():
            self._change_shard(shard_key, own, None)

    def _change_one(self, key: str, change: Change, if_equal: bytes | None) -> bytes | None:
        shard_key, _, _, chunk = self._shard_of(key)
        return self._change_shard(shard_key, {chunk: change}, if_equal or None)

    def _change_shard(
        self, shard_key: str, changes: Mapping[int, Change], if_equal: bytes | None
    ) -> bytes | None:
        """Return the generation of the new shard; None if `if_equal` is not that of the one chunk."""
        for _ in range(MOST_LOST):
            before = self.base.read(shard_key)
            try:
                chunks = {} if before.value is None else decode_shard(before.value, self.sharding)
                if if_equal is not None:
                    (chunk,) = changes
                    if if_equal != (before.generation if chunk in chunks else MISSING_GENERATION):
                        return None
                after = self._changed(chunks, changes)
            except ChunkwiseError as e:
                raise prefix(e, f"Error reading {self.base.describe(shard_key)}") from None
            if not after:
                if before.value is None:
                    return MISSING_GENERATION
                written = self.base.delete(shard_key, if_equal=before.generation)
            else:
                data = encode_shard(after, self.sharding)
                written = self.base.write(shard_key, data, if_equal=before.generation)
            if written is not None:
                return written
        raise AbortedError(
            f"{self.base.describe(shard_key)} was replaced {MOST_LOST} times while it was written"
        )

    def _changed(self, chunks: Mapping[int, Buffer], changes: Mapping[int, Change]) -> dict[int, Buffer]:
        after: dict[int, Buffer] = dict(chunks)
        for chunk, change in changes.items():
            stored = after.pop(chunk, None)
            value = change(None if stored is None else self.sharding.decode_data(stored, self.largest_value))
            if value is not None:
                after[chunk] = self.sharding.encode_data(value)
        return after

    # -- listing ------------------------------------------------------------------------------------

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        """Yield the keys in ``[start, stop)``, shard by shard; the indexes of all shards are read."""
        keys = KeyRange.between(start, stop)
        below = KeyRange.of_prefix(self.directory)
        for shard_key in self.base.list(below.start, below.stop):
            name = shard_key[len(self.directory) :]
            if "/" in name or not name.endswith(".shard"):
                continue
            shard = self.base.read(shard_key).value
            if shard is None:
                continue
            try:
                chunks = decode_shard(shard, self.sharding)
            except ChunkwiseError as e:
                raise prefix(e, f"Error reading {self.base.describe(shard_key)}") from None
            for chunk in chunks:
                key = chunk_key(chunk)
                if key in keys:
                    yield key

    def list_children(self, prefix: str) -> Children:
        """List one level below `prefix`."""
        below = KeyRange.of_prefix(prefix)
        return Children.of(prefix, self.list(below.start, below.stop))
