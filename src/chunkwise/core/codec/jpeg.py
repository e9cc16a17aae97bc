"""N5 blocks as JPEG pictures, read only.

Specification
-------------
The program n5-jpeg: a grayscale JPEG file whose pixels are the elements in stored order.

Names
-----
N5: ``jpeg``.

Configuration
-------------
>>> Jpeg.parse("n5", "jpeg", {"quality": 80}).to_json("n5")
{'quality': 80}

``quality`` is 0 to 100, default 100; ``dataType`` and other members are ignored.

Compatibility
-------------
Only ``uint8``: for wider types n5-jpeg makes several planes, whose sizes are not always right.  Nothing is
written, since JPEG changes the values.  Needs Pillow, which ``pip install chunkwise[codecs]`` installs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any, ClassVar, Self

import numpy as np

from chunkwise.core.base.binding import Members, expect_int
from chunkwise.core.base.extras import needs
from chunkwise.core.base.limits import largest_value
from chunkwise.core.codec.protocol import Buffer, BytesToBytes, ChunkSpec
from chunkwise.errors import DataCorruptionError, UnsupportedError

__all__ = ["Jpeg"]

_MAX_NBYTES = 1 << 31


@dataclass(frozen=True, slots=True)
class Jpeg(BytesToBytes):
    """JPEG as a bytes->bytes codec."""

    quality: int = 100  # 0 to 100, as the writer chose it

    name: ClassVar[str] = "jpeg"

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        """Read the member ``quality``; others are ignored, as n5-java does."""
        members = Members(configuration)
        quality = members.take("quality", lambda value: expect_int(value, 0, 100), 100)
        return cls(quality)

    def to_json(self, format: str) -> dict[str, Any]:
        """Return the member ``quality``."""
        return {"quality": self.quality}

    def bind(self, item: ChunkSpec) -> Self:
        """Return the codec itself; raise for elements other than uint8."""
        if item.dtype != np.dtype(np.uint8):
            raise UnsupportedError(f'"jpeg" compression of {item.dtype} is not supported, only of uint8')
        return self

    def open_decoder(self, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
        """Return a decoder; the number of pixels is checked before they are decoded."""
        try:
            from PIL import Image
        except ImportError:
            raise UnsupportedError(needs('"jpeg" compression', "Pillow")) from None

        def decode(data: Buffer) -> Buffer:
            try:
                with Image.open(BytesIO(data), formats=["JPEG"]) as picture:
                    n_pixels = picture.width * picture.height
                    if picture.mode != "L":
                        raise DataCorruptionError(f"jpeg: expected a gray picture, not mode {picture.mode}")
                    most = min(_MAX_NBYTES, largest_value())
                    if n_pixels != decoded_nbytes and (decoded_nbytes is not None or n_pixels > most):
                        raise DataCorruptionError(
                            f"jpeg: picture has {n_pixels} pixels, expected {decoded_nbytes or 'fewer'}"
                        )
                    return picture.tobytes()
            except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as e:
                if isinstance(e, DataCorruptionError):
                    raise
                raise DataCorruptionError(f"jpeg: {e}") from e

        return decode

    def open_encoder(self) -> Callable[[Buffer], Buffer]:
        """Raise UnsupportedError."""
        raise UnsupportedError(
            '"jpeg" compression can\'t be written, since it changes the values; copy to another compression'
        )
