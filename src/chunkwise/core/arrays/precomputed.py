"""An open scale of a precomputed volume: a chunked array that begins at its ``voxel_offset``."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from chunkwise.core.arrays.chunked import ChunkedArray
from chunkwise.core.arrays.metadata_observers import place_check, wrapped
from chunkwise.core.arrays.protocol import ResizeRequest, StorageStatistics, WrapStore
from chunkwise.core.arrays.resources import cached, shared_with
from chunkwise.core.driver.chunked.flows import Opened
from chunkwise.core.driver.flow import run
from chunkwise.core.driver.neuroglancer_precomputed.chunk_keys import parse_chunk_name
from chunkwise.core.driver.neuroglancer_precomputed.format import (
    PrecomputedMetadata,
    PrecomputedSpec,
    open_scale,
    scale_directory,
)
from chunkwise.core.engine.choose import explain_read
from chunkwise.core.engine.count_stored import count_stored
from chunkwise.core.engine.derived_futures import WriteFutures, map_future
from chunkwise.core.engine.future import Future
from chunkwise.core.engine.pool import pool_of
from chunkwise.core.engine.read import ArrayReader
from chunkwise.core.engine.strategy import ReadStrategy
from chunkwise.core.index_space import IndexDomain, IndexTransform, d
from chunkwise.core.kvstore.adapter.pending import PendingStore
from chunkwise.core.kvstore.adapter.prefix import whole_store
from chunkwise.core.kvstore.adapter.sharded import Put, ShardedStore
from chunkwise.core.kvstore.adapter.uint64_shards import Uint64Shards
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.places.lease import HeldError, check_alone
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.specs.kvstore_spec import kvstore_missing
from chunkwise.errors import ChunkwiseError, FailedPreconditionError

__all__ = ["PrecomputedArray", "open_precomputed"]


class PrecomputedArray(ChunkedArray):
    """A scale, with chunks in keys of the volume's kvstore, or in shards."""

    # `_stored` begins at 0; `_onto` maps the domain to it.  `_chunks` has the keys of `_stored`.

    __slots__ = ("_chunks", "_onto")

    def _adopt(self, opened: Opened) -> None:
        super()._adopt(opened)
        metadata = opened.metadata
        assert isinstance(metadata, PrecomputedMetadata)
        scale = metadata.scale
        zero = IndexTransform.identity(IndexDomain(shape=metadata.shape))
        self._onto = zero[d[:].translate_by[*scale.voxel_offset, 0]]
        self._chunks: KvStoreDriver = self._store
        if scale.sharding is not None:
            directory = self._request.path + scale_directory(scale.key)
            # A limit for chunks, even if all values differ: each has a header, and this is more than any
            # needs.
            largest = 2 * self._stored.chain.item.nbytes + (1 << 20)
            self._chunks = ShardedStore(self._store, directory, Uint64Shards(scale.sharding, largest))

    @property
    def store(self) -> KvStoreDriver:
        """The kvstore, with the keys of `stored`."""
        return self._chunks

    def in_grid(self, transform: IndexTransform) -> IndexTransform:
        """Return `transform` in the coordinates of the grid, which begins at 0."""
        return self._onto.compose(transform)

    def read_into(self, transform: IndexTransform, out: npt.NDArray[Any]) -> Future[npt.NDArray[Any]]:
        """Fill `out` with the selection of a bounded `transform`; return a future of `out`."""
        reader = self._reader
        if reader is None:
            reader = self._reader = ArrayReader(self._stored, self._chunks, self.pool)
        return reader.read_into(self.in_grid(transform), out, fill_missing=self.fill_missing)

    def explain_read(self, transform: IndexTransform) -> ReadStrategy | None:
        """Return the strategy for reading the selection of a bounded `transform`."""
        onto = self.in_grid(transform)
        return explain_read(self._stored, self._chunks, onto, self.pool.n_workers)

    def write_from(self, transform: IndexTransform, source: npt.NDArray[Any]) -> WriteFutures:
        """Write `source` to the selection of a bounded `transform`."""
        self._depend()
        onto = self.in_grid(transform)
        if not isinstance(self._chunks, ShardedStore):
            done = self._write(self._chunks, onto, source)
            return WriteFutures.of(done, done)
        # Every shard is written once, when all its new chunks are encoded.
        shards, pending = self._chunks, PendingStore(self._chunks, _admit)

        def store_shards(_: None) -> None:
            changes = pending.changes.items()
            shards.change({key: c.apply if c.from_base else Put(c.apply(None)) for key, c in changes})

        done = map_future(store_shards, self._write(pending, onto, source))
        return WriteFutures.of(done, done)

    def write_referenced(self, transform: IndexTransform, source: npt.NDArray[Any]) -> WriteFutures:
        """Write `source`, which never changes again."""
        return self.write_from(transform, source)

    def resize(self, request: ResizeRequest) -> Future[IndexDomain]:
        """Return the domain: with explicit bounds, no request can change it."""
        return Future.ready(self.domain)

    def count_stored(self, transform: IndexTransform, most: int | None = None) -> Future[StorageStatistics]:
        """Count the chunks that meet the view, and the stored ones among them."""
        try:
            onto = self.in_grid(self.bounded(transform))
            return Future.ready(StorageStatistics(*count_stored(self._stored, self._chunks, onto, most)))
        except ChunkwiseError as e:
            return Future.failed(e)


