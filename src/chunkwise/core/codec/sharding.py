"""The ``sharding_indexed`` codec: many inner chunks in one encoded chunk, with an index.



Specification
-------------
https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/ : encoded inner chunks in any
order, with gaps allowed, and an index of unsigned 64-bit pairs (offset, size) in C order at the end or
the start; a pair of all ones is an inner chunk of fill value.

Names
-----
zarr3: ``sharding_indexed``.

Configuration
-------------
>>> codec = ShardingIndexed.parse("zarr3", "sharding_indexed", {
...     "chunk_shape": [2, 3], "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]})
>>> codec.to_json("zarr3")["chunk_shape"]
[2, 3]

Compatibility
-------------
As in TensorStore, an inner chunk whose bits all equal the fill value's is not stored.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, Members, expect_int, expect_one_of, parse_array
from chunkwise.core.codec.bytes import BITS, Bytes
from chunkwise.core.codec.chain import Chain, codecs_to_json, parse_chain, prepare_chain
from chunkwise.core.codec.crc32c import Crc32c
from chunkwise.core.codec.protocol import (
    ArrayToBytes,
    Buffer,
    ChunkSpec,
    Codec,
    DecodeInto,
    Encode,
    PreparedChain,
    byte_view,
)
from chunkwise.errors import ChunkwiseError, DataCorruptionError, InvalidArgumentError, braced, prefix

__all__ = ["MISSING", "ShardBody", "ShardLayout", "ShardingIndexed", "equals_fill_value", "index_chain"]

MISSING = 2**64 - 1
"""Offset and length in the index of an inner chunk that is not stored."""
_LARGEST = 2**63 - 1


class ShardLayout(NamedTuple):
    """The layout that all shards of an array share."""

    chunks_per_shard: tuple[int, ...]  # inner chunks along each dimension
    n_chunks: int  # their product
    index_chain: PreparedChain
    index_nbytes: int  # encoded size of the index
    at_end: bool  # True if the index is at the end of the shard, otherwise at the start

    @classmethod
    def of(cls, cells: tuple[int, ...], index_codecs: PreparedChain, *, at_end: bool) -> Self:
        """Return the layout with `cells` inner chunks for each dimension; raise if the index size varies."""
        nbytes = index_codecs.encoded_nbytes
        if nbytes is None:
            raise InvalidArgumentError(
                "Invalid index_codecs specified: only fixed-size encodings are supported"
            )
        return cls(cells, prod(cells), index_codecs, nbytes, at_end)

    def decode(self, encoded: Buffer) -> npt.NDArray[np.uint64]:
        """Return offsets and lengths, shape ``(n_chunks, 2)``, from the encoded index, or raise."""
        return self.open_index_decoder()(encoded)

    def open_index_decoder(self) -> Callable[[Buffer], npt.NDArray[np.uint64]]:
        """Return `decode` as a function for one worker."""
        decode_index, shape = self.index_chain.open_decoder(), (*self.chunks_per_shard, 2)

        def decode(encoded: Buffer) -> npt.NDArray[np.uint64]:
            index = np.empty(shape, np.uint64)
            decode_index(encoded, index)
            index = index.reshape(-1, 2)
            if index.size and index.max() >= _LARGEST >> 1:  # otherwise all entries are present
                self._check(index)
            return index

        return decode

    def _check(self, index: npt.NDArray[np.uint64]) -> None:
        offsets, lengths = index[:, 0], index[:, 1]
        missing = (offsets == MISSING) & (lengths == MISSING)
        wrong = ~missing & ((offsets > _LARGEST) | (lengths > _LARGEST) | (offsets + lengths > _LARGEST))
        if wrong.any():
            entry = int(np.argmax(wrong))
            raise DataCorruptionError(
                f"Invalid shard index entry {entry} with offset={offsets[entry]}, length={lengths[entry]}"
            )

    def decode_shard(self, shard: memoryview) -> npt.NDArray[np.uint64]:
        """Return offsets and lengths from a complete shard, all of them inside it, or raise."""
        size = len(shard)
        if size < self.index_nbytes:
            raise DataCorruptionError(
                f"Existing shard has size of {size} bytes, but expected at least {self.index_nbytes} bytes"
            )
        part = shard[size - self.index_nbytes :] if self.at_end else shard[: self.index_nbytes]
        index = self.decode(part)
        stops = index[:, 0] + index[:, 1]
        beyond = (index[:, 0] != MISSING) & (stops > size)
        if beyond.any():
            entry = int(np.argmax(beyond))
            raise DataCorruptionError(
                f"Shard index entry {entry} with byte range [{index[entry, 0]}, {stops[entry]}) "
                f"is invalid for shard of size {size}"
            )
        first, last = (0, size - self.index_nbytes) if self.at_end else (self.index_nbytes, size)
        overlaps = (index[:, 0] != MISSING) & (index[:, 1] > 0) & ((index[:, 0] < first) | (stops > last))
        if overlaps.any():
            entry = int(np.argmax(overlaps))
            raise DataCorruptionError(
                f"Shard index entry {entry} with byte range [{index[entry, 0]}, {stops[entry]}) "
                f"overlaps the index, which leaves [{first}, {last})"
            )
        return index

    def place(self, cell: Sequence[int]) -> tuple[tuple[int, ...], int]:
        """Return the shard's cell of an inner chunk, and the chunk's position in the shard."""
        shard, position = [], 0
        for number, count in zip(cell, self.chunks_per_shard, strict=True):
            outer, inner = divmod(number, count)
            shard.append(outer)
            position = position * count + inner
        return tuple(shard), position

    def present(self, index: npt.NDArray[np.uint64]) -> npt.NDArray[np.intp]:
        """Return the positions of the inner chunks that are stored, in order."""
        return np.flatnonzero(index[:, 0] != MISSING)

    def bounds(self, index: npt.NDArray[np.uint64], position: int) -> tuple[int, int] | None:
        """Return the byte range of an inner chunk in the shard; None if it is not stored."""
        start, size = index[position].tolist()
        return None if start == MISSING else (start, start + size)

    def encode_shard(self, chunks: Mapping[int, Buffer]) -> bytes:
        """Return the shard with the given encoded inner chunks, by position; others are missing."""
        index = np.full((self.n_chunks, 2), MISSING, np.uint64)
        end = 0 if self.at_end else self.index_nbytes
        parts = [chunks[position] for position in sorted(chunks)]
        for position, part in zip(sorted(chunks), parts, strict=True):
            index[position] = end, len(part)
            end += len(part)
        encoded = self.encode(index)
        return b"".join([*parts, encoded] if self.at_end else [encoded, *parts])

    def encode(self, index: npt.NDArray[np.uint64]) -> bytes:
        """Return the encoded form of offsets and lengths."""
        return bytes(self.index_chain.open_encoder()(index.reshape(*self.chunks_per_shard, 2)))

    def entry(self, position: int) -> str:
        """Return the name of an inner chunk in messages: ``shard entry {1, 1}/{2, 2}``."""
        place = np.unravel_index(position, self.chunks_per_shard) if self.chunks_per_shard else ()
        return f"shard entry {braced([int(i) for i in place])}/{braced(self.chunks_per_shard)}"


def index_chain(codecs: Sequence[Codec], cells: tuple[int, ...]) -> Chain:
    """Return the chain of the index, a uint64 array of shape ``(*cells, 2)``."""
    fill = np.array(MISSING, np.uint64)
    return prepare_chain(codecs, ChunkSpec((*cells, 2), fill.dtype, fill))


_NONE = (MISSING, MISSING)


class ShardBody:
    """Collects inner chunks, one after the other, and the index."""

    def __init__(self, layout: ShardLayout) -> None:
        self._layout = layout
        self._memory = memoryview(bytearray())
        self._entries: list[tuple[int, int]] = []  # start and end of each
        self._end = 0

    def clear(self) -> None:
        """Begin a new shard, without any inner chunk."""
        layout = self._layout
        self._entries = [_NONE] * layout.n_chunks
        self._end = 0 if layout.at_end else layout.index_nbytes

    def append(self, position: int, encoded: Buffer) -> None:
        """Append the inner chunk `position`; positions ascend."""
        end = self._end
        stop = end + (encoded.nbytes if type(encoded) is memoryview else len(encoded))
        if stop > len(self._memory):
            self._grow(stop, position)
        self._memory[end:stop] = encoded
        self._entries[position] = (end, stop)
        self._end = stop

    def extend(self, other: ShardBody) -> None:
        """Append the inner chunks of `other`, whose positions follow."""
        for position, (start, stop) in enumerate(other._entries):
            if start != MISSING:
                self.append(position, other._memory[start:stop])

    def finish(self) -> Buffer | None:
        """Return the shard with its index, valid until the next begins; None without inner chunks."""
        layout, end = self._layout, self._end
        index = np.array(self._entries, np.uint64)
        present = index[:, 0] != MISSING
        if not present.any():
            return None
        index[present, 1] -= index[present, 0]
        new_index = layout.encode(index)
        if layout.at_end:
            stop = end + layout.index_nbytes
            if stop > len(self._memory):
                self._grow(stop, layout.n_chunks)
            self._memory[end:stop] = new_index
            return self._memory[:stop]
        self._memory[: layout.index_nbytes] = new_index
        return self._memory[:end]

    def _grow(self, nbytes: int, n_before: int) -> None:
        """Make room for `nbytes`, and for all inner chunks at the average size of the first `n_before`."""
        used = self._end
        # Pages that are never written to take no memory.
        expected = used * self._layout.n_chunks * 9 // 8 // max(1, n_before)
        larger = np.empty(max(nbytes, len(self._memory) * 3 // 2, expected), np.uint8).data
        kept = min(used, len(self._memory))  # an index at the start is not there yet
        larger[:kept] = self._memory[:kept]
        self._memory = larger


def _parse_shape(value: JSON) -> tuple[int, ...]:
    return tuple(parse_array(value, lambda v: expect_int(v, 1)))


@dataclass(frozen=True)
class ShardingIndexed(ArrayToBytes):
    """Array to bytes: a grid of inner chunks, each encoded separately."""

    chunk_shape: tuple[int, ...]  # shape of an inner chunk, in elements; divides the shape of the shard
    codecs: tuple[Codec, ...]  # the chains of an inner chunk and of the index, in the order of encoding
    index_codecs: tuple[Codec, ...] = (Bytes("little"), Crc32c())
    # Position of the index; None is "end" and is not written.
    index_location: Literal["start", "end"] | None = None

    name: ClassVar[str] = "sharding_indexed"

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        members = Members(configuration)
        codec = cls(
            members.take("chunk_shape", _parse_shape),
            members.take("codecs", parse_chain, (Bytes(),)),
            members.take("index_codecs", parse_chain, (Bytes("little"), Crc32c())),
            members.take("index_location", lambda v: expect_one_of(v, ("start", "end")), None),
        )
        members.finish()
        return codec

    def to_json(self, format: str) -> dict[str, Any]:
        members: dict[str, Any] = {
            "chunk_shape": list(self.chunk_shape),
            "codecs": codecs_to_json(self.codecs),
            "index_codecs": codecs_to_json(self.index_codecs),
        }
        if self.index_location is not None:
            members["index_location"] = self.index_location
        return members

    def bind(self, item: ChunkSpec) -> Self:
        if len(self.chunk_shape) != len(item.shape):
            raise InvalidArgumentError(
                f"sharding_indexed sub-chunk shape of {braced(self.chunk_shape)} is not compatible with "
                f"array of rank {len(item.shape)}"
            )
        self.chunks_per_shard(item.shape)
        cells = (1,) * len(item.shape)
        index = self.index_chain(cells)
        ShardLayout.of(cells, index, at_end=self.index_location != "start")  # raises if impossible
        return replace(self, codecs=self.inner_chain(item).codecs, index_codecs=index.codecs)

    def chunks_per_shard(self, shard_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the grid of inner chunks in a shard; raise if they don't divide it evenly."""
        if any(n % size for n, size in zip(shard_shape, self.chunk_shape, strict=True)):
            raise InvalidArgumentError(
                f"sharding_indexed sub-chunk shape of {braced(self.chunk_shape)} does not evenly divide "
                f"chunk shape of {braced(shard_shape)}"
            )
        return tuple(n // size for n, size in zip(shard_shape, self.chunk_shape, strict=True))

    def inner_chain(self, item: ChunkSpec) -> Chain:
        """Return the chain of an inner chunk of the shard `item`."""
        return prepare_chain(self.codecs, item._replace(shape=self.chunk_shape))

    def index_chain(self, chunks_per_shard: tuple[int, ...]) -> Chain:
        """Return the chain of the index, a uint64 array of shape ``(*chunks_per_shard, 2)``."""
        return index_chain(self.index_codecs, chunks_per_shard)

    def most_encoded(self, item: ChunkSpec) -> int | None:
        """Return the size of a shard whose chunks are all as large as can be."""
        cells, inner = self.chunks_per_shard(item.shape), self.inner_chain(item).bound
        index = self.index_chain(cells).encoded_nbytes
        return None if inner is None or index is None else prod(cells) * inner.nbytes + index

    def open_decoder(self, item: ChunkSpec) -> DecodeInto:
        cells = self.chunks_per_shard(item.shape)
        chain = self.index_chain(cells)
        index_nbytes = chain.encoded_nbytes
        assert index_nbytes is not None
        decode_index = chain.open_decoder()
        decode_chunk = self.inner_chain(item).open_decoder()
        selections = _selections(cells, self.chunk_shape)
        index = np.empty((*cells, 2), np.uint64)
        at_start = self.index_location == "start"

        def decode(encoded: Buffer, out: npt.NDArray[Any]) -> None:
            view = byte_view(encoded)
            if len(view) < index_nbytes:
                raise DataCorruptionError(
                    f"Not enough data: shard has {len(view)} bytes, but its index alone has {index_nbytes}"
                )
            try:
                decode_index(view[:index_nbytes] if at_start else view[len(view) - index_nbytes :], index)
            except ChunkwiseError as e:
                raise prefix(e, "Error decoding shard index") from None
            for selection, (offset, size) in zip(selections(), index.reshape(-1, 2).tolist(), strict=True):
                if offset == size == MISSING:
                    out[selection] = item.fill_value
                    continue
                if offset + size > len(view):
                    raise DataCorruptionError(
                        f"Invalid shard index entry: {size} bytes at {offset} are outside the shard "
                        f"of {len(view)} bytes"
                    )
                decode_chunk(view[offset : offset + size], out[selection])

        return decode

    def open_encoder(self, item: ChunkSpec) -> Encode:
        cells = self.chunks_per_shard(item.shape)
        chain = self.index_chain(cells)
        index_nbytes = chain.encoded_nbytes
        assert index_nbytes is not None
        encode_index = chain.open_encoder()
        encode_chunk = self.inner_chain(item).open_encoder()
        selections = _selections(cells, self.chunk_shape)
        at_start = self.index_location == "start"

        def encode(array: npt.NDArray[Any]) -> Buffer:
            entries: list[tuple[int, int]] = []
            parts: list[bytes] = []
            at = index_nbytes if at_start else 0
            for selection in selections():
                chunk = array[selection]
                if equals_fill_value(chunk, item.fill_value):
                    entries.append((MISSING, MISSING))
                    continue
                part = bytes(encode_chunk(chunk))
                parts.append(part)
                entries.append((at, len(part)))
                at += len(part)
            index = bytes(encode_index(np.array(entries, np.uint64).reshape(*cells, 2)))
            return b"".join([index, *parts] if at_start else [*parts, index])

        return encode


def _selections(cells: tuple[int, ...], chunk_shape: tuple[int, ...]) -> Callable[[], itertools.product[Any]]:
    """Return a function that yields the selections of all inner chunks, in C order."""
    axes = [
        [slice(i * size, (i + 1) * size) for i in range(n)]
        for n, size in zip(cells, chunk_shape, strict=True)
    ]
    # The Ellipsis makes a selection of rank 0 a view too.
    return lambda: itertools.product(*axes, (...,))


def equals_fill_value(chunk: npt.NDArray[Any], fill_value: npt.NDArray[Any]) -> bool:
    """Return True if all elements have the bits of `fill_value`: -0.0 is not 0.0, a NaN equals itself."""
    dtype = chunk.dtype
    if dtype.hasobject:
        fill = fill_value[()]
        return all(type(v) is type(fill) and not isinstance(v, np.ndarray) and v == fill for v in chunk.flat)
    if dtype.itemsize in (1, 2, 4, 8) and dtype.fields is None:
        unsigned = np.dtype(f"u{dtype.itemsize}")
        if dtype.name in BITS:
            # Unused bits of an element are not part of its value.
            mask = np.uint8((1 << BITS[dtype.name]) - 1)
            return bool(((chunk.view(unsigned) ^ fill_value.view(unsigned)) & mask == 0).all())
        return bool((chunk.view(unsigned) == fill_value.view(unsigned)).all())
    same = np.ascontiguousarray(chunk).reshape(-1).view(np.uint8).reshape(chunk.size, dtype.itemsize)
    return bool((same == np.frombuffer(fill_value.tobytes(), np.uint8)).all())
