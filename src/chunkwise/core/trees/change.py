"""Deleting, moving and linking nodes of a tree.

A node's own document is deleted first.  So an array with half of its chunks is never seen, and a killed
process only leaves keys that belong to no node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from chunkwise.core.base.catalogue import hooks
from chunkwise.core.kvstore.atomic import AtomicWritable, Directories, RangeCopies
from chunkwise.core.kvstore.compare_and_swap import Losses
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.places.delete_node import delete_node_keys, put_back
from chunkwise.core.kvstore.places.keys_below import (
    copy_below,
    delete_all_below,
    delete_wanted_below,
    is_document,
    list_below,
)
from chunkwise.core.kvstore.places.lease import in_one_step, takes_turns, wait_inside
from chunkwise.core.kvstore.places.replaced_places import note_replaced
from chunkwise.core.kvstore.places.staging import APPEND, in_staging, unwritten
from chunkwise.core.kvstore.places.take_place import generations_above, settle_in_place
from chunkwise.core.kvstore.protocol import ByteRange, KvStoreDriver, offers
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.trees.append import excluding
from chunkwise.core.trees.attributes import add_attributes
from chunkwise.core.trees.consolidated import move_consolidated, update_consolidated
from chunkwise.core.trees.consolidated_tree import renew_copies_above
from chunkwise.core.trees.create import check_no_link, make_groups
from chunkwise.core.trees.destination import check_place
from chunkwise.core.trees.key_ownership import foreign_keys
from chunkwise.core.trees.link import Link, add_link, remove_link, target_names
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.look import check_outside_arrays
from chunkwise.core.trees.new_location import removed_after_failure
from chunkwise.core.trees.node import DOCUMENTS, Node, check_new_names, find_documented, find_node, is_link
from chunkwise.core.trees.tree import Tree, group_links, resolve
from chunkwise.errors import AlreadyExistsError, ChunkwiseError, InvalidArgumentError, NodeNotFoundError

__all__ = [
    "check_unused",
    "delete_all",
    "delete_below",
    "delete_node",
    "make_link",
    "move_node",
    "relocate",
]

_PASSES = 3  # over what others make in a group while it is deleted


def delete_node(tree: Tree, names: Sequence[str]) -> list[str]:
    """Delete an array or group and everything below it, or a link; returns like `delete_all`."""
    if not names:
        raise InvalidArgumentError("the root of a tree can't be deleted through the tree itself")
    node, names, link = _node_or_link(tree, names)
    if link is None:
        return delete_all(tree.location(names), node)
    remove_link(node, names[-1])
    return []


def _node_or_link(tree: Tree, names: Sequence[str]) -> tuple[Node, Sequence[str], Link | None]:
    """Return a node and the names to it without links above; or a link and the group that contains it."""
    node = tree.find(names)
    if node is not None:
        return node, names, None
    found = resolve(tree, names[:-1])
    if found is None or found.node.kind == "array":
        raise NodeNotFoundError(f"there is no array, group or link at {tree.location(names).text}")
    if found.tree is not tree:
        raise InvalidArgumentError(
            f"{tree.location(names).text} is in another tree, {found.tree.root.text}; change it there"
        )
    names = (*found.names, names[-1])
    link = group_links(tree, found.names, found.node).get(names[-1])
    if link is not None:
        return found.node, names, link
    node = tree.find(names)
    if node is None:
        raise NodeNotFoundError(f"there is no array, group or link at {tree.location(names).text}")
    return node, names, None


def delete_all(location: Location, node: Node, known: Iterable[Node] = ()) -> list[str]:
    """Delete a node and everything below it, document first; update consolidated metadata above.

    Returns the keys that belong to no array or group; they stay, with their directories.  `known` are nodes
    there that were just read.  New data of another process for the place of the node stays.
    """
    left: list[str] = []
    if is_link(location):
        location.store.delete(location.path[:-1])  # its target stays
    else:
        with _taking_turns(location, node) as held:
            left = _delete(location, node, known, held)
    update_consolidated(location.store, location.path)
    return left


def _delete(location: Location, node: Node, known: Iterable[Node], held: bool) -> list[str]:
    kv, path, made = location.store, location.path, list[str]()
    left = foreign_keys(location, known, made)
    if held and wait_inside(kv, path, made):  # half of what others are replacing must not come back
        made.clear()
        left = foreign_keys(location, (), made)
    is_own, is_whole = unwritten(path), in_one_step(kv) and not offers(kv, Directories)
    for number in range(_PASSES):
        try:
            _delete_keys(location, node, left, made, is_first=not number)
        except NodeNotFoundError:
            if not number:
                raise
            break  # what is there now are chunks of others
        # Directories are listed one by one, so what others make in those listed before is seen afterwards.
        if is_whole or not any(is_own(key) for key in {*list_below(kv, path)}.difference(left)):
            break
        made.clear()
        left = foreign_keys(location, (), made)
    return left


def _delete_keys(
    location: Location, node: Node, keep: Sequence[str], made: Iterable[str], *, is_first: bool = True
) -> None:
    kv, path = location.store, location.path
    # Where there are only nodes, the rest couldn't be listed without the document.
    document = "" if traits_of(kv).nodes_only or not is_first else node.key
    check = partial(_check_taken, location, node, document)
    delete_node_keys(kv, path, keep, made, document=document, documents=DOCUMENTS, check=check)


def _check_taken(location: Location, node: Node, document: str, path: str) -> None:
    """Raise NodeNotFoundError if there is no node at a path to which one has been moved, but chunks."""
    kv = location.store
    if document and kv.read(path + document, byte_range=ByteRange(0, 0)).value is not None:
        return
    if any(is_document(key, DOCUMENTS) for key in list_below(kv, path)):
        return
    if not node.key:  # a directory is a group, unless it is in an array
        check_outside_arrays(location)
        return
    raise NodeNotFoundError(f"{location.text} was deleted by another process meanwhile")


@contextmanager
def _taking_turns(location: Location, node: Node) -> Iterator[bool]:
    """Exclude others that append to a node or replace it; yield False where that is one step."""
    if not takes_turns(location.store, location.path + APPEND):
        yield False
    else:
        with excluding(location, clears=True, checks=[partial(_check_there, location, node)]):
            yield True


def _check_there(location: Location, node: Node) -> None:
    """Raise NodeNotFoundError if others have deleted a node: what is below may be chunks of their array."""
    is_gone = node.key and location.store.read(location.path + node.key).value is None
    if is_gone and find_documented(location) is None:
        raise NodeNotFoundError(f"{location.text} was deleted by another process meanwhile")


def delete_below(location: Location) -> None:
    """Delete all keys below a location to which only this library has written, and its directory."""
    delete_all_below(location.store, location.path)


def move_node(tree: Tree, source: Sequence[str], target: Sequence[str]) -> None:
    """Move an array, a group with everything below it, or a link; update consolidated metadata above."""
    if not source or not target:
        raise InvalidArgumentError("the root of a tree can't be moved, nor anything be put in its place")
    there = tree.location(target)
    check_new_names(list(target), tree.format)
    node, source, link = _node_or_link(tree, source)
    if list(target[: len(source)]) == list(source):
        raise InvalidArgumentError(f"/{'/'.join(source)} can't be moved into itself")
    check_unused(there)
    if link is not None:
        path = "/" + "/".join(target_names(link, tuple(source[:-1])))
        make_link(tree, target, link._replace(path=path))
        remove_link(node, source[-1])
        return
    with removed_after_failure(make_groups(tree, target[:-1])):
        check_no_link(tree, target)
        relocate(tree.location(source), there, node)


def check_unused(location: Location) -> None:
    """Raise AlreadyExistsError if a node can't be moved to `location` because that is occupied."""
    others: list[str] = []
    node = find_node(location, None, others)
    if node is not None:
        inside = "; a place in it is PATH/NAME" if node.kind == "group" else ""
        raise AlreadyExistsError(f"there is an array or group at {location.text} already{inside}")
    check_place(location, "group", "zarr3", "new", (node, others))


