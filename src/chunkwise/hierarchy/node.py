"""Nodes: the array or group at a location, read from its documents alone.

The documents are looked for in this order: ``zarr.json``, ``.zarray``, ``.zgroup``, ``attributes.json``,
``meta``; but those of the format of the group above first.  A location without any is an implicit group if
something lies below it.  In an N5 container every directory is a group.
The document of an array is not interpreted here, so that arrays with unknown codecs or data types can be
listed too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from chunkwise.binding import JSON, dump
from chunkwise.driver.auto.found_instead import found_instead
from chunkwise.driver.chunked.usual_form import usual_form
from chunkwise.driver.n5.document import is_dataset, load_document
from chunkwise.errors import (
    ChunkwiseError,
    FailedPreconditionError,
    NotFoundError,
    UnsupportedError,
)
from chunkwise.hierarchy.container import container_root
from chunkwise.hierarchy.document import load_json
from chunkwise.hierarchy.location import Location, inside_file
from chunkwise.kvstore.protocol import Children, Stamped
from chunkwise.kvstore.staging import JOURNAL, is_staging
from chunkwise.kvstore.value_bound import read_bounded

__all__ = [
    "ARRAY_KEYS",
    "DOCUMENTS",
    "DRIVERS",
    "FORMATS",
    "JOURNAL",
    "FormatName",
    "Node",
    "find_documented",
    "find_node",
    "is_listed",
    "node_of",
    "node_or_file",
    "nodes_below",
    "require_node",
]

FormatName: TypeAlias = Literal["zarr3", "zarr2", "zarr1", "n5"]

FORMATS: dict[str, FormatName] = {"zarr3": "zarr3", "zarr": "zarr2", "zarr1": "zarr1", "n5": "n5"}
"""Format of each driver of arrays that are nodes."""

DRIVERS: dict[str, str] = {format: driver for driver, format in FORMATS.items()}
"""Name of the driver of each format."""

ARRAY_KEYS: dict[FormatName, str] = {
    "zarr3": "zarr.json",
    "zarr2": ".zarray",
    "zarr1": "meta",
    "n5": "attributes.json",
}
"""Key, relative to an array, of its metadata document."""

DOCUMENTS = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata", "attributes.json", "meta", "attrs")
"""All keys, relative to a node, that are metadata in some format."""


@dataclass(frozen=True, slots=True)
class Node:
    """An array or group."""

    location: Location
    format: FormatName | None  # None for an implicit group that is in no N5 container
    kind: Literal["array", "group"]
    key: str = ""  # of the document, relative to the node; empty for an implicit group
    document: Mapping[str, JSON] = None  # type: ignore[assignment]  # empty if it can't be read
    error: str = ""  # why the document can't be read
    found: Stamped | None = field(default=None, repr=False, compare=False)  # the document as it was read

    def __post_init__(self) -> None:
        if self.document is None:
            object.__setattr__(self, "document", {})

    @property
    def implicit(self) -> bool:
        """True for a group that has no document, only something below it."""
        return not self.key

    @property
    def undeclared(self) -> bool:
        """True for a directory that only what lies below it makes a group; in N5 every directory is one."""
        return not self.key and self.format != "n5"

    @property
    def is_container(self) -> bool:
        """True for the root of an N5 container, which may be a dataset and have nodes below it."""
        return self.format == "n5" and "n5" in self.document


def find_node(
    location: Location, inside: FormatName | None = None, others: list[str] | None = None
) -> Node | None:
    """Return the node at `location`, None if there is none; documents of the format `inside` come first."""
    # `others` is filled with the names of the keys that are there instead of a document.
    return find_documented(location, inside) or _implicit(location, inside, others)


def find_documented(location: Location, inside: FormatName | None = None) -> Node | None:
    """Return the node at `location` that has a document, None if there is none; see `find_node`."""
    kv, path = location.store, location.path
    for key in _lookup_order(inside):
        found = read_bounded(kv, path + key)
        if found.value is not None:
            node = node_of(location, key, found)
            # Other tools have files called "meta"; only one that says so is an array's.
            if key != "meta" or (not node.error and node.document.get("zarr_format") == 1):
                return node
    return None


_LOOKUP = ("zarr.json", ".zarray", ".zgroup", "attributes.json", "meta")
_FIRST = {"zarr2": (".zarray", ".zgroup"), "n5": ("attributes.json",), "zarr1": ("meta",)}


def _lookup_order(inside: FormatName | None) -> tuple[str, ...]:
    """Return the keys of documents, those first that a node has that is in a group of the given format."""
    first = _FIRST.get(inside or "", ())
    return (*first, *(key for key in _LOOKUP if key not in first))


def node_or_file(location: Location) -> Node:
    """Return the node at `location`, or that of the file there; raise if there is none."""
    node = find_node(location)
    inside = inside_file(location) if node is None else None
    if inside is not None:
        location, node = inside, find_node(inside)
    if node is None:
        raise nothing_at(location)
    return node


def require_node(location: Location) -> Node:
    """Return the node at `location`; raise if there is none, or its document can't be read."""
    node = node_or_file(location)
    if node.error:
        raise FailedPreconditionError(f"{node.location.describe(node.key)}: {node.error}")
    return node


