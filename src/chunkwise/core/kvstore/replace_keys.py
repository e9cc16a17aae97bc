"""Replacement in stores where it takes several steps: key by key, or node by node.

`chunkwise.core.kvstore.take_place` has the steps, and what a killed process leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from chunkwise.core.kvstore.keys_below import (
    copy_below,
    delete_all_below,
    delete_documents,
    in_safe_order,
    is_document,
    is_staged,
    list_below,
    names_below,
    old_ranges,
    value_at,
)
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, KvStoreDriver
from chunkwise.core.kvstore.staging import APPEND, COMPLETE
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.errors import AlreadyExistsError, ChunkwiseError, FailedPreconditionError

__all__ = [
    "replace_keys",
    "replace_nodes",
]


def replace_keys(
    store: KvStoreDriver,
    staging: str,
    path: str,
    documents: Collection[str],
    keep: Sequence[str],
    confirm: Callable[[], None],
) -> None:
    names = names_below(store, staging)
    if not any(is_document(name, documents) for name in names):
        raise FailedPreconditionError(
            f"the new data for {store.describe(path)} was deleted by others: {store.describe(staging)}"
        )
    before = list(list_below(store, path))
    store.write(staging + COMPLETE, b"")
    begun = False
    copied: dict[str, bytes] = {}
    try:
        first, last = in_safe_order(store, names, documents)
        for name in documents:
            if path + name in before:
                confirm()
                store.delete(path + name)
                begun = True
        confirm()
        for keys in old_ranges(store, path, before, [path + APPEND, *keep, *(path + name for name in names)]):
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
    delete_documents(store, staging, documents)
    store.delete(staging + COMPLETE)
    delete_all_below(store, staging)


def _note(e: ChunkwiseError, store: KvStoreDriver, staging: str) -> None:
    e.message += f"; all of the new data is at {store.describe(staging)}"
    e.args = (e.message, *e.args[1:])


def _copy(store: KvStoreDriver, source: str, target: str) -> bytes:
    """Copy a value; return its generation."""
    return store.write(target, value_at(store, source)) or MISSING_GENERATION


def _copy_new(store: KvStoreDriver, source: str, target: str) -> bytes:
    """Copy a value unless there is one, if the store has conditional writes; return its generation."""
    if not traits_of(store).conditional_writes(target):
        return _copy(store, source, target)
    value = value_at(store, source)
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


def replace_nodes(store: KvStoreDriver, staging: str, path: str, documents: Collection[str]) -> None:
    """Replace nodes in a store where chunks come after their document, and members go with their group."""
    tops = [name for name in documents if store.read(path + name).value is not None]
    if staging.startswith(path):  # in the root
        for key in sorted(list_below(store, path), reverse=True):
            if not is_staged(key, path) and key[len(path) :] not in tops:
                store.delete(key)
        for name in tops:
            try:
                store.write(path + name, value_at(store, staging + name))
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
