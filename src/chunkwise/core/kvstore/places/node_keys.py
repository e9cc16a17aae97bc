"""Deleting the keys of a node, except new data of others for it or for nodes in it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence

from chunkwise.core.kvstore.atomic import Directories
from chunkwise.core.kvstore.places.keys_below import delete_but, delete_wanted_below
from chunkwise.core.kvstore.places.lease import in_one_step
from chunkwise.core.kvstore.places.staging import (
    JOURNAL,
    is_abandoned,
    is_resumable,
    process_has_ended,
    staging_prefix,
    unwritten,
)
from chunkwise.core.kvstore.protocol import Buffer, KvStoreDriver, offers
from chunkwise.core.kvstore.this_process import process_name
from chunkwise.core.kvstore.value_bound import read_bounded

__all__ = ["delete_node_keys"]

_SILENCE, _POLL = 20.0, 0.5  # seconds after which the owner of a journal is assumed to be dead


def delete_node_keys(store: KvStoreDriver, path: str, keep: Sequence[str], made: Iterable[str]) -> None:
    """Delete all keys of a node below `path`, except `keep` and what others write, even if begun just now.

    `made` are the keys there that only this library makes; waits for signs of life of unfinished copies.
    """
    places = {place for key in made if (place := staging_prefix(key, path))}
    live = sorted(place for place in places if _is_live(store, place))
    at_once = in_one_step(store)
    if at_once and not offers(store, Directories):  # a place begun just now loses its mark too
        delete_but(store, path, keep, live)
        return
    kept, own = set(keep), unwritten(path)
    others = {*places.difference(live), *([None] if at_once else [])}  # keys of turns, where none are taken
    delete_wanted_below(
        store, path, lambda key: key not in kept and (own(key) or staging_prefix(key, path) in others)
    )


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
