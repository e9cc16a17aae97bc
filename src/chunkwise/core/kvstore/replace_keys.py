"""Replacement in stores where it takes several steps: key by key, or node by node.

`chunkwise.core.kvstore.take_place` has the steps, and what a killed process leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import uuid4

from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.keys_below import (
    OURS,
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
from chunkwise.core.kvstore.lease import Lease, Patience
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, Buffer, KvStoreDriver
from chunkwise.core.kvstore.staging import APPEND, COMPLETE
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.errors import AlreadyExistsError, ChunkwiseError, FailedPreconditionError

__all__ = ["replace_by_documents", "replace_keys", "replace_nodes"]


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
        _check_none_made(store, path, documents)
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


def replace_by_documents(
    store: KvStoreDriver,
    staging: str,
    path: str,
    values: Mapping[str, bytes],
    clean: Callable[[], None],
) -> dict[str, bytes]:
    """Replace everything below `path` by documents alone; return their generations.

    The steps are those of `replace_keys`, with as few rounds of requests as they allow.  `clean` deletes what
    killed processes have left.
    """
    lease, _ = _at_once(store, [partial(_turn, store, path), clean])
    copied: dict[str, bytes] = {}
    begun, last = False, list[Callable[[], object]]()
    try:
        look = partial(store.list_children, path)
        writes = [partial(store.write, staging + name, value) for name, value in values.items()]
        level, *_ = _at_once(store, [look, *writes])
        store.write(staging + COMPLETE, b"")
        for name in values:
            if path + name in level.keys:
                store.delete(path + name)
                begun = True
        kept = [KeyRange.of_key(path + name) for name in values]
        gaps = _between(KeyRange.of_prefix(path), [KeyRange.of_prefix(path + OURS), *kept])
        ours = [key for key in level.keys if key.startswith(path + OURS) and key != path + APPEND]
        gaps += map(KeyRange.of_key, ours)
        _at_once(store, [partial(store.delete_range, gap.start, gap.stop) for gap in gaps])
        _check_none_made(store, path, values)
        for name in in_safe_order(store, list(values), list(values))[1]:
            copied[path + name] = _write_new(store, path + name, values[name])
        last += (partial(store.delete, staging + name) for name in (*values, COMPLETE))
    except ChunkwiseError as e:
        if isinstance(e, AlreadyExistsError):
            _delete_copied(store, copied)
        if begun or isinstance(e, AlreadyExistsError):
            _note(e, store, staging)
        raise
    finally:
        if lease is not None:
            last.append(partial(_end, lease))
        _at_once(store, last)
    return copied


def _end(lease: Lease) -> None:
    with suppress(ChunkwiseError):  # the store may have failed for good
        lease.release()
    lease.forget()


def _turn(store: KvStoreDriver, path: str) -> Lease | None:
    """Wait for others who replace a node or append to it, and keep them out; None if that can't be."""
    if not traits_of(store).conditional_writes(path + APPEND):
        return None
    patience = Patience(store)
    while True:
        lease = Lease(store, path + APPEND, "an array that is being replaced by chunkwise")
        other = lease.take({"id": uuid4().hex, "state": "writing", "arrays": {}})
        if other is None:
            return lease
        if patience.is_over(
            lease.key, other, lease.where
        ):  # what it was about to do is deleted with the rest
            return None


def _at_once(store: KvStoreDriver, acts: Sequence[Callable[[], Any]]) -> list[Any]:
    """Return the results of small requests, made together in a slow store, in order in others."""
    if traits_of(store).request_concurrency is None or not acts:
        return [act() for act in acts]
    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(lambda act: act(), acts))


def _between(keys: KeyRange, without: Iterable[KeyRange]) -> list[KeyRange]:
    """Return the parts of a range that others leave."""
    out, start = [], keys.inclusive_min
    for gap in sorted(without, key=lambda gap: gap.inclusive_min):
        out.append(KeyRange(start, gap.inclusive_min))
        start = gap.exclusive_max
    out.append(KeyRange(start, keys.exclusive_max))
    return [part for part in out if not part.empty]


def _check_none_made(store: KvStoreDriver, path: str, documents: Collection[str]) -> None:
    made = {key[len(path) :] for key in store.list_children(path).keys} & set(documents)
    if made:
        raise AlreadyExistsError(f"{store.describe(path + min(made))} was made by another process meanwhile")


def _note(e: ChunkwiseError, store: KvStoreDriver, staging: str) -> None:
    e.message += f"; all of the new data is at {store.describe(staging)}"
    e.args = (e.message, *e.args[1:])


def _copy(store: KvStoreDriver, source: str, target: str) -> bytes:
    """Copy a value; return its generation."""
    return store.write(target, value_at(store, source)) or MISSING_GENERATION


def _copy_new(store: KvStoreDriver, source: str, target: str) -> bytes:
    return _write_new(store, target, value_at(store, source))


def _write_new(store: KvStoreDriver, target: str, value: Buffer) -> bytes:
    """Write a value unless there is one, if the store has conditional writes; return its generation."""
    if not traits_of(store).conditional_writes(target):
        return store.write(target, value) or MISSING_GENERATION
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
