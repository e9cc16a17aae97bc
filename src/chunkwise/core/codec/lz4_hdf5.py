"""LZ4 in the form of HDF5's filter 32004: blocks, each after its size.

Specification
-------------
https://github.com/nexusformat/HDF5-External-Filter-Plugins (LZ4): big-endian, the size of the content in 8
bytes and the block size in 4, then each block after its size in 4 bytes.  A block as large as its content is
stored uncompressed.  The last block may be shorter than the others.
"""

from __future__ import annotations

import struct

import numcodecs.lz4

from chunkwise.core.base.size_bound import largest_value
from chunkwise.core.codec.protocol import Buffer, byte_view
from chunkwise.errors import DataCorruptionError

__all__ = ["decode_lz4_hdf5"]

_HEAD = struct.Struct(">QI")
_SIZE = struct.Struct(">I")
_LARGEST = 1 << 31
_MAX_RATIO = 255  # decoded bytes for each byte of LZ4, at most


def decode_lz4_hdf5(encoded: Buffer, decoded_nbytes: int | None) -> bytes:
    """Return the content; raise DataCorruptionError unless it is complete and of the expected size."""
    data = byte_view(encoded)
    if len(data) < _HEAD.size:
        raise _corrupt("the header is cut off")
    total, block = _HEAD.unpack_from(data)
    wanted = total if decoded_nbytes is None else decoded_nbytes
    if total != wanted or total > min(_LARGEST, len(data) * _MAX_RATIO, largest_value()):
        raise _corrupt(f"the header claims {total} bytes, but expected {wanted}")
    if total and not block:
        raise _corrupt("the header claims blocks of 0 bytes")
    parts: list[bytes] = []
    at, left = _HEAD.size, total
    while left:
        if at + _SIZE.size > len(data):
            raise _corrupt(f"{left} bytes are missing")
        (size,) = _SIZE.unpack_from(data, at)
        at += _SIZE.size
        piece, n = bytes(data[at : at + size]), min(block, left)
        if len(piece) != size:
            raise _corrupt(f"{left} bytes are missing")
        if size != n:
            try:
                piece = numcodecs.lz4.decompress(struct.pack("<i", n) + piece)
            except (RuntimeError, ValueError) as e:
                raise _corrupt(str(e)) from e
        if len(piece) != n:
            raise _corrupt(f"a block has {len(piece)} bytes, but expected {n}")
        parts.append(piece)
        at, left = at + size, left - n
    return b"".join(parts)


def _corrupt(why: str) -> DataCorruptionError:
    return DataCorruptionError(f'"imagecodecs_lz4h5" codec: {why}')
