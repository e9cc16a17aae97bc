"""Snapshots: all documents of a tree, read from its consolidated metadata with one request.

Zarr v2 has them in ``.zmetadata``, Zarr v3 in member ``consolidated_metadata`` of the group's ``zarr.json``;
neither is part of the core specification; both are as in zarr-python.  They are copies and may be outdated:
see `chunkwise.core.trees.consolidated_tree.check_consolidated`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from chunkwise.core.base.binding import JSON
from chunkwise.core.driver.chunked.documents import usual_form
from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.kvstore.places.replaced_places import changes
from chunkwise.core.trees.document import read_document
from chunkwise.core.trees.node import Node

__all__ = ["Entry", "Snapshot", "is_path", "parse_snapshot", "read_snapshot"]


class Entry(NamedTuple):
    """A node of a snapshot."""

    kind: Literal["array", "group"]
    key: str  # key of its document, relative to it; empty for a group that only has nodes below it
    document: Mapping[str, JSON]
    attributes: Mapping[str, JSON] | None  # separate attributes; None if they are in the document


class Snapshot:
    """The nodes of a tree at a `time`, by path from the root, whose own path is empty."""

    def __init__(self, format: FormatName, entries: dict[str, Entry], time: float) -> None:
        self.format = format
        self.time = time
        self.change_number = changes.number  # of the last change in this process that it may know of
        self._entries = entries
        self._children: dict[str, dict[str, None]] | None = None

    def find(self, path: str) -> Entry | None:
        """Return the node at `path`, or None."""
        entry = self._entries.get(path)
        if entry is None and path in self._index():
            return Entry("group", "", {}, {})
        return entry

    def entries(self) -> list[tuple[str, Entry]]:
        """Return the paths and entries of all nodes with a document, each group before its members."""
        return sorted(self._entries.items(), key=lambda item: (item[0] != "", item[0].count("/")))

    def children(self, path: str) -> list[str]:
        """Return the names directly below a group."""
        return list(self._index().get(path, ()))

    def _index(self) -> dict[str, dict[str, None]]:
        if self._children is None:
            index: dict[str, dict[str, None]] = {}
            for path in self._entries:
                while path:
                    parent, _, name = path.rpartition("/")
                    names = index.setdefault(parent, {})
                    if name in names:
                        break  # its parents are known too
                    names[name] = None
                    path = parent
            self._children = index
        return self._children


def parse_snapshot(key: str, document: JSON, time: float) -> Snapshot | None:
    """Return the snapshot in a ``zarr.json`` or ``.zmetadata``; None without consolidated metadata."""
    entries = _zarr3_entries(document) if key == "zarr.json" else _zarr2_entries(document)
    return None if entries is None else Snapshot("zarr3" if key == "zarr.json" else "zarr2", entries, time)


def read_snapshot(node: Node) -> Snapshot | None:
    """Return a group's snapshot of the nodes below it, or None."""
    key, document = node.rules.consolidated_key, node.document
    if not key or node.kind != "group":
        return None
    if key != node.key:
        document = read_document(node.location.store, node.location.path + key)
    return parse_snapshot(key, document, 0.0)


def _zarr3_entries(document: Mapping[str, JSON]) -> dict[str, Entry] | None:
    consolidated = document.get("consolidated_metadata")
    if not isinstance(consolidated, dict) or consolidated.get("kind") != "inline":
        return None
    copies = consolidated.get("metadata")
    if not isinstance(copies, dict):
        return None
    entries = {"": Entry("group", "zarr.json", document, None)}
    for path, copy in copies.items():
        kind = copy.get("node_type") if isinstance(copy, dict) else None
        if kind in ("array", "group") and is_path(path):
            entries[path] = Entry(kind, "zarr.json", usual_form(copy), None)
    return entries


_KINDS: dict[str, Literal["array", "group"]] = {".zarray": "array", ".zgroup": "group"}


def _zarr2_entries(document: JSON) -> dict[str, Entry] | None:
    if not isinstance(document, dict) or document.get("zarr_consolidated_format") != 1:
        return None
    copies = document.get("metadata")
    if not isinstance(copies, dict) or not isinstance(copies.get(".zgroup"), dict):
        return None
    entries: dict[str, Entry] = {}
    for name, copy in copies.items():
        path, _, key = name.rpartition("/")
        if key in _KINDS and isinstance(copy, dict) and (is_path(path) if path else key == ".zgroup"):
            attributes = copies.get(name[: -len(key)] + ".zattrs")
            own = attributes if isinstance(attributes, dict) else {}
            entries[path] = Entry(_KINDS[key], key, usual_form(copy), own)
    return entries


def is_path(path: str) -> bool:
    """Return True if `path` can be a node's path; others are not trusted."""
    return _NO_PATH.search(path) is None


# Not an empty component, "." or "..", a backslash or a NUL; as in `node_name`, but in one pass.
_NO_PATH = re.compile(r"(?:\A|/)\.{0,2}(?:/|\Z)|[\\\0]")
