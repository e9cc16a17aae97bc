"""Codecs of Python's `bz2` and `lzma`: one or more streams in a row, within a promised size.

Specification
-------------
https://numcodecs.readthedocs.io/en/stable/ , compression, ``bz2`` and ``lzma``, with liblzma's numbers; N5
README, "File-system specification", item 4.  The formats of bzip2 1.0, and of .xz files 1.2.0.

Names
-----
zarr2: ``bz2``, ``lzma``; zarr3: the same with ``numcodecs.`` in front; N5: ``bzip2``, ``xz``.

Configuration
-------------
>>> Bz2.parse("zarr2", "bz2", {"level": 9}).to_json("zarr2")
{'level': 9}
>>> Lzma.parse("zarr2", "lzma", {"preset": 1}).to_json("zarr2")
{'format': 1, 'check': -1, 'preset': 1, 'filters': None}
>>> Bzip2.parse("n5", "bzip2", {}).to_json("n5")
{'blockSize': 9}
>>> Xz.parse("n5", "xz", {}).to_json("n5")
{'preset': 6}

Compatibility
-------------
``bzip2`` reads several streams in a row as one, as zarr-python 2; n5-java and TensorStore refuse them, z5py
returns only the first.  Other bytes after the last stream are ignored: z5py leaves them.

``xz`` reads several streams, stream padding and the legacy ``.lzma`` container, as TensorStore does; n5-java
refuses them.  It writes CRC64.  A stream that needs over 256 MiB to decode is refused: preset 9 needs 65.

GDAL writes a member ``delta`` of ``lzma`` for a filter before LZMA2.  Each chunk names its filters itself, so
new arrays don't have this member, which NumCodecs refuses, like a chain of filters in .xz.
"""

from __future__ import annotations

import bz2
import lzma
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from chunkwise.core.base.binding import JSON, Members, expect_array, expect_int, expect_object
from chunkwise.core.base.limits import largest_value
from chunkwise.core.codec.notation import notation_of
from chunkwise.core.codec.protocol import Buffer, BytesToBytes, Compressor, byte_view
from chunkwise.errors import CodecError, DataCorruptionError

__all__ = ["Bz2", "Bzip2", "Lzma", "Xz"]

# A decoder never needs much more than the dictionary of preset 9 (64 MiB).
_MEMORY_LIMIT = 256 << 20
_DICTIONARIES = (18, 20, 21, 22, 22, 23, 23, 24, 25, 26)  # of the presets, as powers of two in bytes
_LEVEL = 0x1F  # in a preset, which may have flags


