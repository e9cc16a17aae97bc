"""Changing the attributes of a node, however many at once, with one conditional write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from chunkwise.binding import dump
from chunkwise.driver.n5.document import is_dataset, load_document
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError
from chunkwise.hierarchy.consolidated import update_consolidated
from chunkwise.hierarchy.document import change_document, load_json
from chunkwise.hierarchy.location import Location
from chunkwise.hierarchy.node import Node
from chunkwise.kvstore.protocol import ByteRange

__all__ = [
    "ATTRIBUTES_KEYS",
    "DATASET_NAMES",
    "Change",
    "change_attributes",
    "change_members",
    "changeable",
    "expect_object",
    "n5_names",
    "refuse_name",
]

DATASET_NAMES = ("dimensions", "blockSize", "dataType", "compression", "compressionType", "codecs")
"""Members of ``attributes.json`` that say how the blocks of an N5 dataset are stored."""

ATTRIBUTES_KEYS = {"zarr2": ".zattrs", "zarr1": "attrs"}
"""Keys of the documents that attributes are in, where that is not the node's own."""

Change: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


def changeable(node: Node) -> Node:
    """Return `node` if it can have attributes, else raise; a group of an N5 container gets a document."""
    if node.undeclared:
        raise FailedPreconditionError(
            f"{node.location.text} is a directory without metadata, which can't have attributes"
        )
    return node


def n5_names(node: Node) -> tuple[str, ...]:
    """Return the members of ``attributes.json`` that are not attributes, for a node of that kind."""
    return (*DATASET_NAMES, "n5") if node.kind == "array" else ("n5",)


def refuse_name(name: str) -> None:
    """Raise InvalidArgumentError for the name of a member that is no attribute."""
    what = "the version of the container" if name == "n5" else "how blocks are stored"
    raise InvalidArgumentError(f"{dump(name)} says {what} and can't be changed as an attribute")


def change_attributes(node: Node, change: Change) -> dict[str, Any]:
    """Replace the attributes by what `change` makes of them, again if they changed meanwhile; return them."""
    node = changeable(node)
    out: dict[str, Any] = {}

    def replace(attributes: dict[str, Any]) -> dict[str, Any]:
        nonlocal out
        out = change(attributes)
        return out

    def replace_n5(document: dict[str, Any]) -> dict[str, Any]:
        own = {name: value for name, value in document.items() if name in n5_names(node)}
        after = replace({name: value for name, value in document.items() if name not in own})
        for name in after:
            if name in n5_names(node):
                refuse_name(name)
        both = {**own, **after}
        merged = {**{name: both[name] for name in document if name in both}, **both}
        if node.kind == "group" and is_dataset(merged):
            raise InvalidArgumentError(
                f"{node.location.text}: these attributes would make a dataset of an N5 group: "
                f"{dump([name for name in merged if name in DATASET_NAMES])}"
            )
        return merged

    change_members(node, replace_n5 if node.format == "n5" else replace)
    return out


def change_members(node: Node, change: Change) -> None:
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
        if (
            node.key
            and location.store.read(location.path + node.key, byte_range=ByteRange(0, 0)).value is None
        ):
            raise FailedPreconditionError(f"{location.text} was deleted meanwhile")
        change_document(
            location.store,
            location.path + key,
            lambda attributes: change(attributes or {}),
            load=lambda raw: expect_object(load_json(raw), location, key),
        )
    else:
        change_document(
            location.store, location.path + "zarr.json", lambda d: _with_attributes(location, d, change)
        )
    update_consolidated(location.store, location.path)


def _n5_members(node: Node, document: Any) -> dict[str, Any]:
    if document is None and node.key:
        raise FailedPreconditionError(f"{node.location.text} was deleted meanwhile")
    return expect_object({} if document is None else document, node.location, "attributes.json")


def _with_attributes(location: Location, document: Any, change: Change) -> Any:
    if not isinstance(document, dict):
        raise FailedPreconditionError("zarr.json was deleted or replaced meanwhile")
    attributes = change(dict(expect_object(document.get("attributes", {}), location, "zarr.json")))
    if "attributes" in document or attributes:
        document = {**document, "attributes": attributes}
    return document


def expect_object(value: Any, location: Location, key: str) -> dict[str, Any]:
    """Return the value of a document if it is a JSON object."""
    if not isinstance(value, dict):
        name = location.store.describe(location.path + key)
        raise FailedPreconditionError(f"{name}: Expected object, but received: {dump(value)[:80]}")
    return value
