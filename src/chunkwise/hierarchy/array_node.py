"""An open array as a node of a hierarchy: its name and its attributes."""

from __future__ import annotations

from typing import Any

from chunkwise.hierarchy.attribute_value import NonFinite
from chunkwise.hierarchy.location import location_of
from chunkwise.hierarchy.node import ARRAY_KEYS, FORMATS, Node
from chunkwise.hierarchy.node_attributes import Attributes

__all__ = ["ArrayNode", "array_node"]


class ArrayNode:
    """Node, path and attributes of an open array; without a node for one that is stored nowhere."""

    __slots__ = ("attributes", "node", "path")

    def __init__(self, node: Node | None, path: str | None, attributes: Attributes | None = None) -> None:
        self.node = node
        self.path = path
        if attributes is None:
            frozen = "" if node is not None else "this array has no place that attributes could be in"
            attributes = Attributes(node, known={} if node is None else None, frozen=frozen)
        self.attributes = attributes

    @property
    def name(self) -> str | None:
        """The path with a "/" in front."""
        return None if self.path is None else "/" + self.path


def array_node(
    array: Any, path: str = "", *, writable: bool = True, non_finite: NonFinite = "error"
) -> ArrayNode:
    """Return the node of an open array, whose path from the root of its tree is `path`."""
    spec = array.spec()
    format = FORMATS.get(spec.driver)
    if format is None or spec.kvstore is None:
        return ArrayNode(None, None)
    location = location_of(spec.kvstore)
    node = Node(location, format, "array", ARRAY_KEYS[format], array.document)
    frozen = "" if writable else f"{location.text} was opened for reading only"
    return ArrayNode(node, path, Attributes(node, frozen=frozen, non_finite=non_finite))
