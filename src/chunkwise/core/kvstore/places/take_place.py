"""Replacing old data by new data: all keys below one prefix become those below another.

=============================================  ========================================================
store                                          steps
=============================================  ========================================================
directories (files, memory)                    the two are exchanged, then the old one is deleted; the turn at
                                               the old one keeps transactions out, which write key by key
several keys at once (ZIP, OCDBT)              one change
those that hold nodes only (Icechunk)          the old data is deleted, the new is copied, documents first;
                                               no reader sees it before the caller commits
others (object stores, stores of libraries)    the new data is declared complete, the old documents are
                                               deleted, keys of the old data deleted, keys copied,
                                               documents copied; then the new data is deleted where it was
=============================================  ========================================================

In the first three, a reader sees the old data or the new, even after a process was killed.  In the others a
killed process can leave neither; then all of the new data is still where it was written.  There, the caller
excludes others that replace the same data.  Documents are written only where there are none.  If another
process has made a node meanwhile without the lease, the copied keys are removed again.

If a staging place has documents and no mark `REPLACED`, it holds all of the new data: whatever else a killed
process leaves there is useless.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from chunkwise.core.kvstore.adapter.prefix import whole_store
from chunkwise.core.kvstore.atomic import AtomicWritable, Directories, Modifiable
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.places.keys_below import (
    delete_all_below,
    delete_documents,
    is_document,
    list_below,
    names_below,
    old_ranges,
    value_at,
)
from chunkwise.core.kvstore.places.lease import having_turn, in_one_step
from chunkwise.core.kvstore.places.replace_keys import (
    ABOUT,
    NewData,
    replace_by_documents,
    replace_keys,
    replace_nodes,
)
from chunkwise.core.kvstore.places.replaced_places import note_replaced
from chunkwise.core.kvstore.places.staging import (
    ASIDE,
    COMPLETE,
    JOURNAL,
    REPLACED,
    STAGED,
    give_up,
    is_abandoned,
    is_resumable,
    is_staging,
    new_owner,
    staging_name,
    upwards,
)
from chunkwise.core.kvstore.protocol import (
    MISSING_GENERATION,
    MOST_LOST,
    Buffer,
    ByteRange,
    KvStoreDriver,
    SyncedLater,
    offers,
)
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.errors import (
    AbortedError,
    AlreadyExistsError,
    ChunkwiseError,
    FailedPreconditionError,
    PermissionDeniedError,
    UnsupportedError,
)

__all__ = [
    "begin_staging",
    "change_at_once",
    "end_staging",
    "generations_above",
    "remove_abandoned",
    "replace_below",
    "settle_in_place",
    "staging_path",
    "staging_paths",
    "take_place",
]


def staging_path(store: KvStoreDriver, path: str, owner: str) -> str:
    """Return the key prefix to which new data for `path`, a prefix, is written."""
    beside = traits_of(store).nodes_only  # there, the members of a group go with its document
    if path and (beside or (offers(store, Directories) and store.can_exchange(path[:-1]))):
        above, _, name = path[:-1].rpartition("/")
        return f"{above}/{staging_name(name, owner)}/" if above else f"{staging_name(name, owner)}/"
    return f"{path}{staging_name('', owner)}/"


def begin_staging(store: KvStoreDriver, staging: str) -> None:
    """Mark a staging place before anything is written there."""
    if _is_marked(store, staging):
        unsynced = store.unsynced() if offers(store, SyncedLater) else None
        (unsynced or store).write(staging + STAGED, b"")


def _check_staged(store: KvStoreDriver, staging: str) -> dict[str, bytes]:
    """Raise AbortedError if others have moved or deleted data; return a condition for that."""
    if not _is_marked(store, staging):
        return {}
    found = {staging + STAGED: store.read(staging + STAGED).generation}
    if MISSING_GENERATION in found.values():
        raise _was_moved(store, staging)
    return found


def end_staging(store: KvStoreDriver, staging: str) -> None:
    """Do as `_check_staged`, and delete the mark; nothing more is written there."""
    for key, generation in _check_staged(store, staging).items():
        if store.delete(key, if_equal=generation) is None:
            raise _was_moved(store, staging)


def _was_moved(store: KvStoreDriver, staging: str) -> AbortedError:
    return AbortedError(f"another process has moved or deleted what was written to {store.describe(staging)}")


def _is_marked(store: KvStoreDriver, staging: str) -> bool:
    """Return True for a place that others may move or delete with its parents; others have a journal."""
    is_alone = not is_resumable(staging[:-1].rpartition("/")[2])
    return is_alone and in_one_step(store) and not traits_of(store).nodes_only


def staging_paths(store: KvStoreDriver, path: str) -> Iterator[str]:
    """Yield the prefixes to which new data for `path` was written, by active writers or not."""
    try:
        for prefix in store.list_children(path).prefixes:
            if is_staging(prefix[len(path) :]):
                yield prefix + "/"
        beside: bool = offers(store, Directories)
        if not path or not beside:
            return
        above, slash, name = path[:-1].rpartition("/")
        own = staging_name(name)
        for prefix in store.list_children(above + slash + own).prefixes:
            found = prefix[len(above + slash) :]
            if is_staging(found) and (found in (own, own + ASIDE) or found.startswith(f"{own}-")):
                yield prefix + "/"
    except (UnsupportedError, PermissionDeniedError):  # no new data of ours can exist
        return


def remove_abandoned(store: KvStoreDriver, path: str, documents: Collection[str]) -> None:
    """Delete new data for `path` that ended processes of this machine have left."""
    for staging in staging_paths(store, path):
        name = staging[:-1].rpartition("/")[2]
        if not is_abandoned(name):
            continue
        if name.endswith(ASIDE) and offers(store, Directories):  # old data, between two renames
            with suppress(ChunkwiseError):
                store.move_directory(staging[:-1], path[:-1])
        needed = store.read(staging + COMPLETE).value is not None and all(
            store.read(path + document).value is None for document in documents
        )
        if not needed:
            delete_all_below(store, staging)


def take_place(new: NewData) -> bool:
    """Replace old data by new; return whether that took one step.

    In a store where it takes several, they are taken within ``new.excluding()``.
    """
    store, staging, path, _, keep = new[:5]
    _check_staged(store, staging)
    if not any(key != staging + STAGED for key in list_below(store, staging)):
        raise FailedPreconditionError(f"nothing was written to {store.describe(staging)}")
    if keep and (both := {key[len(path) :] for key in keep} & set(names_below(store, staging))):
        raise AlreadyExistsError(
            f"{store.describe(path + min(both))} is in the way, and does not belong to the replaced data"
        )
    try:
        at_once = _replace(new)
        if not at_once:
            with new.excluding() as confirm:
                replace_keys(new._replace(confirm=confirm))
        return at_once
    finally:
        note_replaced(store, path)


def _replace(new: NewData) -> bool:
    """Replace everything in one step; return False if the store can't do that."""
    store, staging, path, documents, keep = new[:5]
    if not staging.startswith(path) and offers(store, Directories):
        try:
            _exchange(new)
            return True
        except UnsupportedError:  # for example on another file system
            begin_staging(new.store, staging)
    new.confirm()
    staged = partial(_staged_change, store, staging, path, keep)
    if traits_of(store).nodes_only:
        replace_nodes(store, staging, path, documents)
    elif offers(store, AtomicWritable):
        change_at_once(store, path, documents, new.settle, staged)
    else:
        return False
    return True


