"""The node or array at a place, for every command and function that reads: one way to find it, one to open
it.

A place is what `chunkwise.open` and `chunkwise.open_group` take: a path or URL of a node, of a file with
nodes in it (HDF5, TIFF, ZIP), of a picture or a precomputed volume; a file ``*.json`` with a spec; a spec; a
store of this or another library; a folder or glob of pictures.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import islice
from typing import TypeAlias

from chunkwise.copying.new_array import open_array
from chunkwise.copying.pictures import named_axes, open_pictures, pictures_at
from chunkwise.core.api.open import open as open_spec
from chunkwise.core.api.spec_file import read_spec_file
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.binding import JSON
from chunkwise.core.base.catalogue import DRIVERS
from chunkwise.core.driver.auto.detect import NoFormatError
from chunkwise.core.driver.tree_formats import FORMATS
from chunkwise.core.specs.context import Context
from chunkwise.core.specs.spec import Spec
from chunkwise.core.trees.attributes import node_attributes
from chunkwise.core.trees.location import Location, LocationLike, inside_file, locate
from chunkwise.core.trees.node import Node, find_documented, find_node, nothing_at, what_is_at
from chunkwise.core.trees.walk import walk
from chunkwise.errors import (
    ChunkwiseError,
    FailedPreconditionError,
    InvalidArgumentError,
    prefix,
)

_SHOWN = 10

__all__ = ["Place", "find_array", "find_source", "open_source", "open_view", "what_is"]

Place: TypeAlias = "LocationLike | TensorStore"


def find_source(place: LocationLike, context: Context | None = None) -> Location:
    """Return the location that `place` names: of a file with nodes in it, that of the root of these."""
    stored = _stored_array(place, context)
    if stored is not None:
        return stored
    location = locate(place, context)
    if find_node(location) is not None:
        return location
    return inside_file(location, context, archives=True) or location


def _stored_array(place: object, context: Context | None) -> Location | None:
    """Return where the whole array is stored whose spec the file `place` has; None for others."""
    if not isinstance(place, str | os.PathLike):
        return None
    spec = read_spec_file(place, context)
    if spec is None or not {"driver", "kvstore"} <= spec.keys() <= {"driver", "kvstore", "path"}:
        return None
    location = locate(spec, context)
    node = find_documented(location)
    if node is None or node.kind != "array" or FORMATS.get(spec["driver"]) not in (None, node.format):
        return None
    return location._replace(text=os.fspath(place))


def open_view(place: object, context: Context | None = None) -> TensorStore | None:
    """Open what is an array without a place: a spec, or the file of one, or pictures; None for others."""
    if isinstance(place, TensorStore):
        return place
    if isinstance(place, str | os.PathLike):
        spec = read_spec_file(place, context)
        if spec is not None:
            try:
                return open_spec(spec, read=True, context=context).result()
            except ChunkwiseError as e:
                raise prefix(e, os.fspath(place)) from None
    pictures = pictures_at(place)
    if pictures is not None:
        return open_pictures(pictures)
    json = place.to_json() if isinstance(place, Spec) else place
    if _is_array_spec(json):
        return open_spec(json, read=True, context=context).result()
    return None


def _is_array_spec(json: object) -> bool:
    return isinstance(json, Mapping) and json.get("driver") in DRIVERS and json.get("driver") != "auto"


def find_array(place: Place, context: Context | None = None) -> TensorStore | None:
    """Open what is an array but no node, so a view, pictures, or a volume; None for a node, or nothing."""
    if isinstance(place, TensorStore):
        return place
    if _stored_array(place, context) is not None:
        return None
    view = open_view(place, context)
    if view is not None:
        return view
    location = find_source(place, context)
    node = find_node(location)
    if node is not None and not node.undeclared:
        return None
    try:
        return _open_detected(location, node, context)
    except NoFormatError:
        return None
    except ChunkwiseError:
        if node is None:  # a picture or a volume that is damaged
            raise
        return None


def _open_detected(location: Location, node: Node | None, context: Context | None) -> TensorStore:
    """Open the array at a location with the driver that its files call for."""
    kvstore = location.kvstore()
    if node is None:
        kvstore = kvstore.with_path(kvstore.path.rstrip("/"))
    spec: dict[str, JSON] = {"driver": "auto", "kvstore": kvstore}
    return named_axes(open_spec(spec, read=True, context=context).result())


def what_is(array: TensorStore) -> str:
    """Return what an array that is no node is, for messages."""
    driver = str(array.spec().to_json()["driver"])
    return "a precomputed volume" if driver == "neuroglancer_precomputed" else f"one array ({driver})"


def _only_array(root: Node, context: Context | None) -> TensorStore:
    """Return the array in a file that has one alone; raise InvalidArgumentError for others."""
    found = list(islice((walked.node for walked in walk(root) if walked.node.kind == "array"), _SHOWN + 1))
    if len(found) == 1:
        return open_array(found[0].location, read=True, context=context)
    start = len(root.location.path)
    names = [f"{root.location.text}{node.location.path[start:].rstrip('/')}" for node in found[:_SHOWN]]
    more = ", …" if len(found) > _SHOWN else ""
    raise InvalidArgumentError(
        f"{root.location.text} is a group, not an array; name one of its arrays: "
        f"{', '.join(names) or 'there are none'}{more}"
    )


def open_source(place: Place, context: Context | None = None) -> TensorStore:
    """Open for reading the array that `place` names; of a file with images the first one."""
    view = open_view(place, context)
    if view is not None:
        return view
    location = locate(place, context)  # type: ignore[arg-type]  # an array is a view
    node = find_node(location)
    if node is not None and node.error:
        raise FailedPreconditionError(f"{location.describe(node.key)}: {node.error}")
    if node is not None and not node.undeclared:
        return open_array(location, read=True, context=context)
    inside = None if node is not None else inside_file(location, context, archives=True)
    root = None if inside is None else find_node(inside)
    if inside is not None and root is not None:
        if root.kind == "array":
            return open_array(inside, read=True, context=context)
        if find_node(inside.child("0")) is None or "multiscales" not in node_attributes(root):
            return _only_array(root, context)
    try:
        return _open_detected(location, node, context)
    except ChunkwiseError as e:
        if node is not None and not what_is_at(location):
            raise InvalidArgumentError(f"{location.text} is a group, not an array (a directory)") from None
        if node is not None or inside is None:
            raise nothing_at(location) from None
        raise e
