"""PNG files of grey and RGB pictures with 8 or 16 bits.

Specification: W3C Portable Network Graphics, third edition: "Datastream structure", "Filtering".
"""

from __future__ import annotations

import zlib
from struct import pack
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["encode_png"]

_COLOR_TYPES = {1: 0, 3: 2}
_UP = 2


def encode_png(pixels: npt.NDArray[Any], *, text: dict[str, str] | None = None) -> bytes:
    """Return the PNG file of a picture.

    Parameters
    ----------
    pixels : ndarray of uint8 or uint16
        Shape ``(height, width)`` for grey, ``(height, width, 3)`` for RGB; neither extent 0.
    text : dict, optional
        Keywords and texts to be stored with it: ``{"Title": "..."}``.  Keywords are Latin-1.

    Raises
    ------
    ValueError
        For any other shape or type.
    """
    n_channels = 1 if pixels.ndim == 2 else pixels.shape[-1] if pixels.ndim == 3 else 0
    if n_channels not in _COLOR_TYPES or pixels.dtype not in (np.uint8, np.uint16) or 0 in pixels.shape:
        raise ValueError(
            "a PNG picture has shape (height, width) or (height, width, 3) and type uint8 or uint16, "
            f"not {pixels.shape} and {pixels.dtype}"
        )
    height, width = pixels.shape[:2]
    depth = 8 * pixels.dtype.itemsize
    header = pack(">IIBBBBB", width, height, depth, _COLOR_TYPES[n_channels], 0, 0, 0)
    out = [b"\x89PNG\r\n\x1a\n", _chunk(b"IHDR", header)]
    for keyword, value in (text or {}).items():
        body = keyword.encode("latin-1") + b"\0\0\0\0\0" + value.encode()
        out.append(_chunk(b"iTXt", body))
    out += [_chunk(b"IDAT", zlib.compress(_filtered(pixels), 6)), _chunk(b"IEND", b"")]
    return b"".join(out)


def _filtered(pixels: npt.NDArray[Any]) -> bytes:
    """Return the rows as differences from the row above, each behind the number of that filter."""
    height = pixels.shape[0]
    rows = np.ascontiguousarray(pixels, pixels.dtype.newbyteorder(">")).view(np.uint8).reshape(height, -1)
    out = np.empty((height, rows.shape[1] + 1), np.uint8)
    out[:, 0] = _UP
    out[0, 1:] = rows[0]
    np.subtract(rows[1:], rows[:-1], out=out[1:, 1:])
    return out.tobytes()


def _chunk(kind: bytes, body: bytes) -> bytes:
    return pack(">I", len(body)) + kind + body + pack(">I", zlib.crc32(kind + body))
