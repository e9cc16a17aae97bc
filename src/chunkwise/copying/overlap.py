"""The overlap of sources with a location that is written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.extras import is_of
from chunkwise.core.kvstore.adapter.prefix import whole_store
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.specs.driver_spec import DriverSpec
from chunkwise.core.specs.kvstore_spec import KvStoreSpec
from chunkwise.core.trees.location import Location, locate, location_of
from chunkwise.errors import ChunkwiseError

__all__ = [
    "driver_specs",
    "overlap",
    "places",
    "store_and_path",
    "uses",
]

_HOLDERS = ("store", "view", "array", "_array", "_indexable", "_data", "_variable")
"""Attributes in which arrays of other libraries, and our own wrappers, keep what they read."""
_DEPTH = 16


def overlap(operand: Any, location: Location) -> str | None:
    """Return the name of the data that `operand` reads at or below a location, or None.

    Parameters
    ----------
    operand : object
        A TensorStore, also a view or a virtual array, such as a stack; a group; an array or group of
        zarr-python; or an object that has one of them as its data, such as a lazy array of xarray.  For
        anything else None is returned: data in memory reads nothing.
    location : Location
        The location that will be written or replaced.
    """
    return _overlap(operand, location, _DEPTH)


def _overlap(operand: Any, location: Location, depth: int) -> str | None:
    if isinstance(operand, TensorStore):
        return _array_overlap(operand, location)
    if isinstance(getattr(operand, "location", None), Location):  # a group, with all that is in it
        return _place_overlap(operand.location, location)
    if depth == 0 or type(operand).__module__.partition(".")[0] in ("numpy", "builtins", "dask"):
        return None
    if _is_of_zarr(operand):
        return _place_overlap(_place_of_zarr(operand), location)
    for name in _HOLDERS:
        held = getattr(operand, name, None)
        found = None if held is None or held is operand else _overlap(held, location, depth - 1)
        if found is not None:
            return found
    return None


def _array_overlap(array: TensorStore, location: Location) -> str | None:
    spec = array._array.spec()
    if any(part.driver == "virtual_chunked" for part in driver_specs(spec)):
        return "a virtual array, whose function can read anything"
    for kvstore in _kvstores(spec):
        if _lies_below(kvstore, location):
            kv, path = kvstore.open_driver()
            return kv.describe(path)
    return None


def _place_overlap(place: Location | None, location: Location) -> str | None:
    if place is None:
        return None
    store, here = store_and_path(place.store, place.path)
    other, there = store_and_path(location.store, location.path)
    return place.text if store == other and (here.startswith(there) or there.startswith(here)) else None


def uses(spec: DriverSpec, location: Location, *, below: bool) -> bool:
    """Return True if anything that a spec reads, archives included, is at `location`, or also `below` it."""
    return any(_lies_below(kvstore, location, below=below) for kvstore in _kvstores(spec))


def _lies_below(kvstore: KvStoreSpec, location: Location, *, below: bool = True) -> bool:
    store, top = store_and_path(location.store, location.path)
    identity, at = store_and_path(*kvstore.open_driver())
    return bool(identity == store) and (at.startswith(top) if below else at == top)


def _is_of_zarr(value: Any) -> bool:
    return is_of(value, "zarr") and hasattr(value, "store") and hasattr(value, "path")


def _place_of_zarr(value: Any) -> Location | None:
    """Return the location of an array or group of zarr-python; None if its store is unknown."""
    store = value.store
    try:
        files = getattr(store, "fs", None)
        protocol = getattr(getattr(files, "sync_fs", files), "protocol", ())
        if "file" in ((protocol,) if isinstance(protocol, str) else protocol):  # of fsspec
            store = store.path
        elif store.read_only:  # by which it would be another one
            store = getattr(store, "root", None) or store.with_read_only(False)
        root = locate(store)
    except (ChunkwiseError, AttributeError, NotImplementedError, TypeError, ValueError):
        return None
    return root.at(f"{root.path}{value.path}/" if value.path else root.path)


def driver_specs(spec: DriverSpec | KvStoreSpec) -> Iterator[DriverSpec]:
    """Yield a spec and those of the arrays that it is made of."""
    if isinstance(spec, DriverSpec):
        yield spec
        for part in spec.parts():
            yield from driver_specs(part)


def _kvstores(spec: DriverSpec | KvStoreSpec) -> Iterator[KvStoreSpec]:
    """Yield the kvstores of all arrays in a bound spec, and those that they adapt."""
    if isinstance(spec, KvStoreSpec):
        yield spec
    for part in spec.inner():
        yield from _kvstores(part)


def store_and_path(kv: KvStoreDriver, path: str) -> tuple[Any, str]:
    """Return the storage of a prefix of keys, and the prefix there, for comparison."""
    if isinstance(kv, FileStore):
        return "file", os.path.join(os.path.realpath(kv.root + path), "")
    whole, above = whole_store(kv)
    return whole.identity, above + path


def places(array: TensorStore) -> list[Location]:
    """Return the locations of all arrays behind an array or a view of one."""
    return [location_of(kvstore) for kvstore in _kvstores(array._array.spec())]
