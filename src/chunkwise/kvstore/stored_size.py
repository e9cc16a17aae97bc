"""Sizes of stored values, without reading them where a store can tell."""

from __future__ import annotations

import os
from collections.abc import Callable

from chunkwise.kvstore.file import FileStore
from chunkwise.kvstore.key_range import KeyRange
from chunkwise.kvstore.platform import extended_path
from chunkwise.kvstore.protocol import EntryListable, KvStoreDriver, offers

__all__ = ["open_size", "stored_nbytes"]


def open_size(kv: KvStoreDriver) -> Callable[[str], int]:
    """Return a function from a key to the size of its value, 0 for one that is missing."""
    if isinstance(kv, FileStore):
        root = kv.root
        return lambda key: os.path.getsize(extended_path(root + key))
    fetch = kv.open_reader()

    def size(key: str) -> int:
        value = fetch(key)
        return 0 if value is None else memoryview(value).nbytes

    return size


def stored_nbytes(kv: KvStoreDriver, prefix: str) -> int:
    """Return how many bytes are stored under keys with a prefix; lists them."""
    keys = KeyRange.of_prefix(prefix) if prefix else KeyRange()
    if offers(kv, EntryListable):
        return sum(entry.size for entry in kv.list_entries(keys.start, keys.stop))
    return sum(map(open_size(kv), kv.list(keys.start, keys.stop)))
