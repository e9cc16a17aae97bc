"""The kvstore ``object``: a store or file system that the caller made, of zarr-python, obstore or fsspec.

A mutable mapping from text to bytes counts as one too.

The member ``object`` is that object itself, so such a spec exists only in Python, not as text.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any, ClassVar

from chunkwise.core.base.binding import MISSING, expect_bool
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.libraries.fsspec import FsspecStore, is_fsspec, synchronous
from chunkwise.core.kvstore.libraries.icechunk_session import IcechunkStore
from chunkwise.core.kvstore.libraries.mapping import MappingStore
from chunkwise.core.kvstore.libraries.zarr_python import ZarrPythonStore, is_zarr_python, store_class
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.objects.obstore import ForeignBucket, is_obstore
from chunkwise.core.kvstore.protocol import KvStoreDriver, is_store, missing_members
from chunkwise.core.kvstore.request_limits import Limits, Slots
from chunkwise.core.kvstore.this_process import sent_store
from chunkwise.core.specs.kvstore_spec import KvStoreSpec, member
from chunkwise.errors import SpecError

__all__ = ["ObjectKvStoreSpec", "is_store_object"]


def is_store_object(value: object) -> bool:
    """Return True if `value` is a kvstore, or another library's object that can be used as one."""
    kinds = (is_obstore, is_fsspec, is_zarr_python, _is_upath, is_store, _is_mapping)
    return any(is_one(value) for is_one in kinds)


def _is_mapping(value: object) -> bool:
    return isinstance(value, MutableMapping)


def _is_upath(value: object) -> bool:
    """Return True if `value` is a path of universal_pathlib."""
    return any(c.__module__.partition(".")[0] == "upath" for c in type(value).__mro__)


def _expect_store(value: Any) -> Any:
    if value is not MISSING and is_store_object(value):
        # One store for each spec, so that unpickling finds it again.
        return MappingStore(value) if _is_mapping(value) and not is_fsspec(value) else value
    received = "member is missing" if value is MISSING else f"received: {value!r}"
    lacking = missing_members(value)
    if "read" not in lacking and "write" not in lacking:
        received += f", which lacks {', '.join(lacking)}; chunkwise.extension.PluginStore has them"
    raise SpecError(
        "Expected a store of obstore or zarr-python, a file system or mapper of fsspec, a path of "
        "universal_pathlib, a mutable mapping, or an object with the methods of KvStoreDriver, but "
        f"{received}"
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ObjectKvStoreSpec(KvStoreSpec):
    """``{"driver": "object", "object": obstore.store.S3Store("bucket"), "path": "a/"}``."""

    driver: ClassVar[str] = "object"

    store: Any = member("object", _expect_store)
    # There is no other writer, so the server need not support conditional writes.
    single_writer: bool = member("single_writer", expect_bool, False, shown="if set")

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        if is_obstore(self.store) and type(self.store).__name__ != "MemoryStore":
            state["store"] = ForeignBucket(self.store)  # its pickle leaves out credentials
        elif (
            is_obstore(self.store)
            or is_fsspec(self.store)
            or is_zarr_python(self.store)
            or _is_upath(self.store)
        ):
            state["store"] = self.open_driver()[0]  # its pickle knows whether files are in memory
        else:
            state["store"] = sent_store(self.store)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if isinstance(state["store"], ForeignBucket):
            state = {**state, "store": state["store"].store}
        vars(self).update(state)

    @property
    def outlives_process(self) -> bool:
        """True for a bucket, and for files in a directory."""
        driver = self.open_driver()[0]
        in_bucket = isinstance(driver, ObjectStore) and type(self.store).__name__ != "MemoryStore"
        return in_bucket or isinstance(driver, FileStore)

    def open_driver(self) -> tuple[KvStoreDriver, str]:
        """Return the store; the path stays a prefix of keys."""
        return _opened(self.store, self.single_writer), self.path


def _opened(store: Any, single_writer: bool) -> KvStoreDriver:
    """Return the kvstore for an object; for many of zarr-python's stores, one of our own."""
    if is_zarr_python(store) and not store.read_only:
        match store_class(store):
            case "zarr.LocalStore":
                return FileStore(store.root)
            case "zarr.ObjectStore":
                store = store.store
            case "zarr.FsspecStore":
                return FsspecStore(synchronous(store.fs), store.path, single_writer=single_writer)
    if is_obstore(store):
        return ObjectStore(ForeignBucket(store), Limits(Slots()), single_writer=single_writer)
    if is_zarr_python(store):
        kind = IcechunkStore if store_class(store) == "icechunk.IcechunkStore" else ZarrPythonStore
        return kind(store, single_writer=single_writer)
    if _is_upath(store):
        local = getattr(store, "protocol", "") in ("", "file", "local")
        if local:
            return FileStore(os.fspath(store))
        return FsspecStore(store.fs, store.path, single_writer=single_writer)
    if is_fsspec(store):
        is_mapper = hasattr(store, "fs") and hasattr(store, "root")
        fs, root = (store.fs, store.root) if is_mapper else (store, "")
        return FsspecStore(fs, root, single_writer=single_writer)
    driver: KvStoreDriver = store
    return driver
