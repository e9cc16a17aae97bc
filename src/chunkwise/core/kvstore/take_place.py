"""Replacing old data by new data: all keys below one prefix become those below another.

=============================================  ========================================================
store                                          steps
=============================================  ========================================================
directories (files, memory)                    the two are exchanged, then the old one is deleted
several keys at once (ZIP, OCDBT)              one change
those that hold nodes only (Icechunk)          the old data is deleted, the new is copied, documents first;
                                               nobody sees it before the caller commits
others (object stores, stores of libraries)    the new data is declared complete, the old documents are
                                               deleted, keys of the old data deleted, keys copied,
                                               documents copied; then the new data is deleted where it was
=============================================  ========================================================

In the first three, a reader sees the old data or the new, even after a process was killed.  In the others a
killed process can leave neither; then all of the new data is still where it was written.  There, the caller
keeps others out who replace the same data.  Documents are written only where there are none: if somebody has
made a node meanwhile without asking, what was copied is removed again.

If a staging place has documents and no mark `REPLACED`, it holds all of the new data: whatever else a killed
process leaves there is useless.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, TypeAlias

from chunkwise.core.kvstore.adapter.prefix import whole_store
from chunkwise.core.kvstore.atomic import AtomicWritable, Directories, Modifiable
from chunkwise.core.kvstore.key_range import KeyRange, encode_key
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, MOST_LOST, Buffer, KvStoreDriver, offers
from chunkwise.core.kvstore.replaced_places import note_replaced
from chunkwise.core.kvstore.staging import (
    APPEND,
    ASIDE,
    COMPLETE,
    REPLACED,
    is_abandoned,
    is_resumable,
    is_staging,
    new_owner,
    staging_name,
)
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.errors import (
    AlreadyExistsError,
    ChunkwiseError,
    FailedPreconditionError,
    PermissionDeniedError,
    UnsupportedError,
)

__all__ = [
    "copy_below",
    "delete_all_below",
    "delete_but",
    "nobody_else",
    "remove_abandoned",
    "replace_below",
    "staging_path",
    "staging_paths",
    "take_place",
]

_OURS = ".chunkwise"  # how keys and staging places of our own begin

Excluding: TypeAlias = Callable[[], AbstractContextManager[Callable[[], None]]]


def nobody_else() -> AbstractContextManager[Callable[[], None]]:
    """Exclude nobody, as nobody else writes."""
    return nullcontext(lambda: None)


def staging_path(store: KvStoreDriver, path: str, owner: str) -> str:
    """Return the key prefix to which new data for `path`, a prefix, is written."""
    beside = traits_of(store).nodes_only  # there, the members of a group go with its document
    if path and (beside or (offers(store, Directories) and store.can_exchange(path[:-1]))):
        above, _, name = path[:-1].rpartition("/")
        return f"{above}/{staging_name(name, owner)}/" if above else f"{staging_name(name, owner)}/"
    return f"{path}{staging_name('', owner)}/"


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


def take_place(
    store: KvStoreDriver,
    staging: str,
    path: str,
    *,
    documents: Collection[str],
    keep: Sequence[str] = (),
    excluding: Excluding = nobody_else,
) -> bool:
    """Replace everything below `path`, except the keys `keep`, by everything below `staging`.

    `documents` are the keys, relative to `path`, that make it a node.  In a store where this takes several
    steps, they are taken within ``excluding()``, which yields a function that raises if somebody else may
    have begun meanwhile.  Returns whether it took one step.
    """
    if next(iter(_list(store, staging)), None) is None:
        raise FailedPreconditionError(f"nothing was written to {store.describe(staging)}")
    if keep and (both := {key[len(path) :] for key in keep} & set(_names(store, staging))):
        raise AlreadyExistsError(
            f"{store.describe(path + min(both))} is in the way, and does not belong to the replaced data"
        )
    try:
        at_once = _replace(store, staging, path, documents, keep)
        if not at_once:
            with excluding() as confirm:
                _key_by_key(store, staging, path, documents, keep, confirm)
        return at_once
    finally:
        note_replaced(store, path)


def _replace(
    store: KvStoreDriver, staging: str, path: str, documents: Collection[str], keep: Sequence[str]
) -> bool:
    """Replace everything in one step; return False if the store can't do that."""
    if not staging.startswith(path) and offers(store, Directories):
        try:
            _exchange(store, staging, path, documents, keep)
            return True
        except UnsupportedError:  # for example on another file system
            pass
    if traits_of(store).nodes_only:
        _node_by_node(store, staging, path, documents)
    elif offers(store, AtomicWritable):
        _change_at_once(store, store, staging, path, keep)
    else:
        return False
    return True


