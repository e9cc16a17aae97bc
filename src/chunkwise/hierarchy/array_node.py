"""Where an open array is in a hierarchy: its name there, and its attributes."""

from __future__ import annotations

from typing import Any

from chunkwise.hierarchy.attribute_value import NonFinite
from chunkwise.hierarchy.location import location_of
from chunkwise.hierarchy.node import ARRAY_KEYS, FORMATS, Node
from chunkwise.hierarchy.node_attributes import Attributes

__all__ = ["ArrayNode", "array_node"]


class ArrayNode:
    """An array as a node.

    Parameters
    ----------
    node : Node or None
        None for an array that is stored nowhere.
    path : str or None
        From the root of the tree that it was opened from; empty for the root itself.
    attributes : Attributes, optional
    """

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
    """Return the node of an open array.

    Parameters
    ----------
    array : OpenArray
    path : str
        See :class:`ArrayNode`.
    writable : bool
        Whether the attributes can be changed.
    non_finite : {"error", "string", "literal"}
        What is done with NaN and infinities in attributes.
    """
    spec = array.spec()
    format = FORMATS.get(spec.driver)
    if format is None or spec.kvstore is None:
        return ArrayNode(None, None)
    location = location_of(spec.kvstore)
    node = Node(location, format, "array", ARRAY_KEYS[format], array.document)
    frozen = "" if writable else f"{location.text} was opened for reading only"
    return ArrayNode(node, path, Attributes(node, frozen=frozen, non_finite=non_finite))
