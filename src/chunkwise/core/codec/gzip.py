"""The ``gzip`` codec: DEFLATE in gzip framing.

Specification
-------------
https://zarr-specs.readthedocs.io/en/latest/v3/codecs/gzip/ ; RFC 1951 and 1952.

Names
-----
zarr3: ``gzip`` (``numcodecs.gzip`` is read); zarr2: ``gzip``; N5: ``gzip``.

Configuration
-------------
>>> Gzip.parse("zarr3", "gzip", {"level": 1}).to_json("zarr3")
{'level': 1}
>>> Gzip.parse("n5", "gzip", {"useZlib": True}).to_json("n5")
{'level': 6, 'useZlib': True}

Compatibility
-------------
Several members in a row are read, as by the gzip tool but not by TensorStore 0.1.86.  Both framings are read
whatever ``useZlib`` says, since z5py does not store that member.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

from chunkwise.core.base.binding import Members, expect_bool, expect_int
from chunkwise.core.codec.deflate import (
    Framing,
    open_deflate_decoder,
    open_deflate_decoder_into,
    open_deflate_encoder,
)
from chunkwise.core.codec.notation import notation_of
from chunkwise.core.codec.protocol import Buffer, BytesToBytes, ChunkSpec

__all__ = ["Gzip"]

_DEFAULT_LEVEL = {"zarr2": 1, "n5": 6}


@dataclass(frozen=True)
class Gzip(BytesToBytes):
    """Bytes to bytes: DEFLATE."""

    level: int | None = (
        None  # 0 (stored) to 9; -1 (not in Zarr v3) is zlib's default. None until bound, then 6.
    )
    framing: Framing = "gzip"  # Framing to write; both are read. "zlib" only in N5.
    # Library of the levels.  ISA-L is several times faster, but its levels, 0 to 3, have another meaning.  So
    # it is used only if the caller says so, and is not part of the metadata.
    library: Literal["zlib", "isal"] = field(default="zlib", compare=False)

    name: ClassVar[str] = "gzip"
    always_checked: ClassVar[bool] = True  # by CRC-32, or Adler-32 in zlib framing
    level_member: ClassVar[str] = "level"
    n5_defaults: ClassVar[Mapping[str, Any]] = {"level": -1, "useZlib": False}

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        members = Members(configuration)
        notation = notation_of(format)
        least = 0 if notation.has_words else -1  # Java's default, which jzarr writes
        level = members.take("level", lambda v: expect_int(v, least, 9), _DEFAULT_LEVEL.get(format))
        if not notation.ignores_unknown:
            members.finish()
            return cls(level)
        return cls(level, "zlib" if members.take("useZlib", expect_bool, False) else "gzip")

    def to_json(self, format: str) -> dict[str, Any]:
        members: dict[str, Any] = {} if self.level is None else {"level": self.level}
        if notation_of(format).ignores_unknown:  # which are Java's own
            members["useZlib"] = self.framing == "zlib"
        return members

    def bind(self, item: ChunkSpec) -> Self:
        return self if self.level is not None else replace(self, level=6)

    def open_decoder(self, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
        return open_deflate_decoder("gzip", decoded_nbytes)

    def open_decoder_into(self, decoded_nbytes: int) -> Callable[[Buffer, memoryview], None] | None:
        return open_deflate_decoder_into("gzip", decoded_nbytes)

    def open_encoder(self) -> Callable[[Buffer], Buffer]:
        return open_deflate_encoder(self.framing, 6 if self.level is None else self.level, self.library)
