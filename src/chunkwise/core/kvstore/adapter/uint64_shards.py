"""Shards of values with 64-bit identifiers: neuroglancer's sharded format.

Specification
-------------
neuroglancer, "Sharded format"; `chunkwise.core.kvstore.adapter.sharding_spec` has the layout.  A key is the
identifier as 8 bytes, most significant first, as in TensorStore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from chunkwise.core.base.binding import dump
from chunkwise.core.base.size_bound import largest_value
from chunkwise.core.kvstore.adapter.shard_format import Place, ShardReader
from chunkwise.core.kvstore.adapter.sharding_spec import (
    MinishardIndex,
    Sharding,
    decode_shard,
    encode_shard,
    minishard_bounds,
)
from chunkwise.core.kvstore.key_range import decode_key, encode_key
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.errors import InvalidArgumentError

__all__ = ["Uint64Shards", "chunk_key"]


def chunk_key(chunk: int) -> str:
    """Return the key of a chunk."""
    return decode_key(chunk.to_bytes(8, "big"))


@dataclass(frozen=True)
class Uint64Shards:
    """A `chunkwise.core.kvstore.adapter.shard_format.ShardFormat`: entries are chunks, parts minishards."""

    sharding: Sharding
    largest_value: int = 1 << 31  # in bytes; a compressed value may claim more

    @property
    def stored_as_is(self) -> bool:
        """True unless chunks are compressed."""
        return self.sharding.data_encoding == "raw"

    def place(self, key: str) -> Place:
        """Return the shard, the minishard and the chunk."""
        raw = encode_key(key)
        if len(raw) != 8:
            raise InvalidArgumentError(f"Invalid key {dump(key)}: expected the 8 bytes of an identifier")
        chunk = int.from_bytes(raw, "big")
        shard, minishard = self.sharding.place(chunk)
        return Place(self.sharding.shard_name(shard), minishard, chunk)

    def key(self, entry: int) -> str:
        """Return the key of a chunk."""
        return chunk_key(entry)

    def describe(self, place: Place) -> str:
        """Name the chunk and the minishard."""
        return f"chunk {place.entry} in minishard {place.part}"

    def shards(self, names: Callable[[], Iterable[str]]) -> Iterable[str]:
        """Return the `names` of shards."""
        return (name for name in names() if "/" not in name and name.endswith(".shard"))

    def read_index(self, part: int, read: ShardReader) -> MinishardIndex | None:
        """Return the index of a minishard, by two requests."""
        entry = read(16 * part, 16 * part + 16)
        if entry is None:
            return None
        ((start, stop),) = minishard_bounds(entry, self.sharding)
        stored = read(start, stop) if start < stop else b""
        return MinishardIndex.decode(stored or b"", self.sharding)

    def read_entries(self, read: ShardReader) -> Iterable[int]:
        """Return the chunks, minishard by minishard; the whole shard is read."""
        shard = read(0, None)
        return () if shard is None else self.decode_shard(shard)

    def decode_shard(self, shard: Buffer) -> Mapping[int, Buffer]:
        """Return all chunks in their stored form."""
        return decode_shard(shard, self.sharding)

    def encode_shard(self, entries: Mapping[int, Buffer]) -> Buffer:
        """Return the shard with the given chunks."""
        return encode_shard(entries, self.sharding)

    def decode(self, stored: Buffer) -> Buffer:
        """Return a chunk."""
        return self.sharding.decode_data(stored, min(self.largest_value, largest_value()))

    def encode(self, value: Buffer) -> bytes:
        """Return the stored form of a chunk."""
        return self.sharding.encode_data(value)
