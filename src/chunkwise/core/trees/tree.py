"""``Tree``: an open tree, its options, and how its nodes are found, through links too.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NoReturn, TypeAlias

from chunkwise.core.arrays.chunked import ChunkedArray
from chunkwise.core.arrays.open_chunked import open_from_document
from chunkwise.core.base.arguments import check_choice
from chunkwise.core.base.binding import JSON, dump
from chunkwise.core.chunk_key import is_number
from chunkwise.core.driver.chunked.spec import ChunkedSpec
from chunkwise.core.driver.tree_format import FormatName, TreeFormat
from chunkwise.core.driver.tree_formats import DRIVERS, TREE_FORMATS, tree_format
from chunkwise.core.kvstore.protocol import UNKNOWN_GENERATION
from chunkwise.core.specs.context import Context
from chunkwise.core.specs.spec import Spec
from chunkwise.core.specs.url import is_url
from chunkwise.core.trees.attributes import NonFinite
from chunkwise.core.trees.consolidated import Entry, Snapshot
from chunkwise.core.trees.key_ownership import foreign_files
from chunkwise.core.trees.link import Link, links_of, target_names
from chunkwise.core.trees.location import Location, locate
from chunkwise.core.trees.node import Node, find_node, is_name, nodes_below
from chunkwise.core.trees.node_attributes import ArrayNode, Attributes
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError, UnsupportedError

__all__ = [
    "ExternalLinks",
    "ResolvedNode",
    "Tree",
    "check_format",
    "check_group",
    "group_links",
    "read_only",
    "resolve",
    "source_location",
]

_BY_NAME: dict[str, FormatName] = {
    name: format.name for format in TREE_FORMATS.values() for name in (format.name, format.driver)
}

ExternalLinks: TypeAlias = bool | Callable[[str, str], bool]


def _open_no_other(location: Location, tree: Tree) -> NoReturn:
    raise UnsupportedError(f"{location.text} is another tree, to which links aren't followed here")


@dataclass(frozen=True, kw_only=True)
class Tree:
    """An open tree; all its groups share one."""

    root: Location
    format: FormatName  # format of the root, and of new nodes
    writable: bool = False
    non_finite: NonFinite = "error"
    context: Context = field(default_factory=Context)
    external_links: ExternalLinks = False
    open_other: Callable[[Location, Tree], Tree] = _open_no_other  # opens the tree of an external link
    snapshot: Snapshot | None = None  # trusted without reading the store
    _specs: dict[FormatName, ChunkedSpec] = field(default_factory=dict, compare=False, repr=False)

    @property
    def rules(self) -> TreeFormat:
        """Rules by which the tree's format stores nodes."""
        return tree_format(self.format)

    def location(self, names: Sequence[str]) -> Location:
        """Return the location at `names` from the root."""
        if not names:
            return self.root
        below, root = "/".join(names), self.root
        in_file = root.text.endswith(":")  # such as "x.zip|zip:"
        text = root.text if in_file else f"{root.text.rstrip('/')}/"
        return Location(root.store, f"{root.path}{below}/", text + below, root.base, root.store_spec)

    def find(
        self, names: Sequence[str], inside: FormatName | None = None, others: list[str] | None = None
    ) -> Node | None:
        """Return the node at `names`, without following links, or None."""
        # `others` is as for `find_node`.
        location = self.location(names)
        if self.snapshot is not None:
            entry = self.snapshot.find("/".join(names))
            return None if entry is None else self.node_of_entry(names, entry, location)
        return self.checked(names, find_node(location, inside or self.format, others))

    def checked(self, names: Sequence[str], node: Node | None) -> Node | None:
        """Return a found node, or None for a directory of an array; raise if the node can't be read."""
        if node is None or (node.implicit and self._in_array(names)):
            return None
        node.check()
        if node.kind == "group":
            check_group(node)
        return node

    def node_of_entry(self, names: Sequence[str], entry: Entry, location: Location | None = None) -> Node:
        """Return the node of an entry of the snapshot."""
        assert self.snapshot is not None
        where = self.location(names) if location is None else location
        node = Node(where, self.snapshot.format, entry.kind, entry.key, entry.document)
        if node.kind == "group":
            check_group(node)
        return node

    def _in_array(self, names: Sequence[str]) -> bool:
        """Return True if a directory has chunks of an array above."""
        for end in range(len(names) - 1, -1, -1):
            node = find_node(self.location(names[:end]), self.format)
            if node is not None and not node.implicit:
                return node.kind == "array" and (end > 0 or is_number(names[0]))
        return False

    def children(self, names: Sequence[str], node: Node, files: list[str] | None = None) -> list[str]:
        """Return the sorted names directly below a group, without links; some may be plain directories.

        Names of files that belong to no node are appended to `files`, but not those in consolidated metadata.
        """
        if self.snapshot is not None:
            known = self.snapshot.children("/".join(names))
            return sorted(name for name in known if self.rules.lists(name))
        listing = node.location.store.list_children(node.location.path)
        found = nodes_below(node.location, listing)
        if files is not None:
            names_of_keys = {key[len(node.location.path) :] for key in listing.keys}
            files += foreign_files(sorted(names_of_keys.difference(found)))
        if node.kind == "array":  # an N5 container that is also a dataset, with blocks
            found = [name for name in found if not is_number(name)]
        return sorted(name for name in found if is_name(name) and node.rules.lists(name))

    def allows(self, source: str, location: Location) -> bool:
        """Return True if an external link to another tree may be followed."""
        allowed = self.external_links
        return allowed if isinstance(allowed, bool) else bool(allowed(source, location.url))

    def known_attributes(self, names: Sequence[str]) -> Mapping[str, JSON] | None:
        """Return a node's attributes from a snapshot with a separate document for them, or None."""
        entry = None if self.snapshot is None else self.snapshot.find("/".join(names))
        return None if entry is None else entry.attributes

    def attributes(self, names: Sequence[str], node: Node) -> Attributes:
        """Return the attributes of a node."""
        known = self.known_attributes(names)
        frozen = "" if self.writable else read_only(self.root.text)
        return Attributes(node, known=known, frozen=frozen, non_finite=self.non_finite)

    def open_array(
        self,
        node: Node,
        *,
        document: Mapping[str, JSON] | None = None,
        context: Context | None = None,
        **members: Any,
    ) -> ChunkedArray:
        """Open an array of the tree from its document, or another one, without reading that again.

        `members` are further ones of its spec.
        """
        assert node.format is not None
        own = context is not None or bool(members)
        spec = None if own else self._specs.get(node.format)
        if spec is None:
            json = {"driver": DRIVERS[node.format], "open": True, **members}
            bound = Spec(json)._driver.bind(self.context if context is None else context)
            assert isinstance(bound, ChunkedSpec)
            spec = bound
            if not own:
                self._specs[node.format] = spec
        found = node.found
        return open_from_document(
            replace(spec, kvstore=node.location.kvstore()),
            self.root.store,
            node.location.path,
            node.document if document is None else document,
            generation=UNKNOWN_GENERATION if found is None else found.generation,
            time=found.time if found is not None else self.snapshot.time if self.snapshot else 0.0,
            looked=self.snapshot.change_number if found is None and self.snapshot else None,
            readable=True,
            writable=self.writable,
        )

    def array_node(self, names: Sequence[str], node: Node) -> ArrayNode:
        """Return the node of an array of the tree."""
        return ArrayNode(node, "/".join(names), self.attributes(names, node))

    def check_writable(self) -> None:
        """Raise InvalidArgumentError if the tree was opened for reading."""
        if not self.writable:
            raise InvalidArgumentError(read_only(self.root.text))


class ResolvedNode(NamedTuple):
    """A node, and the path to it without links."""

    tree: Tree
    names: tuple[str, ...]
    node: Node


def check_format(name: str, *, group: bool = False) -> FormatName:
    """Return the format called `name`, which may be its driver's name; raise if there is none."""
    known = [name for name, format in _BY_NAME.items() if not group or tree_format(format).group_key]
    check_choice(name, "format", known)
    return _BY_NAME[name]


def check_group(node: Node) -> None:
    """Raise for a document other than a group's, or with an unknown member that must be understood."""
    if node.key:
        node.rules.check_group(node.document, node.location.describe(node.key))


def read_only(text: str) -> str:
    """Return the text of the error of changing a tree that was opened for reading."""
    return (
        f'{text} was opened with mode "r", for reading only; '
        'chunkwise.open_group(path, "r+") opens it for writing too'
    )


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
