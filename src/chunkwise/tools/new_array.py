"""Opening and creating the array at a location.

A new Zarr array below a group gets the groups between, an N5 dataset makes its container name its
version, and consolidated metadata above follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chunkwise.api.open import open as open_spec
from chunkwise.api.tensorstore import TensorStore
from chunkwise.driver.auto.found_instead import interrupted_instead
from chunkwise.errors import InvalidArgumentError, NotFoundError
from chunkwise.hierarchy.attributes import write_first_attributes
from chunkwise.hierarchy.consolidated import update_consolidated
from chunkwise.hierarchy.location import Location
from chunkwise.hierarchy.new_location import check_free, check_outside_arrays, create_parents
from chunkwise.hierarchy.node import DRIVERS, FORMATS, Node, require_node
from chunkwise.hierarchy.tree import Tree
from chunkwise.index_space import IndexTransform
from chunkwise.kvstore.staging import is_staging
from chunkwise.tools.target import Target

__all__ = ["create_array", "open_array", "open_node"]


def open_array(location: Location, **options: Any) -> TensorStore:
    """Open the array at `location`, whatever its format."""
    node = require_node(location)
    if node.kind == "group" or node.format is None:
        if node.implicit and (found := interrupted_instead(location.store, location.path, location.text)):
            raise NotFoundError(f"there is no array at {location.text}: {found}")
        what = "a directory" if node.implicit else f"{node.format} group"
        raise InvalidArgumentError(f"{location.text} is a group, not an array ({what})")
    spec = {"driver": DRIVERS[node.format], "kvstore": location.kvstore(), "open": True}
    return open_spec(spec, **options).result()


def open_node(tree: Tree, names: Sequence[str], node: Node) -> TensorStore:
    """Open an array of a tree, of which nothing is read that hasn't been read already."""
    array = tree.open_array(node)
    return TensorStore._make(array, IndexTransform.identity(array.domain), None, tree.array_node(names, node))


def create_array(location: Location, target: Target) -> TensorStore:
    """Make an array.

    Raises
    ------
    AlreadyExistsError
        If there is one, a group or other files are in its place, or an array is above it.
    """
    format = FORMATS[target.spec["driver"]]
    if not is_staging(location.name):  # which is in the array that it replaces, in some stores
        check_outside_arrays(location)
    check_free(location, format)
    spec = {**target.spec, "kvstore": location.kvstore()}
    # Nothing is to be left of an array that can't be made.
    planned = open_spec({**spec, "open": True, "assume_metadata": True}).result()
    create_parents(location, format, text=planned.dtype.name == "ustring")
    write_first_attributes(location, format, target.attributes)
    open_spec({**spec, "create": True}).result()
    update_consolidated(location.store, location.path)
    return open_array(location)
