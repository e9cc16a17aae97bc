"""An open picture: a read-only array ``(y, x, channel)``.

Opening reads the header.  Each read fetches the file, from the cache pool if possible, and decodes it, so a
stack of thousands of pictures takes no memory for those that aren't read.

The channels are those that TensorStore has.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.arrays.memory_array import read_ndarray
from chunkwise.core.arrays.protocol import FixedArray, StorageStatistics, WrapStore
from chunkwise.core.arrays.resources import cached
from chunkwise.core.codec.pictures import read_picture, sniff
from chunkwise.core.driver.single_value import ImageSpec
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.engine.derived_futures import WriteFutures
from chunkwise.core.engine.estimate import RequestEstimate
from chunkwise.core.engine.future import Future
from chunkwise.core.engine.pool import Pool, pool_of
from chunkwise.core.index_space import IndexDomain, IndexTransform, merge_domains
from chunkwise.core.kvstore.protocol import Buffer, KvStoreDriver
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.kvstore.value import check_size
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.kvstore_spec import kvstore_missing
from chunkwise.core.specs.schema import Schema
from chunkwise.errors import (
    ChunkwiseError,
    DataCorruptionError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnsupportedError,
    prefixed,
)

__all__ = ["ImageArray", "open_image", "picture_shape", "read_pixels"]


Shape: TypeAlias = tuple[int, int, int]

_CHANNELS = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}
_UNSUPPORTED = {"P": "palette", "1": "one bit for a pixel"}
_PHOTOMETRIC, _ORIENTATION, _SAMPLES, _EXTRA = 262, 274, 277, 338  # tags of TIFF
_ALPHA = 2  # as further sample; the usual, which is multiplied into the colours, is 1
_PNG_DEPTH = 24  # position of the number of bits of a sample


def picture_shape(format: str, data: Buffer, page: int | None) -> tuple[int, ...]:
    """Return the shape of a picture; no pixel is decoded."""
    return _read(format, data, page, lambda picture, shape: np.broadcast_to(np.uint8(0), shape)).shape


def read_pixels(format: str, data: Buffer, page: int | None) -> npt.NDArray[np.uint8]:
    """Return the pixels, shape ``(y, x, channel)``."""

    def decode(picture: Any, shape: Shape) -> npt.NDArray[Any]:
        check_size(prod(shape), f"the {format.upper()} picture")
        is_white = format == "tiff" and picture.tag_v2.get(_PHOTOMETRIC) == 0  # Pillow inverts 0 as white
        stored = np.asarray(picture).reshape(shape)
        return ~stored if is_white else stored

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
        orientation = picture.tag_v2.get(_ORIENTATION, 1) if format == "tiff" else 1
        out = pixels(picture, (picture.height, picture.width, n_channels))
        # Pillow turns pictures upright.
        out = np.swapaxes(out, 0, 1) if orientation > 4 else out
        return out[:: -1 if orientation in (3, 4, 6, 7) else 1, :: -1 if orientation in (2, 3, 7, 8) else 1]

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
    if format == "tiff" and mode in _CHANNELS:
        samples, alpha = picture.tag_v2.get(_SAMPLES, 1), picture.tag_v2.get(_EXTRA, (_ALPHA,))
        if samples != _CHANNELS[mode] or tuple(alpha) != (_ALPHA,):
            raise UnsupportedError(
                f'"tiff" driver: Pillow drops or changes samples of these {samples}; open the file without it'
            )
    if mode in _CHANNELS:
        return _CHANNELS[mode]
    if format == "tiff" and mode == "P":
        raise DataCorruptionError("Unsupported TIFF configuration (palette)")
    if format == "bmp":
        raise DataCorruptionError(f"Unsupported BMP configuration ({_UNSUPPORTED.get(mode, mode)})")
    raise UnsupportedError(f'"{format}" driver only supports uint8 images, and this one is {mode}')


class ImageArray(FixedArray):
    """A picture in a key of a kvstore."""

    __slots__ = ("_key", "_spec", "_store", "pool")

    def __init__(self, spec: ImageSpec, store: KvStoreDriver, key: str, pool: Pool) -> None:
        self._store = store
        self._key = key
        self.pool = pool
        self.readable = True
        self.writable = False
        value = self._load()
        with prefixed(f"Error reading {store.describe(key)}", ChunkwiseError):
            shape = picture_shape(spec.driver, value, spec.page)
        self._domain = IndexDomain(shape=shape)
        if spec.schema.domain is not None:
            self._domain = merge_domains(self._domain, spec.schema.domain)
        self._spec = replace(spec, schema=Schema(dtype=self.dtype, rank=3))

    @property
    def dtype(self) -> DataType:
        """``uint8``."""
        return DataType("uint8")

    @property
    def store(self) -> KvStoreDriver:
        """The kvstore."""
        return self._store

    def _load(self) -> Buffer:
        value = self._store.read(self._key).value
        if value is None:
            raise NotFoundError(f"Error reading {self._store.describe(self._key)}")
        return value

    def read_into(self, transform: IndexTransform, out: npt.NDArray[Any]) -> Future[npt.NDArray[Any]]:
        """Fill `out` with the selection of `transform`; return a future of `out`."""

        def read(_: None) -> None:
            where = self._store.describe(self._key)
            value = self._load()
            with prefixed(f"Error reading {where}", ChunkwiseError):
                pixels = read_pixels(self._spec.driver, value, self._spec.page)
            if pixels.shape != self.domain.shape:
                raise FailedPreconditionError(
                    f"{where} is a picture of shape {list(pixels.shape)} now, and had "
                    f"{list(self.domain.shape)} when it was opened"
                )
            read_ndarray(pixels, transform, out)

        inline = traits_of(self._store).request_concurrency is None
        return self.pool.run([None], lambda _: read, lambda: out, n_workers=1, inline=inline)

    def write_from(self, transform: IndexTransform, source: npt.NDArray[Any]) -> WriteFutures:
        """Fail: pictures are read-only."""
        return WriteFutures.failed(UnsupportedError(f'"{self._spec.driver}" driver only reads'))

    def in_transaction(self, wrap: WrapStore | None) -> ImageArray:
        """Return the picture, which no transaction changes."""
        return self

    def schema(self) -> Schema:
        """Type and domain."""
        return Schema(dtype=self.dtype, domain=self.domain, chunk_layout=ChunkLayout(rank=3))

    def spec(self) -> ImageSpec:
        """Return a spec that opens this picture again."""
        return self._spec

    def estimate(self, transform: IndexTransform) -> tuple[RequestEstimate, str]:
        """Return the request of a read, which fetches the whole picture, and where it is."""
        traits = traits_of(self._store)
        n = 0 if 0 in self.bounded(transform).input_shape else 1
        n_hits = n if traits.is_cached is not None and traits.is_cached(self._key) else 0
        n_gets, nbytes = n - n_hits, n * prod(self.domain.shape)
        count = RequestEstimate(
            n, n, 0, n_gets, n_gets, nbytes, None if n_gets else 0, 0, n_hits, traits.request_concurrency
        )
        return count, self._store.describe(self._key)

    def count_stored(self, transform: IndexTransform, most: int | None = None) -> Future[StorageStatistics]:
        """Count the picture as one chunk, which is stored."""
        n = 0 if 0 in self.bounded(transform).input_shape else 1
        return Future.ready(StorageStatistics(n, n))


def open_image(
    spec: ImageSpec, *, readable: bool, writable: bool, wrap: WrapStore | None = None
) -> ImageArray:
    """Open the picture of a bound spec."""
    if spec.kvstore is None:
        raise kvstore_missing()
    if writable and not readable:
        raise InvalidArgumentError("only reading is supported")
    store, key = spec.kvstore.open_driver()
    pool = pool_of(spec.resource("data_copy_concurrency"))
    return ImageArray(spec, cached(spec, store, key), key, pool)