def make_link(tree: Tree, names: Sequence[str], link: Link) -> None:
    """Add a link to the tree; missing groups above it are created."""
    if not names:
        raise InvalidArgumentError("the root of a tree can't be a link")
    check_new_names(list(names), tree.format)
    path = "/" + "/".join(target_names(link, tuple(names[:-1])))
    if tree.find(names) is not None:
        raise AlreadyExistsError(f"there is an array or group at {tree.location(names).text} already")
    make_groups(tree, names[:-1])
    check_no_link(tree, names)
    parent = tree.find(names[:-1])
    assert parent is not None
    add_link(parent, names[-1], link._replace(path=path))


def relocate(here: Location, there: Location, node: Node) -> None:
    """Move a node to a vacant location in the same store; update consolidated metadata.

    What only the groups above it say of labels, it says by itself afterwards.
    """
    add_attributes(here, hooks.find("label marks")(node, there.name))
    _move(here, there, node)
    move_consolidated(here.store, here.path, dict)
    renew_copies_above(there)


def _move(here: Location, there: Location, node: Node) -> None:
    kv: Any = here.store
    if offers(kv, Directories):
        kv.move_directory(here.path[:-1], there.path[:-1])
        note_replaced(here.store, here.path)
        undo = partial(put_back, kv, there.path, here.path)
        try:
            _check_taken(here, node, node.key, there.path)
        except BaseException:
            undo()
            raise
        settle_in_place(there.store, there.path, DOCUMENTS, partial(check_outside_arrays, there), undo)
        return
    if offers(kv, AtomicWritable):
        _move_at_once(kv, here, there, node)
        return
    with _taking_turns(here, node) as held:
        made = list(list_below(kv, here.path))
        if held and wait_inside(kv, here.path, made):
            made = list(list_below(kv, here.path))
        try:
            copy_below(kv, here.path, there.path, DOCUMENTS, to=kv)
            check_outside_arrays(there)
        except BaseException:  # an interrupt too: the node must exist only in its old location
            with suppress(ChunkwiseError):  # the store may have failed permanently
                _delete_copy(kv, here.path, there.path)
            raise
        _delete_keys(here, node, (), made)