def replace_below(store: KvStoreDriver, path: str, values: Mapping[str, bytes]) -> None:
    """Replace everything below `path` by documents, whose keys are relative to it."""
    whole = {path + name: value for name, value in values.items()}
    pending: bool = offers(store, Modifiable)
    if pending:  # a transaction, which changes nothing yet
        delete_all_below(store, path)
        for key, value in whole.items():
            store.write(key, value)
        return
    if offers(store, AtomicWritable):
        store.write_all(whole, conditions={}, deleted=[KeyRange.of_prefix(path)])
        return
    # A directory can only be exchanged as an entry of its parent.
    store, above = whole_store(store)
    path = above + path
    remove_abandoned(store, path, list(values))
    staging = staging_path(store, path, new_owner())
    try:
        for name, value in values.items():
            store.write(staging + name, value)
        take_place(store, staging, path, documents=list(values))
    except BaseException:
        with suppress(ChunkwiseError):  # the store may have failed permanently
            if store.read(staging + COMPLETE).value is None:
                delete_all_below(store, staging)
        raise


def delete_all_below(store: KvStoreDriver, path: str) -> None:
    """Delete all keys that begin with `path`, a prefix, and the directory."""
    try:
        if path and offers(store, Directories):
            store.delete_directory(path[:-1])
        else:
            below = KeyRange.of_prefix(path)
            store.delete_range(below.start, below.stop)
    finally:
        note_replaced(store, path)


def _list(store: KvStoreDriver, path: str) -> Iterator[str]:
    below = KeyRange.of_prefix(path)
    return store.list(below.start, below.stop)


def delete_but(store: KvStoreDriver, path: str, keep: Sequence[str]) -> None:
    """Delete all keys below `path` except `keep`, and directories that become empty."""
    if not keep:
        delete_all_below(store, path)
        return
    try:
        for keys in _ranges_but(store, path, keep):
            store.delete_range(keys.start, keys.stop)
    finally:
        note_replaced(store, path)


def _ranges_but(store: KvStoreDriver, path: str, keep: Sequence[str]) -> list[KeyRange]:
    """Return ranges of all keys below `path` except `keep`."""
    below = KeyRange.of_prefix(path)
    if not keep:
        return [below]
    kept = set(keep)
    out: list[KeyRange] = []
    start, found = below.inclusive_min, False
    # Ranges as large as possible, not single keys, so that lock files and emptied directories are removed
    # too.
    for key in sorted({*_list(store, path), *kept}, key=encode_key):
        if key not in kept:
            found = True
            continue
        if found:
            out.append(KeyRange(start, encode_key(key)))
        start, found = encode_key(key) + b"\0", False
    if found:
        out.append(KeyRange(start, below.exclusive_max))
    return out


