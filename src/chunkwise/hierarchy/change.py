"""Deleting and moving what is in a tree.

An array or group stops being one before its parts go: its own document is deleted first.  So nobody finds
an array with half of its chunks, and what a killed process leaves behind is keys that belong to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial

from chunkwise.api.consolidated import move_consolidated, update_consolidated
from chunkwise.api.consolidated_tree import subtree_copies
from chunkwise.api.location import Location
from chunkwise.api.node import Node
from chunkwise.errors import AlreadyExistsError, InvalidArgumentError, NodeNotFoundError
from chunkwise.hierarchy.create import make_groups
from chunkwise.hierarchy.node_name import check_new_names
from chunkwise.hierarchy.tree import Tree
from chunkwise.kvstore.atomic import Directories
from chunkwise.kvstore.key_range import KeyRange

__all__ = ["delete_node", "move_node"]


def delete_node(tree: Tree, names: Sequence[str]) -> None:
    """Delete an array or group and everything below it; consolidated metadata above follows.

    Raises
    ------
    NodeNotFoundError
        If there is none.
    InvalidArgumentError
        If it is the root of the tree.
    """
    if not names:
        raise InvalidArgumentError("the root of a tree can't be deleted through the tree itself")
    node = tree.find(names)
    location = tree.location(names)
    if node is None:
        raise NodeNotFoundError(f"there is no array or group at {location.text}")
    _delete(location, node)
    update_consolidated(location.kv, location.path)


def _delete(location: Location, node: Node) -> None:
    kv = location.kv
    if node.key:
        kv.delete(location.path + node.key)
    if isinstance(kv, Directories):
        kv.delete_directory(location.path[:-1])
        return
    keys = KeyRange.of_prefix(location.path)
    kv.delete_range(keys.start, keys.stop)


def move_node(tree: Tree, source: Sequence[str], target: Sequence[str]) -> None:
    """Move an array or group with everything below it; consolidated metadata above follows.

    Raises
    ------
    NodeNotFoundError
        If there is none.
    AlreadyExistsError
        If something is at the target.
    InvalidArgumentError
        If one of them is the root, or the target is inside what is to be moved.
    """
    if not source or not target:
        raise InvalidArgumentError("the root of a tree can't be moved, nor anything be put in its place")
    if list(target[: len(source)]) == list(source):
        raise InvalidArgumentError(f"/{'/'.join(source)} can't be moved into itself")
    node = tree.find(source)
    here, there = tree.location(source), tree.location(target)
    if node is None:
        raise NodeNotFoundError(f"there is no array or group at {here.text}")
    check_new_names(list(target), tree.format)
    if tree.find(target) is not None:
        raise AlreadyExistsError(f"there is an array or group at {there.text} already")
    make_groups(tree, target[:-1])
    _move(here, there, node)
    move_consolidated(here.kv, here.path, dict)
    move_consolidated(there.kv, there.path, cache(partial(subtree_copies, there)))


def _move(here: Location, there: Location, node: Node) -> None:
    kv = here.kv
    if isinstance(kv, Directories):
        kv.move_directory(here.path[:-1], there.path[:-1])
        return
    keys = KeyRange.of_prefix(here.path)
    own = here.path + node.key
    moved = [key for key in kv.list(keys.start, keys.stop) if key != own]
    for key in (*moved, *([own] if node.key else [])):  # the document last: then it is whole
        value = kv.read(key).value
        if value is not None:
            kv.write(there.path + key[len(here.path) :], value)
    _delete(here, node)
