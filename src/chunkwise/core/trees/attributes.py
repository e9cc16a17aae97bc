"""User attributes of arrays and groups, in each format's location.

======  ======================================================
zarr3   member ``attributes`` of ``zarr.json``
zarr2   document ``.zattrs``
zarr1   document ``attrs``
n5      members of ``attributes.json`` beside those of datasets
======  ======================================================

A change is a conditional read-modify-write, so simultaneous changes are not lost.  Copies in consolidated
metadata are then updated.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

import numpy as np

from chunkwise.core.base.binding import JSON, dump, load_json
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.core.kvstore.adapter.pending import PendingStore
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, ByteRange, TypedAttributes, offers
from chunkwise.core.trees.consolidated import update_consolidated
from chunkwise.core.trees.document import change_document, dump_like, read_document
from chunkwise.core.trees.location import Location, locate
from chunkwise.core.trees.node import Node, require_node
from chunkwise.errors import ChunkwiseError, FailedPreconditionError, InvalidArgumentError

__all__ = [
    "add_attributes",
    "change_attributes",
    "check_changeable",
    "first_attributes",
    "left_out_attributes",
    "node_attributes",
    "read_attributes",
    "user_attributes",
    "with_added",
    "with_number_types",
]

_Change: TypeAlias = Callable[[dict[str, JSON]], dict[str, JSON]]


def read_attributes(place: str | os.PathLike[str] | Location) -> dict[str, JSON]:
    """Return all attributes of the array or group at `place`."""
    return node_attributes(require_node(locate(place)))


def node_attributes(node: Node) -> dict[str, JSON]:
    """Return all attributes of a node; reads nothing if they are in its document."""
    key = node.rules.attributes_key
    if not key:
        return user_attributes(node)
    location = node.location
    attributes = read_document(location.store, location.path + key, missing={})
    return _expect_object(attributes, location, key)


def with_number_types(node: Node, attributes: Mapping[str, JSON]) -> dict[str, Any]:
    """Return attributes of a node, with numbers in the types of a file in another format."""
    location = node.location
    types = location.store.number_types(location.path) if offers(location.store, TypedAttributes) else {}
    typed = {name: np.asarray(attributes[name], types[name])[()] for name in types if name in attributes}
    return {**attributes, **typed}


def left_out_attributes(node: Node) -> Mapping[str, str]:
    """Return the attributes in a file of another format that the node lacks, and why."""
    location = node.location
    return location.store.left_out(location.path) if offers(location.store, TypedAttributes) else {}


def user_attributes(node: Node) -> dict[str, JSON]:
    """Return the attributes in the node's own document, as in Zarr v3 and N5."""
    return node.rules.attributes_of(node.document, node.kind)


@contextmanager
def first_attributes(location: Location, format: str, attributes: Mapping[str, JSON]) -> Iterator[None]:
    """Write the attributes of an array, in formats with a separate document for them, before the block writes
    its metadata; if that fails, delete them again."""
    key = tree_format(format).attributes_key
    if not key or not attributes:
        yield
        return
    kv, key = location.store, location.path + key
    generation = kv.write(key, dump_like(dict(attributes), b""), if_equal=MISSING_GENERATION)
    if generation is None:
        change_document(kv, key, lambda _: dict(attributes))
    try:
        yield
    except BaseException:  # an interrupt too
        if generation is not None:
            with suppress(ChunkwiseError):  # the store may have failed for good
                kv.delete(key, if_equal=generation)
        raise


def _changeable(node: Node) -> Node:
    """Return `node` if it can have attributes, or raise; a group of an N5 container gets a document."""
    if node.undeclared:
        raise FailedPreconditionError(
            f"{node.location.text} is a directory without metadata, which can't have attributes"
        )
    return node


def check_changeable(name: str, node: Node) -> None:
    """Raise InvalidArgumentError if `name` is a member of the document other than an attribute."""
    if name in node.rules.own_members(node.kind):
        is_version = name == node.rules.container_member
        what = "the version of the container" if is_version else "how blocks are stored"
        raise InvalidArgumentError(f"{dump(name)} says {what} and can't be changed as an attribute")


def change_attributes(node: Node, change: _Change) -> dict[str, JSON]:
    """Replace the attributes by ``change(attributes)``, again if they changed meanwhile; return them."""
    node = _changeable(node)
    out: dict[str, JSON] = {}

    def replace(attributes: dict[str, JSON]) -> dict[str, JSON]:
        nonlocal out
        out = change(attributes)
        return out

    _change_attributes(node, replace)
    return out


def with_added(location: Location, added: Mapping[str, Mapping[str, JSON]]) -> Location:
    """Return a location whose nodes, at and below it, have added attributes; these are given by path."""
    if added:
        location = location._replace(store=PendingStore(location.store, lambda *_: None))
        add_attributes(location, added)
    return location


def add_attributes(location: Location, added: Mapping[str, Mapping[str, JSON]]) -> None:
    """Add attributes to nodes at and below a location, by path."""
    for path, attributes in added.items():
        at = location.child(path) if path else location
        change_attributes(require_node(at), lambda own: {**own, **attributes})  # noqa: B023


def _change_attributes(node: Node, change: _Change) -> None:
    location, rules = node.location, node.rules
    key = rules.attributes_key
    if key:
        nothing = ByteRange(0, 0)  # reading it shows whether the key exists
        if node.key and location.store.read(location.path + node.key, byte_range=nothing).value is None:
            raise FailedPreconditionError(f"{location.text} was deleted meanwhile")
        change_document(
            location.store,
            location.path + key,
            lambda attributes: change(attributes or {}),
            load=lambda raw: _expect_object(load_json(raw), location, key),
        )
    else:
        key = node.key or rules.group_key
        change_document(
            location.store,
            location.path + key,
            lambda document: _with_attributes(node, key, document, change),
            load=rules.load,
        )
    if rules.consolidated_key:
        update_consolidated(location.store, location.path, format=rules.name)


def _with_attributes(node: Node, key: str, document: JSON, change: _Change) -> JSON:
    """Return the document of a node with its attributes replaced by ``change(attributes)``."""
    location, rules = node.location, node.rules
    if document is None and node.key:
        raise FailedPreconditionError(f"{location.text} was deleted meanwhile")
    document = rules.usual_form(_expect_object({} if document is None else document, location, key))
    member = rules.attributes_member
    if member:
        attributes = change(dict(_expect_object(document.get(member, {}), location, key)))
        return {**document, member: attributes} if member in document or attributes else document
    own = {name: document[name] for name in document if name in rules.own_members(node.kind)}
    after = change({name: value for name, value in document.items() if name not in own})
    for name in after:
        check_changeable(name, node)
    both = {**own, **after}
    merged = {**{name: both[name] for name in document if name in both}, **both}
    if rules.kind_of(key, merged)[0] != node.kind:
        members = [name for name in merged if name in rules.own_members("array")]
        raise InvalidArgumentError(
            f"{location.text}: these attributes would make a dataset of an {rules.title} group: "
            f"{dump(members)}"
        )
    return merged


def _expect_object(value: JSON, location: Location, key: str) -> dict[str, JSON]:
    """Return the value of a document if it is a JSON object."""
    if not isinstance(value, dict):
        name = location.describe(key)
        raise FailedPreconditionError(f"{name}: Expected object, but received: {dump(value)[:80]}")
    return value
