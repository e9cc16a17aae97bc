"""LZ4 after its size, as NumCodecs has it, and LZ4 in N5: the block stream of the lz4-java library.

Specification
-------------
https://numcodecs.readthedocs.io/en/stable/compression/lz4.html : the decoded size as a little-endian
32-bit integer, then a bare LZ4 block.

N5 README, "File-system specification", item 4 (``lz4``), which leaves the framing to lz4-java's
``LZ4BlockOutputStream``: a sequence of chunks, each with a header of 21 bytes, and an end mark.

======  ====  ==========================================================================
offset  size  content
======  ====  ==========================================================================
0       8     ``LZ4Block``
8       1     method (0x10 stored, 0x20 LZ4) + L, where 2^(10+L) bounds the chunk's size
9       4     compressed size, little-endian
13      4     original size, little-endian
17      4     XXH32 of the original bytes, seed 0x9747B28C, without its top four bits
21      n     bare LZ4 block, or the original bytes
======  ====  ==========================================================================

The end mark is such a header with method 0x10, both sizes 0 and checksum 0.

Names
-----
zarr2: ``lz4``; zarr3: ``numcodecs.lz4``; N5: ``lz4``, which is another codec.

Configuration
-------------
>>> Lz4.parse("zarr2", "lz4", {"acceleration": 2}).to_json("zarr2")
{'acceleration': 2}
>>> Lz4Java.parse("n5", "lz4", {}).to_json("n5")
{'blockSize': 65536}

Compatibility
-------------
In N5, other writers use the name for other payloads, which are recognized and read, but not written:

* zarr-python 2: original size as little-endian int32, then one bare LZ4 block;
* rust-n5: the LZ4 frame format;
* z5py: one bare LZ4 block, whose original size only the block header tells.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numcodecs.lz4
import xxhash

from chunkwise.core.base.limits import largest_value
from chunkwise.core.codec.lz4_block import FRAME_MAGIC, compress_block, decompress_block, decompress_frame
from chunkwise.core.codec.protocol import Buffer, Compressor, byte_view, size_error
from chunkwise.errors import CodecError, DataCorruptionError

__all__ = ["Lz4", "Lz4Java"]

# The largest input of an LZ4 block; a header that claims more is corrupt.
_MAX_NBYTES = 0x7E000000
_MAX_RATIO = 255  # no LZ4 block expands to more than this many times its size

_MAGIC = b"LZ4Block"
_HEADER = struct.Struct("<8sBiiI")
_STORED = 0x10
_COMPRESSED = 0x20
_SEED = 0x9747B28C
_CHECKSUM_MASK = 0x0FFFFFFF


@dataclass(frozen=True)
class Lz4(Compressor):
    """Bytes to bytes: an LZ4 block; a larger `level` is faster and compresses less."""

    name: ClassVar[str] = "numcodecs.lz4"
    member: ClassVar[str] = "acceleration"
    bounds = (-(2**31), 2**31 - 1)
    decode_rate, encode_rate = 0.25, 1.0

    def open_decoder(self, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
        decompress = numcodecs.lz4.decompress

        def decode(encoded: Buffer) -> Buffer:
            head = encoded[:4]
            if len(head) < 4:
                raise DataCorruptionError(f'"lz4" codec: {len(head)} bytes can\'t hold the size of 4 bytes')
            nbytes = int.from_bytes(head, "little")
            if nbytes != decoded_nbytes:
                most = decoded_nbytes
                if most is None:
                    most = min(_MAX_NBYTES, _MAX_RATIO * len(encoded), largest_value())
                if decoded_nbytes is not None or nbytes > most:
                    raise size_error("lz4", nbytes, most)
            if nbytes == 0:
                return b""
            try:
                data: bytes = decompress(encoded)
            except (RuntimeError, ValueError) as e:
                raise DataCorruptionError(f'"lz4" codec: {e}') from e
            return data

        return decode

    def open_encoder(self) -> Callable[[Buffer], Buffer]:
        acceleration, compress = self.level, numcodecs.lz4.compress

        def encode(decoded: Buffer) -> Buffer:
            if len(decoded) > _MAX_NBYTES:
                raise CodecError(
                    f'"lz4" codec: a chunk of {len(decoded)} bytes is larger than the {_MAX_NBYTES} '
                    "that it can hold"
                )
            return compress(decoded, acceleration)  # type: ignore[no-any-return]

        return encode


@dataclass(frozen=True)
class Lz4Java(Compressor):
    """Bytes to bytes: lz4-java's block stream; `level` is the size of the encoder's chunks, in bytes."""

    level: int = 65536

    name: ClassVar[str] = "lz4_java"
    member: ClassVar[str] = "blockSize"
    bounds = (64, 1 << 25)
    always_checked: ClassVar[bool] = True
    n5_defaults: ClassVar[Mapping[str, Any]] = {"blockSize": 65536}

    def open_decoder(self, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
        return lambda data: _decode(byte_view(data), decoded_nbytes)

    def open_encoder(self) -> Callable[[Buffer], Buffer]:
        size = self.level
        level = max(0, (size - 1).bit_length() - 10)
        end = _HEADER.pack(_MAGIC, _STORED | level, 0, 0, 0)

        def encode(data: Buffer) -> Buffer:
            view = byte_view(data)
            parts: list[Buffer] = []
            for start in range(0, len(view), size):
                original = view[start : start + size]
                checksum = xxhash.xxh32_intdigest(original, _SEED) & _CHECKSUM_MASK
                block: Buffer = compress_block(original)
                method = _COMPRESSED
                if len(block) >= len(original):
                    block, method = original, _STORED
                parts.append(_HEADER.pack(_MAGIC, method | level, len(block), len(original), checksum))
                parts.append(block)
            parts.append(end)
            return b"".join(parts)

        return encode


def _decode(data: memoryview, nbytes: int | None) -> Buffer:
    """Decode a payload after recognizing it: lz4-java, frame, size and block, or a bare block."""
    if data[: len(_MAGIC)] == _MAGIC:
        return _decode_java(data, nbytes)
    if data[: len(FRAME_MAGIC)] == FRAME_MAGIC:
        return decompress_frame(data, nbytes)
    if nbytes is None:
        raise DataCorruptionError("lz4: payload is not an LZ4Block stream")
    if len(data) >= 4 and int.from_bytes(data[:4], "little") == nbytes:
        try:
            return decompress_block(data[4:], nbytes)
        except DataCorruptionError:
            pass  # a bare block may begin with bytes that look like the size
    return decompress_block(data, nbytes)


def _decode_java(data: memoryview, nbytes: int | None) -> Buffer:
    parts: list[Buffer] = []
    at = got = 0
    most = largest_value() if nbytes is None else nbytes
    while True:
        if len(data) - at < _HEADER.size:
            raise DataCorruptionError(f"lz4: truncated LZ4Block stream at byte {at}; end mark is missing")
        magic, token, compressed, original, checksum = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        method = token & 0xF0
        if (
            magic != _MAGIC
            or method not in (_STORED, _COMPRESSED)
            or not 0 <= original <= 1 << (10 + (token & 0x0F))
            or compressed < 0
            or (original == 0) != (compressed == 0)
            or (method == _STORED and original != compressed)
        ):
            raise DataCorruptionError(f"lz4: bad LZ4Block header at byte {at - _HEADER.size}")
        if original == 0:
            if checksum:
                raise DataCorruptionError(f"lz4: bad LZ4Block end mark at byte {at - _HEADER.size}")
            break
        if len(data) - at < compressed:
            raise DataCorruptionError(f"lz4: truncated LZ4Block stream at byte {at}")
        got += original
        if got > most:
            raise DataCorruptionError(f"lz4 stream holds more than the expected {most} bytes")
        block = data[at : at + compressed]
        part: Buffer = block if method == _STORED else decompress_block(block, original)
        if xxhash.xxh32_intdigest(part, _SEED) & _CHECKSUM_MASK != checksum:
            raise DataCorruptionError(f"lz4: checksum mismatch in LZ4Block chunk at byte {at - _HEADER.size}")
        parts.append(part)
        at += compressed
    if at != len(data):
        raise DataCorruptionError(f"lz4: {len(data) - at} bytes after the end mark of the LZ4Block stream")
    if nbytes is not None and got != nbytes:
        raise DataCorruptionError(f"lz4 stream holds {got} bytes, expected {nbytes}")
    return parts[0] if len(parts) == 1 else b"".join(parts)
