"""Places in which this process has put, replaced, moved or deleted arrays and groups.

Open handles of the old data, of any context, look at the store again before they use it: chunks
that they wrote would destroy the present data.  Other processes are not told.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator

from chunkwise.core.base.threads import new_lock
from chunkwise.core.kvstore.adapter.prefix import PrefixStore
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.kvstore.store_base import SameKeysStore

__all__ = ["Place", "changes", "is_replaced", "note_replaced", "place_of"]

Place = tuple[Hashable, str]
"""The identity of a whole store, and a key in it: the same for all stores that it is a part of."""

_FILES = "files"
_MOST = 4096

_lock = new_lock()
_numbers: dict[Place, int] = {}  # number of the last change of each place
_forgotten = 0


class _Changes:
    """Number of changes; an attribute, since every read looks at it."""

    number = 0


changes = _Changes()


def place_of(store: KvStoreDriver, key: str) -> Place:
    """Return the place of a key, or of a prefix that is empty or ends in "/"."""
    while not isinstance(store, FileStore):
        if isinstance(store, PrefixStore):
            key = store.prefix + key
        elif not isinstance(store, SameKeysStore):
            return store.identity, key
        store = store.base
    return _FILES, f"{store.real_root.rstrip(os.sep)}/{key}"


def note_replaced(store: KvStoreDriver, path: str) -> int:
    """Record that everything below `path`, a prefix, was replaced; return the number of the change."""
    global _forgotten
    place = _resolved(place_of(store, path))
    with _lock:
        number = changes.number = changes.number + 1
        if len(_numbers) >= _MOST:
            _numbers.clear()
            _forgotten = number
        _numbers[place] = number
        return number


def is_replaced(place: Place, since: int) -> bool:
    """Return True if a key may belong to something else than when `since` was the last change."""
    if since < _forgotten:
        return True
    store, key = _resolved(place)
    return any(_numbers.get((store, path), 0) > since for path in _above(key))


def _resolved(place: Place) -> Place:
    """Return a place in files without links and differences of notation in its directory."""
    store, path = place
    if store != _FILES:
        return place
    directory, _, name = path.rpartition("/")
    return store, os.path.normcase(os.path.realpath(directory)).replace(os.sep, "/").rstrip("/") + "/" + name


def _above(key: str) -> Iterator[str]:
    """Yield the prefixes of `key` that end in "/", and the empty one."""
    end = len(key)
    while (end := key.rfind("/", 0, end)) >= 0:
        yield key[: end + 1]
    yield ""
