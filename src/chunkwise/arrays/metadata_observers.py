"""Observers of metadata documents: consolidated metadata of groups is updated after a write of one.

The observers are rows of the catalogue, since what a group is, is known in a higher layer only.  They are
called only if a group above the array has copies.
"""

from __future__ import annotations

from collections.abc import Iterator

from chunkwise import catalogue
from chunkwise.arrays.protocol import WrapStore
from chunkwise.driver.chunked.open_flow import OpenRequest
from chunkwise.driver.chunked.spec import ChunkedSpec
from chunkwise.errors import PermissionDeniedError
from chunkwise.kvstore.adapter.cache import CacheStore
from chunkwise.kvstore.adapter.prefix import whole_store
from chunkwise.kvstore.protocol import KvStoreDriver

__all__ = ["metadata_changed", "metadata_written", "whole_path", "wrapped"]


def metadata_written(
    spec: ChunkedSpec, request: OpenRequest, store: KvStoreDriver, wrap: WrapStore | None
) -> None:
    """Notify observers that the document of an array was written, within the transaction of `wrap`."""
    if request.format.consolidated:
        whole, path = whole_path(store.base if isinstance(store, CacheStore) else store, request.path)
        metadata_changed(whole, path, None if wrap is None else wrapped(spec, whole, wrap))


def wrapped(spec: ChunkedSpec, store: KvStoreDriver, wrap: WrapStore) -> KvStoreDriver:
    """Return the store of an array as the transaction sees it that `wrap` is of."""
    return wrap(store, getattr(spec.kvstore, "atomic", True))


def metadata_changed(store: KvStoreDriver, path: str, seen: KvStoreDriver | None = None) -> None:
    """Notify observers that documents of an array were created, changed or deleted."""
    # `store` is as large a part of the storage as there is, so that groups above the array can be seen;
    # `seen` is the same as the transaction sees it that the change is part of.  If a copy can't be brought up
    # to date, that is raised, while the array itself is as it should be.
    if _has_copies(store, path):
        for name in catalogue.METADATA_OBSERVERS:
            catalogue.metadata_observers.find(name)(store if seen is None else seen, path)


def _has_copies(store: KvStoreDriver, path: str) -> bool:
    try:
        for group in _upwards(path):
            if store.read(group + ".zmetadata").value is not None:
                return True
            document = store.read(group + "zarr.json").value
            if document is not None and b"consolidated_metadata" in bytes(document):
                return True
    except PermissionDeniedError:
        pass  # what may not be looked at is nobody's group
    return False


def _upwards(path: str) -> Iterator[str]:
    yield path
    while path:
        path = path[: path[:-1].rfind("/") + 1]
        yield path


def whole_path(store: KvStoreDriver, path: str) -> tuple[KvStoreDriver, str]:
    """Return the largest store that `store` is a part of, and what the prefix `path` is there."""
    whole, above = whole_store(store)
    return whole, above + path
