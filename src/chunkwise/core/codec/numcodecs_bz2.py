"""The ``bz2`` codec of Zarr v2: bzip2 streams.

Specification
-------------
https://numcodecs.readthedocs.io/en/stable/compression/bz2.html .

Names
-----
zarr2: ``bz2``; zarr3: ``numcodecs.bz2``.

Configuration
-------------
>>> Bz2.parse("zarr2", "bz2", {"level": 9}).to_json("zarr2")
{'level': 9}
"""

from __future__ import annotations

import bz2
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from chunkwise.core.base.binding import Members, expect_int
from chunkwise.core.codec.protocol import Buffer, BytesToBytes
from chunkwise.core.codec.streams import decode_streams

__all__ = ["Bz2"]


@dataclass(frozen=True)
class Bz2(BytesToBytes):
    """Bytes to bytes: bzip2; `level` is 1 to 9, the size of a block in units of 100 kB."""

    level: int = 1

    name: ClassVar[str] = "numcodecs.bz2"
    always_checked: ClassVar[bool] = True
    level_member: ClassVar[str] = "level"

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        members = Members(configuration)
        level = members.take("level", lambda v: expect_int(v, 1, 9), 1)
        members.finish()
        return cls(level)

    def to_json(self, format: str) -> dict[str, Any]:
        return {"level": self.level}

    def open_decoder(self, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
        return lambda encoded: decode_streams(
            "bz2", bz2.BZ2Decompressor, encoded, decoded_nbytes, magic=b"BZh"
        )

    def open_encoder(self) -> Callable[[Buffer], Buffer]:
        return lambda decoded: bz2.compress(decoded, self.level)
