"""Nodes that ``chunkwise tree`` shows: from consolidated metadata with one request, or by a walk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from chunkwise.errors import ChunkwiseError, UnavailableError
from chunkwise.groups.open_group import open_group
from chunkwise.hierarchy.attributes import node_attributes
from chunkwise.hierarchy.location import Location
from chunkwise.hierarchy.node import Node, find_node, nothing_at
from chunkwise.hierarchy.tree import Tree
from chunkwise.hierarchy.walk import walk

__all__ = ["ShownNode", "shown_nodes"]


class ShownNode(NamedTuple):
    """A node of the tree."""

    name: str
    node: Node
    known: Mapping[str, Any] | None = None  # attributes, if nothing has to be read for them

    def attributes(self) -> Mapping[str, Any]:
        """Return the attributes; none of what has none, or none that can be read."""
        if self.known is not None:
            return self.known
        if self.node.error or not self.node.key:
            return {}
        try:
            return node_attributes(self.node)
        except ChunkwiseError:
            return {}  # that they can't be read is what `attrs` and `verify` say


def shown_nodes(location: Location, *, consolidated: bool) -> list[ShownNode]:
    """Return a node and all below it, each group before its children."""
    if consolidated:
        try:
            tree = open_group(location, "r", consolidated=True)._tree
            return list(_from_snapshot(tree, ()))
        except UnavailableError:
            raise
        except ChunkwiseError:
            pass  # there are none, or they are damaged: the nodes themselves are read
    root = find_node(location)
    if root is None:
        raise nothing_at(location)
    return [ShownNode(name, node) for name, node in walk(root)]


def _from_snapshot(tree: Tree, names: tuple[str, ...]) -> Iterator[ShownNode]:
    node = tree.find(names)
    if node is None:
        return
    yield ShownNode("/".join(names), node, tree.attributes(names, node).asdict())
    if node.kind == "group":
        for child in tree.children(names, node):
            yield from _from_snapshot(tree, (*names, child))
