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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, Members, expect_int, expect_one_of, parse_array
from chunkwise.core.codec.bytes import BITS, Bytes
from chunkwise.core.codec.chain import Chain, parse_chain, prepare_chain
from chunkwise.core.codec.codec_json import codecs_to_json
from chunkwise.core.codec.crc32c import Crc32c
from chunkwise.core.codec.protocol import (
    ArrayToBytes,
    Buffer,
    ChunkSpec,
    Codec,
    DecodeInto,
    Encode,
    byte_view,
)
from chunkwise.core.codec.shard_layout import MISSING, ShardLayout, index_chain
from chunkwise.errors import ChunkwiseError, DataCorruptionError, InvalidArgumentError, braced, prefix

__all__ = ["ShardingIndexed", "equals_fill_value"]


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
