"""Walks through a hierarchy, from a node down."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from chunkwise.driver.tree_format import FormatName
from chunkwise.driver.tree_formats import tree_format
from chunkwise.errors import (
    DataCorruptionError,
    FailedPreconditionError,
    InvalidArgumentError,
    UnlistedError,
    UnsupportedError,
)
from chunkwise.hierarchy.location import Location
from chunkwise.hierarchy.node import (
    JOURNAL,
    Node,
    find_documented,
    find_node,
    nodes_below,
)
from chunkwise.hierarchy.snapshot import Snapshot, read_snapshot

__all__ = ["UNREADABLE", "WalkedNode", "children", "walk"]

UNREADABLE = (DataCorruptionError, FailedPreconditionError, InvalidArgumentError, UnsupportedError)
"""What is raised for a node that is no use, but leaves the others of a tree as they are."""

_FORMAT_OF_FILES: FormatName = "zarr2"  # which files of other formats are shown in

_Find: TypeAlias = Callable[[Location, FormatName | None], Node | None]


class WalkedNode(NamedTuple):
    """A node, and its path relative to the node that the walk began at, whose own is empty."""

    name: str
    node: Node


def walk(node: Node, *, implicit: bool = True) -> Iterator[WalkedNode]:
    """Yield `node` and all nodes below, each group before its children, these in natural order."""
    # Unless `implicit`, directories without a document are no groups, and nothing below them is looked for.
    # Where keys can't be listed, consolidated metadata says what is below.
    try:
        yield from _walk("", node, find_node if implicit else find_documented)
    except UnlistedError:
        copies = read_snapshot(node)
        if copies is None:
            raise
        yield from _walk_copies(node, copies, "")  # `node` itself was the first


def _walk(name: str, node: Node, find: _Find) -> Iterator[WalkedNode]:
    # Arrays have no children, except that an N5 container may be a dataset itself.
    is_leaf = node.kind == "array" and not node.is_container
    if is_leaf or node.key == JOURNAL:
        yield WalkedNode(name, node)
        return
    below = (walked for child, at in children(name, node, find) for walked in _walk(child, at, find))
    if not node.implicit or not name:
        yield WalkedNode(name, node)
        yield from below
        return
    first = next(below, None)
    # Every directory is a group in N5; elsewhere one that leads to no node is just a directory.
    if first is not None or node.rules.directories_are_groups:
        yield WalkedNode(name, node)
    if first is not None:
        yield first
        yield from below


def _walk_copies(root: Node, copies: Snapshot, path: str) -> Iterator[WalkedNode]:
    for child in sorted(copies.children(path), key=_natural):
        name = f"{path}/{child}" if path else child
        entry = copies.find(name)
        if entry is not None and root.rules.lists(child):
            at = root.location.child(name)
            yield WalkedNode(name, Node(at, copies.format, entry.kind, entry.key, entry.document))
            yield from _walk_copies(root, copies, name)


def children(name: str, node: Node, find: _Find = find_node) -> Iterator[tuple[str, Node]]:
    """Yield path and node of each array or group right below `node`, whose path is `name`."""
    location = node.location
    for child in sorted(nodes_below(location), key=_natural):
        if (node.kind == "array" and child.isdigit()) or not node.rules.lists(child):
            continue  # blocks; what Zarr v3 reserves
        at = location.child(child)
        try:
            found = find(at, node.format)
        except (DataCorruptionError, UnsupportedError) as e:  # the file that it is in has no such document
            format = node.format or _FORMAT_OF_FILES
            found = Node(at, format, "array", tree_format(format).array_key, {}, e.message)
        if found is not None:
            yield f"{name}/{child}" if name else child, found


def _natural(name: str) -> list[tuple[bool, int, str]]:
    parts = re.split(r"([0-9]+)", name)
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts if part]
