"""Decoding of picture files by Pillow; their sizes are checked before decoding.

Pillow itself refuses pictures of more than twice ``PIL.Image.MAX_IMAGE_PIXELS`` pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy.typing as npt

from chunkwise.core.base.extras import needs
from chunkwise.core.codec.protocol import Buffer
from chunkwise.errors import ChunkwiseError, DataCorruptionError, UnsupportedError

__all__ = ["pillow", "read_picture", "sniff"]


def pillow(what: str) -> Any:
    """Return Pillow's module ``Image``; an error names the feature that needs it."""
    try:
        from PIL import Image
    except ImportError as e:
        raise UnsupportedError(needs(what, "Pillow")) from e
    return Image


def sniff(head: bytes) -> str | None:
    """Return the format of a file that begins with these 12 bytes; None if it isn't in `FORMATS`."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if head.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if head[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
        return "tiff"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "webp"
    if head[4:8] == b"ftyp" and head[8:12] in (b"avif", b"avis"):
        return "avif"
    return "bmp" if head.startswith(b"BM") else None


def read_picture(format: str, data: Buffer, decode: Callable[[Any], npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return ``decode(image)`` for Pillow's image, after only its header has been read."""
    image = pillow(f'"{format}"')
    try:
        with image.open(BytesIO(data), formats=[format.upper()]) as picture:
            return decode(picture)
    except ChunkwiseError:
        raise
    except (OSError, ValueError, SyntaxError, EOFError, image.DecompressionBombError) as e:
        text = str(e).partition(" <_io.")[0]
        raise DataCorruptionError(f"Failed to decode {format.upper()}: {text}") from e