def replace_below(
    store: KvStoreDriver,
    path: str,
    values: Mapping[str, bytes],
    settle: Callable[[], object] = lambda: None,
) -> Mapping[str, bytes]:
    """Replace everything below `path` by documents, whose keys are relative to it; `settle` as in `NewData`.

    Returns the generations of the keys, as far as they are known without a read.
    """
    pending: bool = offers(store, Modifiable)
    if pending:  # a transaction, which changes nothing yet
        delete_all_below(store, path)
        for name, value in values.items():
            store.write(path + name, value)
        return {}
    # A directory can only be exchanged as an entry of its parent.
    store, above = whole_store(store)
    path = above + path
    if offers(store, AtomicWritable):
        whole = {path + name: value for name, value in values.items()}
        change_at_once(store, path, values, settle, lambda: (whole, {}, [KeyRange.of_prefix(path)]))
        return {}
    clean = partial(remove_abandoned, store, path, list(values))
    staging = staging_path(store, path, new_owner())
    try:
        if staging.startswith(path) and not traits_of(store).nodes_only:
            try:
                new = NewData(store, staging, path, values, settle=settle)
                found = replace_by_documents(new, values, clean)
            finally:
                note_replaced(store, path)
            return {key[len(above) :]: generation for key, generation in found.items()}
        clean()
        begin_staging(store, staging)
        for name, value in values.items():
            store.write(staging + name, value)
        alone = partial(having_turn, store, path, ABOUT)
        take_place(NewData(store, staging, path, list(values), excluding=alone, settle=settle))
    except BaseException:
        give_up(staging)
        with suppress(ChunkwiseError):  # the store may have failed permanently
            if store.read(staging + COMPLETE).value is None:
                delete_all_below(store, staging)
        raise
    return {}


