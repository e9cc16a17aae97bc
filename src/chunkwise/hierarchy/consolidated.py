"""Updates of consolidated metadata: the copies of documents that groups above a node hold.

Zarr v2 has them in ``.zmetadata``, Zarr v3 in member ``consolidated_metadata`` of the group's ``zarr.json``.
Readers believe the copies, so they are updated by every change of a node.  Neither is part of its core
specification; both are as zarr-python writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from chunkwise.errors import PermissionDeniedError
from chunkwise.hierarchy.document import change_document, read_document
from chunkwise.kvstore.protocol import KvStoreDriver

__all__ = ["EMPTY", "is_consolidated", "move_consolidated", "update_consolidated"]

EMPTY: dict[str, Any] = {"kind": "inline", "must_understand": False, "metadata": {}}
"""Consolidated metadata that a copy of a Zarr v3 group has of its own."""

_Copies = Mapping[str, Mapping[str, Any]]

_V2_DOCUMENTS = (".zarray", ".zgroup", ".zattrs")


def update_consolidated(kv: KvStoreDriver, path: str) -> int:
    """Update the copies of a node's documents in it and all groups above; return how many have any."""
    # Copies of what is below the node go if the node is gone, and stay as they are otherwise.
    n_groups = 0
    for group in _upwards(path):
        name = path[len(group) :].rstrip("/")
        change = partial(_node_changed, kv=kv, path=path, name=name)
        n_groups += _change_copies(kv, group, change, itself=not name)
    return n_groups


def move_consolidated(kv: KvStoreDriver, path: str, documents: Callable[[], _Copies]) -> int:
    """Replace the copies of a node and all below it in the groups above; return how many groups have any."""
    # `documents` gives, by format, the copies by their paths from the node; nothing if it was moved away.
    n_groups = 0
    for group in _upwards(path):
        name = path[len(group) :].rstrip("/")
        if name:
            n_groups += _change_copies(kv, group, partial(_replaced, name=name, documents=documents))
    return n_groups


def is_consolidated(kv: KvStoreDriver, path: str) -> bool:
    """Return True if a group, or one above, has consolidated metadata."""
    keys = ((".zmetadata", b"metadata"), ("zarr.json", b"consolidated_metadata"))
    return any(_holds(kv, group + key, word) for group in _upwards(path) for key, word in keys)


_Change = Callable[[dict[str, Any], str], dict[str, Any]]


def _change_copies(kv: KvStoreDriver, group: str, change: _Change, *, itself: bool = False) -> int:
    """Change the copies that a group has; return how many kinds of consolidated metadata that is."""
    n_groups = 0
    if _holds(kv, group + ".zmetadata", b"metadata"):

        def zarr2(document: Any) -> Any:
            if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict):
                return document
            copies = _by_depth(change(dict(document["metadata"]), "zarr2"))
            return {**document, "metadata": copies}

        change_document(kv, group + ".zmetadata", zarr2)
        n_groups += 1
    if _holds(kv, group + "zarr.json", b"consolidated_metadata"):

        def zarr3(document: Any) -> Any:
            consolidated = document.get("consolidated_metadata") if isinstance(document, dict) else None
            if not isinstance(consolidated, dict) or not isinstance(consolidated.get("metadata"), dict):
                return document
            copies = _by_depth(change(dict(consolidated["metadata"]), "zarr3"))
            return {**document, "consolidated_metadata": {**consolidated, "metadata": copies}}

        if not itself:  # which has no copy of itself
            change_document(kv, group + "zarr.json", zarr3)
        n_groups += 1
    return n_groups


def _by_depth(copies: dict[str, Any]) -> dict[str, Any]:
    """Return the copies in the order that zarr-python needs: by depth, what is in one group side by side."""
    return dict(sorted(copies.items(), key=lambda item: (item[0].count("/"), item[0].rpartition("/")[0])))


def _holds(kv: KvStoreDriver, key: str, word: bytes) -> bool:
    try:
        raw = kv.read(key).value
    except PermissionDeniedError:
        return False  # copies that the caller may not see are not the caller's to update
    return raw is not None and word in bytes(raw)


def _upwards(path: str) -> Iterator[str]:
    yield path
    while path:
        path = path[: path[:-1].rfind("/") + 1]
        yield path


def _node_changed(
    copies: dict[str, Any], format: str, *, kv: KvStoreDriver, path: str, name: str
) -> dict[str, Any]:
    current: dict[str, Any] = {}
    if format == "zarr2":
        for key in _V2_DOCUMENTS:
            document = read_document(kv, path + key)
            if document is None and key == ".zattrs" and current:
                document = {}
            if document is not None:
                current[f"{name}/{key}" if name else key] = document
    else:
        document = read_document(kv, path + "zarr.json")
        if document is not None:
            current[name] = _as_copy(document, copies.get(name))
    if not current and name:
        return _without(copies, name)
    if format == "zarr2":
        own = tuple(f"{name}/{key}" if name else key for key in _V2_DOCUMENTS)
        copies = {key: value for key, value in copies.items() if key not in own or key in current}
    return {**copies, **current}


def _as_copy(document: Any, before: Any) -> Any:
    """Return the copy of a ``zarr.json``: a group's has empty consolidated metadata, or those it had."""
    if not isinstance(document, dict) or document.get("node_type") != "group":
        return document
    own = before.get("consolidated_metadata") if isinstance(before, dict) else None
    return {**document, "consolidated_metadata": own or EMPTY}


def _without(copies: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in copies.items() if key != name and not key.startswith(name + "/")}


def _replaced(
    copies: dict[str, Any], format: str, *, name: str, documents: Callable[[], _Copies]
) -> dict[str, Any]:
    new = {f"{name}/{key}" if key else name: copy for key, copy in documents().get(format, {}).items()}
    return {**_without(copies, name), **new}
