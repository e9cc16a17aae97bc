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
bytes after the last frame are an error here.  GDAL writes ``checksum`` as "YES" or "NO" in Zarr v2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from chunkwise.core.base.binding import Members, expect_bool, expect_int
from chunkwise.core.base.limits import largest_value
from chunkwise.core.codec.notation import notation_of
from chunkwise.core.codec.protocol import BatchDecoder, Buffer, BytesToBytes, ChunkSpec, size_error
from chunkwise.core.libraries import zstd
from chunkwise.errors import DataCorruptionError, prefix

__all__ = ["Zstd"]

_LEVELS = (-131072, 22)
_MAGIC, _SKIPPABLE = 0xFD2FB528, range(0x184D2A50, 0x184D2A60)
_DEFAULT_LEVEL = {"zarr2": 1, "n5": 3}
_MAX_RATIO = 1 << 15  # a block of 128 KiB takes at least 4 bytes
_LARGEST_BLOCK = 1 << 17
_FEW = 1 << 16  # first allocation for a chunk of unknown size, in bytes


@dataclass(frozen=True)
class Zstd(BytesToBytes):
    """Bytes to bytes: Zstandard."""

    level: int | None = None  # -131072 to 22; 0 is the library's default; None until bound, then 3
    # True if a checksum of the content is stored; a stored checksum is always verified.
    checksum: bool | None = None

    name: ClassVar[str] = "zstd"
    level_member: ClassVar[str] = "level"
    n5_defaults: ClassVar[Mapping[str, Any]] = {"level": 0}  # the library's own default

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        members = Members(configuration)
        level = members.take("level", lambda v: expect_int(v, *_LEVELS), _DEFAULT_LEVEL.get(format))
        notation = notation_of(format)
        if notation.ignores_unknown:
            return cls(level)
        gdal = {"YES": True, "NO": False} if notation.has_numcodecs_options else {}
        checksum = members.take("checksum", lambda v: expect_bool(gdal.get(str(v), v)), None)
        members.finish()
        return cls(level, checksum)

    def to_json(self, format: str) -> dict[str, Any]:
        members: dict[str, Any] = {} if self.level is None else {"level": self.level}
        notation = notation_of(format)
        if (
            self.checksum is not None
            and not notation.ignores_unknown
            and (self.checksum or notation.has_words)
        ):
            members["checksum"] = self.checksum
        return members

    def bind(self, item: ChunkSpec) -> Self:
        level = 3 if self.level is None else self.level
        return replace(self, level=level, checksum=bool(self.checksum))

    @property
    def writes_checksum(self) -> bool:
        return bool(self.checksum)

    def has_checksum(self, encoded: memoryview) -> bool:
        # The first frame with content decides (RFC 8878, section 3.1.1.1.1).
        while len(encoded) >= 8:
            magic = int.from_bytes(encoded[:4], "little")
            if magic not in _SKIPPABLE:
                return magic == _MAGIC and bool(encoded[4] & 4)
            encoded = encoded[8 + int.from_bytes(encoded[4:8], "little") :]
        return False

    def open_encoder(self) -> Callable[[Buffer], Buffer]:
        return zstd().open_encoder(3 if self.level is None else self.level, bool(self.checksum))

    def open_decoder(self, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
        if decoded_nbytes is None:
            return _open_unbounded_decoder()
        n, fill = decoded_nbytes, self.open_decoder_into(decoded_nbytes)

        def decode(encoded: Buffer) -> Buffer:
            _check_ratio(encoded, n)  # before memory is allocated for the claimed size
            out = np.empty(n, np.uint8).data
            fill(encoded, out)
            return out

        return decode

    def open_decoder_into(self, decoded_nbytes: int) -> Callable[[Buffer, memoryview], None]:
        decompress = zstd().open_decoder()

        def decode(encoded: Buffer, out: memoryview) -> None:
            try:
                written = decompress(encoded, out)
            except DataCorruptionError as e:
                raise prefix(e, '"zstd" codec') from None
            if written != decoded_nbytes:
                raise size_error(
                    "zstd", f"more than {decoded_nbytes}" if written is None else written, decoded_nbytes
                )

        return decode

    def open_batch_decoder(self, decoded_nbytes: int) -> BatchDecoder | None:
        frame_nbytes, content_nbytes = zstd().frame_nbytes, zstd().content_nbytes
        if frame_nbytes is None or content_nbytes is None:
            return None
        decompress = zstd().open_decoder()

        def takes(address: int, nbytes: int) -> bool:
            # One frame whose header has the size of its content decodes to that size or fails, and the next
            # frame begins where the next chunk does.
            content = content_nbytes(address, nbytes)
            return content == decoded_nbytes and frame_nbytes(address, nbytes) == nbytes

        def decode(encoded: Buffer, out: memoryview) -> bool:
            try:
                return decompress(encoded, out) == len(out)
            except DataCorruptionError:
                return False

        return BatchDecoder(takes, decode)


def _check_ratio(encoded: Buffer, nbytes: int) -> None:
    """Raise for a size that so few encoded bytes can't hold."""
    if nbytes > _MAX_RATIO * len(encoded):
        raise DataCorruptionError(
            f'"zstd" codec: {len(encoded)} bytes can\'t hold the expected {nbytes} bytes'
        )


def _open_unbounded_decoder() -> Callable[[Buffer], Buffer]:
    """Return a decoder for chunks of any size."""
    decompress = zstd().open_decoder()

    def decode(encoded: Buffer) -> Buffer:
        most, known = _most_decoded(memoryview(encoded))
        largest = largest_value()
        if known and most > largest:
            raise size_error("zstd", most, largest)
        most = min(most, largest)
        room = most if known else min(most, max(_FEW, 8 * len(encoded)))
        while True:
            out = np.empty(room, np.uint8).data
            try:
                written = decompress(encoded, out)
            except DataCorruptionError as e:
                raise prefix(e, '"zstd" codec') from None
            if written is not None:
                return out[:written]
            if room == most:
                raise DataCorruptionError(f'"zstd" codec: more than the {most} bytes that are possible')
            room = min(most, 8 * room)

    return decode


def _most_decoded(encoded: memoryview) -> tuple[int, bool]:
    """Return how many bytes the frames can decode to, and whether all headers state their size."""
    # RFC 8878, section 3.1.1: a size in a header counts only as far as the blocks can hold it.
    total, known, at = 0, True, 0
    while at < len(encoded):
        magic = int.from_bytes(encoded[at : at + 4], "little")
        if magic in _SKIPPABLE:
            at += 8 + int.from_bytes(encoded[at + 4 : at + 8], "little")
            continue
        if magic != _MAGIC or at + 5 > len(encoded):
            raise DataCorruptionError(f'"zstd" codec: no frame at byte {at}')
        flags = encoded[at + 4]
        single = flags >> 5 & 1
        at += 5 + (not single) + (0, 1, 2, 4)[flags & 3]
        n = (single, 2, 4, 8)[flags >> 6]
        claim = int.from_bytes(encoded[at : at + n], "little") + (256 if n == 2 else 0)
        at, held, last = at + n, 0, 0
        while not last:
            if at + 3 > len(encoded):
                raise DataCorruptionError('"zstd" codec: truncated frame')
            block = int.from_bytes(encoded[at : at + 3], "little")
            last, kind, size = block & 1, block >> 1 & 3, block >> 3
            held += size if kind < 2 else _LARGEST_BLOCK
            at += 3 + (1 if kind == 1 else size)
        at += 4 * (flags >> 2 & 1)
        total, known = total + (min(claim, held) if n else held), known and n > 0
    return total, known