def _delete_copy(kv: KvStoreDriver, here: str, there: str) -> None:
    """Delete the keys below `there` that have the values of those below `here`."""

    def is_copy(key: str) -> bool:
        value = kv.read(key).value
        return value is not None and value == kv.read(here + key[len(there) :]).value

    # Chunks of an array that another process has put above may be there, too.
    delete_wanted_below(kv, there, lambda key: is_document(key, DOCUMENTS) and is_copy(key))
    delete_wanted_below(kv, there, is_copy)


def _move_at_once(kv: Any, source: Location, to: Location, node: Node) -> None:
    """Move all keys by one change, but not those that others write, or have made meanwhile."""
    here, there = source.path, to.path
    losses, own = Losses(lambda: kv.describe(here)), unwritten(here)
    while True:
        above = generations_above(kv, there, DOCUMENTS)
        check_outside_arrays(to)
        gone = [key for key in list_below(kv, here) if own(key) or not in_staging(key[len(here) :])]
        moved = [key for key in gone if not in_staging(key[len(here) :]) and not key.endswith("/" + APPEND)]
        shares = offers(kv, RangeCopies)
        found = {key: kv.read(key, byte_range=ByteRange(0, 0) if shares else None) for key in moved}
        _check_taken(source, node, node.key, here)
        # After the generations: a later value fails the condition.
        shared = kv.references(kv, KeyRange.of_prefix(here)) if shares else {}
        values: dict[str, Any] = {key: shared.get(key, stamped.value) for key, stamped in found.items()}
        changes = dict.fromkeys(gone) | {there + key[len(here) :]: values[key] for key in moved}
        refused = kv.write_all(changes, conditions=above | {key: found[key].generation for key in moved})
        if refused is None:
            note_replaced(kv, here)
            return
        losses.add(above.get(refused) or found[refused].generation)
