"""Creation of groups, and of the groups above them.

Documents are written from the root down, each on condition that it is missing, so if two processes make the
same group, one finds the other's.  A directory without a document becomes a Zarr group when something is made
below it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from chunkwise.core.arrays.metadata_observers import NO_CHECKS
from chunkwise.core.base.binding import JSON
from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.core.kvstore.protocol import Stamped
from chunkwise.core.trees.attributes import attributes_to_json
from chunkwise.core.trees.consolidated import update_consolidated
from chunkwise.core.trees.destination import check_place
from chunkwise.core.trees.document import change_document, dump_like, write_new
from chunkwise.core.trees.link import remove_link
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.look import check_not_linked
from chunkwise.core.trees.new_location import removed_after_failure, write_alone
from chunkwise.core.trees.node import Node, check_new_names, find_node, node_of
from chunkwise.core.trees.replacement import replacing
from chunkwise.core.trees.tree import Tree, group_links
from chunkwise.errors import AlreadyExistsError

__all__ = [
    "check_names",
    "check_no_link",
    "get_or_create",
    "group_attributes",
    "make_group",
    "make_groups",
    "write_group",
]

T = TypeVar("T")

_PAUSES = (0.0, 0.01, 0.05, 0.2)  # seconds: a new node is seen a moment after it is in the way


def make_groups(tree: Tree, names: Sequence[str], known: int = 0) -> list[Location]:
    """Make the missing groups along `names`, and return them; the first `known` exist."""
    made: list[Location] = []
    missing = list(_missing(tree, names, known))  # all is looked at before anything is written
    with removed_after_failure(made):
        for end, node in missing:
            at = tree.location(names[:end])
            if (node is None or not tree_format(tree.format).directories_are_groups) and write_group(
                at, tree.format, {}
            ):
                made.append(at)
    return made


def check_names(tree: Tree, names: Sequence[str], known: int = 0) -> None:
    """Raise if there can't be a node at `names`, because an array or a link is there or on the way."""
    for _ in _missing(tree, names[:-1], known):
        pass
    check_no_link(tree, names)


def _missing(tree: Tree, names: Sequence[str], known: int) -> Iterator[tuple[int, Node | None]]:
    """Yield the lengths of paths along `names` without a group that has a document."""
    check_new_names(list(names[known:]), tree.format)
    for end in range(known + 1, len(names) + 1):
        node = tree.find(names[:end])
        if node is not None and node.kind == "array":
            raise AlreadyExistsError(f"{node.location.text} is an array; nothing can be below it")
        if node is None:
            check_no_link(tree, names[:end])
        if node is None or node.implicit:
            yield end, node


def make_group(
    tree: Tree,
    names: Sequence[str],
    attributes: Mapping[str, JSON],
    *,
    known: int = 0,
    exist_ok: bool = False,
    overwrite: bool = False,
) -> Node:
    """Make a group and its missing parents; return it."""
    values = group_attributes(tree, attributes)
    known = min(known, max(len(names) - 1, 0))
    check_new_names(list(names[known:]), tree.format)
    location = tree.location(names)
    others: list[str] = []
    if overwrite:
        for _ in _missing(tree, names[:-1], known):
            pass
        if find_node(location, tree.format, others) is not None or others:
            return _replace_group(tree, names, values, known)
        parent = tree.find(names[:-1]) if names else None
        if parent is not None and names[-1] in group_links(tree, names[:-1], parent):
            write_group(location, tree.format, values)  # an existing node takes precedence over a link
            remove_link(parent, names[-1])
    node = tree.find(names, others=others)
    if node is not None and node.kind == "array":
        raise AlreadyExistsError(f"{node.location.text} is an array already ({node.format})")
    if node is not None and not node.implicit and not exist_ok and not overwrite:
        raise AlreadyExistsError(
            f"{node.location.text} is a group already ({node.format}); overwrite=True replaces it, and "
            "require_group opens it"
        )
    if node is None:
        check_no_link(tree, names)
    is_new = node is None or node.implicit
    if is_new:
        check_place(location, "group", tree.format, "overwrite" if overwrite else "add", (node, others))
    made = make_groups(tree, names[:-1], known)
    with removed_after_failure(made):
        if is_new:
            written = write_group(location, tree.format, values)
            if written is not None:
                made.append(location)
            node = written or tree.find(names)
            if node is None or node.kind == "array" or (written is None and not exist_ok):
                raise AlreadyExistsError(f"{location.text} was made or deleted by another process meanwhile")
    assert node is not None
    return node


def group_attributes(tree: Tree, attributes: Mapping[str, Any]) -> dict[str, JSON]:
    """Return the attributes of a new group as JSON; raise if the group can't be made."""
    values = attributes_to_json(attributes, tree.non_finite)
    tree.rules.check_group_attributes(values)
    return values


def _replace_group(tree: Tree, names: Sequence[str], attributes: Mapping[str, JSON], known: int) -> Node:
    location = tree.location(names)
    with replacing(location) as staging:
        write_group(staging, tree.format, attributes)
        make_groups(tree, names[:-1], known)
    node = tree.find(names)
    if node is None:
        raise AlreadyExistsError(f"{location.text} was deleted by another process meanwhile")
    return node


def check_no_link(tree: Tree, names: Sequence[str]) -> None:
    """Raise AlreadyExistsError if a group has a link with the name of a new node."""
    if not names:
        return
    parent = tree.find(names[:-1])
    if parent is None:
        return
    check_not_linked(parent, names[-1], tree.known_attributes(names[:-1]))


def write_group(
    location: Location, format: FormatName, attributes: Mapping[str, JSON], *, follow: bool = True
) -> Node | None:
    """Write the documents of a group unless they exist; return the node if this call made it, or None."""
    # With `follow`, consolidated metadata above is updated.  A group that can't be made completely is
    # removed.
    kv, path = location.store, location.path
    rules = tree_format(format)
    rules.check_group_attributes(attributes)
    (key, document), *beside = rules.group_documents(attributes).items()
    raw = dump_like(document, b"")

    def finish(looks: Sequence[Callable[[], object]], *, is_new: bool = True) -> None:
        if beside or not follow:
            for look in looks if follow else ():
                look()
            looks = ()
        for other, _ in beside if is_new else ():
            if not write_new(kv, path + other, dict(attributes)):
                change_document(kv, path + other, lambda before: {**(before or {}), **attributes})
        if follow:
            from chunkwise.core.arrays.metadata_observers import (
                checks_above,
            )  # not loaded before it is needed

            checks = checks_above(kv, path, rules) if is_new else NO_CHECKS
            update_consolidated(kv, path, format=format, checks=checks, looks=looks)

    generation = write_alone(location, key, raw, finish)
    if generation is None:
        finish((), is_new=False)
        return None
    return node_of(location, key, Stamped(raw, generation, time.time()))


def get_or_create(get: Callable[[], T | None], create: Callable[[], T]) -> T:
    """Return the result of `get`, or else that of `create`.

    If `create` raises because another process was faster, `get` looks again.

    Raises
    ------
    AlreadyExistsError
        If something is in the way that `get` doesn't find.
    """
    found = get()
    for pause in _PAUSES:
        if found is not None:
            return found
        try:
            return create()
        except AlreadyExistsError as e:
            time.sleep(random.uniform(0.5, 1.0) * pause)
            found, error = get(), e
    if found is None:
        raise error
    return found
