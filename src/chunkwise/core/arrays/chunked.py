"""An open array of a chunked format: n5, zarr (v2), zarr1, zarr3."""

from __future__ import annotations

import time
from copy import deepcopy
from dataclasses import replace
from math import inf
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from chunkwise.core.arrays.metadata_observers import metadata_written, wrapped
from chunkwise.core.arrays.protocol import ResizeRequest, StorageStatistics, WrapStore
from chunkwise.core.arrays.resources import (
    ArrayDocument,
    SharedMetadata,
    cache_document,
    cache_of,
    oldest_allowed,
)
from chunkwise.core.base.binding import JSON
from chunkwise.core.driver.chunked.documents import layout_of
from chunkwise.core.driver.chunked.flows import Opened, OpenRequest, not_same, read_metadata, resize_array
from chunkwise.core.driver.chunked.spec import ChunkedSpec
from chunkwise.core.driver.flow import run
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.engine.choose import explain_read
from chunkwise.core.engine.concurrent_requests import is_slow
from chunkwise.core.engine.count_stored import count_stored, delete_outside
from chunkwise.core.engine.derived_futures import WriteFutures
from chunkwise.core.engine.future import Future
from chunkwise.core.engine.pool import Pool
from chunkwise.core.engine.read import ArrayReader
from chunkwise.core.engine.strategy import ReadStrategy
from chunkwise.core.engine.write import SmallWriter, referencing, write_from
from chunkwise.core.index_space import IndexDomain, IndexTransform, resolve_bounds
from chunkwise.core.kvstore.adapter.pending import pending_under
from chunkwise.core.kvstore.places.replaced_places import changes, note_replaced
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.unit import DimensionUnits
from chunkwise.errors import ChunkwiseError, FailedPreconditionError, InvalidArgumentError

__all__ = ["ChunkedArray"]

# arguments of the constructor, which are attributes with and without an underscore
_GIVEN = ("spec", "request", "shared", "opened", "store", "outside", "wrap", "units")
_SHOWN = ("pool", "readable", "writable")


