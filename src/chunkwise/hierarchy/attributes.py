"""User attributes of arrays and groups, where each format keeps them.

======  ======================================================
zarr3   member ``attributes`` of ``zarr.json``
zarr2   document ``.zattrs``
zarr1   document ``attrs``
n5      members of ``attributes.json`` beside those of datasets
======  ======================================================

A change is a conditional read-modify-write: of two changes at the same time neither is lost.  Copies in
consolidated metadata follow.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from chunkwise.binding import MISSING, dump
from chunkwise.driver.n5.attribute_path import (
    get_attribute,
    parse_attribute_path,
    remove_attribute,
    set_attribute,
)
from chunkwise.errors import InvalidArgumentError, NotFoundError
from chunkwise.hierarchy.attribute_change import (
    ATTRIBUTES_KEYS,
    DATASET_NAMES,
    change_members,
    changeable,
    expect_object,
    n5_names,
    refuse_name,
)
from chunkwise.hierarchy.document import change_document, read_document
from chunkwise.hierarchy.location import Location, locate
from chunkwise.hierarchy.node import Node, require_node

__all__ = [
    "get_attribute_value",
    "node_attributes",
    "read_attributes",
    "remove_attribute_value",
    "set_attribute_value",
    "user_attributes",
    "write_first_attributes",
]


def read_attributes(place: str | os.PathLike[str] | Location) -> dict[str, Any]:
    """Return all attributes of the array or group at `place`."""
    return node_attributes(require_node(locate(place)))


def node_attributes(node: Node) -> dict[str, Any]:
    """Return all attributes of a node; reads nothing if they are in its document."""
    key = ATTRIBUTES_KEYS.get(node.format or "")
    if key is None:
        return user_attributes(node)
    location = node.location
    attributes = read_document(location.store, location.path + key, missing={})
    return expect_object(attributes, location, key)


def user_attributes(node: Node) -> dict[str, Any]:
    """Return the attributes in the node's own document: those of Zarr v3 and N5 nodes."""
    if node.format == "zarr3":
        attributes = node.document.get("attributes", {})
        return dict(attributes) if isinstance(attributes, Mapping) else {}
    if node.format == "n5":
        # "axes", "units" and "resolution" count as attributes, as for other N5 software, and so does "n5".
        own = DATASET_NAMES if node.kind == "array" else ()
        return {name: value for name, value in node.document.items() if name not in own}
    return {}


def get_attribute_value(place: str | os.PathLike[str] | Location, name: str) -> Any:
    """Return one attribute; in N5 `name` is a path such as ``multiscales[0]/name``."""
    node = require_node(locate(place))
    if node.format == "n5":
        value = get_attribute(dict(node.document), name)
    else:
        value = node_attributes(node).get(name, MISSING)
    if value is MISSING:
        raise NotFoundError(f"{node.location.text} has no attribute {dump(name)}")
    return value


def set_attribute_value(place: str | os.PathLike[str] | Location, name: str, value: Any) -> None:
    """Set one attribute to a JSON value; raise InvalidArgumentError for members of N5's own."""
    node = changeable(require_node(locate(place)))
    if node.format == "n5":
        _check_name(node, name)
        change_members(node, lambda document: _set_n5(document, name, value))
    else:
        change_members(node, lambda attributes: {**attributes, name: value})


def remove_attribute_value(place: str | os.PathLike[str] | Location, name: str) -> None:
    """Remove one attribute; raise NotFoundError if it is missing."""
    node = changeable(require_node(locate(place)))
    missing = NotFoundError(f"{node.location.text} has no attribute {dump(name)}")
    if node.format == "n5":
        _check_name(node, name)

        def remove(document: dict[str, Any]) -> dict[str, Any]:
            after, found = remove_attribute(document, name)
            if not found:
                raise missing
            return _expect_members(after)
    else:

        def remove(document: dict[str, Any]) -> dict[str, Any]:
            if name not in document:
                raise missing
            return {key: value for key, value in document.items() if key != name}

    change_members(node, remove)


def write_first_attributes(location: Location, format: str, attributes: Mapping[str, Any]) -> None:
    """Write the attributes of an array, in formats that keep them beside its metadata, before that."""
    key = ATTRIBUTES_KEYS.get(format)
    if key is not None and attributes:
        change_document(location.store, location.path + key, lambda _: dict(attributes))


def _check_name(node: Node, name: str) -> None:
    tokens = parse_attribute_path(name)
    if not tokens:
        raise InvalidArgumentError("the attribute path is empty; name one attribute")
    if tokens[0] in n5_names(node):
        refuse_name(str(tokens[0]))


def _set_n5(document: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    # n5-java drops all nulls of the document when it writes; here those of the attribute itself.
    first = parse_attribute_path(name)[0]
    member = first if isinstance(first, str) else f"[{first}]"
    others = {key: item for key, item in document.items() if key != member}
    own = {member: document[member]} if member in document else {}
    return {**others, **_expect_members(set_attribute(own, name, value))}


def _expect_members(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise InvalidArgumentError("an attribute of an N5 group or dataset is a member of an object")
    return document
