"""xz, also known as LZMA2 in its own container.

Specification
-------------
N5 README, "File-system specification", item 4 (``xz``); the .xz file format 1.2.0.

Names
-----
N5: ``xz``.

Configuration
-------------
>>> Xz.parse("n5", "xz", {"preset": 6}).to_json("n5")
{'preset': 6}

``preset`` is the encoder's preset, 0 to 9; default 6.  The check is CRC64.

Compatibility
-------------
Several streams, stream padding and the legacy ``.lzma`` container are read, as TensorStore does;
n5-java refuses them.  A stream that needs more than 256 MiB to decode is refused: preset 9 needs 65.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from chunkwise.core.base.binding import Members, expect_int
from chunkwise.core.codec.protocol import Buffer, BytesToBytes
from chunkwise.core.codec.streams import decode_streams, xz_has_checksum
from chunkwise.errors import CodecError

__all__ = ["Xz", "compress_xz"]

_MEMORY_LIMIT = 256 << 20
_DICTIONARIES = (18, 20, 21, 22, 22, 23, 23, 24, 25, 26)  # of the presets, as powers of two in bytes
_LEVEL = 0x1F  # in a preset, which may have flags


def _open_stream() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_AUTO, memlimit=_MEMORY_LIMIT)


@dataclass(frozen=True, slots=True)
class Xz(BytesToBytes):
    """The .xz container as a bytes->bytes codec."""

    preset: int = 6  # 0 (fast) to 9 (small), for the encoder

    name: ClassVar[str] = "xz"
    n5_defaults: ClassVar[Mapping[str, Any]] = {"preset": 6}
    writes_checksum = True

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        """Read the member ``preset``; others are ignored, as n5-java does."""
        members = Members(configuration)
        preset = members.take("preset", lambda value: expect_int(value, 0, 9), 6)
        members.rest()  # other writers add members; codec.n5_compression checks documents to write
        return cls(preset)

    def to_json(self, format: str) -> dict[str, Any]:
        """Return the member ``preset``."""
        return {"preset": self.preset}

    def has_checksum(self, encoded: memoryview) -> bool:
        """Return True if the stream's flags name a check."""
        return xz_has_checksum(encoded)

    def open_decoder(self, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
        """Return a decoder that never holds more than ``decoded_nbytes + 1`` bytes."""
        return lambda data: decode_streams(
            "xz", _open_stream, data, decoded_nbytes, errors=lzma.LZMAError, padding=4
        )

    def open_encoder(self) -> Callable[[Buffer], Buffer]:
        """Return an encoder that writes one stream with one block."""

        def encode(data: Buffer) -> Buffer:
            try:
                return compress_xz(data, self.preset, lzma.CHECK_CRC64)
            except (lzma.LZMAError, MemoryError) as e:
                raise CodecError(f"xz: {e}") from e

        return encode


def compress_xz(data: Buffer, preset: int, check: int) -> bytes:
    """Return `data` as a .xz stream, encoded with a dictionary no larger than the data."""
    # An encoder takes eleven times the dictionary's size, 94 MiB with preset 6, however little the data.
    usual = 1 << _DICTIONARIES[min(preset & _LEVEL, 9)]
    size = min(usual, max(1 << 12, memoryview(data).nbytes))
    filters = [{"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": size}]
    return lzma.compress(data, lzma.FORMAT_XZ, check, filters=filters)
