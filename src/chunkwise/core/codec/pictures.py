"""Pictures as chunks: JPEG and PNG planes of precomputed volumes, JPEG blocks of N5.

Pillow itself refuses pictures of more than twice ``PIL.Image.MAX_IMAGE_PIXELS`` pixels.

Specification
-------------
The program n5-jpeg (`Jpeg`): a grayscale JPEG file whose pixels are the elements in stored order.

neuroglancer, "Precomputed chunk/volume format", encodings ``jpeg`` and ``png`` (`ImagePlanes`): a chunk
``(channel, z, y, x)`` is a picture of width x and height y * z.  Pictures of other proportions with the same
number of pixels are read too, since only the order of the pixels matters.

Names
-----
N5: ``jpeg``.  Encodings of precomputed volumes are not written in any Zarr or N5 metadata.

Configuration
-------------
>>> Jpeg.parse("n5", "jpeg", {"quality": 80}).to_json("n5")
{'quality': 80}
>>> ImagePlanes.parse("precomputed", "png", {"png_level": 4}).to_json("precomputed")
{'png_level': 4}

In N5, ``quality`` is 0 to 100, default 100; ``dataType`` and other members are ignored.

Compatibility
-------------
N5 has only ``uint8``: for wider types n5-jpeg makes several planes, whose sizes are not always right.
Nothing is written, since JPEG changes the values.

In precomputed volumes, JPEG has 1 or 3 channels of ``uint8``; PNG 1 to 4 of ``uint8``, or 1 of ``uint16``,
since Pillow has no other pictures of 16 bits.  With imagecodecs installed, PNG can have 2 to 4 channels of
``uint16``.  Needs Pillow, which ``pip install chunkwise[codecs]`` installs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from math import prod
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import Members, expect_int
from chunkwise.core.base.extras import needs
from chunkwise.core.base.limits import largest_value
from chunkwise.core.codec.protocol import ArrayToBytes, Buffer, BytesToBytes, ChunkSpec, DecodeInto, Encode
from chunkwise.errors import ChunkwiseError, CodecError, DataCorruptionError, UnsupportedError

__all__ = ["ImagePlanes", "Jpeg", "read_picture", "sniff"]


def _pillow(what: str) -> Any:
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
    image = _pillow(f'"{format}"')
    try:
        with image.open(BytesIO(data), formats=[format.upper()]) as picture:
            return decode(picture)
    except ChunkwiseError:
        raise
    except (OSError, RuntimeError, ValueError, SyntaxError, image.DecompressionBombError) as e:
        text = str(e).partition(" <_io.")[0]
        raise DataCorruptionError(f"Failed to decode {format.upper()}: {text}") from e


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


_MODES = {(1, 1): "L", (1, 2): "LA", (1, 3): "RGB", (1, 4): "RGBA", (2, 1): "I;16"}


@dataclass(frozen=True, slots=True)
class ImagePlanes(ArrayToBytes):
    """Array to bytes: chunks ``(channel, z, y, x)`` as JPEG or PNG."""

    format: str  # "jpeg" or "png"
    level: int | None = (
        None  # for JPEG the quality, 0 to 100, None is 75; for PNG 0 to 9, None is the library's default
    )

    name: ClassVar[str] = "image_planes"

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        """Read ``jpeg_quality`` or ``png_level``; `name` is the encoding."""
        members = Members(configuration)
        member, top = ("jpeg_quality", 100) if name == "jpeg" else ("png_level", 9)
        level = members.take(member, lambda value: expect_int(value, 0, top), None)
        members.finish()
        return cls(name, level)

    def to_json(self, format: str) -> dict[str, Any]:
        """Return ``jpeg_quality`` or ``png_level`` if set."""
        return (
            {}
            if self.level is None
            else {f"{'jpeg_quality' if self.format == 'jpeg' else 'png_level'}": self.level}
        )

    def bind(self, item: ChunkSpec) -> Self:
        """Return the codec; raise for a type or number of channels that pictures don't have."""
        n_channels = item.shape[0]
        allowed = (1, 3) if self.format == "jpeg" else (1, 2, 3, 4)
        if n_channels not in allowed:
            raise CodecError(f'"{self.format}" encoding has {allowed} channels, not {n_channels}')
        if item.dtype != np.dtype("u1") and (self.format == "jpeg" or item.dtype != np.dtype("u2")):
            raise CodecError(f'"{self.format}" encoding can\'t hold {item.dtype}')
        return self

    @property
    def decode_rate(self) -> float:
        """Nanoseconds for each decoded byte."""
        return 5.0

    @property
    def encode_rate(self) -> float:
        """Nanoseconds for each byte to encode."""
        return 20.0

    def most_encoded(self, item: ChunkSpec) -> int:
        """Return the size of the elements, which pictures seldom exceed."""
        return item.nbytes

    def open_decoder(self, item: ChunkSpec) -> DecodeInto:
        """Return a decoder that checks the size of a picture before decoding it."""
        n_channels, n_pixels = item.shape[0], prod(item.shape[1:])
        wide = item.dtype == np.dtype("u2") and n_channels > 1

        def pixels(buffer: Buffer, picture: Any) -> npt.NDArray[Any]:
            if picture.width * picture.height != n_pixels:
                raise DataCorruptionError(
                    f"{self.format}: picture has {picture.width} x {picture.height} pixels, "
                    f"but the chunk has {n_pixels}"
                )
            # In the header of a PNG: Pillow makes 8 bits of 16 if there are several channels.
            depth = buffer[24] if self.format == "png" else 8
            if depth > 8 * item.dtype.itemsize:
                raise DataCorruptionError(f"png: picture has {depth} bits, but the chunk has {item.dtype}")
            if wide:
                decoded: npt.NDArray[Any] = _imagecodecs("reading").png_decode(bytes(buffer))
                return decoded
            return np.asarray(picture)

        def decode(buffer: Buffer, out: npt.NDArray[Any]) -> None:
            found = read_picture(self.format, buffer, lambda picture: pixels(buffer, picture))
            if found.size != n_pixels * n_channels:
                raise DataCorruptionError(
                    f"{self.format}: picture has {found.shape[2:] or 1} channels of {found.dtype}, "
                    f"but the chunk has {n_channels} of {item.dtype}"
                )
            out[...] = found.reshape(n_pixels, n_channels).T.reshape(item.shape)

        return decode

    def open_encoder(self, item: ChunkSpec) -> Encode:
        """Return an encoder."""
        n_channels, nz, ny, nx = item.shape
        image = _pillow(f'encoding "{self.format}"')
        mode = _MODES.get((item.dtype.itemsize, n_channels))
        if self.format == "jpeg":
            options: dict[str, Any] = {"quality": 75 if self.level is None else self.level}
        else:
            options = {} if self.level is None else {"compress_level": self.level}

        def encode(array: npt.NDArray[Any]) -> Buffer:
            rows = np.ascontiguousarray(np.moveaxis(array, 0, -1)).reshape(nz * ny, nx, n_channels)
            if mode is None:
                encoded: bytes = _imagecodecs("writing").png_encode(rows, level=self.level)
                return encoded
            into = BytesIO()
            size = (nx, nz * ny)
            image.frombytes(mode, size, rows.astype(rows.dtype.newbyteorder("<"), copy=False).tobytes()).save(
                into, format=self.format, **options
            )
            return into.getvalue()

        return encode


def _imagecodecs(doing: str) -> Any:
    try:
        import imagecodecs
    except ImportError as e:
        raise UnsupportedError(needs(f"{doing} PNG of several channels of uint16", "imagecodecs")) from e
    return imagecodecs
