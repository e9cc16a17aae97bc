"""Content of a key of a served array or group, before anything is read for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from chunkwise.extension import KvStoreDriver
from chunkwise.extension.inside import EntryListable, FileStore, extended_path, offers
from chunkwise.images.server.confined import ConfinedStore

__all__ = ["BINARY", "JSON", "Computed", "Content", "Document", "StoredValue", "can_tell_size", "stored_size"]

JSON = "application/json"
BINARY = "application/octet-stream"


class Document(NamedTuple):
    """Bytes that are known."""

    body: bytes
    media_type: str = JSON


class StoredValue(NamedTuple):
    """A value that is passed through as it is stored."""

    kv: KvStoreDriver
    key: str
    media_type: str = BINARY


class Computed(NamedTuple):
    """Bytes that have to be made."""

    make: Callable[[], bytes | None]  # None if there is nothing under the key
    nbytes: int  # of memory that it takes
    media_type: str = BINARY


Content: TypeAlias = Document | StoredValue | Computed


def can_tell_size(kv: KvStoreDriver) -> bool:
    """Return True if the store can tell the size of a value without reading it."""
    return isinstance(kv, ConfinedStore | FileStore) or offers(kv, EntryListable)


def stored_size(kv: KvStoreDriver, key: str) -> int | None:
    """Return the size of a value in bytes; None if it is missing or the store can't say."""
    if isinstance(kv, ConfinedStore):
        return kv.size(key)
    if isinstance(kv, FileStore):
        path = extended_path(kv.root + key)
        return os.path.getsize(path) if os.path.isfile(path) else None
    if offers(kv, EntryListable):
        return next((entry.size for entry in kv.list_entries(key, key + "\0")), None)
    return None
