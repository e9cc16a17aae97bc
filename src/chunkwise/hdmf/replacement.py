"""Replacement of a dataset by another under its name, safe against being killed."""

# No store can replace a document and chunks at once.  So the successor is written first, as a whole, at a
# path that no group leads to, so that no reader takes it for a dataset.  Then one document, that of the root,
# records the replacement: attribute ``_REPLACING`` is the path of the dataset.  From then on every reader
# uses the successor, while the keys of the dataset itself are overwritten one by one.  Finally the attribute
# is removed, and then the successor.
#
# The document of the root is read at each opening anyway, so that this costs readers nothing.
#
# An unfinished replacement, by this process or another, is finished before the next one, and when a store is
# opened for writing.
#
# A replacement excludes others anywhere in the store, as appends to an array do, and reads the dataset again
# first, so that rows that other processes have added are not lost.

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from chunkwise.errors import FailedPreconditionError, NotFoundError
from chunkwise.extension.inside import KeyRange, excluding, load_json
from chunkwise.extension.trees import (
    Location,
    change_document,
    find_documented,
    tree_format,
    with_copies,
)
from chunkwise.hdmf.conventions.n5 import kept_settings
from chunkwise.hdmf.model.attributes import REPLACING
from chunkwise.hdmf.model.codecs import Settings
from chunkwise.hdmf.model.element import Element
from chunkwise.hdmf.model.reference import canonical_path
from chunkwise.hdmf.model.tree import Format, HdmfNode, HdmfTree, attributes_member, read_tree
from chunkwise.hdmf.storage.guard import root_attributes
from chunkwise.hdmf.storage.node_writer import NodeWriter
from chunkwise.hdmf.storage.store import Dataset, HdmfStore
from chunkwise.hdmf.storage.stored_form import stored_settings

__all__ = ["finish_replacement", "is_replacing", "read_replacement", "replace_encoded", "rewrite"]

_SUCCESSOR = "/.chunkwise-replacing/dataset"
"""Path of the successor; the directory above has no document and is no group."""

_TYPE_MEMBERS = ("zarr_dtype", "_DTYPE", "_EMPTY", "_ENCODED")
_DOCUMENTS = (".zarray", ".zattrs", "zarr.json", "attributes.json")


# -- reading -----------------------------------------------------------------------------------------


def _replaced_path(tree: HdmfTree) -> str | None:
    """Return the path of the dataset that is being replaced; None if there is none, or none any more."""
    value = tree.nodes["/"].attributes.get(REPLACING)
    known = isinstance(value, str) and value != "/" and value in tree.nodes and tree.is_dataset(value)
    return value if known else None


def is_replacing(tree: HdmfTree) -> bool:
    """Return True if a dataset is being replaced, or was."""
    return REPLACING in tree.nodes["/"].attributes


def _successor_nodes(successor: HdmfTree, path: str) -> list[HdmfNode]:
    """Return the nodes of a successor as those of the dataset at a path."""
    return [
        replace(node, path=path + node.path[len(_SUCCESSOR) :], stored_at=node.path)
        for node in successor.below(_SUCCESSOR)
    ]


def read_replacement(location: Location, tree: HdmfTree) -> None:
    """Replace the dataset that is being replaced by its successor, if there is one."""
    path = _replaced_path(tree)
    if path is None:
        return
    try:
        successor = read_tree(location, tree.format, False, _SUCCESSOR)
    except NotFoundError:  # it took the place of the dataset meanwhile
        return
    nodes = _successor_nodes(successor, path)
    before = tree.nodes[path]
    if tree.consolidated and before.is_array and "shape" in nodes[0].document:
        # Rows that were added since are in no column of consolidated metadata.
        nodes[0].document["shape"] = before.document["shape"]
    tree.replace(path, nodes)


# -- writing -----------------------------------------------------------------------------------------


def rewrite(dataset: Dataset, element: Element, values: npt.NDArray[Any] | None = None) -> None:
    """Write a dataset of its store again, with another type; by default with the numbers that are stored."""
    with _alone(dataset):
        if values is None:
            values = dataset.read().astype(element.memory_dtype)
        settings = replace(stored_settings(dataset, dataset.store.format), fill_value=None)
        _replace(dataset, element, values, settings)


