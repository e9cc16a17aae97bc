"""Marks in the documents of the root that name the dataset being replaced."""

# Zarr v3 and N5 have one, which is written at once.  Zarr v2 has two: ``.zattrs`` for those who go through
# the nodes, ``.zmetadata`` for those who read consolidated metadata.  The first is marked before the second,
# and the second unmarked before the first: so whoever looks at ``.zattrs`` knows whether the successor is
# needed.
#
# Only what concerns the dataset is changed.  Other members, be they changed in memory or out of date, are the
# business of who closes the store.

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chunkwise.driver.n5.document import load_document
from chunkwise.hdmf.model.attributes import REPLACING
from chunkwise.hdmf.model.reference import canonical_path
from chunkwise.hdmf.model.tree import StoredNode
from chunkwise.hdmf.storage.store import HdmfStore
from chunkwise.hierarchy.document import change_document, load_json

__all__ = ["mark", "unmark"]


def mark(store: HdmfStore, path: str) -> None:
    """Say that the dataset at a path is being replaced, and that its successor is whole."""
    _keep_in_step(store, path)
    if store.format == "zarr2":
        _change(store, ".zattrs", lambda attributes: _marked(attributes, path))
        _change(store, ".zmetadata", lambda document: _marked_zmetadata(document, path, None))
    elif store.format == "zarr3":
        _change(store, "zarr.json", lambda document: _marked_member(document, "attributes", path))
    else:
        _change(store, "attributes.json", lambda document: _marked_member(document, "hdmf_attributes", path))


def unmark(store: HdmfStore, dataset: StoredNode | None) -> None:
    """Say that no dataset is being replaced."""
    if store.format == "zarr2":
        _change(store, ".zmetadata", lambda document: _marked_zmetadata(document, None, dataset))
        _change(store, ".zattrs", lambda attributes: _marked(attributes, None) or None)
    elif store.format == "zarr3":
        _change(store, "zarr.json", lambda document: _unmarked_zarr3(document, dataset))
    else:
        _change(store, "attributes.json", lambda document: _marked_member(document, "hdmf_attributes", None))
    _keep_in_step(store, None)


def _change(store: HdmfStore, key: str, change: Any) -> None:
    location = store.location
    load = load_document if store.format == "n5" else load_json
    change_document(location.store, location.path + key, change, load=load)


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


def _marked_zmetadata(document: Any, path: str | None, dataset: StoredNode | None) -> Any:
    metadata = None if document is None else document.get("metadata")
    if not isinstance(metadata, dict):
        return document
    changed = dict(metadata)
    changed[".zattrs"] = _marked(_parsed(metadata.get(".zattrs")), path)
    for key in metadata if dataset is not None else ():
        group, _, name = key.rpartition("/")
        if dataset is None or canonical_path(group) != dataset.path:
            continue
        if name == ".zarray":
            changed[key] = _with_shape_of(dataset.document, _parsed(metadata[key]))
        elif name == ".zattrs":
            changed[key] = dict(dataset.attributes)
    return {**document, "metadata": changed}


def _unmarked_zarr3(document: Any, dataset: StoredNode | None) -> Any:
    document = _marked_member(document, "attributes", None)
    inline = None if document is None else document.get("consolidated_metadata")
    if dataset is None or not isinstance(inline, dict) or not isinstance(inline.get("metadata"), dict):
        return document
    changed = {
        path: _with_shape_of(dataset.document, entry) if canonical_path(path) == dataset.path else entry
        for path, entry in inline["metadata"].items()
    }
    return {**document, "consolidated_metadata": {**inline, "metadata": changed}}


def _with_shape_of(document: Mapping[str, Any], entry: Any) -> dict[str, Any]:
    """Return a document for consolidated metadata, whose columns keep their length until the end."""
    known = isinstance(entry, dict) and "shape" in entry
    return {**document, "shape": entry["shape"]} if known else dict(document)


def _parsed(entry: Any) -> Any:
    # Some writers store the text.
    return load_json(entry.encode()) if isinstance(entry, str) else entry
