"""The pixels of one picture as ``(y, x, channel)``, with the same channels as in TensorStore."""

from __future__ import annotations

import struct
from collections.abc import Callable
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.codec.pictures import read_picture, sniff
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.core.kvstore.value_bound import check_size
from chunkwise.errors import DataCorruptionError, UnsupportedError

__all__ = ["picture_shape", "read_pixels"]

Shape: TypeAlias = tuple[int, int, int]

_CHANNELS = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}
_UNSUPPORTED = {"P": "palette", "1": "one bit for a pixel"}
_PNG_DEPTH = 24  # position of the number of bits of a sample


def picture_shape(format: str, data: Buffer, page: int | None) -> tuple[int, ...]:
    """Return the shape of a picture; no pixel is decoded."""
    return _read(format, data, page, lambda picture, shape: np.broadcast_to(np.uint8(0), shape)).shape


def read_pixels(format: str, data: Buffer, page: int | None) -> npt.NDArray[np.uint8]:
    """Return the pixels, shape ``(y, x, channel)``."""

    def decode(picture: Any, shape: Shape) -> npt.NDArray[Any]:
        check_size(prod(shape), f"the {format.upper()} picture")
        return np.asarray(picture).reshape(shape)

    return _read(format, data, page, decode)


def _read(
    format: str, data: Buffer, page: int | None, pixels: Callable[[Any, Shape], npt.NDArray[Any]]
) -> npt.NDArray[Any]:
    if sniff(bytes(memoryview(data)[:12])) != format:
        raise DataCorruptionError(f"Failed to decode {format.upper()}: missing {format.upper()} signature")

    def decode(picture: Any) -> npt.NDArray[Any]:
        if format == "tiff":
            _choose_page(picture, page)
        if format == "bmp" and _has_fourth_byte(data):
            return pixels(_four_bytes(picture, data), (picture.height, picture.width, 4))
        n_channels = _count_channels(format, picture, data)
        return pixels(picture, (picture.height, picture.width, n_channels))

    return read_picture(format, data, decode)


def _choose_page(picture: Any, page: int | None) -> None:
    n_pages = getattr(picture, "n_frames", 1)
    if page is None:
        if n_pages > 1:
            raise DataCorruptionError(
                f'Multi-page TIFF image encountered without a "page" specifier: it has {n_pages} pages'
            )
        page = 0
    if not 0 <= page < n_pages:
        raise DataCorruptionError(f'"page" is {page}, but the TIFF file has {n_pages} pages')
    picture.seek(page)


def _has_fourth_byte(data: Buffer) -> bool:
    """Return True for a BMP of 32 bits with unspecified last 8 bits, which Pillow drops."""
    bits, compression = struct.unpack_from("<HI", data, 28) if len(data) >= 34 else (0, 0)
    return bool(bits == 32 and compression == 0)


def _four_bytes(picture: Any, data: Buffer) -> npt.NDArray[np.uint8]:
    (start,) = struct.unpack_from("<I", data, 10)
    (height,) = struct.unpack_from("<i", data, 22)
    nbytes = 4 * picture.width * picture.height
    if start + nbytes > len(data):
        raise DataCorruptionError(f"Failed to decode BMP: {len(data)} bytes, expected {start + nbytes}")
    rows = np.frombuffer(data, "u1", nbytes, start).reshape(picture.height, picture.width, 4)
    return rows[:: -1 if height > 0 else 1, :, [2, 1, 0, 3]]


def _count_channels(format: str, picture: Any, data: Buffer) -> int:
    mode = picture.mode
    if format == "png":
        depth = bytes(memoryview(data)[_PNG_DEPTH : _PNG_DEPTH + 1])
        if depth == b"\x08" and mode == "P":
            return 1
        if depth != b"\x08":
            mode = f"{mode} with {depth[0] if depth else 0} bits"
    if format == "jpeg" and mode == "CMYK":
        raise DataCorruptionError("Failed to decode JPEG: Expected 1 or 3 components, but received: 4")
    if mode in _CHANNELS:
        return _CHANNELS[mode]
    if format == "tiff" and mode == "P":
        raise DataCorruptionError("Unsupported TIFF configuration (palette)")
    if format == "bmp":
        raise DataCorruptionError(f"Unsupported BMP configuration ({_UNSUPPORTED.get(mode, mode)})")
    raise UnsupportedError(f'"{format}" driver only supports uint8 images, and this one is {mode}')
