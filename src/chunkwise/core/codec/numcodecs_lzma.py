"""The ``lzma`` codec of Zarr v2: LZMA in the containers of Python's `lzma`.

Specification
-------------
https://numcodecs.readthedocs.io/en/stable/compression/lzma.html ; the numbers are those of liblzma.

Names
-----
zarr2: ``lzma``; zarr3: ``numcodecs.lzma``.

Configuration
-------------
>>> Lzma.parse("zarr2", "lzma", {"preset": 1}).to_json("zarr2")
{'format': 1, 'check': -1, 'preset': 1, 'filters': None}

Compatibility
-------------
GDAL writes a member ``delta`` for a filter before LZMA2.  Each chunk names its filters itself, so new arrays
don't have this member, which NumCodecs refuses, like a chain of filters in .xz.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from chunkwise.core.base.binding import JSON, Members, expect_array, expect_int, expect_object
from chunkwise.core.codec.n5_xz import compress_xz
from chunkwise.core.codec.notation import notation_of
from chunkwise.core.codec.protocol import Buffer, BytesToBytes
from chunkwise.core.codec.streams import decode_streams, xz_has_checksum
from chunkwise.errors import CodecError

__all__ = ["Lzma"]

# A decoder never needs much more than the dictionary of preset 9 (64 MiB).
_MEMORY_LIMIT = 256 * 2**20


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
        return xz_has_checksum(encoded)

    def open_decoder(self, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
        def new() -> lzma.LZMADecompressor:
            if self.format == lzma.FORMAT_RAW:
                try:
                    return lzma.LZMADecompressor(self.format, filters=self._filters())
                except (lzma.LZMAError, ValueError, TypeError) as e:
                    raise CodecError(f'"lzma" codec can\'t be used as configured: {e}') from e
            return lzma.LZMADecompressor(self.format, memlimit=_MEMORY_LIMIT)

        return lambda encoded: decode_streams("lzma", new, encoded, decoded_nbytes, errors=lzma.LZMAError)

    def open_encoder(self) -> Callable[[Buffer], Buffer]:
        filters = self._filters()
        preset = self.preset if self.delta is None else None  # otherwise the filters include it

        def encode(decoded: Buffer) -> Buffer:
            try:
                if self.format == lzma.FORMAT_XZ and filters is None:
                    level = lzma.PRESET_DEFAULT if preset is None else preset
                    return compress_xz(decoded, level, self.check)
                return lzma.compress(decoded, self.format, self.check, preset, filters)
            except (lzma.LZMAError, ValueError, TypeError) as e:
                raise CodecError(f'"lzma" codec can\'t be used as configured: {e}') from e

        return encode
