"""The ``zstd`` codec: Zstandard compression.

Specification
-------------
https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/zstd ; frames as in RFC 8878.

Names
-----
zarr3: ``zstd`` (``numcodecs.zstd`` is read); zarr2: ``zstd``; N5: ``zstd``.

Configuration
-------------
>>> Zstd.parse("zarr3", "zstd", {"level": 5, "checksum": True}).to_json("zarr3")
{'level': 5, 'checksum': True}

Compatibility
-------------
Reads frames without a content size and several frames in a row, which TensorStore 0.1.86 does not;
bytes after the last frame are an error here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import zstandard

from chunkwise.binding import Members, expect_bool, expect_int
from chunkwise.codec.protocol import Buffer, BytesToBytes, ChunkSpec
from chunkwise.codec.size import size_error
from chunkwise.errors import DataCorruptionError

__all__ = ["Zstd"]

_LEVELS = (-131072, 22)
_MAGIC, _SKIPPABLE = 0xFD2FB528, range(0x184D2A50, 0x184D2A60)
_DEFAULT_LEVEL = {"zarr2": 1, "n5": 3}
# 1 KiB of compressed data can expand to 32 MiB (4 bytes to a block of 128 KiB).
_READ_STEP, _MAX_RATIO = 1024, 32768


@dataclass(frozen=True)
class Zstd(BytesToBytes):
    """Bytes to bytes: Zstandard."""

    level: int | None = None  # -131072 to 22; 0 is the library's default; None until bound, then 3
    # True if a checksum of the content is stored; it is verified wherever there is one.
    checksum: bool | None = None

    name: ClassVar[str] = "zstd"
    level_member: ClassVar[str] = "level"
    n5_defaults: ClassVar[Mapping[str, Any]] = {"level": 0}  # the library's own default

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        members = Members(configuration)
        level = members.take("level", lambda v: expect_int(v, *_LEVELS), _DEFAULT_LEVEL.get(format))
        if format == "n5":
            members.rest()
            return cls(level)
        checksum = members.take("checksum", expect_bool, None)
        members.finish()
        return cls(level, checksum)

    def to_json(self, format: str) -> dict[str, Any]:
        members: dict[str, Any] = {} if self.level is None else {"level": self.level}
        if self.checksum is not None and (format == "zarr3" or (format == "zarr2" and self.checksum)):
            members["checksum"] = self.checksum
        return members

    def bind(self, item: ChunkSpec) -> Self:
        level = 3 if self.level is None else self.level
        return replace(self, level=level, checksum=bool(self.checksum))

    @property
    def writes_checksum(self) -> bool:
        return bool(self.checksum)

    def has_checksum(self, encoded: memoryview) -> bool:
        # The first frame with content tells (RFC 8878, section 3.1.1.1.1).
        while len(encoded) >= 8:
            magic = int.from_bytes(encoded[:4], "little")
            if magic not in _SKIPPABLE:
                return magic == _MAGIC and bool(encoded[4] & 4)
            encoded = encoded[8 + int.from_bytes(encoded[4:8], "little") :]
        return False

    def open_encoder(self) -> Callable[[Buffer], Buffer]:
        level, checksum = 3 if self.level is None else self.level, bool(self.checksum)
        context = zstandard.ZstdCompressor(level=level, write_checksum=checksum, write_content_size=True)
        compress: Callable[[Buffer], Buffer] = context.compress
        return compress

    def open_decoder(self, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
        context = zstandard.ZstdDecompressor()
        decompress, content_size, error = (
            context.decompress,
            zstandard.frame_content_size,
            zstandard.ZstdError,
        )

        def decode(encoded: Buffer) -> Buffer:
            try:
                size = content_size(encoded)
                if size == decoded_nbytes:
                    # What a header claims is allocated only if it is what the metadata promises.
                    try:
                        data: bytes = decompress(encoded, allow_extra_data=False)
                    except error:
                        data = _read_frames(context, encoded, decoded_nbytes)
                else:
                    data = _read_frames(context, encoded, decoded_nbytes)
            except error as e:
                raise DataCorruptionError(f'"zstd" codec: {e}') from e
            if decoded_nbytes is not None and len(data) != decoded_nbytes:
                raise _size_error(len(data), decoded_nbytes)
            return data

        return decode


def _size_error(got: int, expected: int) -> DataCorruptionError:
    return size_error("zstd", f"more than {expected}" if got > expected else got, expected)


def _read_frames(context: Any, encoded: Buffer, expected: int | None) -> bytes:
    """Decode any number of frames, of known content size or not, to at most ``expected + 1`` bytes."""
    parts: list[bytes] = []
    total = 0
    rest = memoryview(encoded)
    while len(rest):
        frame = context.decompressobj()
        size = zstandard.frame_content_size(rest)
        if expected is not None and size > expected - total:
            raise _size_error(expected + 1, expected)
        # A frame is fed in pieces, so that what it expands to is noticed before it is all there.
        at, step = 0, max(_READ_STEP, (1 << 16) if expected is None else expected // _MAX_RATIO)
        while at < len(rest) and not frame.eof:
            part = frame.decompress(rest[at : at + step])
            at += step
            parts.append(part)
            total += len(part)
            if expected is not None and total > expected:
                raise _size_error(total, expected)
        if not frame.eof:
            raise DataCorruptionError('"zstd" codec: truncated frame')
        rest = rest[min(at, len(rest)) - len(frame.unused_data) :]
    return parts[0] if len(parts) == 1 else b"".join(parts)
