"""The ``zlib`` codec of Zarr v2: DEFLATE in zlib framing.

Specification
-------------
RFC 1950 and 1951; https://numcodecs.readthedocs.io/en/stable/compression/zlib.html .

Names
-----
zarr2: ``zlib``; zarr3: ``numcodecs.zlib``.

Configuration
-------------
>>> Zlib.parse("zarr2", "zlib", {}).to_json("zarr2")
{'level': 1}

Compatibility
-------------
gzip framing is read too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from chunkwise.core.base.binding import Members, expect_int
from chunkwise.core.codec.deflate import open_deflate_decoder, open_deflate_decoder_into, open_deflate_encoder
from chunkwise.core.codec.protocol import Buffer, BytesToBytes

__all__ = ["Zlib"]


@dataclass(frozen=True)
class Zlib(BytesToBytes):
    """Bytes to bytes: DEFLATE with a zlib header; `level` is 0 to 9, or -1 for zlib's default."""

    level: int = 1

    name: ClassVar[str] = "numcodecs.zlib"
    always_checked: ClassVar[bool] = True
    level_member: ClassVar[str] = "level"

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        members = Members(configuration)
        level = members.take("level", lambda v: expect_int(v, -1, 9), 1)
        members.finish()
        return cls(level)

    def to_json(self, format: str) -> dict[str, Any]:
        return {"level": self.level}

    def open_decoder(self, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
        return open_deflate_decoder("zlib", decoded_nbytes)

    def open_decoder_into(self, decoded_nbytes: int) -> Callable[[Buffer, memoryview], None] | None:
        return open_deflate_decoder_into("zlib", decoded_nbytes)

    def open_encoder(self) -> Callable[[Buffer], Buffer]:
        return open_deflate_encoder("zlib", self.level, "zlib")