def _old_ranges(
    store: KvStoreDriver, path: str, before: Iterable[str], keep: Sequence[str]
) -> list[KeyRange]:
    """Return ranges of all keys below `path`, of which `before` were listed, except `keep`.

    Places where others write new data are not in them, not even those that are begun later.
    """
    below, ours = KeyRange.of_prefix(path), KeyRange.of_prefix(path + _OURS)
    around = (
        KeyRange(below.inclusive_min, ours.inclusive_min),
        KeyRange(ours.exclusive_max, below.exclusive_max),
    )
    kept = set(keep)
    own = [
        KeyRange.of_key(key)
        for key in before
        if key.startswith(path + _OURS) and key not in kept and not _is_staged(key, path)
    ]
    parts = (part for keys in _ranges_but(store, path, keep) for part in map(keys.intersect, around))
    return [*own, *(part for part in parts if not part.empty)]


# -- directories ---------------------------------------------------------------------------------------


def _exchange(store: Any, staging: str, path: str, documents: Collection[str], keep: Sequence[str]) -> None:
    new, old = staging[:-1], path[:-1]
    store.link_keys({key: staging + key[len(path) :] for key in keep})
    for _ in range(MOST_LOST):
        try:
            store.move_directory(new, old)
            return  # there was no old data
        except AlreadyExistsError:
            if is_resumable(new.rpartition("/")[2]):
                store.write(path + REPLACED, b"")
        if store.exchange_directories(new, old, new + ASIDE):
            break
    if is_resumable(new.rpartition("/")[2]):  # where others may begin again while the old data is deleted
        staging = staging_path(store, path, new_owner())
        store.move_directory(new, staging[:-1])
    _delete_documents(store, staging, documents)
    store.delete_directory(staging[:-1])


def _delete_documents(store: KvStoreDriver, staging: str, documents: Collection[str]) -> None:
    """Delete what makes a node of the rest, which is useless then, but may take long to delete."""
    for name in documents:
        store.delete(staging + name)


# -- several keys at once ------------------------------------------------------------------------------


def _change_at_once(store: Any, whole: AtomicWritable, staging: str, path: str, keep: Sequence[str]) -> None:
    values = {path + name: _value(store, staging + name) for name in _names(store, staging)}
    deleted = [*_old_ranges(store, path, list(_list(store, path)), keep), KeyRange.of_prefix(staging)]
    whole.write_all(values, conditions={}, deleted=deleted)


def _names(store: KvStoreDriver, staging: str) -> list[str]:
    return sorted(key[len(staging) :] for key in _list(store, staging) if key != staging + COMPLETE)


def _is_staged(key: str, path: str) -> bool:
    """Return True if a key is in a staging place in `path`, of this writer or another."""
    return is_staging(key[len(path) :].partition("/")[0])


def _value(store: KvStoreDriver, key: str) -> Buffer:
    value = store.read(key).value
    if value is None:
        raise FailedPreconditionError(f"{store.describe(key)} was deleted by another process")
    return value


# -- key by key ----------------------------------------------------------------------------------------


def _key_by_key(
    store: KvStoreDriver,
    staging: str,
    path: str,
    documents: Collection[str],
    keep: Sequence[str],
    confirm: Callable[[], None],
) -> None:
    names = _names(store, staging)
    if not any(_is_document(name, documents) for name in names):
        raise FailedPreconditionError(
            f"the new data for {store.describe(path)} was deleted by others: {store.describe(staging)}"
        )
    before = list(_list(store, path))
    store.write(staging + COMPLETE, b"")
    begun = False
    copied: dict[str, bytes] = {}
    try:
        first, last = _ordered(store, names, documents)
        for name in documents:
            if path + name in before:
                confirm()
                store.delete(path + name)
                begun = True
        confirm()
        for keys in _old_ranges(
            store, path, before, [path + APPEND, *keep, *(path + name for name in names)]
        ):
            store.delete_range(keys.start, keys.stop)
        for name in first:
            confirm()
            copied[path + name] = _copy(store, staging + name, path + name)
        made = {key[len(path) :] for key in store.list_children(path).keys} & set(documents)
        if made:
            raise AlreadyExistsError(
                f"{store.describe(path + min(made))} was made by another process meanwhile"
            )
        for name in last:
            confirm()
            # Nodes below may have been there before.
            copy = _copy if "/" in name else _copy_new
            copied[path + name] = copy(store, staging + name, path + name)
    except AlreadyExistsError as e:
        _delete_copied(store, copied)
        _note(e, store, staging)
        raise
    except ChunkwiseError as e:
        if begun:
            _note(e, store, staging)
        raise
    _delete_documents(store, staging, documents)
    store.delete(staging + COMPLETE)
    delete_all_below(store, staging)


