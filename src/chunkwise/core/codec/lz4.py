"""LZ4 in each of its framings: NumCodecs, lz4-java, LZ4 frames, and the filter 32004 of HDF5.

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

https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md ; lz4_Frame_format.md beside it.

https://github.com/nexusformat/HDF5-External-Filter-Plugins (LZ4): big-endian, the size of the content in 8
bytes and the block size in 4, then each block after its size in 4 bytes.  A block as large as its content is
stored uncompressed.  The last block may be shorter than the others.

NumCodecs decodes blocks of a known size.  A frame doesn't tell the decoded size of a block, and its blocks
may refer to earlier output.  Such a block is decoded with that history in front of it, as literals of its
first sequence.

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
from chunkwise.core.codec.protocol import Buffer, Compressor, byte_view, size_error
from chunkwise.errors import CodecError, DataCorruptionError

__all__ = ["Lz4", "Lz4Java", "compress_block", "decode_lz4_hdf5", "decompress_block", "decompress_frame"]

FRAME_MAGIC = b"\x04\x22\x4d\x18"
_MAX_RATIO = 255  # no block expands to more than this many times its size
_HISTORY = 1 << 16
_STORED_BIT = 1 << 31
_INDEPENDENT, _BLOCK_CHECKSUM, _CONTENT_SIZE, _CONTENT_CHECKSUM, _DICTIONARY = 32, 16, 8, 4, 1


def compress_block(data: Buffer) -> memoryview:
    """Return one bare block."""
    return memoryview(numcodecs.lz4.compress(data))[4:]


def decompress_block(block: memoryview, nbytes: int) -> Buffer:
    """Decode a bare block to exactly `nbytes` bytes."""
    if nbytes > _MAX_RATIO * len(block):
        raise DataCorruptionError(f"lz4: block of {len(block)} bytes can't hold {nbytes} bytes")
    if not nbytes:
        if bytes(block) != b"\0":
            raise DataCorruptionError("lz4: block is not empty, but expected 0 bytes")
        return b""
    try:
        data: bytes = numcodecs.lz4.decompress(b"".join((nbytes.to_bytes(4, "little"), block)))
    except (RuntimeError, ValueError, OverflowError) as e:
        raise DataCorruptionError(f"lz4: {e}; expected a block of {nbytes} bytes") from e
    return data


def decompress_frame(frame: memoryview, nbytes: int | None) -> Buffer:
    """Decode one frame to exactly `nbytes` bytes, or to any number if None."""
    try:
        return _decode_frame(frame, nbytes)
    except IndexError as e:
        raise DataCorruptionError("lz4: truncated frame") from e


def _decode_frame(frame: memoryview, nbytes: int | None) -> Buffer:
    flags, at = frame[4], 6
    largest = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}.get(frame[5] >> 4)
    if flags >> 6 != 1 or largest is None or flags & 2 or frame[5] & 15:
        raise DataCorruptionError(f"lz4: bad frame header, flags {flags:#04x} and {frame[5]:#04x}")
    claimed = None
    if flags & _CONTENT_SIZE:
        claimed, at = int.from_bytes(frame[at : at + 8], "little"), at + 8
        if nbytes is not None and claimed != nbytes:
            raise DataCorruptionError(f"lz4 frame holds {claimed} bytes, expected {nbytes}")
    if flags & _DICTIONARY:
        raise DataCorruptionError("lz4: frame needs a dictionary")
    if frame[at] != xxhash.xxh32_intdigest(frame[4:at]) >> 8 & 0xFF:
        raise DataCorruptionError("lz4: checksum mismatch in the header of the frame")
    at += 1
    out, room = bytearray(), claimed if nbytes is None else nbytes
    bound = largest_value() if nbytes is None else nbytes
    if room is not None and room > bound:
        raise DataCorruptionError(f"lz4 frame holds {room} bytes, expected {bound} at most")
    while True:
        size, at = _number(frame, at)
        if size == 0:
            break
        stored, size = size & _STORED_BIT, size & ~_STORED_BIT
        block = frame[at : at + size]
        at += size
        if len(block) < size or size > largest:
            raise DataCorruptionError(f"lz4: truncated frame, or a block of {size} bytes in it")
        if flags & _BLOCK_CHECKSUM:
            checksum, at = _number(frame, at)
            if checksum != xxhash.xxh32_intdigest(block):
                raise DataCorruptionError(f"lz4: checksum mismatch in the block that ends at byte {at}")
        most = largest if room is None else min(largest, room - len(out))
        if stored:
            out += block
        else:
            history = b"" if flags & _INDEPENDENT else bytes(out[-_HISTORY:])
            out += _decode_linked(block, history, most)
        if len(out) > (bound if room is None else room):
            raise DataCorruptionError(f"lz4 frame holds more than the expected {room or bound} bytes")
    if flags & _CONTENT_CHECKSUM:
        checksum, at = _number(frame, at)
        if checksum != xxhash.xxh32_intdigest(out):
            raise DataCorruptionError("lz4: checksum mismatch in the content of the frame")
    if at != len(frame):
        raise DataCorruptionError(f"lz4: {len(frame) - at} bytes after the end of the frame")
    if room is not None and len(out) != room:
        raise DataCorruptionError(f"lz4 frame holds {len(out)} bytes, expected {room}")
    return out


def _number(frame: memoryview, at: int) -> tuple[int, int]:
    if len(frame) < at + 4:
        raise IndexError
    return int.from_bytes(frame[at : at + 4], "little"), at + 4


def _decode_linked(block: memoryview, history: bytes, most: int) -> Buffer:
    """Decode a block of at most `most` bytes that may refer to `history`."""
    # All blocks of a frame but the last are usually full; if not, the block's sequences tell its size.
    n = len(history)
    whole = _prepend(block, history) if n else block
    try:
        return memoryview(decompress_block(whole, n + most))[n:]
    except DataCorruptionError:
        size = _decoded_nbytes(block)
        if size >= most:
            raise
    return memoryview(decompress_block(whole, n + size))[n:]


def _extended(block: memoryview, at: int, length: int) -> tuple[int, int]:
    """Return a length that begins with four bits of a token, and the position after it."""
    if length == 15:
        while True:
            more = block[at]
            length, at = length + more, at + 1
            if more != 255:
                break
    return length, at


def _prepend(block: memoryview, history: bytes) -> memoryview:
    """Return a block for `history` followed by the content of `block`."""
    token = block[0]
    literals, at = _extended(block, 1, token >> 4)
    n = literals + len(history)
    if n < 15:
        head = bytes([n << 4 | token & 15])
    else:
        head = bytes([0xF0 | token & 15]) + b"\xff" * ((n - 15) // 255) + bytes([(n - 15) % 255])
    return memoryview(b"".join((head, history, block[at:])))


def _decoded_nbytes(block: memoryview) -> int:
    """Return the decoded size of a block, computed from its sequences."""
    at = nbytes = 0
    while True:
        token = block[at]
        literals, at = _extended(block, at + 1, token >> 4)
        at, nbytes = at + literals, nbytes + literals
        if at >= len(block):
            return nbytes
        match, at = _extended(block, at + 2, token & 15)
        nbytes += match + 4


_HDF5_HEAD = struct.Struct(">QI")
_PIECE_SIZE = struct.Struct(">I")
_HDF5_LARGEST = 1 << 31


def decode_lz4_hdf5(encoded: Buffer, decoded_nbytes: int | None) -> bytes:
    """Return the content; raise DataCorruptionError unless it is complete and of the expected size."""
    data = byte_view(encoded)
    if len(data) < _HDF5_HEAD.size:
        raise _hdf5_corrupt("the header is cut off")
    total, block = _HDF5_HEAD.unpack_from(data)
    wanted = total if decoded_nbytes is None else decoded_nbytes
    if total != wanted or total > min(_HDF5_LARGEST, len(data) * _MAX_RATIO, largest_value()):
        raise _hdf5_corrupt(f"the header claims {total} bytes, but expected {wanted}")
    if total and not block:
        raise _hdf5_corrupt("the header claims blocks of 0 bytes")
    parts: list[bytes] = []
    at, left = _HDF5_HEAD.size, total
    while left:
        if at + _PIECE_SIZE.size > len(data):
            raise _hdf5_corrupt(f"{left} bytes are missing")
        (size,) = _PIECE_SIZE.unpack_from(data, at)
        at += _PIECE_SIZE.size
        piece, n = bytes(data[at : at + size]), min(block, left)
        if len(piece) != size:
            raise _hdf5_corrupt(f"{left} bytes are missing")
        if size != n:
            try:
                piece = bytes(decompress_block(memoryview(piece), n))
            except DataCorruptionError as e:
                raise _hdf5_corrupt(e.message) from e.__cause__
        parts.append(piece)
        at, left = at + size, left - n
    return b"".join(parts)


def _hdf5_corrupt(why: str) -> DataCorruptionError:
    return DataCorruptionError(f'"imagecodecs_lz4h5" codec: {why}')


# The largest input of an LZ4 block; a header that claims more is corrupt.
_MAX_NBYTES = 0x7E000000

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
