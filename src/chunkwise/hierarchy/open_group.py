"""``open_group``: from a path, a URL, a spec or a kvstore to the root of a tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from chunkwise.api.attribute_value import NonFinite, check_non_finite
from chunkwise.api.container import create_container
from chunkwise.api.location import Location, Place, locate
from chunkwise.api.new_array import create_parents
from chunkwise.api.node import FormatName, Node, find_node
from chunkwise.errors import (
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
)
from chunkwise.hierarchy.create import make_group
from chunkwise.hierarchy.group import Group
from chunkwise.hierarchy.tree import Tree, check_format, check_group
from chunkwise.kvstore.key_range import KeyRange
from chunkwise.spec.context import Context

__all__ = ["Mode", "create_group", "open_group"]

Mode: TypeAlias = Literal["r", "r+", "a", "w", "w-"]

_MODES = ("r", "r+", "a", "w", "w-")


def open_group(
    place: Place,
    mode: Mode = "r",
    *,
    format: str | None = None,
    attributes: Mapping[str, Any] | None = None,
    context: Context | None = None,
    non_finite: NonFinite = "error",
) -> Group:
    """Open a group, or make one.

    Parameters
    ----------
    place : str, path-like, Spec, KvStore, KvStore.Spec or JSON
        Where it is.
    mode : {"r", "r+", "a", "w", "w-"}
        ``r``: it must exist, nothing is changed.  ``r+``: it must exist.  ``a``: it is made if it is
        missing.  ``w``: it is made, and what is there is deleted.  ``w-``: it is made, nothing may be there.
    format : {"zarr3", "zarr2", "n5"}, optional
        Which documents to look for; what to make.  By default what is there; for a new one what the name
        says, ``*.n5``, or else Zarr v3.
    attributes : mapping, optional
        Of a group that is made.
    context : Context, optional
        Where the resources of a spec come from.
    non_finite : {"error", "string", "literal"}
        What is done with NaN and infinities in attributes.

    Raises
    ------
    NotFoundError, AlreadyExistsError
        If it is missing and not to be made, or the other way round.
    """
    if mode not in _MODES:
        raise InvalidArgumentError(f"mode: expected one of {', '.join(_MODES)}, not {mode!r}")
    check_non_finite(non_finite)
    location = locate(place, context)
    wanted = None if format is None else check_format(format, group=True)
    node = find_node(location, wanted)
    if node is not None and wanted is not None and node.format not in (wanted, None):
        node = None if mode in ("a", "w-", "w") else node
    if mode == "w" and node is not None:
        _clear(node)
        node = None
    if node is None or (node.implicit and mode in ("a", "w-") and node.format != "n5"):
        if mode in ("r", "r+"):
            raise NotFoundError(f"there is no group at {location.text}")
        return _create(location, wanted or _suggested(location), attributes or {}, non_finite)
    if mode == "w-":
        raise AlreadyExistsError(f"{location.text} is a {node.kind} already ({node.format})")
    if node.error:
        raise FailedPreconditionError(f"{location.kv.describe(location.path + node.key)}: {node.error}")
    if node.kind == "array" and not (node.format == "n5" and "n5" in node.document):
        raise InvalidArgumentError(f"{location.text} is an array, not a group ({node.format})")
    check_group(node)
    tree = Tree(
        root=location,
        format=node.format or wanted or _suggested(location),
        writable=mode != "r",
        non_finite=non_finite,
    )
    return Group._make(tree, (), node)


def create_group(
    place: Place,
    *,
    format: str | None = None,
    attributes: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    context: Context | None = None,
    non_finite: NonFinite = "error",
) -> Group:
    """Make a group and open it for reading and writing; see :func:`open_group`."""
    return open_group(
        place,
        "w" if overwrite else "w-",
        format=format,
        attributes=attributes,
        context=context,
        non_finite=non_finite,
    )


def _suggested(location: Location) -> FormatName:
    return "n5" if any(name.endswith(".n5") for name in location.path.split("/")) else "zarr3"


def _create(
    location: Location, format: FormatName, attributes: Mapping[str, Any], non_finite: NonFinite
) -> Group:
    tree = Tree(root=location, format=format, writable=True, non_finite=non_finite)
    create_parents(location, format)
    node = make_group(tree, (), attributes)
    if format == "n5":
        create_container(location)
        found = find_node(location, format)
        assert found is not None
        node = found
    return Group._make(tree, (), node)


def _clear(node: Node) -> None:
    location = node.location
    if node.implicit:
        raise FailedPreconditionError(
            f"{location.text} is a directory that is neither group nor array and not empty; "
            "delete it yourself if nothing in it is needed"
        )
    keys = KeyRange.of_prefix(location.path) if location.path else KeyRange()
    location.kv.delete_range(keys.start, keys.stop)
