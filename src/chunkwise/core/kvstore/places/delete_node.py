"""Deleting a node, or taking it away, so that nothing is lost that has come to its place meanwhile.

Chunks of an array that another process puts above may lie below the name of the node.  So it is looked at:

=======================================  ==============================================================
store                                    steps
=======================================  ==============================================================
directories (files, memory)              the directory gets the name of a staging place, is looked at
                                         there, and deleted, or put back
several keys at once (ZIP, OCDBT)        one change, unless a document around changes after the look
directories that can't be renamed, or    they are looked at, then the document is deleted, then each key that
where others write                       has not changed since
others                                   the document is deleted, then the rest; others that respect
                                         turns are kept out
=======================================  ==============================================================
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from chunkwise.core.kvstore.atomic import AtomicWritable, Directories
from chunkwise.core.kvstore.places.keys_below import (
    delete_all_below,
    delete_wanted_below,
    list_below,
    ranges_but,
)
from chunkwise.core.kvstore.places.lease import in_one_step
from chunkwise.core.kvstore.places.replaced_places import note_replaced
from chunkwise.core.kvstore.places.staging import (
    ASIDE,
    JOURNAL,
    give_up,
    is_abandoned,
    is_resumable,
    new_owner,
    process_has_ended,
    staging_prefix,
    unwritten,
)
from chunkwise.core.kvstore.places.take_place import change_at_once, staging_path
from chunkwise.core.kvstore.protocol import Buffer, ByteRange, KvStoreDriver, offers
from chunkwise.core.kvstore.this_process import process_name
from chunkwise.core.kvstore.value import read_bounded
from chunkwise.errors import AlreadyExistsError, NotFoundError, PermissionDeniedError, UnsupportedError

__all__ = ["delete_node_keys", "put_back"]

_SILENCE, _POLL = 20.0, 0.5  # seconds after which the owner of a journal is assumed to be dead


def delete_node_keys(
    store: KvStoreDriver,
    path: str,
    keep: Sequence[str],
    made: Iterable[str],
    *,
    document: str,
    documents: Collection[str],
    check: Callable[[str], object],
) -> None:
    """Delete all keys of a node below `path`, except `keep` and what others write, even if begun just now.

    `made` are the keys there that only this library makes; waits for signs of life of unfinished copies.
    Its own `document` goes first; `documents` are those of any node.  `check` raises unless the node is at a
    path.
    """
    places = {place for key in made if (place := staging_prefix(key, path))}
    live = sorted(place for place in places if _is_live(store, place))
    at_once = in_one_step(store)
    if at_once and not offers(store, Directories):  # a place begun just now loses its mark too
        try:
            if offers(store, AtomicWritable):
                one_change: Any = store
                ranges = partial(ranges_but, one_change, path, keep, live)
                change_at_once(one_change, path, documents, partial(check, path), lambda: ({}, {}, ranges()))
            else:
                for keys in ranges_but(store, path, keep, live):
                    store.delete_range(keys.start, keys.stop)
        finally:
            note_replaced(store, path)
        return
    if offers(store, Directories) and not live and _delete_aside(store, path, keep, document, check):
        return
    kept, own = set(keep), unwritten(path)
    others = {*places.difference(live), *([None] if at_once else [])}  # keys of turns, where none are taken

    def wanted(key: str) -> bool:
        return key not in kept and (own(key) or staging_prefix(key, path) in others)

    if at_once:  # no turns keep others out; their chunks are written after the check
        generation = partial(_generation, store)
        before = {key: generation(key) for key in list_below(store, path) if wanted(key)}
        check(path)
        delete = partial(delete_wanted_below, store, path, lambda key: before.get(key) == generation(key))
    else:
        delete = partial(delete_wanted_below, store, path, wanted)
    if document:
        store.delete(path + document)
    delete()


def _generation(store: KvStoreDriver, key: str) -> bytes:
    return store.read(key, byte_range=ByteRange(0, 0)).generation


def _delete_aside(
    store: Any,
    path: str,
    keep: Sequence[str],
    document: str,
    check: Callable[[str], object],
) -> bool:
    """Delete a directory by a name that no other process knows; return False if it can't be renamed."""
    staging = staging_path(store, path, new_owner())
    if staging.startswith(path):
        return False
    taken, name = staging[:-1], path[:-1]
    undo = partial(put_back, store, staging, path)
    check(path)
    try:
        if keep:
            store.link_keys({key: staging + key[len(path) :] for key in keep})
            undo = partial(store.exchange_directories, taken, name, taken + ASIDE)
            undo()
        else:
            store.move_directory(name, taken)
    except NotFoundError:
        return True  # others have deleted it
    except (UnsupportedError, PermissionDeniedError):  # for example on another file system
        delete_all_below(store, staging)
        return False
    finally:
        note_replaced(store, path)
    try:
        check(staging)
    except BaseException:
        undo()
        note_replaced(store, path)
        if keep:
            store.delete_directory(taken)
        raise
    give_up(staging)  # the next replacement deletes what an error leaves
    if document:
        store.delete(staging + document)
    store.delete_directory(taken)
    return True


def put_back(store: Any, source: str, path: str) -> None:
    """Move what was taken away to where it was; what others have written there since stays."""
    with suppress(AlreadyExistsError):
        store.move_directory(source[:-1], path[:-1])
        return
    store.link_keys({key: path + key[len(source) :] for key in list_below(store, source)})
    store.delete_directory(source[:-1])


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
