"""Groups without the methods that change anything: names, members, links, attributes, drawings."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

from chunkwise.copying.new_array import open_node
from chunkwise.copying.overlap import store_and_path
from chunkwise.copying.resolve import Resolvable, ResolvedPlace, resolved_node
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.binding import dump
from chunkwise.core.engine.concurrent_requests import is_slow, map_requests
from chunkwise.core.trees.link import Link
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.node import Node, find_node, is_name, split_path
from chunkwise.core.trees.node_attributes import Attributes
from chunkwise.core.trees.tree import ResolvedNode, Tree, group_links, resolve
from chunkwise.core.trees.walk import UNREADABLE, look_ahead
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, NodeNotFoundError, noted
from chunkwise.groups.lazy_array import lazy_array

if TYPE_CHECKING:
    from chunkwise.groups.drawing import Drawing

__all__ = ["ReadableGroup"]

_IN_SHORT = {"depth": 1, "attributes": True, "most": 20}
_FROM_COPY = (
    "the group is read from its consolidated metadata; consolidated=False finds what other software has "
    "added without updating it"
)


class ReadableGroup(Resolvable):
    """The read-only part of a group."""

    __slots__ = ("__weakref__", "_attributes", "_names", "_node", "_tree")

    _tree: Tree
    _names: tuple[str, ...]
    _node: Node
    _attributes: Attributes | None

    def __init__(self) -> None:
        raise TypeError("cannot create 'Group' instances; use chunkwise.open_group")

    @classmethod
    def _make(cls, tree: Tree, names: Sequence[str], node: Node) -> Self:
        self = cls.__new__(cls)
        self._tree = tree
        self._names = tuple(names)
        self._node = node
        self._attributes = None
        return self

    # -- what it is -----------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """Path from the root of the tree that was opened; empty for the root itself."""
        return "/".join(self._names)

    @property
    def name(self) -> str:
        """The path with a "/" in front."""
        return "/" + self.path

    @property
    def basename(self) -> str:
        """Last component of the path; empty for the root."""
        return self._names[-1] if self._names else ""

    @property
    def format(self) -> str:
        """``"zarr3"``, ``"zarr2"`` or ``"n5"``."""
        return self._node.format or self._tree.format

    @property
    def mode(self) -> str:
        """``"r"`` or ``"r+"``."""
        return "r+" if self._tree.writable else "r"

    @property
    def implicit(self) -> bool:
        """True for a group without a document that has something below it."""
        return self._node.implicit

    def _resolve(self) -> ResolvedPlace:
        return resolved_node(self._node)

    def _place(self) -> tuple[Any, ...]:
        return (self._node.format, *store_and_path(self.location.store, self.location.path))

    def __eq__(self, other: object) -> bool:
        """Return True for a group at the same place, as in h5py."""
        return self._place() == other._place() if isinstance(other, ReadableGroup) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._place())

    @property
    def location(self) -> Location:
        """Location of the group."""
        return self._node.location

    @property
    def root(self) -> Self:
        """The root of the tree."""
        return self["/"]  # type: ignore[return-value]

    @property
    def parent(self) -> Self:
        """The group around this one; of the root the root, as in h5py."""
        return self["/" + "/".join(self._names[:-1])]  # type: ignore[return-value]

    @property
    def attrs(self) -> Attributes:
        """The attributes."""
        if self._attributes is None:
            self._attributes = self._tree.attributes(self._names, self._node)
        return self._attributes

    # -- looking up -----------------------------------------------------------------------------

    def _find(self, path: str) -> ResolvedNode:
        found = resolve(self._tree, split_path(path, self.path), self._node.format)
        if found is None:
            note = "" if self._tree.snapshot is None else _FROM_COPY
            raise noted(NodeNotFoundError(f"{dump(path)} in {self._tree.location(self._names).text}"), note)
        return found

    @classmethod
    def _open(cls, found: ResolvedNode) -> Self | TensorStore:
        tree, names, node = found
        if node.kind == "group" or (not names and node.rules.has_containers):
            return cls._make(tree, names, node)
        entry = None if tree.snapshot is None else tree.snapshot.find("/".join(names))
        return open_node(tree, names, node) if entry is None else lazy_array(tree, names, entry)

    def _open_found(self, names: tuple[str, ...], node: Node) -> Self | TensorStore | None:
        checked = self._tree.checked(names, node)
        return None if checked is None else self._open(ResolvedNode(self._tree, names, checked))

    def _look_at(self, names: Sequence[str]) -> dict[str, Node]:
        """Return the nodes right below, requested together; nothing where requests take no time."""
        store, inside = self.location.store, self._node.format or self._tree.format
        if self._tree.snapshot is not None or not is_slow(store):
            return {}

        def find(name: str) -> Node | None:
            return find_node(self._tree.location((*self._names, name)), inside)

        found = zip(names, map_requests(store, find, names), strict=True)
        return {name: node for name, node in found if node is not None}

    def __getitem__(self, path: str) -> Self | TensorStore:
        return self._open(self._find(path))

    def array(self, path: str) -> TensorStore:
        """Return the array at `path`: ``group[path]``, with a type that checkers know.

        Parameters
        ----------
        path : str
            Path of the array.

        Raises
        ------
        NodeNotFoundError
            If there is nothing.
        InvalidArgumentError
            If it is a group.
        """
        member = self[path]
        if not isinstance(member, TensorStore):
            raise InvalidArgumentError(f"{member.location.text} is a group, not an array")
        return member

    def group(self, path: str) -> Self:
        """Return the group at `path`: ``group[path]``, with a type that checkers know.

        Parameters
        ----------
        path : str
            Path of the group.

        Raises
        ------
        NodeNotFoundError
            If there is nothing.
        InvalidArgumentError
            If it is an array.
        """
        member = self[path]
        if isinstance(member, TensorStore):
            raise InvalidArgumentError(f"{self._find(path).node.location.text} is an array, not a group")
        return member

    def get(self, path: str, default: Any = None) -> Any:
        """Return the group or array at `path`, `default` if there is none.

        Parameters
        ----------
        path : str
            Path of a group or array.
        default : object
            Returned if there is none.
        """
        try:
            return self[path]
        except NodeNotFoundError:
            return default

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, str):
            return False
        try:
            self._find(path)
        except (NodeNotFoundError, InvalidArgumentError):
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        below = dict.fromkeys(self._tree.children(self._names, self._node))
        return iter(sorted(below | dict.fromkeys(self.links())))

    def links(self) -> dict[str, Link]:
        """Return the links in this group by name, without following them."""
        return group_links(self._tree, self._names, self._node)

    def keys(self) -> list[str]:
        """Return the names of all members, links included, in order; takes one listing and opens nothing."""
        return list(iter(self))  # `list(self)` would ask for the length too

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return True

    def items(self) -> Iterator[tuple[str, Self | TensorStore]]:
        """Yield name and member, for each, in the order of their names.

        Links are followed; those that lead nowhere, or out of the tree without permission, are left out.  So
        are directories that hold neither group nor array and, with a warning, members that can't be read.
        """
        links, below = self.links(), self._tree.children(self._names, self._node)
        found = self._look_at(below)
        for name in sorted({*below, *links}):
            try:
                node = found.get(name)
                member = self.get(name) if node is None else self._open_found((*self._names, name), node)
            except ChunkwiseError as e:
                if name not in links:
                    _leave_out(self._tree.location((*self._names, name)), e)
                continue
            if member is not None:
                yield name, member

    def values(self) -> Iterator[Self | TensorStore]:
        """Yield the members."""
        return (member for _, member in self.items())

    def groups(self) -> Iterator[tuple[str, Self]]:
        """Yield the names of groups right below this one, and the groups."""
        return ((name, member) for name, member in self.items() if isinstance(member, ReadableGroup))

    def arrays(self) -> Iterator[tuple[str, TensorStore]]:
        """Yield the names of arrays right below this group, and the arrays."""
        return ((name, member) for name, member in self.items() if isinstance(member, TensorStore))

    def walk(self) -> Iterator[tuple[str, Self | TensorStore]]:
        """Yield path (from this group) and member for everything below it, a group before its members.

        Links are not followed.  A member that can't be read is left out, with a warning.
        """
        is_ahead = self._tree.snapshot is None and is_slow(self.location.store)
        yield from self._walk(look_ahead(self._node) if is_ahead else None, "")

    def _walk(
        self, ahead: Mapping[str, list[tuple[str, Node]]] | None, own: str
    ) -> Iterator[tuple[str, Self | TensorStore]]:
        # `ahead` has the nodes below each group, by the group's path from where the walk began; `own` is that
        # path.
        snapshot = self._tree.snapshot
        known = None if ahead is None else {path.rpartition("/")[2]: at for path, at in ahead.get(own, ())}
        for name in self._tree.children(self._names, self._node) if known is None else sorted(known):
            if not is_name(name):
                continue
            names = (*self._names, name)
            entry = None if snapshot is None else snapshot.find("/".join(names))
            if entry is not None and entry.kind == "array":
                yield name, lazy_array(self._tree, names, entry)
                continue
            try:
                if known is None:
                    node = self._tree.find(names, self._node.format)
                else:
                    node = self._tree.checked(names, known[name])
                if node is None:
                    continue
                member = self._open(ResolvedNode(self._tree, names, node))
            except ChunkwiseError as e:
                _leave_out(self._tree.location(names), e)
                continue
            below: Iterator[tuple[str, Self | TensorStore]] = iter(())
            if isinstance(member, ReadableGroup):
                below = member._walk(ahead, f"{own}/{name}" if own else name)
            if node.undeclared:
                # A directory in a Zarr tree is a group only if there is a node below it.
                first = next(below, None)
                if first is None:
                    continue
                below = chain((first,), below)
            yield name, member
            for path, inner in below:
                yield f"{name}/{path}", inner

    def visit(self, function: Callable[[str], Any]) -> Any:
        """Call ``function(path)`` for all below, until a result isn't None, and return that; as h5py does.

        Parameters
        ----------
        function : callable
            Takes a path from this group.

        Returns
        -------
        object
            The first result that isn't None, else None.
        """
        return self.visititems(lambda path, _: function(path))

    def visititems(self, function: Callable[[str, Self | TensorStore], Any]) -> Any:
        """Call ``function(path, member)`` for all below, until a result isn't None, and return that.

        Parameters
        ----------
        function : callable
            Takes a path from this group, and the member there.

        Returns
        -------
        object
            The first result that isn't None, else None.
        """
        for path, member in self.walk():
            result = function(path, member)
            if result is not None:
                return result
        return None

    # -- looks ----------------------------------------------------------------------------------

    def tree(self, depth: int | None = None, *, attributes: bool = False) -> Drawing:
        """Return a drawing of everything below: text when printed, HTML in a notebook.

        Parameters
        ----------
        depth : int, optional
            Number of levels to show; by default all.
        attributes : bool
            Whether to show attributes.
        """
        return self._drawing(depth=depth, attributes=attributes)

    def _drawing(self, **options: Any) -> Drawing:
        from chunkwise.groups.drawing import Drawing  # with HTML and summaries, which few programs need

        return Drawing(self._tree, self._names, self._node, **options)

    def __repr__(self) -> str:
        head = f"<chunkwise.Group {self.name} ({self.format}, mode {self.mode!r}) in {self._tree.root.text}>"
        try:
            return f"{head}\n{self._drawing(**_IN_SHORT)}"
        except ChunkwiseError as e:  # it is gone, or the store is
            return f"{head}\n{e}"

    def _repr_html_(self) -> str | None:
        try:
            return self._drawing(**_IN_SHORT)._repr_html_()
        except ChunkwiseError:  # the text says why
            return None

    def _ipython_key_completions_(self) -> list[str]:
        return self.keys()


def _leave_out(location: Location, error: ChunkwiseError) -> None:
    """Warn of a node that is left out; raise errors that concern more than that node."""
    if not isinstance(error, UNREADABLE):
        raise error
    warnings.warn(f"{location.text} is left out: {error.message}", stacklevel=3)
