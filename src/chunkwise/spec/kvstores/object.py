"""The kvstore ``object``: a store or file system that the caller made with obstore or fsspec; an extension.

The member ``object`` is that object itself, so such a spec is for use in Python; there is no text of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from chunkwise.binding import MISSING, Members, expect_bool
from chunkwise.errors import SpecError, UnsupportedError
from chunkwise.kvstore.foreign_bucket import ForeignBucket, is_obstore
from chunkwise.kvstore.fsspec import FsspecStore, is_fsspec
from chunkwise.kvstore.object_store import ObjectStore
from chunkwise.kvstore.protocol import KvStoreDriver, is_store
from chunkwise.kvstore.request_limits import Limits, RequestSlots
from chunkwise.spec.kvstore_spec import KvStoreSpec

__all__ = ["ObjectKvStoreSpec", "is_store_object"]


def is_store_object(value: object) -> bool:
    """Return True if `value` is a kvstore, or something of obstore or fsspec that can be used as one."""
    return is_obstore(value) or is_fsspec(value) or is_store(value)


def _expect_store(value: Any) -> Any:
    if value is not MISSING and is_store_object(value):
        return value
    received = "member is missing" if value is MISSING else f"received: {value!r}"
    raise SpecError(
        "Expected a store of obstore, a file system or mapper of fsspec, or an object with the methods of "
        f"KvStoreDriver, but {received}"
    )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ObjectKvStoreSpec(KvStoreSpec):
    """``{"driver": "object", "object": obstore.store.S3Store("bucket"), "path": "a/"}``.

    Attributes
    ----------
    store : object
        The member ``object``.
    single_writer : bool
        Nobody else writes.
    """

    driver: ClassVar[str] = "object"

    store: Any
    single_writer: bool = False

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        if is_obstore(self.store):
            state["store"] = ForeignBucket(self.store)  # which leaves credentials out
        elif is_fsspec(self.store):
            state["store"] = self.open_driver()[0]  # which knows whether its files are in memory
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if isinstance(state["store"], ForeignBucket):
            state = {**state, "store": state["store"].store}
        vars(self).update(state)

    @classmethod
    def parse_members(cls, members: Members) -> dict[str, Any]:
        """Take ``object`` and ``single_writer``."""
        return {
            "store": members.take("object", _expect_store),
            "single_writer": members.take("single_writer", expect_bool, False),
        }

    def own_members(self, include_defaults: bool) -> dict[str, Any]:
        """Return the members that say something."""
        out = {"object": self.store}
        return {**out, "single_writer": True} if self.single_writer else out

    def open_driver(self) -> tuple[KvStoreDriver, str]:
        """Return the store; the path stays a prefix of keys."""
        store = self.store
        if is_obstore(store):
            bucket = ForeignBucket(store)
            return ObjectStore(bucket, Limits(RequestSlots()), single_writer=self.single_writer), self.path
        if is_fsspec(store):
            fs, root = (
                (store.fs, store.root) if hasattr(store, "fs") and hasattr(store, "root") else (store, "")
            )
            return FsspecStore(fs, root, single_writer=self.single_writer), self.path
        driver: KvStoreDriver = store
        return driver, self.path

    def to_url(self) -> str:
        """Raise: there is no URL."""
        raise UnsupportedError("URL representation not supported")
