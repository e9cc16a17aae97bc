"""Store objects of zarr-python 2 and 3 as places: the path or kvstore that each stands for."""

from __future__ import annotations

import os
from typing import Any

from chunkwise import KvStore
from chunkwise.core.kvstore.fsspec import synchronous
from chunkwise.core.kvstore.mapping import MappingStore
from chunkwise.core.kvstore.zarr_python import is_zarr_python
from chunkwise.extension.inside import is_of

__all__ = [
    "STORE_NAMES",
    "is_nested",
    "is_read_only",
    "is_store_of_zarr2",
    "kvstore_of",
    "name_of",
    "path_of_store",
]

_DIRECTORIES_OF_2 = ("DirectoryStore", "NestedDirectoryStore", "TempStore")
_PATHS = {
    **dict.fromkeys(_DIRECTORIES_OF_2, ("path", "")),
    "LocalStore": ("root", ""),
    "ZipStore": ("path", "|zip:"),
}
"""Attribute that is the path of a store in local files, and the rest of its URL."""

_FSSPEC = ("FsspecStore", "FSStore")
_MAPPINGS = ("MemoryStore", "KVStore")

STORE_NAMES = (
    "DirectoryStore",
    "NestedDirectoryStore",
    "LocalStore",
    "ZipStore",
    "MemoryStore",
    "FsspecStore",
)


def _kind(place: Any) -> str:
    """Return the name of the class of a store; empty for anything else."""
    name = type(place).__name__
    return name if is_of(place, "zarr") and name in (*_PATHS, *_FSSPEC, *_MAPPINGS) else ""


def is_store_of_zarr2(place: Any) -> bool:
    """Return True if a place is a store object of zarr-python 2, which knows nothing but Zarr v2."""
    # Those of zarr-python 3 have a member that says whether they may be written to.
    return bool(_kind(place)) and not hasattr(place, "read_only")


def is_nested(place: Any) -> bool:
    """Return True if a place is a store object in which each chunk index is a directory."""
    kind = _kind(place)
    return kind == "NestedDirectoryStore" or (kind == "FSStore" and place.key_separator == "/")


def is_read_only(place: Any) -> bool:
    """Return True if a place is a store object that must not be written to."""
    return bool(_kind(place)) and bool(getattr(place, "read_only", False))


def path_of_store(place: Any) -> str | None:
    """Return the path, or URL, of a store in local files; None for anything else."""
    kind = _kind(place)
    if kind in _PATHS:
        member, suffix = _PATHS[kind]
        return str(os.path.realpath(getattr(place, member))) + suffix
    if kind in _FSSPEC:
        fs = synchronous(place.fs)
        names = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
        return str(os.path.realpath(place.path)) if "file" in names else None
    return None


def kvstore_of(place: Any) -> KvStore | None:
    """Return the kvstore that a store in memory or in a file system of fsspec is; None for anything else."""
    kind = _kind(place)
    if kind in _MAPPINGS:
        store = place if is_zarr_python(place) else MappingStore(place)
        return KvStore.open({"driver": "object", "object": store}).result()
    if kind in _FSSPEC:
        spec = {"driver": "object", "object": synchronous(place.fs), "single_writer": True}
        return KvStore.open({**spec, "path": place.path.rstrip("/") + "/" if place.path else ""}).result()
    return None


def name_of(place: Any) -> str:
    """Return the name of a store that `kvstore_of` knows, for messages and links."""
    if _kind(place) in _FSSPEC:
        return str(synchronous(place.fs).unstrip_protocol(place.path)).rstrip("/")
    return f"memory://{id(getattr(place, '_store_dict', place))}"