# -- directories ---------------------------------------------------------------------------------------


def _exchange(data: NewData) -> None:
    store, staging, path, documents, keep, excluding, confirm, settle = data
    new, old = staging[:-1], path[:-1]
    resumable = is_resumable(new.rpartition("/")[2])

    def settle_or_undo(undo: Callable[..., object], *names: str) -> None:
        # A process that was stopped just before the step moves what another has begun there meanwhile.
        begun = store.read(path + JOURNAL).value is not None
        if resumable and (begun or all(store.read(path + name).value is None for name in documents)):
            undo(*names)
            raise AbortedError(f"another process has begun again in {store.describe(staging)}")
        settle_in_place(store, path, documents, settle, partial(undo, *names))

    store.link_keys({key: staging + key[len(path) :] for key in keep})
    end_staging(store, staging)
    for _ in range(MOST_LOST):
        confirm()
        try:
            store.move_directory(new, old)
        except AlreadyExistsError:
            if resumable:
                store.write(path + REPLACED, b"")
        else:  # there was no old data
            settle_or_undo(store.move_directory, old, new)
            return
        with excluding() as is_held:  # its document goes with the old directory
            is_held()
            confirm()
            exchanged = store.exchange_directories(new, old, new + ASIDE)
        if exchanged:
            settle_or_undo(store.exchange_directories, new, old, new + ASIDE)
            break
    else:
        raise AbortedError(f"others have changed {store.describe(path)} again and again")
    if resumable:  # where others may begin again while the old data is deleted
        staging = staging_path(store, path, new_owner())
        store.move_directory(new, staging[:-1])
    try:
        delete_documents(store, staging, documents)
        store.delete_directory(staging[:-1])
    except BaseException:
        give_up(staging)
        raise


# -- several keys at once ------------------------------------------------------------------------------


def generations_above(store: KvStoreDriver, path: str, documents: Collection[str]) -> dict[str, bytes]:
    """Return the generations of the documents of all groups above a node, which are missing or not."""
    keys = (above + name for above in upwards(path) if above != path for name in documents)
    return {key: store.read(key, byte_range=ByteRange(0, 0)).generation for key in keys}


def settle_in_place(
    store: KvStoreDriver,
    path: str,
    documents: Collection[str],
    settle: Callable[[], object],
    undo: Callable[[], object],
) -> None:
    """Check what has just come to `path`; take it back if it can't stay there."""
    try:
        settle()
    except BaseException as e:  # an interrupt too
        gone = not any(is_document(key, documents) for key in list_below(store, path))
        if isinstance(e, AlreadyExistsError) and gone:
            return  # another process has deleted it since, with all around; chunks there are of its array
        undo()
        raise


def change_at_once(
    store: Any,
    path: str,
    documents: Collection[str],
    settle: Callable[[], object],
    change: Callable[[], tuple[Mapping[str, Buffer], Mapping[str, bytes], Sequence[KeyRange]]],
) -> None:
    """Write values on conditions, after deleting ranges, unless a document above changes meanwhile."""
    for _ in range(MOST_LOST):  # in an archive, a change of any key lets the condition fail
        above = generations_above(store, path, documents)
        settle()
        values, conditions, deleted = change()
        if store.write_all(values, conditions={**above, **conditions}, deleted=deleted) is None:
            return
    raise AbortedError(f"others have changed {store.describe(path)}, or what is around it, again and again")


def _staged_change(
    store: KvStoreDriver, staging: str, path: str, keep: Sequence[str]
) -> tuple[Mapping[str, Buffer], Mapping[str, bytes], Sequence[KeyRange]]:
    values = {path + name: value_at(store, staging + name) for name in names_below(store, staging)}
    deleted = [*old_ranges(store, path, list(list_below(store, path)), keep), KeyRange.of_prefix(staging)]
    return values, _check_staged(store, staging), deleted