class ChunkedArray:
    """An array with chunks in a kvstore."""

    # All views, and all other handles of the array in the same context, share the metadata; a resize through
    # any of them replaces it for all.  A transaction reads its own changes from its own store.

    __slots__ = (
        "_domain",
        "_opened",
        "_outside",
        "_pending",
        "_reader",
        "_rechecks",
        "_request",
        "_schema",
        "_shared",
        "_small_writer",
        "_spec",
        "_store",
        "_stored",
        "_time",
        "_units",
        "_wrap",
        "pool",
        "readable",
        "writable",
    )

    def __init__(
        self,
        spec: ChunkedSpec,
        request: OpenRequest,
        shared: SharedMetadata,
        opened: Opened,
        store: KvStoreDriver,
        pool: Pool,
        *,
        readable: bool,
        writable: bool,
        outside: Self | None = None,
        wrap: WrapStore | None = None,
        units: DimensionUnits | None = None,
    ) -> None:
        self._outside = outside
        # the store of the transaction, and the prefix there
        self._pending = None if wrap is None or request.mode.assume_metadata else pending_under(store)
        self._wrap = wrap
        self._units = units  # in place of those in the metadata
        self._spec = spec
        self._request = request
        self._store = store
        self.pool = pool
        self._shared = shared
        self._time = time.time()
        bound = spec.recheck_cached_metadata
        self._rechecks = bound != "open" and bound is not False and not request.mode.assume_metadata
        self.readable = readable
        self.writable = writable
        self._schema: tuple[Any, Schema] | None = None  # made on use, with its metadata
        self._adopt(opened)

    def _adopt(self, opened: Opened) -> None:
        self._opened = opened
        request = self._request
        layout = layout_of(request.format, opened.metadata, request.path, request.options)
        self._domain = layout.domain
        self._stored: StoredArray = layout.stored
        self._reader: ArrayReader | None = None  # opened by the first read
        self._small_writer: SmallWriter | None = None

    def in_transaction(self, wrap: WrapStore | None) -> Self:
        """Return the array as a transaction sees it, or as it is outside any if None."""
        outside = self._outside or self
        if wrap is None:
            return outside
        return outside.over(wrapped(self._spec, outside._store, wrap), self._opened, wrap)

    def over(self, store: KvStoreDriver, opened: Opened, wrap: WrapStore) -> Self:
        """Return the array over `store`, its store as a transaction sees it."""
        shared = SharedMetadata(opened) if pending_under(store) is None else self._shared
        return self._like(shared=shared, opened=opened, store=store, outside=self, wrap=wrap)

    def _like(self, **changed: Any) -> Self:
        """Return the array with some arguments of the constructor changed."""
        own = {name: getattr(self, f"_{name}") for name in _GIVEN} | {
            name: getattr(self, name) for name in _SHOWN
        }
        return type(self)(**{**own, **changed})

    def longer(self, axis: int, size: int, wrap: WrapStore) -> Self:
        """Return the array with another size along an axis, over the store that `wrap` returns."""
        shape = list(self._opened.metadata.shape)
        shape[axis] = size
        metadata = self._opened.metadata.resized(tuple(shape))
        opened = self._opened._replace(metadata=metadata)
        # A chunk that was stored is never missing again, whoever replaces it.
        spec = replace(self._spec, store_data_equal_to_fill_value=True, recheck_cached_metadata="open")
        store = wrapped(self._spec, self._store, wrap)
        shared = SharedMetadata(opened)
        return self._like(spec=spec, shared=shared, opened=opened, store=store, outside=self, wrap=wrap)

    @property
    def wrap(self) -> WrapStore | None:
        """The function that has made the store; None outside of transactions and appends."""
        return self._wrap

    def refresh(self) -> None:
        """Read the metadata again."""
        with self._shared.lock:
            self._shared.opened = run(read_metadata(self._request, self._opened), self._store)
        self._current()

    def inside(self, store: KvStoreDriver, opened: Opened, wrap: WrapStore) -> Self:
        """Return the array as a transaction sees it that has just opened or created it."""
        within = self.over(store, opened, wrap)
        if opened.written:
            within._forget_after_commit(created=True)
        return within

    @property
    def given_units(self) -> DimensionUnits | None:
        """Dimension units that replace those in the metadata, if any."""
        return self._units

    def with_units(self, units: DimensionUnits) -> Self:
        """Return the same array with `units`, which replace those in its metadata."""
        return self._like(units=units)

    @property
    def dtype(self) -> DataType:
        """Type of the elements."""
        return self._stored.dtype

    def numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy type of the elements in memory."""
        return self._stored.fill_value.dtype

    @property
    def stored(self) -> StoredArray:
        """The array as stored in its kvstore: grid, keys, codecs."""
        return self._stored

    def current(self) -> StoredArray:
        """Return `stored` after checking the metadata according to the recheck option."""
        self._current()
        return self._stored

    @property
    def store(self) -> KvStoreDriver:
        """The kvstore, with the keys of `stored`."""
        return self._store

    @property
    def fill_missing(self) -> bool:
        """True if missing chunks read as the fill value."""
        return self._spec.fill_missing_data_reads

    @property
    def is_remote(self) -> bool:
        """True if reading its metadata waits for a network."""
        return self._spec.is_remote

    @property
    def document(self) -> dict[str, JSON]:
        """The metadata document as stored."""
        return deepcopy(self._request.format.document_of(self._opened.metadata))

    @property
    def domain(self) -> IndexDomain:
        """Domain, as far as it is known."""
        return self._domain

    def bounded(self, transform: IndexTransform) -> IndexTransform:
        """Return `transform` with current implicit bounds; raise if it leads outside the array."""
        self._current()
        return resolve_bounds(transform, self._domain)

    def in_grid(self, transform: IndexTransform) -> IndexTransform:
        """Return `transform` in the coordinates of the grid, which begins at 0."""
        return transform

    def read_into(self, transform: IndexTransform, out: npt.NDArray[Any]) -> Future[npt.NDArray[Any]]:
        """Fill `out` with the selection of a bounded `transform`; return a future of `out`."""
        reader = self._reader
        if reader is None:
            reader = self._reader = ArrayReader(self._stored, self._store, self.pool)
        return reader.read_into(transform, out, fill_missing=self._spec.fill_missing_data_reads)

    def explain_read(self, transform: IndexTransform) -> ReadStrategy | None:
        """Return the strategy for reading the selection of a bounded `transform`."""
        return explain_read(self._stored, self._store, transform, self.pool.n_workers)

    def write_from(self, transform: IndexTransform, source: npt.NDArray[Any]) -> WriteFutures:
        """Write `source` to the selection of a bounded `transform`."""
        if self._pending is not None:
            self._depend()
        small = self._small_writer
        if small is None:
            store_fill = self._spec.store_data_equal_to_fill_value
            small = self._small_writer = SmallWriter(
                self._stored, self._store, self.pool, store_data_equal_to_fill_value=store_fill
            )
        done = small.write_from(transform, source) or self._write(self._store, transform, source)
        # The source is referenced until it is encoded, so it may change only once everything is stored.
        return WriteFutures.of(done, done, None if done.done() else self._store.identity)

    def write_referenced(self, transform: IndexTransform, source: npt.NDArray[Any]) -> WriteFutures:
        """Write `source`, which never changes again, so that a store in memory may reference it."""
        store = referencing(self._store, source)
        if store is None:
            return self.write_from(transform, source)
        self._depend()
        done = self._write(store, transform, source)
        return WriteFutures.of(done, done, None if done.done() else self._store.identity)

    def _write(
        self, store: KvStoreDriver, transform: IndexTransform, source: npt.NDArray[Any]
    ) -> Future[None]:
        return write_from(
            self._stored,
            store,
            transform,
            source,
            pool=self.pool,
            store_data_equal_to_fill_value=self._spec.store_data_equal_to_fill_value,
        )

    def _current(self) -> None:
        """Use the newest metadata; raise if it belongs to another array."""
        shared = self._shared
        if (  # the usual case first: every request comes here
            shared.opened is self._opened
            and shared.looked == changes.number
            and self._pending is None
            and not self._rechecks
        ):
            return
        opened, known = self._newest(), self._opened
        if opened is known:
            return
        if opened.metadata is known.metadata:
            self._opened = opened
            return
        if not self._request.format.same_but_resized(known.metadata, opened.metadata):
            raise not_same(self._request, known.metadata, opened.metadata)
        with self._shared.lock:
            self._adopt(opened)

    def _newest(self) -> Opened:
        """Return the metadata that others found, read again if that is too old."""
        shared, request = self._shared, self._request
        if self._pending is not None:
            store, above = self._pending
            generation = store.changed_generation(above + request.key)
            if generation is not None:
                known, outside = self._opened, shared.opened
                # A commit of the resize would fail, and chunks now belong to another array.
                if (
                    outside is not None
                    and store.is_rebased(above + request.key)
                    and not request.format.same_but_resized(known.metadata, outside.metadata)
                ):
                    raise not_same(request, known.metadata, outside.metadata)
                if generation == known.generation:
                    return known
                return run(read_metadata(request, known), self._store)
        if request.mode.assume_metadata:
            return self._opened
        opened = shared.known((self._outside or self)._store, request.key)
        if opened is not None and not self._rechecks:
            return opened
        oldest = oldest_allowed(self._spec.recheck_cached_metadata, self._time)
        if opened is None or opened.time < oldest:
            with shared.lock:
                opened = shared.opened
                if opened is None or opened.time < oldest:
                    opened = run(read_metadata(request, opened or self._opened), self._store)
                    self._share(opened)
        return opened

    def _share(self, opened: Opened) -> None:
        """Let all handles use `opened`, unless only a transaction sees it."""
        if self._pending is None or not (opened.written or opened.time == inf):
            self._shared.opened = opened
            cache = cache_of(self._spec.metadata_pool) if opened.written else None
            if cache is not None:
                cache_document(cache, self._store, self._request, opened)

    def _forget_after_commit(self, *, created: bool = False) -> None:
        """Make all handles read the metadata again after the commit of a transaction that has changed it."""
        if self._pending is None:
            return
        shared, cache = self._shared, cache_of(self._spec.metadata_pool)
        store, request = (self._outside or self)._store, self._request
        if created:
            self._pending[0].made.add(self._pending[1] + request.key)

        def forget() -> None:
            with shared.lock:
                shared.opened = None
                if cache is not None:
                    cache.evict(store.identity, request.key)
            if created:
                note_replaced(store, request.path)

        self._pending[0].after_commit.append(forget)

    def _depend(self) -> None:
        """Let the commit of a transaction that changes chunks fail if the array is another one then."""
        if self._pending is not None and self._outside is not None:
            store, above = self._pending
            request, opened = self._request, self._opened
            document = ArrayDocument(request, opened, self._outside._store, above, opened.metadata.shape)
            store.depend(above + request.key, document)

    def resolve(self) -> Future[IndexDomain]:
        """Return the current domain, checking the storage according to the recheck option."""
        try:
            self._current()
        except ChunkwiseError as e:
            return Future.failed(e)
        return Future.ready(self.domain)

    @property
    def resizable(self) -> bool:
        """True; implicit bounds can be resized."""
        return True

    def resize(self, request: ResizeRequest) -> Future[IndexDomain]:
        """Change the shape; chunks wholly outside are deleted, unless only metadata is to change."""
        rank = len(self._opened.metadata.shape)
        changed = any(b is not None for b in (*request.inclusive_min, *request.exclusive_max))
        try:
            if self._request.mode.assume_metadata:
                raise InvalidArgumentError("Resize not supported because assume_metadata was specified")
            if changed and self._stored.field is not None and not request.tied:
                raise FailedPreconditionError(
                    "Resize operation would affect other fields but `resize_tied_bounds` was not specified"
                )
            with self._shared.lock:
                opened, before = run(
                    resize_array(
                        self._request,
                        self._opened,
                        request.inclusive_min[:rank],
                        request.exclusive_max[:rank],
                        expand_only=request.expand_only,
                        shrink_only=request.shrink_only,
                        at_once=self._wrap is None and is_slow(self._store),
                    ),
                    self._store,
                )
                self._share(opened)
                self._adopt(opened)
            if opened.written:
                self._depend()
            shape = opened.metadata.shape
            if not request.metadata_only and any(new < old for new, old in zip(shape, before, strict=True)):
                delete_outside(self._stored, self._store, before)
            if opened.written:
                self._notify()
        except ChunkwiseError as e:
            return Future.failed(e)
        return Future.ready(self.domain)

    def _notify(self) -> None:
        """Update copies of the metadata, if any."""
        self._forget_after_commit()
        metadata_written(self._spec, self._request, (self._outside or self)._store, self._wrap)

    def schema(self) -> Schema:
        """Everything known about the array, in its own index space."""
        metadata = self._opened.metadata
        if self._schema is None or self._schema[0] is not metadata:
            schema = self._request.format.schema_of(metadata, self._request.options)
            self._schema = metadata, schema if self._units is None else schema._with_units(self._units)
        return self._schema[1].copy()

    def spec(self) -> ChunkedSpec:
        """Return a spec that opens this array again, with its context resources bound."""
        spec = self._spec.with_metadata(self._opened.metadata)
        if spec.kvstore is None:
            return spec
        return replace(spec, kvstore=spec.kvstore.as_opened(self._store))

    def count_stored(self, transform: IndexTransform, most: int | None = None) -> Future[StorageStatistics]:
        """Count the chunks that meet the view, and the stored ones among them."""
        try:
            self._current()
            # In a dimension that can grow, chunks may be requested that don't exist.
            transform = IndexTransform.identity(self._domain).compose(transform)
            return Future.ready(StorageStatistics(*count_stored(self._stored, self._store, transform, most)))
        except ChunkwiseError as e:
            return Future.failed(e)