@dataclass(frozen=True)
class Bz2(Compressor):
    """Bytes to bytes: bzip2; `level` is 1 to 9, the size of a block in units of 100 kB."""

    name: ClassVar[str] = "numcodecs.bz2"
    bounds = (1, 9)
    always_checked: ClassVar[bool] = True
    level_member: ClassVar[str | None] = "level"
    label: ClassVar[str] = "bz2"  # in errors

    def open_decoder(self, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
        return lambda encoded: _decode_streams(
            self.label, bz2.BZ2Decompressor, encoded, decoded_nbytes, magic=b"BZh"
        )

    def open_encoder(self) -> Callable[[Buffer], Buffer]:
        return lambda decoded: bz2.compress(decoded, self.level)


@dataclass(frozen=True)
class Bzip2(Bz2):
    """bzip2 in N5."""

    level: int = 9

    name: ClassVar[str] = "bzip2"
    member: ClassVar[str] = "blockSize"
    level_member: ClassVar[str | None] = None
    n5_defaults: ClassVar[Mapping[str, Any]] = {"blockSize": 9}
    label: ClassVar[str] = "bzip2"


@dataclass(frozen=True)
class Xz(Compressor):
    """Bytes to bytes: the .xz container in N5; `level` is a preset, 0 (fast) to 9 (small)."""

    level: int = 6

    name: ClassVar[str] = "xz"
    member: ClassVar[str] = "preset"
    bounds = (0, 9)
    n5_defaults: ClassVar[Mapping[str, Any]] = {"preset": 6}
    writes_checksum = True

    def has_checksum(self, encoded: memoryview) -> bool:
        return _xz_has_checksum(encoded)

    def open_decoder(self, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
        def new() -> lzma.LZMADecompressor:
            return lzma.LZMADecompressor(lzma.FORMAT_AUTO, memlimit=_MEMORY_LIMIT)

        return lambda encoded: _decode_streams(
            "xz", new, encoded, decoded_nbytes, errors=lzma.LZMAError, padding=4
        )

    def open_encoder(self) -> Callable[[Buffer], Buffer]:
        return lambda decoded: _compress_xz(decoded, self.level, lzma.CHECK_CRC64)


def _parse_preset(value: JSON) -> int | None:
    return None if value is None else expect_int(value, 0, 2**32 - 1)


def _parse_filters(value: JSON) -> tuple[tuple[tuple[str, int], ...], ...] | None:
    if value is None:
        return None
    return tuple(tuple(sorted(expect_object(f).items())) for f in expect_array(value))


@dataclass(frozen=True)
class Lzma(BytesToBytes):
    """Bytes to bytes: LZMA."""

    format: int = lzma.FORMAT_XZ  # 1 .xz, 2 the legacy .lzma, 3 raw (which needs `filters`)
    check: int = -1  # integrity check of .xz; -1 is CRC64
    preset: int | None = None  # 0 to 9, perhaps with the flag for "extreme"
    # Filter chain, each filter as sorted pairs of option and value.
    filters: tuple[tuple[tuple[str, int], ...], ...] | None = None
    delta: int | None = None  # distance in bytes

    name: ClassVar[str] = "numcodecs.lzma"
    level_member: ClassVar[str] = "preset"

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        members = Members(configuration)
        container = members.take("format", lambda v: expect_int(v, 1, 3), lzma.FORMAT_XZ)
        check = members.take("check", lambda v: expect_int(v, -1, 10), -1)
        preset = members.take("preset", _parse_preset, None)
        filters = members.take("filters", _parse_filters, None)
        delta = None
        if notation_of(format).has_numcodecs_options and filters is None:
            delta = members.take("delta", lambda v: expect_int(v, 1, 256), None)
        members.finish()
        return cls(container, check, preset, filters, delta)

    def to_json(self, format: str) -> dict[str, Any]:
        filters = None if self.filters is None else [dict(f) for f in self.filters]
        return {"format": self.format, "check": self.check, "preset": self.preset, "filters": filters}

    def _filters(self) -> list[dict[str, int]] | None:
        if self.filters is not None:
            return [dict(f) for f in self.filters]
        if self.delta is None:
            return None
        preset = lzma.PRESET_DEFAULT if self.preset is None else self.preset
        delta = {"id": lzma.FILTER_DELTA, "dist": self.delta}
        return [delta, {"id": lzma.FILTER_LZMA2, "preset": preset}]

    @property
    def writes_checksum(self) -> bool:
        return self.format == lzma.FORMAT_XZ and self.check != lzma.CHECK_NONE

    def has_checksum(self, encoded: memoryview) -> bool:
        return _xz_has_checksum(encoded)

    def open_decoder(self, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
        def new() -> lzma.LZMADecompressor:
            if self.format == lzma.FORMAT_RAW:
                try:
                    return lzma.LZMADecompressor(self.format, filters=self._filters())
                except (lzma.LZMAError, ValueError, TypeError, OverflowError) as e:
                    raise CodecError(f'"lzma" codec can\'t be used as configured: {e}') from e
            return lzma.LZMADecompressor(self.format, memlimit=_MEMORY_LIMIT)

        return lambda encoded: _decode_streams("lzma", new, encoded, decoded_nbytes, errors=lzma.LZMAError)

    def open_encoder(self) -> Callable[[Buffer], Buffer]:
        filters = self._filters()
        preset = self.preset if self.delta is None else None  # otherwise the filters include it

        def encode(decoded: Buffer) -> Buffer:
            try:
                if self.format == lzma.FORMAT_XZ and filters is None:
                    level = lzma.PRESET_DEFAULT if preset is None else preset
                    return _compress_xz(decoded, level, self.check)
                return lzma.compress(decoded, self.format, self.check, preset, filters)
            except (lzma.LZMAError, ValueError, TypeError, OverflowError) as e:
                raise CodecError(f'"lzma" codec can\'t be used as configured: {e}') from e

        return encode


def _compress_xz(data: Buffer, preset: int, check: int) -> bytes:
    """Return `data` as a .xz stream, encoded with a dictionary no larger than the data."""
    # An encoder takes eleven times the dictionary's size, 94 MiB with preset 6, however little the data.
    usual = 1 << _DICTIONARIES[min(preset & _LEVEL, 9)]
    size = min(usual, max(1 << 12, memoryview(data).nbytes))
    filters = [{"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": size}]
    return lzma.compress(data, lzma.FORMAT_XZ, check, filters=filters)


def _decode_streams(
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


def _xz_has_checksum(encoded: memoryview) -> bool:
    """Return True if `encoded` is a .xz stream with a check of its content."""
    # The low half of the second byte of the stream's flags names the check, 0 for none.
    return bytes(encoded[:6]) == b"\xfd7zXZ\0" and len(encoded) > 7 and encoded[7] & 15 != 0
