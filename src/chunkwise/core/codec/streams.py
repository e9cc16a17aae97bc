"""Decoding one or more compressed streams in a row, within a promised size.

Works with the decompressor objects of the standard library (``bz2``, ``lzma``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chunkwise.core.base.size_bound import largest_value
from chunkwise.core.codec.protocol import Buffer, byte_view
from chunkwise.errors import DataCorruptionError

__all__ = ["decode_streams", "xz_has_checksum"]


def decode_streams(
    name: str,
    open_stream: Callable[[], Any],
    data: Buffer,
    decoded_nbytes: int | None,
    *,
    errors: type[Exception] = OSError,
    padding: int = 0,
    magic: bytes = b"",
) -> bytes:
    """Decode all streams in `data`, each beginning with `magic`, and return their joined content.

    Data after them that begins otherwise is ignored.
    """
    parts: list[bytes] = []
    most = largest_value() if decoded_nbytes is None else decoded_nbytes
    room = most + 1
    got = 0
    rest: Buffer = byte_view(data)
    while True:
        stream = open_stream()
        try:
            part: bytes = stream.decompress(rest, max_length=room)
        except (OSError, ValueError, EOFError, errors) as e:
            raise DataCorruptionError(f"{name}: {e}; at uncompressed byte {got}") from e
        got += len(part)
        parts.append(part)
        if got > most:
            raise DataCorruptionError(f"{name} stream holds more than the expected {most} bytes")
        room = most + 1 - got
        if not stream.eof:
            raise DataCorruptionError(f"{name}: truncated stream; at uncompressed byte {got}")
        unused: bytes = stream.unused_data
        if padding:
            kept = unused.lstrip(b"\0")
            if (len(unused) - len(kept)) % padding:
                raise DataCorruptionError(f"{name}: stream padding is not a multiple of {padding} bytes")
            unused = kept
        if not unused or not unused.startswith(magic):
            break
        rest = unused
    if decoded_nbytes is not None and got != decoded_nbytes:
        raise DataCorruptionError(f"{name} stream holds {got} bytes, expected {decoded_nbytes}")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def xz_has_checksum(encoded: memoryview) -> bool:
    """Return True if `encoded` is a .xz stream with a check of its content."""
    # The low half of the second byte of the stream's flags names the check, 0 for none.
    return bytes(encoded[:6]) == b"\xfd7zXZ\0" and len(encoded) > 7 and encoded[7] & 15 != 0
