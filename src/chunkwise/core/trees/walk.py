"""Walks through a hierarchy, from a node down."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple, TypeAlias

from chunkwise.core.chunk_key import is_number
from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.core.engine.concurrent_requests import is_slow, map_requests
from chunkwise.core.trees.consolidated import Snapshot, read_snapshot
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.node import Node, find_documented, find_node, nodes_below
from chunkwise.errors import (
    DataCorruptionError,
    FailedPreconditionError,
    InvalidArgumentError,
    UnlistedError,
    UnsupportedError,
)

__all__ = ["UNREADABLE", "WalkedNode", "children", "look_ahead", "walk"]

UNREADABLE = (DataCorruptionError, FailedPreconditionError, InvalidArgumentError, UnsupportedError)
"""Errors for a single unusable node, which don't affect the others in a tree."""

_FORMAT_OF_FILES: FormatName = "zarr2"  # the format in which files of other formats appear

_Children: TypeAlias = "Callable[[str, Node], Iterable[tuple[str, Node]]]"
_Find: TypeAlias = Callable[[Location, FormatName | None], Node | None]


class WalkedNode(NamedTuple):
    """A node, and its path relative to the start of the walk, whose own path is empty."""

    name: str
    node: Node


def walk(node: Node, *, implicit: bool = True, depth: int | None = None) -> Iterator[WalkedNode]:
    """Yield `node` and all nodes below, to `depth`; each group before its children, in natural order."""
    # Unless `implicit`, directories without a document are not groups, and nothing below them is looked for.
    # If keys can't be listed, consolidated metadata lists the nodes below.
    find = find_node if implicit else find_documented
    if not is_slow(node.location.store) or _is_leaf(node):
        yield from _walk("", node, partial(children, find=find), depth)
        return
    try:
        found = look_ahead(node, find, depth)
    except UnlistedError:
        copies = read_snapshot(node)
        if copies is None and node.kind == "array":  # a container that is a dataset, as far as one can see
            yield WalkedNode("", node)
            return
        if copies is None:
            raise
        yield WalkedNode("", node)
        yield from _walk_copies(node, copies, "", depth)
        return
    yield from _walk("", node, lambda name, _: found[name], depth)


def _is_leaf(node: Node) -> bool:
    # Arrays have no children, except that an N5 container may be a dataset itself.
    return (node.kind == "array" and not node.is_container) or node.is_unfinished


def _is_plain(node: Node) -> bool:
    # Every directory is a group in N5; elsewhere, one without nodes is just a directory.
    return node.implicit and not node.rules.directories_are_groups


def _walk(name: str, node: Node, below_of: _Children, depth: int | None) -> Iterator[WalkedNode]:
    if _is_leaf(node) or (depth == 0 and not _is_plain(node)):
        yield WalkedNode(name, node)
        return
    deeper = None if depth is None else max(0, depth - 1)
    below = (walked for child, at in below_of(name, node) for walked in _walk(child, at, below_of, deeper))
    if not node.implicit or not name:
        yield WalkedNode(name, node)
        yield from below if depth != 0 else ()
        return
    first = next(below, None)
    if first is not None or not _is_plain(node):
        yield WalkedNode(name, node)
    if first is not None and depth != 0:
        yield first
        yield from below


def _walk_copies(root: Node, copies: Snapshot, path: str, depth: int | None) -> Iterator[WalkedNode]:
    if depth == 0:
        return
    for child in sorted(copies.children(path), key=_natural):
        name = f"{path}/{child}" if path else child
        entry = copies.find(name)
        if entry is not None and root.rules.lists(child):
            at = root.location.child(name)
            yield WalkedNode(name, Node(at, copies.format, entry.kind, entry.key, entry.document))
            yield from _walk_copies(root, copies, name, None if depth is None else depth - 1)


def look_ahead(
    node: Node, find: _Find = find_node, depth: int | None = None
) -> dict[str, list[tuple[str, Node]]]:
    """Return path and node of the children of each group, by path; a level is read at once."""
    # Below `depth`, only children of directories that are groups if they aren't empty.
    store = node.location.store
    out: dict[str, list[tuple[str, Node]]] = {}
    groups = [("", node)]
    while groups:
        names = map_requests(store, lambda group: _names_below(group[1]), groups)
        wanted = [
            (path, group, child)
            for (path, group), found in zip(groups, names, strict=True)
            for child in found
        ]
        nodes = map_requests(store, lambda at: _child(at[1], at[2], find), wanted)
        out.update({path: [] for path, _ in groups})
        for (path, _, child), at in zip(wanted, nodes, strict=True):
            if at is not None:
                out[path].append((f"{path}/{child}" if path else child, at))
        groups = [below for path, _ in groups for below in out[path] if not _is_leaf(below[1])]
        if depth is not None and groups[0:1] and groups[0][0].count("/") + 1 >= depth:
            groups = [below for below in groups if _is_plain(below[1])]
    return out


def children(name: str, node: Node, find: _Find = find_node) -> Iterator[tuple[str, Node]]:
    """Yield path and node of each array or group directly below `node`, whose path is `name`."""
    for child in _names_below(node):
        found = _child(node, child, find)
        if found is not None:
            yield f"{name}/{child}" if name else child, found


def _names_below(node: Node) -> list[str]:
    """Return the names of directories that may be nodes, in natural order."""
    names = sorted(nodes_below(node.location), key=_natural)
    is_array = node.kind == "array"  # neither blocks, nor names that Zarr v3 reserves
    return [name for name in names if not (is_array and is_number(name)) and node.rules.lists(name)]


def _child(node: Node, name: str, find: _Find) -> Node | None:
    at = node.location.child(name)
    try:
        return find(at, node.format)
    except (DataCorruptionError, UnsupportedError) as e:  # its file has no such document
        format = node.format or _FORMAT_OF_FILES
        return Node(at, format, "array", tree_format(format).array_key, {}, e.message)


def _natural(name: str) -> list[tuple[bool, int, str]]:
    parts = re.split(r"([0-9]+)", name)
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts if part]
