"""Shards of values with 64-bit identifiers: neuroglancer's sharded format, and its ``sharding`` member.

Specification
-------------
neuroglancer, "Sharded format".  The identifier, shifted right by `preshift_bits`, is hashed; the lowest
`minishard_bits` of the hash are the minishard number, the next `shard_bits` the shard number.  A shard begins
with the bounds of each minishard's index.  That index has, for each chunk in ascending order, the identifier,
the start and the size, the first two as differences.  Positions count from the end of the shard index.

A key is the identifier as 8 bytes, most significant first, as in TensorStore.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, Members, dump, expect_int, expect_one_of
from chunkwise.core.base.limits import largest_value
from chunkwise.core.kvstore.adapter.sharded import Place, ShardReader
from chunkwise.core.kvstore.key_range import decode_key, encode_key
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.errors import DataCorruptionError, InvalidArgumentError

__all__ = ["Sharding", "Uint64Shards", "chunk_key", "decode_shard", "murmurhash3_x86_128"]

_TYPE = "neuroglancer_uint64_sharded_v1"
_HASHES = ("identity", "murmurhash3_x86_128")
_ENCODINGS = ("raw", "gzip")
_LARGEST_INDEX = 1 << 28  # largest index of a minishard, unzipped, in bytes: 11 million entries of 24 bytes
_M32, _M64 = (1 << 32) - 1, (1 << 64) - 1


def murmurhash3_x86_128(number: int) -> int:
    """Return the lowest 64 bits of MurmurHash3_x86_128, seed 0, of 8 bytes, little-endian."""

    def rotate(x: int, n: int) -> int:
        return (x << n | x >> 32 - n) & _M32

    def mix(h: int) -> int:
        h = ((h ^ h >> 16) * 0x85EBCA6B) & _M32
        h = ((h ^ h >> 13) * 0xC2B2AE35) & _M32
        return h ^ h >> 16

    c1, c2, c3 = 0x239B961B, 0xAB0E9789, 0x38B34AE5
    k1, k2 = number & _M32, number >> 32 & _M32
    h2 = rotate((k2 * c2) & _M32, 16) * c3 & _M32
    h1 = rotate((k1 * c1) & _M32, 15) * c2 & _M32
    h1, h2, h3, h4 = h1 ^ 8, h2 ^ 8, 8, 8
    h1 = (h1 + h2 + h3 + h4) & _M32
    h2, h3, h4 = (h2 + h1) & _M32, (h3 + h1) & _M32, (h4 + h1) & _M32
    h1, h2, h3, h4 = mix(h1), mix(h2), mix(h3), mix(h4)
    h1 = (h1 + h2 + h3 + h4) & _M32
    return h1 | ((h2 + h1) & _M32) << 32


@dataclass(frozen=True, slots=True)
class Sharding:
    """The member ``sharding`` of a scale."""

    preshift_bits: int
    hash: str
    minishard_bits: int
    shard_bits: int
    minishard_index_encoding: str = "raw"
    data_encoding: str = "raw"

    @classmethod
    def parse(cls, value: JSON) -> Sharding:
        """Read the JSON object."""
        members = Members(value)

        def choose(choices: tuple[str, ...]) -> Any:
            return partial(expect_one_of, choices=choices)

        members.take("@type", choose((_TYPE,)))
        preshift_bits = members.take("preshift_bits", lambda v: expect_int(v, 0, 64))
        hash_name = members.take("hash", choose(_HASHES))
        minishard_bits = members.take("minishard_bits", lambda v: expect_int(v, 0, 32))
        shard_bits = members.take("shard_bits", lambda v: expect_int(v, 0, 64 - minishard_bits))
        index_encoding = members.take("minishard_index_encoding", choose(_ENCODINGS), "raw")
        data_encoding = members.take("data_encoding", choose(_ENCODINGS), "raw")
        members.finish()
        return cls(preshift_bits, hash_name, minishard_bits, shard_bits, index_encoding, data_encoding)

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON object; inverse of `parse`."""
        return {
            "@type": _TYPE,
            "preshift_bits": self.preshift_bits,
            "hash": self.hash,
            "minishard_bits": self.minishard_bits,
            "shard_bits": self.shard_bits,
            "minishard_index_encoding": self.minishard_index_encoding,
            "data_encoding": self.data_encoding,
        }

    @property
    def index_nbytes(self) -> int:
        """Size of the index at the beginning of a shard, in bytes."""
        return 16 << self.minishard_bits

    def place(self, chunk: int) -> tuple[int, int]:
        """Return the shard number and minishard number of a chunk."""
        number = chunk >> self.preshift_bits
        if self.hash != "identity":
            number = murmurhash3_x86_128(number)
        minishard = number & (1 << self.minishard_bits) - 1
        return number >> self.minishard_bits & (1 << self.shard_bits) - 1, minishard

    def shard_name(self, shard: int) -> str:
        """Return the name of a shard's value."""
        return f"{shard:0{-(-self.shard_bits // 4)}x}.shard"

    def encode_data(self, value: Buffer) -> bytes:
        """Return the stored form of a chunk."""
        return _gzip(value) if self.data_encoding == "gzip" else bytes(value)

    def decode_data(self, stored: Buffer, limit: int) -> Buffer:
        """Return a chunk, which may have at most `limit` bytes."""
        return _gunzip(stored, limit, "a chunk") if self.data_encoding == "gzip" else stored


def _gzip(value: Buffer) -> bytes:
    compress = zlib.compressobj(6, zlib.DEFLATED, 31)
    return compress.compress(value) + compress.flush()


