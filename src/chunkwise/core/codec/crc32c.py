"""The ``crc32c`` codec: a CRC-32C checksum of the bytes, appended.

Specification
-------------
https://zarr-specs.readthedocs.io/en/latest/v3/codecs/crc32c/ ; RFC 3720.

Names
-----
zarr3: ``crc32c`` (``numcodecs.crc32c`` is read); zarr2: ``crc32c``.

Configuration
-------------
None in zarr3.  NumCodecs has ``location``, "start" or "end" (the default).

>>> Crc32c.parse("zarr2", "crc32c", {"location": "start"}).to_json("zarr2")
{'location': 'start'}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from chunkwise.core.base.binding import Members, expect_one_of
from chunkwise.core.codec.notation import notation_of
from chunkwise.core.codec.protocol import Buffer, BytesToBytes, byte_view, size_error
from chunkwise.core.libraries import crc32c
from chunkwise.errors import DataCorruptionError, UnsupportedError

__all__ = ["Crc32c"]


@dataclass(frozen=True)
class Crc32c(BytesToBytes):
    """Bytes to bytes: a little-endian checksum of four bytes after (or before) the content."""

    # Where the checksum is; None means the end, and is not written.
    location: Literal["start", "end"] | None = None

    name: ClassVar[str] = "crc32c"
    always_checked: ClassVar[bool] = True
    decode_rate = encode_rate = 0.05

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        members = Members(configuration)
        location = None
        if notation_of(format).is_of_numcodecs(name):
            location = members.take("location", lambda v: expect_one_of(v, ("start", "end")), None)
        members.finish()
        return cls(location)

    def to_json(self, format: str) -> dict[str, Any]:
        if notation_of(format).is_chain:
            if self.location == "start":
                raise UnsupportedError(
                    '"crc32c" codec of Zarr v3 has no "location"; the checksum is at the end'
                )
            return {}
        return {} if self.location is None else {"location": self.location}

    def encoded_nbytes(self, decoded_nbytes: int) -> int | None:
        return decoded_nbytes + 4

    def open_decoder(self, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
        checksum, at_start = crc32c(), self.location == "start"

        def decode(encoded: Buffer) -> Buffer:
            view = byte_view(encoded)
            n = len(view) - 4
            if n < 0:
                raise DataCorruptionError(
                    f'"crc32c" codec: Not enough data: {n + 4} bytes can\'t hold a checksum of 4'
                )
            if decoded_nbytes is not None and n != decoded_nbytes:
                raise size_error("crc32c", n, decoded_nbytes)
            content, digest = (view[4:], view[:4]) if at_start else (view[:n], view[n:])
            stored, computed = int.from_bytes(digest, "little"), checksum(content)
            if stored != computed:
                raise DataCorruptionError(
                    f"Digest mismatch, stored digest is 0x{stored:08x} "
                    f"but computed digest is 0x{computed:08x}"
                )
            return content

        return decode

    def open_encoder(self) -> Callable[[Buffer], Buffer]:
        checksum, at_start = crc32c(), self.location == "start"

        def encode(decoded: Buffer) -> Buffer:
            view = byte_view(decoded)
            digest = checksum(view).to_bytes(4, "little")
            return b"".join((digest, view) if at_start else (view, digest))

        return encode
