"""Store objects of zarr-python 2 and 3 as places: the path or kvstore that each stands for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, MutableMapping
from typing import Any

from chunkwise.api.kvstore import KvStore
from chunkwise.kvstore.mapping import MappingStore

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
"""Which attribute is the path of a store in local files, and what its URL has behind that."""

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
    kind = type(place)
    known = kind.__module__.partition(".")[0] == "zarr"
    return kind.__name__ if known and kind.__name__ in (*_PATHS, *_FSSPEC, *_MAPPINGS) else ""


def is_store_of_zarr2(place: Any) -> bool:
    """Return whether a place is a store object of zarr-python 2, which knows nothing but Zarr v2."""
    # Those of zarr-python 3 have a member that says whether they may be written to.
    return bool(_kind(place)) and not hasattr(place, "read_only")


def is_nested(place: Any) -> bool:
    """Return whether a place is a store object in which each chunk index is a directory."""
    kind = _kind(place)
    return kind == "NestedDirectoryStore" or (kind == "FSStore" and place.key_separator == "/")


def is_read_only(place: Any) -> bool:
    """Return whether a place is a store object that must not be written to."""
    return bool(_kind(place)) and bool(getattr(place, "read_only", False))


def path_of_store(place: Any) -> str | None:
    """Return the path, or URL, of a store in local files; None for anything else."""
    kind = _kind(place)
    if kind in _PATHS:
        member, suffix = _PATHS[kind]
        return str(os.path.realpath(getattr(place, member))) + suffix
    if kind in _FSSPEC:
        fs = _synchronous(place.fs)
        names = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
        return str(os.path.realpath(place.path)) if "file" in names else None
    return None


def kvstore_of(place: Any) -> KvStore | None:
    """Return the kvstore that a store in memory or in a file system of fsspec is; None for anything else."""
    kind = _kind(place)
    if kind in _MAPPINGS:
        held = getattr(place, "_store_dict", None)
        store = MappingStore(place if held is None else _Buffers(held))
        return KvStore.open({"driver": "object", "object": store}).result()
    if kind in _FSSPEC:
        spec = {"driver": "object", "object": _synchronous(place.fs), "single_writer": True}
        return KvStore.open({**spec, "path": place.path.rstrip("/") + "/" if place.path else ""}).result()
    return None


def name_of(place: Any) -> str:
    """Return what a store that :func:`kvstore_of` knows is called in messages and links."""
    if _kind(place) in _FSSPEC:
        return str(_synchronous(place.fs).unstrip_protocol(place.path)).rstrip("/")
    return f"memory://{id(getattr(place, '_store_dict', place))}"


def _synchronous(fs: Any) -> Any:
    """Return the file system with methods that are no coroutines."""
    wrapped = getattr(fs, "sync_fs", None)
    if wrapped is not None:
        return wrapped
    if getattr(fs, "asynchronous", False):
        return type(fs)(*fs.storage_args, **{**fs.storage_options, "asynchronous": False})
    return fs


class _Buffers(MutableMapping[str, bytes]):
    """The values of a mapping from text to buffers of zarr-python 3."""

    def __init__(self, held: MutableMapping[str, Any]) -> None:
        self._held = held
        # It made the store, so it is there.
        self._buffer = sys.modules["zarr.core.buffer"].default_buffer_prototype().buffer

    def __getitem__(self, key: str) -> bytes:
        value: bytes = self._held[key].to_bytes()
        return value

    def __setitem__(self, key: str, value: bytes) -> None:
        self._held[key] = self._buffer.from_bytes(value)

    def __delitem__(self, key: str) -> None:
        del self._held[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)
