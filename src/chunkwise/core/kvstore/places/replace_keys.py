"""Replacement in stores where it takes several steps: key by key, or node by node.

`chunkwise.core.kvstore.places.take_place` has the steps, and what a killed process leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.places.keys_below import (
    OURS,
    copy_below,
    delete_all_below,
    delete_documents,
    in_safe_order,
    is_document,
    is_staged,
    list_below,
    names_below,
    value_at,
    write_value,
)
from chunkwise.core.kvstore.places.lease import HeldError, end_turn, looks_above, take_turn, wait_inside
from chunkwise.core.kvstore.places.staging import COMPLETE, in_staging, unwritten
from chunkwise.core.kvstore.protocol import Buffer, KvStoreDriver, delete_where
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.errors import AlreadyExistsError, ChunkwiseError, FailedPreconditionError

__all__ = [
    "ABOUT",
    "NewData",
    "check_nothing_inside",
    "nobody_else",
    "replace_by_documents",
    "replace_keys",
    "replace_nodes",
]

ABOUT = "an array that is being replaced by chunkwise"
"""What the document of a turn says."""


Excluding: TypeAlias = Callable[[], AbstractContextManager[Callable[[], None]]]


def nobody_else() -> AbstractContextManager[Callable[[], None]]:
    """Exclude no other writer, since there is none."""
    return nullcontext(lambda: None)


class NewData(NamedTuple):
    """The data below `staging`, which replaces everything below `path` except the keys `keep`."""

    store: Any
    staging: str
    path: str
    documents: Collection[str]  # keys, relative to `path`, that make it a node
    keep: Sequence[str] = ()
    excluding: Excluding = nobody_else  # yields a function that raises if another process may have begun
    confirm: Callable[[], None] = lambda: None  # such a function of the caller
    settle: Callable[[], object] = lambda: None  # called once it is in place, and taken back if that raises


def replace_keys(new: NewData) -> None:
    store, staging, path, documents = new[:4]
    names = names_below(store, staging)
    if not any(is_document(name, documents) for name in names):
        raise FailedPreconditionError(
            f"the new data for {store.describe(path)} was deleted by others: {store.describe(staging)}"
        )
    before = _listed(store, path)

    def value(name: str) -> Buffer:
        return value_at(store, staging + name)

    _replace(new, names, before, value)
    delete_documents(store, staging, documents)
    store.delete(staging + COMPLETE)
    delete_all_below(store, staging)


def replace_by_documents(
    new: NewData, values: Mapping[str, bytes], clean: Callable[[], None]
) -> dict[str, bytes]:
    """Replace everything below `path` by documents alone; return their generations.

    The steps are those of `replace_keys`, with as few rounds of requests as they allow.  `clean` deletes what
    killed processes have left.
    """
    store, staging, path = new[:3]
    lease, _ = _at_once(store, [partial(take_turn, store, path, ABOUT), clean])
    last: list[Callable[[], object]] = []
    try:
        looks = [] if lease is None else looks_above(store, path)
        writes = [partial(store.write, staging + name, value) for name, value in values.items()]
        try:
            # Chunks of an array that others have put above would be deleted.
            before, *_ = _at_once(store, [partial(_listed, store, path), *looks, new.settle, *writes])
        except HeldError as e:
            end_turn(lease)  # whoever deletes a group above may be waiting for this one
            e.wait()
            return replace_by_documents(new, values, clean)
        after: list[Callable[[], object]] = [new.settle, partial(check_nothing_inside, store, path, values)]
        settled = new._replace(settle=partial(_at_once, store, after))
        copied = _replace(settled, list(values), before, values.__getitem__)
        last += (partial(store.delete, staging + name) for name in (*values, COMPLETE))
    finally:
        if lease is not None:
            last.append(partial(end_turn, lease))
        _at_once(store, last)
    return copied


def _replace(
    new: NewData, names: Sequence[str], before: Collection[str], value: Callable[[str], Buffer]
) -> dict[str, bytes]:
    """Take the steps once all new data is staged; return the generations of the new keys."""
    store, staging, path, documents, keep, _, confirm, settle = new
    kept = {*keep, *(path + name for name in names)}
    before, is_own = set(before), unwritten(path)

    def is_old(key: str) -> bool:
        is_new = key.startswith(path + OURS) and key not in before  # such as another's journal
        return key not in kept and is_own(key) and not is_new

    first, last = in_safe_order(store, names, documents)
    store.write(staging + COMPLETE, b"")
    begun = False
    copied: dict[str, bytes] = {}
    try:
        for name in documents:
            if path + name in before:
                confirm()
                store.delete(path + name)
                begun = True
        confirm()
        below = KeyRange.of_prefix(path)
        delete_where(store, below.start, below.stop, is_old)
        for name in first:
            confirm()
            copied[path + name] = write_value(store, path + name, value(name), new=False)
        told = bool(traits_of(store).conditional_writes(path)) and set(documents) <= set(last)
        if not told:  # by the conditions of their writes
            _check_none_made(store, path, documents)
        for name in last:
            confirm()
            # Nodes below may have been there before.
            copied[path + name] = write_value(store, path + name, value(name), new="/" not in name)
        settle()
    except ChunkwiseError as e:
        made = isinstance(e, AlreadyExistsError)
        if made:
            _delete_copied(store, copied)
        if begun or made:
            e.message += f"; all of the new data is at {store.describe(staging)}"
            e.args = (e.message, *e.args[1:])
        raise
    return copied


def _listed(store: KvStoreDriver, path: str) -> list[str]:
    """Return the keys below `path`, once no process replaces a node there."""
    keys = list(list_below(store, path))
    return list(list_below(store, path)) if wait_inside(store, path, keys) else keys


def _at_once(store: KvStoreDriver, acts: Sequence[Callable[[], Any]]) -> list[Any]:
    """Return the results of small requests, made together in a slow store, in order in others."""
    concurrency = traits_of(store).request_concurrency
    if concurrency is None or len(acts) < 2:
        return [act() for act in acts]
    from concurrent.futures import ThreadPoolExecutor  # not loaded by `import chunkwise`

    with ThreadPoolExecutor(min(concurrency, len(acts))) as pool:
        return list(pool.map(lambda act: act(), acts))


def _check_none_made(store: KvStoreDriver, path: str, documents: Collection[str]) -> None:
    made = {key[len(path) :] for key in store.list_children(path).keys} & set(documents)
    if made:
        raise AlreadyExistsError(f"{store.describe(path + min(made))} was made by another process meanwhile")


def check_nothing_inside(store: KvStoreDriver, path: str, documents: Collection[str]) -> None:
    """Raise AlreadyExistsError if another process made a node inside what has become an array."""
    for key in list_below(store, path):
        name = key[len(path) :]
        if "/" in name and is_document(name, documents) and not in_staging(name):
            raise AlreadyExistsError(
                f"{store.describe(key)} was made by another process meanwhile: nothing can be below an array"
            )


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
                copy_below(memory, "", path, documents, to=store, new=False)
                return
    else:
        delete_all_below(store, path)
    copy_below(store, staging, path, documents, to=store, new=False)  # a session always has a root
    delete_all_below(store, staging)
