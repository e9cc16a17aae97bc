"""The ``lz4`` codec of NumCodecs: one LZ4 block after its decoded size.

Specification
-------------
https://numcodecs.readthedocs.io/en/stable/compression/lz4.html : the decoded size as a little-endian
32-bit integer, then a bare LZ4 block.

Names
-----
zarr2: ``lz4``; zarr3: ``numcodecs.lz4``.  The ``lz4`` of N5 is another codec.

Configuration
-------------
>>> Lz4.parse("zarr2", "lz4", {"acceleration": 2}).to_json("zarr2")
{'acceleration': 2}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numcodecs.lz4

from chunkwise.core.base.binding import Members, expect_int
from chunkwise.core.base.size_bound import largest_value
from chunkwise.core.codec.protocol import Buffer, BytesToBytes, size_error
from chunkwise.errors import CodecError, DataCorruptionError

__all__ = ["Lz4"]

# The largest input of an LZ4 block; a header that claims more is corrupt.
_MAX_NBYTES = 0x7E000000
_MAX_RATIO = 255  # no LZ4 block expands to more than this many times its size


@dataclass(frozen=True)
class Lz4(BytesToBytes):
    """Bytes to bytes: an LZ4 block; a larger `acceleration` is faster and compresses less."""

    acceleration: int = 1

    name: ClassVar[str] = "numcodecs.lz4"
    decode_rate, encode_rate = 0.25, 1.0

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        members = Members(configuration)
        acceleration = members.take("acceleration", lambda v: expect_int(v, -(2**31), 2**31 - 1), 1)
        members.finish()
        return cls(acceleration)

    def to_json(self, format: str) -> dict[str, Any]:
        return {"acceleration": self.acceleration}

    def open_decoder(self, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
        decompress = numcodecs.lz4.decompress

        def decode(encoded: Buffer) -> Buffer:
            head = encoded[:4]
            if len(head) < 4:
                raise DataCorruptionError(f'"lz4" codec: {len(head)} bytes can\'t hold the size of 4 bytes')
            nbytes = int.from_bytes(head, "little")
            if nbytes != decoded_nbytes:
                most = decoded_nbytes
                if most is None:
                    most = min(_MAX_NBYTES, _MAX_RATIO * len(encoded), largest_value())
                if decoded_nbytes is not None or nbytes > most:
                    raise size_error("lz4", nbytes, most)
            if nbytes == 0:
                return b""
            try:
                data: bytes = decompress(encoded)
            except (RuntimeError, ValueError) as e:
                raise DataCorruptionError(f'"lz4" codec: {e}') from e
            return data

        return decode

    def open_encoder(self) -> Callable[[Buffer], Buffer]:
        acceleration, compress = self.acceleration, numcodecs.lz4.compress

        def encode(decoded: Buffer) -> Buffer:
            if len(decoded) > _MAX_NBYTES:
                raise CodecError(
                    f'"lz4" codec: a chunk of {len(decoded)} bytes is larger than the {_MAX_NBYTES} '
                    "that it can hold"
                )
            return compress(decoded, acceleration)  # type: ignore[no-any-return]

        return encode
