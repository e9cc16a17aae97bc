"""Opening of arrays of the chunked formats: a bound spec becomes a `ChunkedArray`."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from chunkwise.core.arrays.chunked import ChunkedArray
from chunkwise.core.arrays.metadata_observers import metadata_written, place_check, whole_path, wrapped
from chunkwise.core.arrays.protocol import WrapStore
from chunkwise.core.arrays.resources import cache_of, cached, pool_under
from chunkwise.core.arrays.shared_metadata import (
    SharedMetadata,
    cache_document,
    cached_document,
    oldest_allowed,
    shared_metadata,
    shared_with,
)
from chunkwise.core.base.binding import JSON
from chunkwise.core.driver.chunked.metadata_cache import cached_metadata
from chunkwise.core.driver.chunked.open_flow import Opened, OpenRequest, check_container, open_array
from chunkwise.core.driver.chunked.spec import ChunkedSpec
from chunkwise.core.driver.flow import run
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.places.lease import HeldError, check_alone
from chunkwise.core.kvstore.places.replaced_places import note_replaced
from chunkwise.core.kvstore.protocol import KvStoreDriver, Stamped
from chunkwise.core.specs.kvstore_spec import kvstore_missing
from chunkwise.core.specs.open_mode import OpenMode
from chunkwise.errors import AbortedError, AlreadyExistsError, ChunkwiseError, FailedPreconditionError

__all__ = ["create_document", "open_chunked", "open_from_document"]


def open_chunked(
    spec: ChunkedSpec,
    *,
    readable: bool,
    writable: bool,
    wrap: WrapStore | None = None,
    seen: Stamped | None = None,
    is_checked: bool = False,
) -> ChunkedArray:
    """Open or create the array of a bound spec; `wrap` returns the kvstore as a transaction sees it."""
    # `seen` is its document, if already read for this call.  A place that `is_checked` is in no array.
    while True:
        try:
            return _open(spec, seen, wrap, readable=readable, writable=writable, is_checked=is_checked)
        except HeldError as e:  # the old node is being replaced or deleted
            e.wait()
            seen = None


def _open(
    spec: ChunkedSpec,
    seen: Stamped | None,
    wrap: WrapStore | None,
    *,
    readable: bool,
    writable: bool,
    is_checked: bool,
) -> ChunkedArray:
    if spec.kvstore is None:
        raise kvstore_missing()
    store, path = spec.kvstore.open_driver()
    request = spec.open_request(path, store.describe)
    first = request._replace(seen=seen)  # the check below holds the store, so it isn't kept
    if not is_checked:
        first = first._replace(check_place=place_check(spec, store, path, wrap))
    pool = pool_under(spec)
    mode = request.mode
    assumed = mode.assume_metadata or mode.assume_cached_metadata
    # Without ".n5" in the path there is no visible container.
    if request.format.contained and not assumed and ".n5" in store.describe(path):
        whole, where = whole_path(store, path)
        run(check_container(request, where), whole)
    stored = cached(spec, store, request.path)
    within = store if wrap is None else wrapped(spec, stored, wrap)
    if wrap is None:
        shared, opened = _open_shared(spec, request, first, store)
    else:
        opened = run(open_array(first), within)
        shared = shared_with(spec.metadata_pool, store, request, opened, pending=True)
    if opened.written:
        if wrap is None:
            shared.note_written(store, request.path)
        try:
            # `delete_existing` itself keeps others out.
            metadata_written(spec, request, store, wrap, is_new=wrap is None and not mode.delete_existing)
        except BaseException:  # an interrupt too
            if wrap is None and not mode.delete_existing:  # a failure leaves nothing behind
                with suppress(ChunkwiseError):
                    store.delete(request.key, if_equal=opened.generation)
                    note_replaced(store, request.path)
            raise
    array = ChunkedArray(spec, request, shared, opened, stored, pool, readable=readable, writable=writable)
    return array if wrap is None else array.inside(within, opened, wrap)


def create_document(spec: ChunkedSpec, look: Callable[[], object]) -> None:
    """Write the metadata of a new array, or check that existing metadata is the same.

    New metadata is deleted again if `look` raises.  Copies of it in groups above are not updated.

    Raises
    ------
    AbortedError
        If another process is replacing or deleting data there, such as the chunks of the array.
    """
    assert spec.kvstore is not None, "it is bound"
    store, path = spec.kvstore.open_driver()
    request = spec.open_request(path, store.describe)
    try:
        opened = run(open_array(request._replace(mode=OpenMode(create=True))), store)
    except AlreadyExistsError:
        run(open_array(request._replace(mode=OpenMode(open=True, create=True))), store)
        return
    try:
        check_alone(store, request.key, opened.generation, look)
    except HeldError as e:
        raise AbortedError(e.message) from None


def _open_shared(
    spec: ChunkedSpec, kept: OpenRequest, request: OpenRequest, store: KvStoreDriver
) -> tuple[SharedMetadata, Opened]:
    """Open or create an array, using the metadata known in its context."""
    pool = spec.metadata_pool
    mode = request.mode
    if mode.assume_metadata:
        opened = run(open_array(request), store)
        return SharedMetadata(opened), opened
    shared = shared_metadata(pool, store, kept)
    cache = cache_of(pool)
    with shared.lock:
        known = shared.known(store, request.key) or cached_document(cache, store, request)
        if mode.assume_cached_metadata:
            assumed = run(open_array(request), store)
            if known is None:
                known = assumed
            elif not request.format.same_but_resized(assumed.metadata, known.metadata):
                return SharedMetadata(assumed), assumed
            shared.opened = known
            return shared, known
        oldest = oldest_allowed(spec.recheck_cached_metadata, time.time())
        opened = run(open_array(request, known, oldest), store)
        shared.opened = opened
        if cache is not None:
            if mode.delete_existing:
                cache.evict_range(store.identity, KeyRange.of_prefix(request.path))
            cache_document(cache, store, request, opened)
    return shared, opened


def open_from_document(
    spec: ChunkedSpec,
    store: KvStoreDriver,
    path: str,
    document: JSON,
    *,
    generation: bytes,
    time: float,
    looked: int | None,
    readable: bool,
    writable: bool,
) -> ChunkedArray:
    """Open an array without reading the store."""
    # `generation` and `time` belong to the read of `document`; `generation` is empty if unknown.  `looked` is
    # the number of the last change in this process before that.  The spec is bound and has no constraints on
    # the metadata.
    request = spec.open_request(path, store.describe)
    try:
        metadata = cached_metadata(request.format, document)
    except ChunkwiseError as e:
        raise FailedPreconditionError(f"Error reading {request.name}: {e.message}") from e
    opened = Opened(metadata, generation, time)
    return ChunkedArray(
        spec,
        request,
        shared_with(spec.metadata_pool, store, request, opened, looked=looked),
        opened,
        cached(spec, store, request.path),
        pool_under(spec),
        readable=readable,
        writable=writable,
    )