def nothing_at(location: Location, what: str = "array or group") -> NotFoundError:
    """Return the error that there is nothing to be opened at `location`; it says what there is."""
    found = found_instead(location.store, location.path, location.text)
    looked = "no zarr.json, .zarray, .zgroup, attributes.json or meta"
    return NotFoundError(f"there is no {what} at {location.text}: {found or looked}")


_FORMAT_OF: dict[str, tuple[FormatName, str | None]] = {
    "zarr.json": ("zarr3", None),
    ".zarray": ("zarr2", "array"),
    ".zgroup": ("zarr2", "group"),
    "attributes.json": ("n5", None),
    "meta": ("zarr1", "array"),
}


def node_of(location: Location, key: str, found: Stamped) -> Node:
    """Return the node whose document `key`, which is relative to it, has been read."""
    format, kind = _FORMAT_OF[key]
    assert found.value is not None
    document: JSON = {}
    error = ""
    try:
        document = load_document(found.value) if format == "n5" else load_json(found.value)
        if not isinstance(document, dict):
            document, error = {}, "Expected object"
        elif format in ("zarr2", "zarr3"):
            document = usual_form(document)
    except ChunkwiseError as e:
        error = e.message
    # NCZarr and others have more members in it.
    if key == ".zgroup" and not error and document.get("zarr_format") != 2:
        error = f'Expected "zarr_format" of 2, but received: {dump(document)}'
    if kind is None:
        is_array = is_dataset(document) if format == "n5" else document.get("node_type") == "array"
        kind = "array" if is_array else "group"
        if format == "zarr3" and not error and document.get("node_type") not in ("array", "group"):
            error = f'Expected "node_type" of "array" or "group", not {document.get("node_type")!r}'
    return Node(location, format, "array" if kind == "array" else "group", key, document, error, found)


def _implicit(location: Location, inside: FormatName | None, others: list[str] | None) -> Node | None:
    try:
        found = location.store.list_children(location.path)
    except UnsupportedError:  # a web server, where a node is what has a document
        return None
    if location.path + JOURNAL in found.keys:
        return Node(
            location, inside, "group", JOURNAL, {}, "unfinished copy: its command goes on with --resume"
        )
    if inside is None and container_root(location) is not None:
        inside = "n5"
    if others is not None:
        others += [key[len(location.path) :] for key in found.keys if not is_staging(key)]
    if nodes_below(location, found) or (inside == "n5" and _is_directory(location)):
        return Node(location, inside, "group")
    return None


def _is_directory(location: Location) -> bool:
    """Return True if there is a directory, perhaps an empty one, in a store that has directories."""
    above = location.parent
    return above is not None and location.path[:-1] in above.store.list_children(above.path).prefixes


def nodes_below(location: Location, found: Children | None = None) -> list[str]:
    """Return the names of the directories right below a location, but those of places for new data."""
    prefixes = (location.store.list_children(location.path) if found is None else found).prefixes
    names = (prefix[len(location.path) :] for prefix in prefixes)
    return [name for name in names if not is_staging(name)]


def is_listed(name: str, format: FormatName | None) -> bool:
    """Return True if a directory in a group can be a node."""
    # Zarr v3 reserves these names.
    return not (format == "zarr3" and name.startswith("__"))
