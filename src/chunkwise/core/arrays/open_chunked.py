"""Opening of arrays of the chunked formats, given or detected: a bound spec becomes a `ChunkedArray`."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from chunkwise.core.arrays.chunked import ChunkedArray
from chunkwise.core.arrays.metadata_observers import metadata_written, place_check, whole_path, wrapped
from chunkwise.core.arrays.protocol import OpenArray, WrapStore
from chunkwise.core.arrays.resources import (
    SharedMetadata,
    cache_document,
    cache_of,
    cached,
    cached_document,
    oldest_allowed,
    pool_under,
    shared_metadata,
    shared_with,
)
from chunkwise.core.base.binding import JSON, Members
from chunkwise.core.base.catalogue import KVSTORES, arrays, drivers, kvstores
from chunkwise.core.codec.pictures import sniff
from chunkwise.core.driver.auto import AutoSpec, NoFormatError, detect_format, is_one_picture
from chunkwise.core.driver.chunked.documents import cached_metadata
from chunkwise.core.driver.chunked.flows import Opened, OpenRequest, check_container, open_array
from chunkwise.core.driver.chunked.spec import ChunkedSpec
from chunkwise.core.driver.flow import run
from chunkwise.core.driver.found_instead import directory_kind, file_kind, found_instead, group_instead
from chunkwise.core.engine.concurrent_requests import map_requests
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.places.lease import HeldError, check_alone
from chunkwise.core.kvstore.places.replaced_places import note_replaced
from chunkwise.core.kvstore.protocol import ByteRange, KvStoreDriver, Stamped
from chunkwise.core.kvstore.value import PageInsteadError, read_bounded
from chunkwise.core.specs.context import Context
from chunkwise.core.specs.driver_spec import SpecMembers
from chunkwise.core.specs.kvstore_spec import KvStoreSpec, kvstore_missing
from chunkwise.core.specs.open_mode import OpenMode
from chunkwise.errors import (
    AbortedError,
    AlreadyExistsError,
    ChunkwiseError,
    FailedPreconditionError,
    OutOfRangeError,
    PermissionDeniedError,
    prefix,
)

__all__ = ["create_document", "open_auto", "open_chunked", "open_from_document"]


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


E = TypeVar("E", bound=ChunkwiseError)


def open_auto(spec: AutoSpec, *, readable: bool, writable: bool, wrap: WrapStore | None = None) -> OpenArray:
    """Open the array of a bound spec with the driver that its files require."""
    if spec.kvstore is None:
        raise kvstore_missing()
    assert spec.live is not None, "the spec is not bound"
    place = spec.kvstore
    if place.driver == "tiff_images" and not place.path and place.base is not None:
        place = place.base  # the content of a file stands for the file
    head = _head(place)
    inside = _inside_file(place, head, spec.live)
    driver = None if inside else sniff(head)
    document: Stamped | None = None
    kvstore = inside or (place if driver else place.as_directory())
    while driver is None or driver in KVSTORES:
        if driver is not None:  # everything below the directory is in a database
            inside = kvstore = _inside(driver, kvstore, spec.live)
        store, path = kvstore.open_driver()
        seen = store if wrap is None else wrap(store, getattr(kvstore, "atomic", True))
        try:
            driver, document = run(detect_format(path, store.describe), seen, map_requests)
        except NoFormatError as e:
            file = place.with_path(place.path.rstrip("/"))
            if not inside and directory_kind(store, path) == "reference":
                driver = "reference"
                continue
            if file.path != place.path and _head(file):  # a file, named as a directory
                return open_auto(replace(spec, kvstore=file), readable=readable, writable=writable, wrap=wrap)
            raise _explained(e, kvstore if inside else place, found_instead) from None
    parsed = drivers.find(driver)(Members({}), SpecMembers(spec.schema, None))
    spec_found = parsed.with_kvstore(kvstore).with_recheck(**spec.recheck)
    options: dict[str, Any] = {} if wrap is None else {"wrap": wrap}
    open_found = arrays.find(driver)
    if open_found is open_chunked and kvstore.base is None:  # other stores need a read to find out
        options["seen"] = document  # read just now, so that it isn't requested again
    try:
        array: OpenArray = open_found(
            spec_found.bind(spec.live), readable=readable, writable=writable, **options
        )
    except ChunkwiseError as e:
        raise _explained(prefix(e, f'Error opening "{driver}" driver'), place) from None
    return array


def _explained(
    error: E, kvstore: KvStoreSpec, otherwise: Callable[[KvStoreDriver, str, str], str] | None = None
) -> E:
    """Return an error that names the content: a group, or whatever `otherwise` finds."""
    store, path = kvstore.open_driver()
    path = f"{path.rstrip('/')}/" if path else ""
    text = _text(kvstore, lambda: store.describe(path).strip('"'))
    found = group_instead(store, path, text)
    if not found and otherwise is not None:
        found = otherwise(store, path, text)
    if found:
        error.message += f"; {found}"
    return error


def _text(kvstore: KvStoreSpec, described: Callable[[], str]) -> str:
    """Return the text that a user would write for a kvstore."""
    if kvstore.driver == "file":
        return kvstore.path
    if kvstore.driver == "object":
        return ""
    if kvstore.base is not None and kvstore.base.driver == "file":
        scheme = kvstore.driver.replace("_", "-")
        return f"{kvstore.base.path}|{scheme}:{kvstore.path}"
    return described()


def _head(kvstore: KvStoreSpec) -> bytes:
    """Return the first bytes of the value at the path of `kvstore`; empty if there is none."""
    if not kvstore.path or kvstore.path.endswith("/"):
        return b""
    store, key = kvstore.open_driver()
    for n in (12, 4):  # first bytes of a picture, and of another file
        try:
            return bytes(read_bounded(store, key, byte_range=ByteRange(0, n)).value or b"")
        except OutOfRangeError:
            continue
        # A page lists a directory; a login takes the place of the documents too.  A refusal may be about a
        # missing key, and the documents of arrays are looked for.
        except (PageInsteadError, PermissionDeniedError):
            break
    return b""


def _part(kvstore: KvStoreSpec, at: int, n: int) -> bytes:
    store, key = kvstore.open_driver()
    try:
        return bytes(read_bounded(store, key, byte_range=ByteRange(at, at + n)).value or b"")
    except OutOfRangeError:
        return b""


def _read(kvstore: KvStoreSpec) -> Any:
    store, key = kvstore.open_driver()
    return store.read(key).value


def _inside_file(kvstore: KvStoreSpec, head: bytes, live: Context) -> KvStoreSpec | None:
    """Return the root of the tree in the file at the path of `kvstore`; None if it is no such file."""
    kind = file_kind(head, kvstore.path, lambda: _read(kvstore))
    if kind is None or (kind == "tiff_images" and is_one_picture(lambda at, n: _part(kvstore, at, n))):
        return None
    path = {"path": "0/"} if kind == "tiff_images" else {}  # the largest level of a pyramid
    return _inside(kind, kvstore, live, **path)


def _inside(kind: str, kvstore: KvStoreSpec, live: Context, **members: str) -> KvStoreSpec:
    """Return the kvstore `kind` over another one."""
    inside: KvStoreSpec = kvstores.find(kind).parse(Members({"base": kvstore, **members}))
    return inside.bind(live)
