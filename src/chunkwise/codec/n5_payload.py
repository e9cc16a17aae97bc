"""The payload of an N5 block: its elements, passed through the compressors of the dataset.

The size of the decoded payload comes from the block's own header, which is not to be trusted: what a
decoder may allocate is bounded by its caller (`chunkwise.codec.n5_block`).
"""

from __future__ import annotations

from collections.abc import Callable

from chunkwise.codec.protocol import Buffer, BytesToBytes
from chunkwise.errors import DataCorruptionError

__all__ = ["check_payload_size", "open_compress", "open_decompress", "open_decompress_into"]


def check_payload_size(got: int, want: int) -> None:
    """Raise DataCorruptionError unless a decoded payload of `got` bytes has the `want` bytes it must have."""
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
    """Return a function that decodes payloads, of `nbytes` bytes each or of any size if None."""
    sizes = [nbytes]
    for codec in compression:
        size = sizes[-1]
        sizes.append(None if size is None else codec.encoded_nbytes(size))
    steps = [codec.open_decoder(size) for codec, size in zip(compression, sizes, strict=False)][::-1]

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
    """Return a function that decodes a payload into memory of exactly `nbytes` bytes; None if none can."""
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
