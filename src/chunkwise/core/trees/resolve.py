"""Resolution of paths to nodes, through links.

1. The path itself is looked up: without links, that is one read.
2. If there is nothing, the path is followed name by name; a name that the group lacks is looked up among its
   links, and the target replaces the names so far.
3. A cycle of links is an error, and so are more than 40 links.

A soft link never leaves its tree.  An external link is followed only if the caller of
`chunkwise.groups.open_group.open_group` allows it, and its tree is opened for reading.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Sequence

from chunkwise.core.base.binding import dump
from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.specs.url import is_url
from chunkwise.core.trees.link import Link, links_of, target_names
from chunkwise.core.trees.location import Location, locate
from chunkwise.core.trees.node import Node
from chunkwise.core.trees.tree import ResolvedNode, Tree
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError

__all__ = ["ResolvedNode", "group_links", "resolve", "source_location"]

_MOST_LINKS = 40


def resolve(tree: Tree, names: Sequence[str], inside: FormatName | None = None) -> ResolvedNode | None:
    """Return the node at `names`, or None; raise for cycles and forbidden links."""
    seen: set[tuple[object, ...]] = set()
    visited: list[str] = []
    while True:
        node = tree.find(names, inside)
        if node is not None:
            return ResolvedNode(tree, tuple(names), node)
        first = _first_link(tree, names)
        if first is None:
            return None
        group, link = first
        rest = tuple(names[len(group) + 1 :])
        state = (tree.root.store.identity, tree.root.path, tuple(names[: len(group) + 1]), rest)
        visited.append("/" + "/".join(names))
        if state in seen or len(seen) >= _MOST_LINKS:
            raise FailedPreconditionError(
                f"{tree.root.text}: links lead in a circle: {' -> '.join(visited[:5])}"
                + (" -> …" if len(visited) > 5 else "")
            )
        seen.add(state)
        names = [*target_names(link, group), *rest]
        inside = None
        if link.external:
            try:
                tree = _other_tree(tree, link)
            except NotFoundError:
                return None  # as for a dangling soft link


def _first_link(tree: Tree, names: Sequence[str]) -> tuple[tuple[str, ...], Link] | None:
    """Return the first link along `names`, with the names of its group."""
    group = tree.find(())
    for end in range(len(names)):
        if group is None or group.kind == "array":
            return None
        node = tree.find(names[: end + 1], group.format)
        if node is None:
            link = group_links(tree, names[:end], group).get(names[end])
            return None if link is None else (tuple(names[:end]), link)
        group = node
    return None


def group_links(tree: Tree, names: Sequence[str], node: Node) -> dict[str, Link]:
    """Return the links in a group of the tree."""
    return links_of(node, tree.known_attributes(names))


def _other_tree(tree: Tree, link: Link) -> Tree:
    location = source_location(tree, link)
    inside = location.store.identity == tree.root.store.identity and location.path.startswith(tree.root.path)
    if not inside and not tree.allows(link.source, location):
        raise FailedPreconditionError(
            f"a link in {tree.root.text} leads to {location.text}; external links are followed only if "
            "they are allowed when the tree is opened (external_links)"
        )
    return tree.open_other(location, tree)


def source_location(tree: Tree, link: Link) -> Location:
    """Return the root of an external link's tree."""
    source = link.source
    if is_url(source) or source.startswith("/") or os.path.isabs(source):
        return locate(source, tree.context)
    path = posixpath.normpath(posixpath.join("/" + tree.root.path, source))
    climbs = source.split("/").count("..") > len([name for name in tree.root.path.split("/") if name])
    if climbs or "\\" in source or "\0" in source:
        raise InvalidArgumentError(f"the source {dump(source)} of a link leads out of the store")
    return tree.root.at("" if path == "/" else path.lstrip("/") + "/")
