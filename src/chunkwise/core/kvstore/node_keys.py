"""Deleting the keys of a node, without what others are writing to replace it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import NamedTuple

from chunkwise.core.kvstore.keys_below import OURS, delete_all_below, delete_but, is_staged, old_ranges
from chunkwise.core.kvstore.protocol import Buffer, KvStoreDriver
from chunkwise.core.kvstore.replaced_places import note_replaced
from chunkwise.core.kvstore.staging import APPEND, JOURNAL, is_abandoned, is_resumable, process_has_ended
from chunkwise.core.kvstore.this_process import process_name
from chunkwise.core.kvstore.value_bound import read_bounded

__all__ = ["Staged", "delete_node_keys", "staged_in"]

_SILENCE, _POLL = 20.0, 0.5  # seconds after which the owner of a journal is assumed to be dead


class Staged(NamedTuple):
    """What this library has put beside a node's keys, as a listing of the level shows it."""

    abandoned: list[str]  # prefixes of new data whose writers have ended
    others: list[str]  # prefixes of new data that others may be writing
    keys: list[str]  # such as journals


def staged_in(store: KvStoreDriver, path: str) -> Staged:
    """Return what this library has put into a node; waits for signs of life."""
    level = store.list_children(path)
    found = Staged([], [], [key for key in level.keys if key.startswith(path + OURS)])
    for prefix in level.prefixes:
        if is_staged(prefix, path):
            (found.others if _is_live(store, prefix + "/") else found.abandoned).append(prefix + "/")
    return found


def delete_node_keys(
    store: KvStoreDriver, path: str, keep: Sequence[str], staged: Staged, *, held: bool
) -> None:
    """Delete all keys of a node below `path`, except `keep` and new data that others may be writing.

    If the caller has `held` the key `APPEND`, which excludes others, that stays too.
    """
    if not (held or staged.others):
        delete_but(store, path, keep)
        return
    try:
        for prefix in staged.abandoned:
            delete_all_below(store, prefix)
        keys = [key for key in staged.keys if not (held and key == path + APPEND)]
        for part in old_ranges(store, path, keys, keep):
            store.delete_range(part.start, part.stop)
    finally:
        note_replaced(store, path)


def _is_live(store: KvStoreDriver, staging: str) -> bool:
    """Return True if a process may still write to a staging place."""
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
