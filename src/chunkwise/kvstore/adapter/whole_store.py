"""The storage that a store is a part of, so that two parts of it share what is pending in a transaction."""

from __future__ import annotations

import os
from typing import Any

from chunkwise.kvstore.adapter.pending import PendingStore
from chunkwise.kvstore.adapter.prefix import PrefixStore
from chunkwise.kvstore.atomic import Modification
from chunkwise.kvstore.file import FileStore
from chunkwise.kvstore.protocol import KvStoreDriver

__all__ = ["PendingPart", "whole_store"]


class PendingPart(PrefixStore):
    """The keys of a PendingStore that begin with a prefix."""

    base: PendingStore

    def modify(self, key: str, modification: Modification) -> None:
        """Note what is to be done to the value that `key` has when the transaction is committed."""
        self.base.modify(self.prefix + key, modification)


def whole_store(store: KvStoreDriver) -> tuple[KvStoreDriver, str]:
    """Return the largest store that `store` is a part of, and what its keys begin with there.

    Two directories may be one inside the other, so for files that is the whole file system.
    """
    if isinstance(store, FileStore):
        drive, path = os.path.splitdrive(store.identity[1])
        options: dict[str, Any] = {
            "sync": store.writing.sync,
            "locking": store.writing.locking,
            "acquire_timeout": store.writing.timeout,
            "io_mode": store.io_mode,
            "io_limit": store.io_limit,
        }
        below = path.replace(os.sep, "/").strip("/")
        return FileStore(drive + "/", **options), below + "/" if below else ""
    if isinstance(store, PrefixStore):
        whole, outer = whole_store(store.base)
        return whole, outer + store.prefix
    return store, ""