def _admit(store: PendingStore, what: object, writes: bool) -> None:
    """Allow all reads and writes."""


def _refuse_compressed_files(store: KvStoreDriver, path: str, metadata: PrecomputedMetadata) -> None:
    """Raise if the chunks of a local scale are files such as ``0-64_0-64_0-64.gz``, of cloud-volume."""
    # Every chunk would seem to be missing, and be read as zeros.
    whole, above = whole_store(store)
    if metadata.scale.sharding is not None or not isinstance(whole, FileStore):
        return
    directory = f"{above}{path}{scale_directory(metadata.scale.key)}"
    name = next(whole.list(directory, directory.removesuffix("/") + "0"), "").removeprefix(directory)
    stem, dot, suffix = name.rpartition(".")
    if dot and parse_chunk_name(stem) is not None:
        how = f': gunzip -r "/{directory}"' if suffix == "gz" else ""
        raise FailedPreconditionError(
            f"{whole.describe(directory)}: the chunks are compressed files such as {name}, as cloud-volume "
            f"writes them unless it is told compress=False; decompress them first{how}"
        )


def open_precomputed(
    spec: PrecomputedSpec, *, readable: bool, writable: bool, wrap: WrapStore | None = None
) -> PrecomputedArray:
    """Open or create the scale of a bound spec; `wrap` returns the kvstore as a transaction sees it."""
    while True:
        try:
            return _open(spec, wrap, readable=readable, writable=writable)
        except HeldError as e:  # what was there is being replaced or deleted
            e.wait()


def _open(
    spec: PrecomputedSpec, wrap: WrapStore | None, *, readable: bool, writable: bool
) -> PrecomputedArray:
    if spec.kvstore is None:
        raise kvstore_missing()
    store, path = spec.kvstore.open_driver()
    request = spec.open_request(path, store.describe)
    first = request._replace(check_place=place_check(spec, store, path, wrap))
    stored = cached(spec, store, request.path)
    seen = store if wrap is None else wrapped(spec, stored, wrap)
    opened = run(open_scale(first, spec.precomputed), seen)
    assert isinstance(opened.metadata, PrecomputedMetadata)
    _refuse_compressed_files(store, request.path, opened.metadata)
    request = request._replace(format=spec.precomputed.of_scale(opened.metadata))
    shared = shared_with(spec.metadata_pool, store, request, opened, pending=wrap is not None)
    if opened.written and wrap is None:
        if len(opened.metadata.info.scales) == 1 and not request.mode.delete_existing:
            check_alone(store, request.key, opened.generation)
        shared.note_written(store, request.path)
    array = PrecomputedArray(
        spec,
        request,
        shared,
        opened,
        stored,
        pool_of(spec.resource("data_copy_concurrency")),
        readable=readable,
        writable=writable,
    )
    return array if wrap is None else array.inside(seen, opened, wrap)
