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

``preset`` is that of the encoder, 0 to 9; default 6.  The check is CRC64.

Compatibility
-------------
Several streams, stream padding and the legacy ``.lzma`` container are read, as TensorStore does;
n5-java refuses them.  A stream whose dictionary needs more than 256 MiB is refused: preset 9 needs 65.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from chunkwise.binding import Members, expect_int
from chunkwise.codec.protocol import Buffer, BytesToBytes
from chunkwise.codec.streams import decode_streams, xz_has_checksum
from chunkwise.errors import CodecError

__all__ = ["Xz"]

_MEMORY_LIMIT = 256 << 20


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
        members.rest()  # other writers add members; codec.n5_compression checks what is to be written
        return cls(preset)

    def to_json(self, format: str) -> dict[str, Any]:
        """Return the member ``preset``."""
        return {"preset": self.preset}

    def has_checksum(self, encoded: memoryview) -> bool:
        """Return True if the flags of the stream name a check."""
        return xz_has_checksum(encoded)

    def open_decoder(self, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
        """Return a decoder that never holds more than `decoded_nbytes` bytes and one."""
        return lambda data: decode_streams(
            "xz", _open_stream, data, decoded_nbytes, errors=lzma.LZMAError, padding=4
        )

    def open_encoder(self) -> Callable[[Buffer], Buffer]:
        """Return an encoder that writes one stream with one block."""

        def encode(data: Buffer) -> Buffer:
            try:
                return lzma.compress(data, lzma.FORMAT_XZ, lzma.CHECK_CRC64, self.preset)
            except (lzma.LZMAError, MemoryError) as e:
                raise CodecError(f"xz: {e}") from e

        return encode