def _gunzip(stored: Buffer, limit: int, what: str) -> bytes:
    decompress = zlib.decompressobj(47)
    try:
        value = decompress.decompress(stored, limit + 1)
    except zlib.error as e:
        raise DataCorruptionError(f"{what} is not a gzip stream: {e}") from e
    if len(value) > limit:
        raise DataCorruptionError(f"{what} decodes to more than {limit} bytes")
    if not decompress.eof:
        raise DataCorruptionError(f"{what} is cut off")
    if decompress.unused_data:  # another stream may be more chunks
        raise DataCorruptionError(f"{what} is followed by other bytes")
    return value


class MinishardIndex(NamedTuple):
    """The chunks of one minishard: identifiers, ascending; bounds of their bytes in the shard."""

    chunks: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]

    @classmethod
    def decode(cls, stored: Buffer, sharding: Sharding) -> MinishardIndex:
        """Read an index; one without bytes has no chunks, in any encoding."""
        if len(stored) and sharding.minishard_index_encoding == "gzip":
            stored = _gunzip(stored, _LARGEST_INDEX, "the index of a minishard")
        if len(stored) % 24:
            raise DataCorruptionError(f"the index of a minishard has {len(stored)} bytes, no multiple of 24")
        table = np.frombuffer(stored, "<u8").reshape(3, -1)
        chunks = np.cumsum(table[0], dtype=np.uint64)
        if (chunks[1:] <= chunks[:-1]).any():
            raise DataCorruptionError("the chunks of a minishard are not in ascending order")
        if (table[1:] >= 1 << 62).any() or int(table[1:].sum(dtype=np.float64)) >= 1 << 62:
            raise DataCorruptionError("a chunk ends beyond every shard")
        gaps, sizes = table[1].astype(np.int64), table[2].astype(np.int64)
        stops = np.cumsum(gaps + sizes) + sharding.index_nbytes
        return cls(chunks, stops - sizes, stops)

    @property
    def nbytes(self) -> int:
        """Size in memory, in bytes."""
        return sum(column.nbytes for column in self)

    def find(self, entry: int) -> tuple[int, int] | None:
        """Return the bounds of a chunk in the shard; None if it is not stored."""
        at = int(np.searchsorted(self.chunks, np.uint64(entry)))
        if at == len(self.chunks) or int(self.chunks[at]) != entry:
            return None
        return int(self.starts[at]), int(self.stops[at])


def minishard_bounds(index: Buffer, sharding: Sharding) -> Iterator[tuple[int, int]]:
    """Yield the bounds of each minishard's index in a shard, from the shard's `index`."""
    for start, stop in np.frombuffer(index, "<u8").reshape(-1, 2).tolist():
        if not start <= stop < 1 << 62:
            raise DataCorruptionError(f"the index of a minishard has bounds {start} and {stop}")
        yield start + sharding.index_nbytes, stop + sharding.index_nbytes


def decode_shard(shard: Buffer, sharding: Sharding) -> dict[int, memoryview]:
    """Return all chunks of a shard in their stored form."""
    view = memoryview(shard)
    if len(view) < sharding.index_nbytes:
        raise DataCorruptionError(f"a shard of {len(view)} bytes has an index of {sharding.index_nbytes}")
    out: dict[int, memoryview] = {}
    for start, stop in minishard_bounds(view[: sharding.index_nbytes], sharding):
        if start == stop:
            continue
        if stop > len(view):
            raise DataCorruptionError(f"the index of a minishard ends at byte {stop} of {len(view)}")
        index = MinishardIndex.decode(view[start:stop], sharding)
        for chunk, begin, end in zip(*(column.tolist() for column in index), strict=True):
            if end > len(view):
                raise DataCorruptionError(f"chunk {chunk} ends at byte {end} of {len(view)}")
            out[chunk] = view[begin:end]
    return out


def _encode_shard(chunks: Mapping[int, Buffer], sharding: Sharding) -> bytes:
    """Return the shard with the given chunks, which are in their stored form."""
    # In TensorStore's order: each minishard's chunks, then its index.
    minishards: dict[int, list[int]] = {}
    for chunk in sorted(chunks):
        minishards.setdefault(sharding.place(chunk)[1], []).append(chunk)
    bounds = np.zeros((1 << sharding.minishard_bits, 2), "<u8")
    parts: list[Buffer] = []
    end = 0
    for minishard in sorted(minishards):
        members = minishards[minishard]
        table = np.zeros((3, len(members)), "<u8")
        table[0] = np.diff(np.array(members, np.uint64), prepend=np.uint64(0))
        table[1, 0] = end
        table[2] = [len(memoryview(chunks[chunk])) for chunk in members]
        parts.extend(chunks[chunk] for chunk in members)
        end += int(table[2].sum())
        index = table.tobytes()
        if sharding.minishard_index_encoding == "gzip":
            index = _gzip(index)
        parts.append(index)
        bounds[minishard] = end, end + len(index)
        end += len(index)
    return b"".join(_chain(bounds.tobytes(), parts))


def _chain(first: Buffer, rest: Iterable[Buffer]) -> Iterator[Buffer]:
    yield first
    yield from rest


def chunk_key(chunk: int) -> str:
    """Return the key of a chunk."""
    return decode_key(chunk.to_bytes(8, "big"))


@dataclass(frozen=True)
class Uint64Shards:
    """A `chunkwise.core.kvstore.adapter.sharded.ShardFormat`: entries are chunks, parts minishards."""

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
        return _encode_shard(entries, self.sharding)

    def decode(self, stored: Buffer) -> Buffer:
        """Return a chunk."""
        return self.sharding.decode_data(stored, min(self.largest_value, largest_value()))

    def encode(self, value: Buffer) -> bytes:
        """Return the stored form of a chunk."""
        return self.sharding.encode_data(value)
