"""User attributes of arrays and groups, each format's in its own place.

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
from collections.abc import Callable, Mapping
from typing import Any

from chunkwise.api.consolidated import update_consolidated
from chunkwise.api.document import change_document
from chunkwise.api.location import Location, locate
from chunkwise.api.node import Node, load_json, require_node
from chunkwise.api.summary import user_attributes
from chunkwise.binding import MISSING, dump
from chunkwise.driver.n5.attribute_path import (
    get_attribute,
    parse_attribute_path,
    remove_attribute,
    set_attribute,
)
from chunkwise.driver.n5.document import is_dataset, load_document
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError, prefix

__all__ = [
    "DATASET_NAMES",
    "change_attributes",
    "changeable",
    "get_attribute_value",
    "n5_names",
    "node_attributes",
    "read_attributes",
    "remove_attribute_value",
    "set_attribute_value",
    "write_first_attributes",
]

DATASET_NAMES = ("dimensions", "blockSize", "dataType", "compression", "compressionType", "codecs")
"""Members of ``attributes.json`` that say how the blocks of an N5 dataset are stored."""

_ATTRIBUTES_KEYS = {"zarr2": ".zattrs", "zarr1": "attrs"}

Change = Callable[[dict[str, Any]], dict[str, Any]]


def read_attributes(place: str | os.PathLike[str] | Location) -> dict[str, Any]:
    """Return all attributes of the array or group at `place`.

    Raises
    ------
    NotFoundError
        If there is neither.
    FailedPreconditionError
        If a document can't be read.
    """
    return node_attributes(require_node(locate(place)))


def node_attributes(node: Node) -> dict[str, Any]:
    """Return all attributes of a node; reads nothing if they are in its document."""
    key = _ATTRIBUTES_KEYS.get(node.format or "")
    if key is None:
        return user_attributes(node)
    location = node.location
    raw = location.kv.read(location.path + key).value
    try:
        attributes = {} if raw is None else load_json(raw)
    except FailedPreconditionError as e:
        raise prefix(e, f"Error reading {location.kv.describe(location.path + key)}") from None
    return _expect_object(attributes, location, key)


def get_attribute_value(place: str | os.PathLike[str] | Location, name: str) -> Any:
    """Return one attribute.

    Parameters
    ----------
    place : str, path or Location
    name : str
        Its name; in N5 a path such as ``multiscales[0]/name``.

    Raises
    ------
    NotFoundError
        If it is missing.
    """
    node = require_node(locate(place))
    if node.format == "n5":
        value = get_attribute(dict(node.document), name)
    else:
        value = node_attributes(node).get(name, MISSING)
    if value is MISSING:
        raise NotFoundError(f"{node.location.text} has no attribute {dump(name)}")
    return value


def set_attribute_value(place: str | os.PathLike[str] | Location, name: str, value: Any) -> None:
    """Set one attribute to a JSON value.

    Raises
    ------
    InvalidArgumentError
        If `name` is a member of N5 metadata that says how blocks are stored.
    FailedPreconditionError
        If the node is a group without a document that could hold attributes.
    """
    node = changeable(require_node(locate(place)))
    if node.format == "n5":
        _check_name(node, name)
        _change(node, lambda document: _set_n5(document, name, value))
    else:
        _change(node, lambda attributes: {**attributes, name: value})


def remove_attribute_value(place: str | os.PathLike[str] | Location, name: str) -> None:
    """Remove one attribute.

    Raises
    ------
    NotFoundError
        If it is missing.
    InvalidArgumentError, FailedPreconditionError
        As for :func:`set_attribute_value`.
    """
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

    _change(node, remove)


def write_first_attributes(location: Location, format: str, attributes: Mapping[str, Any]) -> None:
    """Write the attributes of an array whose metadata is yet to be written, where they are a document.

    Other formats have them in the metadata itself: nothing is written then.
    """
    key = _ATTRIBUTES_KEYS.get(format)
    if key is not None and attributes:
        change_document(location.kv, location.path + key, lambda _: dict(attributes))


def changeable(node: Node) -> Node:
    """Return `node` if it can have attributes.

    Raises
    ------
    FailedPreconditionError
        If it is a group without a document that could hold them; in an N5 container one is made.
    """
    if node.implicit and node.format is None:
        node = Node(node.location, _format_above(node.location), "group")
    if node.implicit and node.format != "n5":
        raise FailedPreconditionError(
            f"{node.location.text} is a directory without metadata, which can't have attributes"
        )
    return node


def _format_above(location: Location) -> Any:
    """Return "n5" if the location is in an N5 container."""
    at = location.parent
    while at is not None:
        raw = at.kv.read(at.path + "attributes.json").value
        if raw is not None:
            return "n5"
        at = at.parent
    return None


def _check_name(node: Node, name: str) -> None:
    tokens = parse_attribute_path(name)
    if not tokens:
        raise InvalidArgumentError("the attribute path is empty; name one attribute")
    if tokens[0] in n5_names(node):
        _refuse_name(str(tokens[0]))


def n5_names(node: Node) -> tuple[str, ...]:
    """Return the members of ``attributes.json`` that are not attributes, for a node of that kind."""
    return (*DATASET_NAMES, "n5") if node.kind == "array" else ("n5",)


def _refuse_name(name: str) -> None:
    what = "the version of the container" if name == "n5" else "how blocks are stored"
    raise InvalidArgumentError(f"{dump(name)} says {what} and can't be changed as an attribute")


def _set_n5(document: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    # n5-java drops all nulls of the document when it writes; here those of the attribute itself.
    first = parse_attribute_path(name)[0]
    member = first if isinstance(first, str) else f"[{first}]"
    others = {key: item for key, item in document.items() if key != member}
    own = {member: document[member]} if member in document else {}
    return {**others, **_expect_members(set_attribute(own, name, value))}


def change_attributes(node: Node, change: Change) -> dict[str, Any]:
    """Change all attributes of a node at once, without losing anybody else's change.

    Parameters
    ----------
    node : Node
    change : callable
        Gets the attributes, of which it must not modify anything, and returns the new ones; may be called
        again if somebody else changed them meanwhile.  The members that make an N5 node a dataset are not
        among them.

    Returns
    -------
    dict
        The attributes as they are stored now.

    Raises
    ------
    InvalidArgumentError
        If the new ones have names of N5's own.
    FailedPreconditionError
        If the node can't have attributes, or is gone.
    """
    node = changeable(node)
    out: dict[str, Any] = {}

    def keep(attributes: dict[str, Any]) -> dict[str, Any]:
        nonlocal out
        out = change(attributes)
        return out

    def keep_n5(document: dict[str, Any]) -> dict[str, Any]:
        own = {name: value for name, value in document.items() if name in n5_names(node)}
        after = keep({name: value for name, value in document.items() if name not in own})
        for name in after:
            if name in n5_names(node):
                _refuse_name(name)
        both = {**own, **after}
        merged = {**{name: both[name] for name in document if name in both}, **both}
        if node.kind == "group" and is_dataset(merged):
            raise InvalidArgumentError(
                f"{node.location.text}: these attributes would make a dataset of an N5 group: "
                f"{dump([name for name in merged if name in DATASET_NAMES])}"
            )
        return merged

    _change(node, keep_n5 if node.format == "n5" else keep)
    return out


def _change(node: Node, change: Change) -> None:
    location = node.location
    if node.format == "n5":
        change_document(
            location.kv,
            location.path + "attributes.json",
            lambda document: change(_expect_object(document or {}, location, "attributes.json")),
            load=load_document,
        )
        return
    key = _ATTRIBUTES_KEYS.get(node.format or "")
    if key is not None:
        change_document(
            location.kv,
            location.path + key,
            lambda attributes: change(_expect_object(attributes or {}, location, key)),
        )
    else:
        change_document(location.kv, location.path + "zarr.json", lambda d: _with_attributes(d, change))
    update_consolidated(location.kv, location.path)


def _with_attributes(document: Any, change: Change) -> Any:
    if not isinstance(document, dict):
        raise FailedPreconditionError("zarr.json was deleted or replaced meanwhile")
    attributes = change(dict(document.get("attributes") or {}))
    if "attributes" in document or attributes:
        document = {**document, "attributes": attributes}
    return document


def _expect_object(value: Any, location: Location, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FailedPreconditionError(
            f"{location.kv.describe(location.path + key)}: Expected object, but received: {dump(value)[:80]}"
        )
    return value


def _expect_members(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise InvalidArgumentError("an attribute of an N5 group or dataset is a member of an object")
    return document
