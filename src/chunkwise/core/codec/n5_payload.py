"""The payload of an N5 block: its elements, passed through the compressors of the dataset.

The size of the decoded payload comes from the block's own header, which is not trusted: the caller,
`chunkwise.core.codec.n5_block`, limits what a decoder may allocate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from chunkwise.core.base.binding import Members
from chunkwise.core.base.size_bound import chunk_bound, text_bound
from chunkwise.core.codec.n5_compression import compression_to_json, parse_compression
from chunkwise.core.codec.n5_header import parse_header
from chunkwise.core.codec.protocol import (
    ArrayToBytes,
    Buffer,
    BytesToBytes,
    ChunkSpec,
    compressors_have_checksum,
    open_decoders,
)
from chunkwise.errors import DataCorruptionError

__all__ = [
    "CompressedBlock",
    "check_payload_size",
    "open_compress",
    "open_decompress",
    "open_decompress_into",
]


def check_payload_size(got: int, want: int) -> None:
    """Raise DataCorruptionError unless the size `got` of a decoded payload is `want`."""
    if got < want:
        raise DataCorruptionError(
            f"Not enough data: N5 block payload has {got} bytes, but its header promises {want}"
        )
    if got > want:
        raise DataCorruptionError(
            f"End of data expected; remaining length: {got - want} after N5 block payload of {want} bytes"
        )


def open_decompress(
    compression: tuple[BytesToBytes, ...], nbytes: int | None
) -> Callable[[memoryview], Buffer]:
    """Return a function that decodes payloads of `nbytes` bytes each, or of any size if None."""
    sizes = [nbytes]
    for codec in compression:
        size = sizes[-1]
        sizes.append(None if size is None else codec.encoded_nbytes(size))
    bound = chunk_bound(nbytes)
    steps = open_decoders(compression, sizes, lambda stored: bound or text_bound(stored))

    def decompress(payload: memoryview) -> Buffer:
        data: Buffer = payload
        for step in steps:
            data = step(data)
        if nbytes is not None and len(data) != nbytes:
            check_payload_size(len(data), nbytes)
        return data

    return decompress


def open_decompress_into(
    compression: tuple[BytesToBytes, ...], nbytes: int
) -> Callable[[Buffer, memoryview], None] | None:
    """Return a function that decodes a payload into memory of exactly `nbytes` bytes, or None."""
    return compression[0].open_decoder_into(nbytes) if len(compression) == 1 and nbytes else None


def open_compress(compression: tuple[BytesToBytes, ...]) -> Callable[[Buffer], Buffer]:
    """Return a function that encodes payloads."""
    steps = [codec.open_encoder() for codec in compression]
    if len(steps) == 1:
        return steps[0]

    def compress(payload: Buffer) -> Buffer:
        for step in steps:
            payload = step(payload)
        return payload

    return compress


@dataclass(frozen=True, slots=True)
class CompressedBlock(ArrayToBytes):
    """Array to bytes: N5 blocks, whose size varies even if raw, since other writers crop them."""

    # Compressors of the payload, in the order of encoding; empty for raw blocks.
    compression: tuple[BytesToBytes, ...] = ()

    @property
    def decode_rate(self) -> float:
        """Rate of the compressors."""
        return sum(codec.decode_rate for codec in self.compression)

    @property
    def encode_rate(self) -> float:
        """Rate of the compressors."""
        return sum(codec.encode_rate for codec in self.compression)

    def has_checksum(self, encoded: memoryview) -> bool:
        """Return True if the payload, after the header, has a checksum."""
        return compressors_have_checksum(self.compression, encoded[parse_header(encoded).nbytes :])

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        """Read ``{"compression": {"type": ...}}``."""
        members = Members(configuration)
        _, compression = members.take("compression", parse_compression)
        members.finish()
        return cls(compression)

    def to_json(self, format: str) -> dict[str, Any]:
        """Return ``{"compression": {"type": ...}}``."""
        return {"compression": compression_to_json(self.compression)}

    def bind_compression(self, item: ChunkSpec) -> Self:
        """Return the codec with its compressors bound."""
        return replace(self, compression=tuple(codec.bind(item) for codec in self.compression))
