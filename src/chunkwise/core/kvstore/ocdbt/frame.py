"""The frame around a manifest or node: magic number, length, compression and checksum."""

from __future__ import annotations

import struct

import numpy as np

from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.core.libraries import crc32c, zstd
from chunkwise.errors import DataCorruptionError, UnsupportedError, prefix

__all__ = ["LARGEST_BODY", "frame_body", "make_frame"]

LARGEST_BODY = 1 << 26
"""Bytes of the largest manifest or node that is read, whatever a database claims.

A database has nodes of at most 8 MiB unless its maker said otherwise.
"""

_HEAD = struct.Struct(">I")
_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_SIZE = _HEAD.size + _LENGTH.size + 2 + _CRC.size  # version and compression take a byte each
# Bytes to allocate first, or eight times the encoded size if that is more: a node of 128 KiB takes 145 us of
# processor time, but 250 us with memory for the largest node.
_FIRST = 1 << 16


def frame_body(raw: Buffer, magic: int, largest: int = LARGEST_BODY) -> memoryview:
    """Return the decompressed body of one frame, at most `largest` bytes."""
    view = memoryview(raw)
    if len(view) < _SIZE:
        raise DataCorruptionError(f"it has {len(view)} bytes, expected {_SIZE} at least")
    (found,), (length,) = _HEAD.unpack(view[:4]), _LENGTH.unpack(view[4:12])
    if found != magic:
        raise DataCorruptionError(f"it begins with 0x{found:08x}, expected 0x{magic:08x}")
    if length != len(view):
        raise DataCorruptionError(f"it says that it has {length} bytes, but it has {len(view)}")
    (checksum,) = _CRC.unpack(view[-4:])
    actual = crc32c()(view[:-4])
    if actual != checksum:
        raise DataCorruptionError(f"CRC-32C is {actual:08x}, expected {checksum:08x}")
    version, compression = view[12], view[13]
    if version != 0:
        raise UnsupportedError(f"format version {version} is not supported; expected 0")
    body = view[14:-4]
    if compression == 0:
        if len(body) > largest:
            raise DataCorruptionError(f"it holds {len(body)} bytes, expected at most {largest}")
        return body
    if compression != 1:
        raise UnsupportedError(f"compression {compression} is not supported; expected 0 (none) or 1 (zstd)")
    return _decompressed(body, largest)


def _decompressed(body: memoryview, largest: int) -> memoryview:
    decode, room = zstd().open_decoder(), min(largest, max(_FIRST, 8 * len(body)))
    while True:
        out = np.empty(room, np.uint8).data
        try:
            written = decode(body, out)
        except (DataCorruptionError, ValueError) as e:
            raise prefix(DataCorruptionError(str(e)), "it can't be decompressed") from None
        if written is not None:
            return out[:written]
        if room == largest:
            raise DataCorruptionError(f"it holds more than {largest} bytes")
        room = min(largest, 4 * room)


def make_frame(body: bytes, magic: int, level: int | None) -> bytes:
    """Return the frame of `body`, compressed by zstd at `level`, or uncompressed if None."""
    if level is not None:
        body = bytes(zstd().open_encoder(level, False)(body))
    frame = b"".join(
        (
            _HEAD.pack(magic),
            _LENGTH.pack(len(body) + _SIZE),
            b"\0",
            b"\0" if level is None else b"\1",
            body,
        )
    )
    return frame + _CRC.pack(crc32c()(memoryview(frame)))
