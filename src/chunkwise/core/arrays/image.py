"""An open picture: a read-only array ``(y, x, channel)``.

Opening reads the header.  Each read fetches the file, from the cache pool if possible, and decodes it, so a
stack of thousands of pictures takes no memory for those that aren't read.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy.typing as npt

from chunkwise.core.arrays.memory_array import read_ndarray
from chunkwise.core.arrays.protocol import FixedArray, StorageStatistics, WrapStore
from chunkwise.core.arrays.resources import cached
from chunkwise.core.driver.image.pixels import picture_shape, read_pixels
from chunkwise.core.driver.image.spec import ImageSpec
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.engine.derived_futures import WriteFutures
from chunkwise.core.engine.estimate import RequestEstimate
from chunkwise.core.engine.future import Future
from chunkwise.core.engine.pool import Pool, pool_of
from chunkwise.core.index_space import IndexDomain, IndexTransform, merge_domains
from chunkwise.core.kvstore.protocol import Buffer, KvStoreDriver
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.kvstore_spec import kvstore_missing
from chunkwise.core.specs.schema import Schema
from chunkwise.errors import (
    ChunkwiseError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnsupportedError,
    prefix,
)

__all__ = ["ImageArray", "open_image"]


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
        try:
            shape = picture_shape(spec.driver, value, spec.page)
        except ChunkwiseError as e:
            raise prefix(e, f"Error reading {store.describe(key)}") from None
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
            try:
                pixels = read_pixels(self._spec.driver, value, self._spec.page)
            except ChunkwiseError as e:
                raise prefix(e, f"Error reading {where}") from None
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
        failed: Future[None] = Future.failed(UnsupportedError(f'"{self._spec.driver}" driver only reads'))
        return WriteFutures.of(failed, failed)

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
