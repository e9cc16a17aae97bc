"""bzip2.

Specification
-------------
N5 README, "File-system specification", item 4 (``bzip2``); the stream format of bzip2 1.0.

Names
-----
N5: ``bzip2``.

Configuration
-------------
>>> Bzip2.parse("n5", "bzip2", {"blockSize": 9}).to_json("n5")
{'blockSize': 9}

``blockSize`` is the block size of the encoder, 1 to 9, in units of 100 kB; default 9.

Compatibility
-------------
Several streams in a row are read as one, as in zarr-python 2; n5-java and TensorStore refuse them, z5py
returns only the first.  Other bytes after the last stream are ignored: z5py leaves them.
"""

from __future__ import annotations

import bz2
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from chunkwise.core.base.binding import Members, expect_int
from chunkwise.core.codec.protocol import Buffer, BytesToBytes
from chunkwise.core.codec.streams import decode_streams
from chunkwise.errors import CodecError

__all__ = ["Bzip2"]


@dataclass(frozen=True, slots=True)
class Bzip2(BytesToBytes):
    """bzip2 as a bytes->bytes codec."""

    level: int = 9  # 1 to 9: block size of the encoder in units of 100 kB

    name: ClassVar[str] = "bzip2"
    always_checked: ClassVar[bool] = True
    n5_defaults: ClassVar[Mapping[str, Any]] = {"blockSize": 9}

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        """Read the member ``blockSize``; others are ignored, as n5-java does."""
        members = Members(configuration)
        level = members.take("blockSize", lambda value: expect_int(value, 1, 9), 9)
        members.rest()  # other writers add members; codec.n5_compression checks documents to write
        return cls(level)

    def to_json(self, format: str) -> dict[str, Any]:
        """Return the member ``blockSize``."""
        return {"blockSize": self.level}

    def open_decoder(self, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
        """Return a decoder that never holds more than ``decoded_nbytes + 1`` bytes."""
        return lambda data: decode_streams("bzip2", bz2.BZ2Decompressor, data, decoded_nbytes, magic=b"BZh")

    def open_encoder(self) -> Callable[[Buffer], Buffer]:
        """Return an encoder that writes one stream."""

        def encode(data: Buffer) -> Buffer:
            try:
                return bz2.compress(data, self.level)
            except (ValueError, OSError) as e:
                raise CodecError(f"bzip2: {e}") from e

        return encode
