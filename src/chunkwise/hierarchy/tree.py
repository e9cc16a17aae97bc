"""One open tree: where its root is, what may be done with it, and how a node of it is found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chunkwise.api.attribute_value import NonFinite
from chunkwise.api.location import Location
from chunkwise.api.node import FormatName, Node, find_node
from chunkwise.binding import dump
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError, UnsupportedError

__all__ = ["Tree", "check_format", "check_group"]

_FORMATS: dict[str, FormatName] = {
    "zarr3": "zarr3",
    "zarr2": "zarr2",
    "zarr": "zarr2",
    "zarr1": "zarr1",
    "n5": "n5",
}

_GROUP_MEMBERS = ("zarr_format", "node_type", "attributes", "consolidated_metadata")


@dataclass(frozen=True, kw_only=True)
class Tree:
    """An open tree; all its groups share one.

    Attributes
    ----------
    root : Location
    format : {"zarr3", "zarr2", "n5"}
        Of the root, and of new nodes.
    writable : bool
    non_finite : {"error", "string", "literal"}
        What is done with NaN and infinities in attributes.
    """

    root: Location
    format: FormatName
    writable: bool
    non_finite: NonFinite = "error"

    def location(self, names: Sequence[str]) -> Location:
        """Return the location of the node that `names` lead to from the root."""
        return self.root.at("".join((self.root.path, *(f"{name}/" for name in names))))

    def find(self, names: Sequence[str], inside: FormatName | None = None) -> Node | None:
        """Return the node that `names` lead to, no links followed; None if there is none.

        Parameters
        ----------
        names : sequence of str
        inside : str, optional
            Format of the group that it is in; by default that of the root.

        Raises
        ------
        FailedPreconditionError
            If its document can't be read.
        """
        location = self.location(names)
        node = find_node(location, inside or self.format)
        if node is None:
            return self._directory(names, location)
        if node.error:
            raise FailedPreconditionError(f"{location.kv.describe(location.path + node.key)}: {node.error}")
        if node.kind == "group":
            check_group(node)
        return node

    def _directory(self, names: Sequence[str], location: Location) -> Node | None:
        """Return the N5 group that a directory with nothing in it is."""
        if self.format != "n5" or not names:
            return None
        parent = self.location(names[:-1])
        if location.path[:-1] in parent.kv.list_children(parent.path).prefixes:
            return Node(location, "n5", "group")
        return None

    def check_writable(self) -> None:
        """Raise InvalidArgumentError if the tree was opened for reading."""
        if not self.writable:
            raise InvalidArgumentError(f'{self.root.text} was opened with mode "r", for reading only')


def check_format(name: str, *, group: bool = False) -> FormatName:
    """Return the format called `name`; ``zarr`` is Zarr v2, as a driver.

    Raises
    ------
    InvalidArgumentError
        If there is none, or it is to be that of a group and has none.
    """
    known = [name for name in _FORMATS if not (group and name == "zarr1")]
    if name not in known:
        raise InvalidArgumentError(f"format: expected one of {', '.join(known)}, not {name!r}")
    return _FORMATS[name]


def check_group(node: Node) -> None:
    """Raise if a group has metadata that has to be understood and isn't.

    Specification: Zarr core v3.1, "Group metadata", "Extension points"; Zarr v2, "Groups".

    Raises
    ------
    FailedPreconditionError
        If the document isn't that of a group.
    UnsupportedError
        If it has members that must be understood.
    """
    name = node.location.kv.describe(node.location.path + node.key)
    document = node.document
    if node.format == "zarr2" and node.key and document.get("zarr_format") != 2:
        raise FailedPreconditionError(
            f'{name}: Expected "zarr_format" of 2, but received: {dump(document.get("zarr_format"))}'
        )
    if node.format != "zarr3" or not node.key:
        return
    if document.get("zarr_format") != 3:
        raise FailedPreconditionError(
            f'{name}: Expected "zarr_format" of 3, but received: {dump(document.get("zarr_format"))}'
        )
    for member, value in document.items():
        if member in _GROUP_MEMBERS:
            continue
        if not (isinstance(value, dict) and value.get("must_understand") is False):
            raise UnsupportedError(
                f"{name}: Unsupported metadata field {dump(member)} is not marked "
                '{"must_understand": false}'
            )
