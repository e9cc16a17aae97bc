"""Deleting the keys of a node, without what others are writing to replace it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from chunkwise.core.kvstore.keys_below import delete_all_below, delete_but, is_staged, old_ranges
from chunkwise.core.kvstore.protocol import Buffer, Children, KvStoreDriver
from chunkwise.core.kvstore.replaced_places import note_replaced
from chunkwise.core.kvstore.staging import APPEND, JOURNAL, is_abandoned, is_resumable, process_has_ended
from chunkwise.core.kvstore.this_process import process_name
from chunkwise.core.kvstore.value_bound import read_bounded

__all__ = ["abandoned_staging", "delete_node_keys"]

_SILENCE, _POLL = 20.0, 0.5  # seconds after which the owner of a journal is assumed to be dead


def abandoned_staging(store: KvStoreDriver, path: str) -> set[str]:
    """Return the staging places in a node to which nobody writes any more; waits for signs of life."""
    return {prefix for prefix in _staged(store.list_children(path), path) if not _is_live(store, prefix)}


def delete_node_keys(
    store: KvStoreDriver, path: str, keep: Sequence[str], abandoned: set[str], *, held: bool
) -> None:
    """Delete all keys of a node below `path`, except `keep` and staging places that are not `abandoned`.

    If the caller has `held` the key `APPEND`, which excludes others, that stays too.
    """
    level = store.list_children(path)
    staged = _staged(level, path)
    if not held and abandoned.issuperset(staged):
        delete_but(store, path, keep)
        return
    try:
        for prefix in abandoned.intersection(staged):
            delete_all_below(store, prefix)
        keys = [key for key in level.keys if not (held and key == path + APPEND)]
        for part in old_ranges(store, path, keys, keep):
            store.delete_range(part.start, part.stop)
    finally:
        note_replaced(store, path)


def _staged(level: Children, path: str) -> list[str]:
    return [prefix + "/" for prefix in level.prefixes if is_staged(prefix, path)]


def _is_live(store: KvStoreDriver, staging: str) -> bool:
    """Return True unless nobody writes to a staging place any more."""
    name = staging[:-1].rpartition("/")[2]
    if not is_resumable(name):
        return not is_abandoned(name)
    found = read_bounded(store, staging + JOURNAL)
    end = time.monotonic() + _SILENCE
    while _may_live(found.value):
        if time.monotonic() > end:
            return False
        time.sleep(_POLL)
        if read_bounded(store, staging + JOURNAL).generation != found.generation:
            return True
    return False


def _may_live(journal: Buffer | None) -> bool:
    """Return False if a journal has no owner, or one of this machine that has ended."""
    try:
        host, pid, _ = json.loads(bytes(journal or b"{}"))["owner"].split(":")
    except (ValueError, LookupError, AttributeError, TypeError):
        return False
    return not (host == process_name().host and process_has_ended(pid))
