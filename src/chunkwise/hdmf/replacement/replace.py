"""Replacement of a dataset by another under its name, safe against being killed."""

# The reasons are in `chunkwise.hdmf.replacement.successor`.  Here is who writes: a
# replacement that was begun and not finished, by this process or another, is finished before the next, and
# when a store is opened for writing.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from chunkwise.errors import FailedPreconditionError
from chunkwise.hdmf.model.codecs import Settings
from chunkwise.hdmf.model.element import Element
from chunkwise.hdmf.model.tree import Tree
from chunkwise.hdmf.replacement.mark import mark, unmark
from chunkwise.hdmf.replacement.successor import SUCCESSOR, is_replacing, replaced_path, successor_nodes
from chunkwise.hdmf.storage.copy_dataset import stored_settings
from chunkwise.hdmf.storage.dataset import Dataset
from chunkwise.hdmf.storage.node_writer import NodeWriter
from chunkwise.hdmf.storage.store import HdmfStore
from chunkwise.kvstore.key_range import KeyRange

__all__ = ["finish_replacement", "replace_encoded", "rewrite"]

_TYPE_MEMBERS = ("zarr_dtype", "_DTYPE", "_EMPTY", "_ENCODED")
_DOCUMENTS = (".zarray", ".zattrs", "zarr.json", "attributes.json")


def rewrite(dataset: Dataset, element: Element, values: npt.NDArray[Any]) -> None:
    """Write a dataset of its store again, with another type."""
    settings = replace(stored_settings(dataset, dataset.store.format), fill_value=None)
    _replace(dataset, element, values, settings)


def replace_encoded(dataset: Dataset, values: npt.NDArray[Any]) -> None:
    """Write an encoded dataset of N5 again, with other values of the same type."""
    _replace(dataset, dataset.element, values, Settings())


def _replace(dataset: Dataset, element: Element, values: npt.NDArray[Any], settings: Settings) -> None:
    store, path = dataset.store, dataset.path
    attributes = store.tree.nodes[path].attributes
    finish_replacement(store)
    successor = _write_successor(
        store, element, values, settings, {k: v for k, v in attributes.items() if k not in _TYPE_MEMBERS}
    )
    # In memory first: of a request that fails nobody knows whether it was stored.
    store.tree.replace(path, successor_nodes(successor, path))
    store.changed(path)
    mark(store, path)
    _settle(store, path)
    _clear(store)


def _write_successor(
    store: HdmfStore,
    element: Element,
    values: npt.NDArray[Any],
    settings: Settings,
    attributes: Mapping[str, Any],
) -> Tree:
    """Write a dataset where no group leads to, and return the tree of its nodes."""
    apart = HdmfStore(store.location, store.source, Tree(store.format), store.pool, replace_encoded)
    writer = NodeWriter(apart)
    writer.dataset(SUCCESSOR, element, values, settings, attributes)
    writer.flush()
    return apart.tree


def finish_replacement(store: HdmfStore) -> None:
    """Finish a replacement that was begun, and remove what is left over."""
    path = replaced_path(store.tree)
    if path is not None and store.tree.nodes[path].stored_at is not None:
        mark(store, path)  # of the two documents of Zarr v2 perhaps one is
        _settle(store, path)
    elif is_replacing(store.tree):
        unmark(store, None)
    _clear(store)


def _settle(store: HdmfStore, path: str) -> None:
    """Put a successor in the place of the dataset that it replaces, and say so; this can be done again."""
    _copy_keys(store, path)
    unmark(store, store.tree.nodes[path])
    store.tree.replace(path, [replace(node, stored_at=None) for node in list(store.tree.below(path))])
    store.changed(path)


def _clear(store: HdmfStore) -> None:
    """Delete what is stored for a successor that nobody needs: not whole yet, or not any more."""
    kv, (start, stop) = store.location.store, _bounds(store, SUCCESSOR)
    if next(iter(kv.list(start, stop)), None) is not None:
        kv.delete_range(start, stop)


def _copy_keys(store: HdmfStore, path: str) -> None:
    """Make the keys of a dataset those of its successor."""
    kv, root = store.location.store, store.location.path
    source, target = root + SUCCESSOR[1:] + "/", root + path[1:] + "/"
    names = [key[len(source) :] for key in kv.list(*_bounds(store, SUCCESSOR))]
    documents = [name for name in names if name.rpartition("/")[2] in _DOCUMENTS]
    for name in sorted(set(names) - set(documents)):
        _copy(kv, source + name, target + name)
    for key in list(kv.list(*_bounds(store, path))):
        if key[len(target) :] not in names:
            kv.delete(key)
    # Others, who know nothing of replacements, must not take old chunks for ones of the new type, which
    # some don't notice if they are too short.  So documents are last, and the very last what makes a
    # group a dataset.
    for name in sorted(documents, key=lambda name: (-name.count("/"), name != ".zattrs", name)):
        _copy(kv, source + name, target + name)


def _copy(kv: Any, source: str, target: str) -> None:
    value = kv.read(source).value
    if value is None:
        raise FailedPreconditionError(f"{kv.describe(source)} was deleted by another process")
    kv.write(target, value)


def _bounds(store: HdmfStore, path: str) -> tuple[str, str]:
    keys = KeyRange.of_prefix(store.location.path + path[1:] + "/")
    return keys.start, keys.stop
