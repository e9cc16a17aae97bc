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
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from chunkwise.binding import JSON, dump
from chunkwise.driver.chunked.usual_form import usual_form
from chunkwise.driver.n5.document import is_dataset, load_document
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError
from chunkwise.hierarchy.consolidated import update_consolidated
from chunkwise.hierarchy.document import change_document, dump_like, load_json, read_document
from chunkwise.hierarchy.location import Location, locate
from chunkwise.hierarchy.node import Node, require_node
from chunkwise.kvstore.protocol import MISSING_GENERATION, ByteRange, TypedAttributes, offers

__all__ = [
    "ATTRIBUTES_KEYS",
    "DATASET_NAMES",
    "change_attributes",
    "check_changeable",
    "left_out_attributes",
    "n5_names",
    "node_attributes",
    "read_attributes",
    "user_attributes",
    "with_number_types",
    "write_first_attributes",
]

DATASET_NAMES = ("dimensions", "blockSize", "dataType", "compression", "compressionType", "codecs")
"""Members of ``attributes.json`` that say how the blocks of an N5 dataset are stored."""

ATTRIBUTES_KEYS = {"zarr2": ".zattrs", "zarr1": "attrs"}
"""Keys of the documents that attributes are in, where that is not the node's own."""

_Change: TypeAlias = Callable[[dict[str, JSON]], dict[str, JSON]]


def read_attributes(place: str | os.PathLike[str] | Location) -> dict[str, JSON]:
    """Return all attributes of the array or group at `place`."""
    return node_attributes(require_node(locate(place)))


def node_attributes(node: Node) -> dict[str, JSON]:
    """Return all attributes of a node; reads nothing if they are in its document."""
    key = ATTRIBUTES_KEYS.get(node.format or "")
    if key is None:
        return user_attributes(node)
    location = node.location
    attributes = read_document(location.store, location.path + key, missing={})
    return _expect_object(attributes, location, key)


def with_number_types(node: Node, attributes: Mapping[str, JSON]) -> dict[str, Any]:
    """Return attributes of a node with numbers in the types that a file of another format has them in."""
    location = node.location
    types = location.store.number_types(location.path) if offers(location.store, TypedAttributes) else {}
    typed = {name: np.asarray(attributes[name], types[name])[()] for name in types if name in attributes}
    return {**attributes, **typed}


def left_out_attributes(node: Node) -> Mapping[str, str]:
    """Return the attributes that the file of another format has and the node hasn't, and why."""
    location = node.location
    return location.store.left_out(location.path) if offers(location.store, TypedAttributes) else {}


def user_attributes(node: Node) -> dict[str, JSON]:
    """Return the attributes in the node's own document: those of Zarr v3 and N5 nodes."""
    if node.format == "zarr3":
        attributes = node.document.get("attributes", {})
        return dict(attributes) if isinstance(attributes, Mapping) else {}
    if node.format == "n5":
        # "axes", "units" and "resolution" count as attributes, as for other N5 software, and so does "n5".
        own = DATASET_NAMES if node.kind == "array" else ()
        return {name: value for name, value in node.document.items() if name not in own}
    return {}


def write_first_attributes(location: Location, format: str, attributes: Mapping[str, JSON]) -> None:
    """Write the attributes of an array, in formats that keep them beside its metadata, before that."""
    key = ATTRIBUTES_KEYS.get(format)
    if key is None or not attributes:
        return
    kv, key = location.store, location.path + key
    if kv.write(key, dump_like(dict(attributes), b""), if_equal=MISSING_GENERATION) is None:
        change_document(kv, key, lambda _: dict(attributes))


def _changeable(node: Node) -> Node:
    """Return `node` if it can have attributes, else raise; a group of an N5 container gets a document."""
    if node.undeclared:
        raise FailedPreconditionError(
            f"{node.location.text} is a directory without metadata, which can't have attributes"
        )
    return node


def n5_names(node: Node) -> tuple[str, ...]:
    """Return the members of ``attributes.json`` that are not attributes, for a node of that kind."""
    return (*DATASET_NAMES, "n5") if node.kind == "array" else ("n5",)


def check_changeable(name: str, node: Node) -> None:
    """Raise InvalidArgumentError if `name` is a member of an N5 document that is no attribute."""
    if name in n5_names(node):
        what = "the version of the container" if name == "n5" else "how blocks are stored"
        raise InvalidArgumentError(f"{dump(name)} says {what} and can't be changed as an attribute")


def change_attributes(node: Node, change: _Change) -> dict[str, JSON]:
    """Replace the attributes by what `change` makes of them, again if they changed meanwhile; return them."""
    node = _changeable(node)
    out: dict[str, JSON] = {}

    def replace(attributes: dict[str, JSON]) -> dict[str, JSON]:
        nonlocal out
        out = change(attributes)
        return out

    def replace_n5(document: dict[str, JSON]) -> dict[str, JSON]:
        own = {name: value for name, value in document.items() if name in n5_names(node)}
        after = replace({name: value for name, value in document.items() if name not in own})
        for name in after:
            check_changeable(name, node)
        both = {**own, **after}
        merged = {**{name: both[name] for name in document if name in both}, **both}
        if node.kind == "group" and is_dataset(merged):
            raise InvalidArgumentError(
                f"{node.location.text}: these attributes would make a dataset of an N5 group: "
                f"{dump([name for name in merged if name in DATASET_NAMES])}"
            )
        return merged

    _change_members(node, replace_n5 if node.format == "n5" else replace)
    return out


def _change_members(node: Node, change: _Change) -> None:
    """Change the members of the document that attributes are in, and of N5 whatever else is in it."""
    location = node.location
    if node.format == "n5":
        change_document(
            location.store,
            location.path + "attributes.json",
            lambda document: change(_n5_members(node, document)),
            load=load_document,
        )
        return
    key = ATTRIBUTES_KEYS.get(node.format or "")
    if key is not None:
        nothing = ByteRange(0, 0)  # reading it says if the key is there
        if node.key and location.store.read(location.path + node.key, byte_range=nothing).value is None:
            raise FailedPreconditionError(f"{location.text} was deleted meanwhile")
        change_document(
            location.store,
            location.path + key,
            lambda attributes: change(attributes or {}),
            load=lambda raw: _expect_object(load_json(raw), location, key),
        )
    else:
        change_document(
            location.store, location.path + "zarr.json", lambda d: _with_attributes(location, d, change)
        )
    update_consolidated(location.store, location.path)


def _n5_members(node: Node, document: JSON) -> dict[str, JSON]:
    if document is None and node.key:
        raise FailedPreconditionError(f"{node.location.text} was deleted meanwhile")
    return _expect_object({} if document is None else document, node.location, "attributes.json")


def _with_attributes(location: Location, document: JSON, change: _Change) -> JSON:
    if not isinstance(document, dict):
        raise FailedPreconditionError("zarr.json was deleted or replaced meanwhile")
    document = usual_form(document)
    attributes = change(dict(_expect_object(document.get("attributes", {}), location, "zarr.json")))
    if "attributes" in document or attributes:
        document = {**document, "attributes": attributes}
    return document


def _expect_object(value: JSON, location: Location, key: str) -> dict[str, JSON]:
    """Return the value of a document if it is a JSON object."""
    if not isinstance(value, dict):
        name = location.describe(key)
        raise FailedPreconditionError(f"{name}: Expected object, but received: {dump(value)[:80]}")
    return value