def replace_encoded(dataset: Dataset, change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> None:
    """Write an encoded dataset of N5 again, with the values that `change` makes of those that are stored."""
    with _alone(dataset):
        element = dataset.declaration.element
        if element is None:
            raise FailedPreconditionError(f'dataset "{dataset.path}" was replaced by another process')
        tree = dataset.store.tree
        arrays = [node.document for node in tree.below(dataset.path) if node.is_array]
        settings = kept_settings(tree.nodes[dataset.path].attributes)
        if settings is None:
            settings = Settings(compressor=arrays[0]["compression"] if arrays else True)
        _replace(dataset, element, change(dataset.stored_logical()), settings)


@contextmanager
def _alone(dataset: Dataset) -> Iterator[None]:
    """Exclude other replacements and appends, and read what they have written."""
    store, path = dataset.store, dataset.path
    with ExitStack() as stack:
        stack.enter_context(excluding(store.location))
        if dataset.is_array:
            stack.enter_context(excluding(store.location.at(dataset.physical.prefix), replaces=True))
        _look_at_mark(store)
        _finish(store)
        fresh = read_tree(store.location, store.format, False, path)
        store.tree.replace(path, fresh.below(path))
        store.changed(path)
        yield


def _look_at_mark(store: HdmfStore) -> None:
    """Read whether a dataset is being replaced; whoever began it has ended."""
    document = find_documented(store.location, store.format)
    if document is None:
        raise NotFoundError(f"{store.location.text} was deleted")
    marked = root_attributes(document).get(REPLACING)
    ours = _replaced_path(store.tree)
    _keep_in_step(store, marked)
    if marked is None and ours is not None:  # our mark was not stored, or another process has finished
        store.tree.replace(ours, read_tree(store.location, store.format, False, ours).below(ours))
        store.changed(ours)
    if marked is not None and _replaced_path(store.tree) is None:
        raise FailedPreconditionError(
            f'{store.location.text}: another process was killed while it replaced "{marked}", of which this '
            "one knows nothing; open the file again"
        )
    read_replacement(store.location, store.tree)


def _replace(dataset: Dataset, element: Element, values: npt.NDArray[Any], settings: Settings) -> None:
    store, path = dataset.store, dataset.path
    attributes = store.tree.nodes[path].attributes
    successor = _write_successor(
        store, element, values, settings, {k: v for k, v in attributes.items() if k not in _TYPE_MEMBERS}
    )
    # In memory first: a failed request may have been stored all the same.
    store.tree.replace(path, _successor_nodes(successor, path))
    store.changed(path)
    _mark(store, path)
    _settle(store, path)
    _clear(store)
    store.guard.check()


def _write_successor(
    store: HdmfStore,
    element: Element,
    values: npt.NDArray[Any],
    settings: Settings,
    attributes: Mapping[str, Any],
) -> HdmfTree:
    """Write a dataset where no group leads to, and return the tree of its nodes."""
    apart = HdmfStore(store.location, store.source, HdmfTree(store.format), store.pool, replace_encoded)
    apart.guard = store.guard
    writer = NodeWriter(apart)
    writer.dataset(_SUCCESSOR, element, values, settings, attributes)
    writer.flush()
    return apart.tree


def finish_replacement(store: HdmfStore) -> None:
    """Finish a replacement that a dead process has begun, and remove its leftovers."""
    if is_replacing(store.tree) or _is_left(store):
        with excluding(store.location):
            _look_at_mark(store)
            _finish(store)


def _finish(store: HdmfStore) -> None:
    path = _replaced_path(store.tree)
    if path is not None and store.tree.nodes[path].stored_at is not None:
        _mark(store, path)  # of the two documents of Zarr v2 perhaps one is
        _settle(store, path)
    elif is_replacing(store.tree):
        _unmark(store, None)
    _clear(store)


def _settle(store: HdmfStore, path: str) -> None:
    """Replace a dataset by its successor, and record that; this can be repeated."""
    _copy_keys(store, path)
    _unmark(store, store.tree.nodes[path])
    store.tree.replace(path, [replace(node, stored_at=None) for node in list(store.tree.below(path))])
    store.changed(path)


def _clear(store: HdmfStore) -> None:
    """Delete a successor that is incomplete, or no longer needed."""
    if _is_left(store):
        store.location.store.delete_range(*_bounds(store, _SUCCESSOR))


def _is_left(store: HdmfStore) -> bool:
    return next(iter(store.location.store.list(*_bounds(store, _SUCCESSOR))), None) is not None


def _copy_keys(store: HdmfStore, path: str) -> None:
    """Copy the keys of a successor over those of its dataset."""
    kv, root = store.location.store, store.location.path
    source, target = root + _SUCCESSOR[1:] + "/", root + path[1:] + "/"
    names = [key[len(source) :] for key in kv.list(*_bounds(store, _SUCCESSOR))]
    documents = [name for name in names if name.rpartition("/")[2] in _DOCUMENTS]
    for name in sorted(set(names) - set(documents)):
        _copy(store, source + name, target + name)
    for key in list(kv.list(*_bounds(store, path))):
        if key[len(target) :] not in names:
            kv.delete(key)
    # Other readers know nothing of replacements, and must not take old chunks for ones of the new type; some
    # don't notice if those are too short.  So documents are last, and the very last is the one that makes a
    # group a dataset.
    for name in sorted(documents, key=lambda name: (-name.count("/"), name != ".zattrs", name)):
        _copy(store, source + name, target + name)


def _copy(store: HdmfStore, source: str, target: str) -> None:
    kv = store.guard.over(store.location.store)
    value = kv.read(source).value
    if value is None:
        store.guard.check()
        raise FailedPreconditionError(f"{kv.describe(source)} was deleted by another process")
    kv.write(target, value)


def _bounds(store: HdmfStore, path: str) -> tuple[str, str]:
    keys = KeyRange.of_prefix(store.location.path + path[1:] + "/")
    return keys.start, keys.stop


# -- the attribute of the root -----------------------------------------------------------------------


# Zarr v3 and N5 have one document of the root, which is written at once.  Zarr v2 has two: ``.zattrs`` for
# readers that go through the nodes, ``.zmetadata`` for readers of consolidated metadata.  The first is
# marked before the second, and the second unmarked before the first: so whoever looks at ``.zattrs`` knows
# whether the successor is needed.
#
# Only what concerns the dataset is changed.  Other members, be they changed in memory or out of date, are the
# business of the code that closes the store.


def _mark(store: HdmfStore, path: str) -> None:
    """Record that the dataset at a path is being replaced, and that its successor is complete."""
    _keep_in_step(store, path)
    rules, member = tree_format(store.format), attributes_member(store.format)
    if member:
        _change(store, rules.group_key, lambda document: _marked_member(document, member, path))
        return
    _change(store, rules.attributes_key, lambda attributes: _marked(attributes, path))
    _change(store, rules.consolidated_key, lambda document: _marked_zmetadata(document, path, None))


def _unmark(store: HdmfStore, dataset: HdmfNode | None) -> None:
    """Record that no dataset is being replaced."""
    rules, format = tree_format(store.format), store.format
    if attributes_member(format):
        _change(store, rules.group_key, lambda document: _unmarked_member(document, format, dataset))
    else:
        _change(store, rules.consolidated_key, lambda document: _marked_zmetadata(document, None, dataset))
        _change(store, rules.attributes_key, lambda attributes: _marked(attributes, None) or None)
    _keep_in_step(store, None)


def _change(store: HdmfStore, key: str, change: Callable[[Any], Any]) -> None:
    location = store.location
    change_document(location.store, location.path + key, change, load=tree_format(store.format).load)


def _keep_in_step(store: HdmfStore, path: str | None) -> None:
    """Change the attributes of the root in memory, which are stored when the store is closed."""
    root = store.tree.nodes["/"]
    store.tree.nodes["/"] = store.convention.with_attributes(root, _marked(root.attributes, path))


def _marked(attributes: Any, path: str | None) -> dict[str, Any]:
    out = dict(attributes or {})
    out.pop(REPLACING, None)
    return out if path is None else {**out, REPLACING: path}


def _marked_member(document: Any, member: str, path: str | None) -> Any:
    """Return the document of a root with other attributes; a store that is not complete has none yet."""
    if document is None:
        return None
    attributes = _marked(document.get(member), path)
    if not attributes and member not in document:
        return document
    return {**document, member: attributes}


def _marked_zmetadata(document: Any, path: str | None, dataset: HdmfNode | None) -> Any:
    def change(copies: dict[str, Any]) -> dict[str, Any]:
        changed = {**copies, ".zattrs": _marked(_parsed(copies.get(".zattrs")), path)}
        for key, copy in copies.items() if dataset is not None else ():
            group, _, name = key.rpartition("/")
            if dataset is None or canonical_path(group) != dataset.path:
                continue
            if name == ".zarray":
                changed[key] = _with_shape_of(dataset.document, _parsed(copy))
            elif name == ".zattrs":
                changed[key] = dict(dataset.attributes)
        return changed

    return with_copies(document, "zarr2", change)


def _unmarked_member(document: Any, format: Format, dataset: HdmfNode | None) -> Any:
    document = _marked_member(document, attributes_member(format), None)
    if dataset is None or not tree_format(format).consolidated_member:
        return document

    def change(copies: dict[str, Any]) -> dict[str, Any]:
        return {
            path: _with_shape_of(dataset.document, copy) if canonical_path(path) == dataset.path else copy
            for path, copy in copies.items()
        }

    return with_copies(document, format, change)


def _with_shape_of(document: Mapping[str, Any], entry: Any) -> dict[str, Any]:
    """Return a document for consolidated metadata, whose columns keep their length until the end."""
    known = isinstance(entry, dict) and "shape" in entry
    return {**document, "shape": entry["shape"]} if known else dict(document)


def _parsed(entry: Any) -> Any:
    # Some writers store the text.
    return load_json(entry.encode()) if isinstance(entry, str) else entry