def _note(e: ChunkwiseError, store: KvStoreDriver, staging: str) -> None:
    e.message += f"; all of the new data is at {store.describe(staging)}"
    e.args = (e.message, *e.args[1:])


def _copy(store: KvStoreDriver, source: str, target: str) -> bytes:
    """Copy a value; return its generation."""
    return store.write(target, _value(store, source)) or MISSING_GENERATION


def _copy_new(store: KvStoreDriver, source: str, target: str) -> bytes:
    """Copy a value unless there is one, if the store has conditional writes; return its generation."""
    if not traits_of(store).conditional_writes(target):
        return _copy(store, source, target)
    value = _value(store, source)
    generation = store.write(target, value, if_equal=MISSING_GENERATION)
    if generation is None:
        found = store.read(target)  # perhaps our own, if the answer to a request was lost
        if found.value is None or bytes(found.value) != bytes(value):
            raise AlreadyExistsError(f"{store.describe(target)} was made by another process meanwhile")
        generation = found.generation
    return generation


def _delete_copied(store: KvStoreDriver, copied: Mapping[str, bytes]) -> None:
    """Delete what was copied, unless others have changed it."""
    conditional = traits_of(store).conditional_deletes
    for key, generation in copied.items():
        if conditional or store.read(key).generation == generation:
            store.delete(key, **({"if_equal": generation} if conditional else {}))


def _node_by_node(store: KvStoreDriver, staging: str, path: str, documents: Collection[str]) -> None:
    """Replace nodes in a store where chunks come after their document, and members go with their group."""
    tops = [name for name in documents if store.read(path + name).value is not None]
    if staging.startswith(path):  # in the root
        for key in sorted(_list(store, path), reverse=True):
            if not _is_staged(key, path) and key[len(path) :] not in tops:
                store.delete(key)
        for name in tops:
            try:
                store.write(path + name, _value(store, staging + name))
            except ChunkwiseError:  # a group that becomes an array, or the reverse
                memory = MemoryStore()
                copy_below(store, staging, "", documents, to=memory)
                delete_all_below(store, path)
                copy_below(memory, "", path, documents, to=store)
                return
    else:
        delete_all_below(store, path)
    copy_below(store, staging, path, documents, to=store)
    delete_all_below(store, staging)


def copy_below(
    store: KvStoreDriver, source: str, path: str, documents: Collection[str], *, to: KvStoreDriver
) -> None:
    """Copy all keys below `source` to below `path` of a store, which is vacant."""
    for names in _ordered(to, _names(store, source), documents):
        for name in names:
            value = store.read(source + name).value
            if value is not None:
                to.write(path + name, value)


def _ordered(
    store: KvStoreDriver, names: Sequence[str], documents: Collection[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """Return the names to write first and last: last the documents that make a node of the rest."""
    rest = [name for name in names if not _is_document(name, documents)]
    found = [name for name in names if _is_document(name, documents)]
    found.sort(key=lambda name: (-name.count("/"), _rank(name, documents), name))  # the deepest first
    return (found[::-1], rest) if traits_of(store).nodes_only else (rest, found)


def _is_document(name: str, documents: Collection[str]) -> bool:
    return name.rpartition("/")[2] in documents


def _rank(name: str, documents: Collection[str]) -> int:
    """Return the position of a document among those of a node: attributes and copies come first."""
    return 0 if name.rpartition("/")[2] in (".zattrs", "attrs", ".zmetadata") else 1
