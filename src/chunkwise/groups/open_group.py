"""``open_group``: the root of the tree that a path, a URL, a spec or a kvstore names."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal, TypeAlias

from chunkwise.copying.resolve import Resolvable, inside_array, resolve
from chunkwise.core.base.arguments import check_choice
from chunkwise.core.base.binding import load_json, not_too_deep
from chunkwise.core.driver.n5.tree import check_version
from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.driver.tree_formats import TREE_FORMATS
from chunkwise.core.kvstore.value import read_bounded
from chunkwise.core.specs.context import Context, as_context
from chunkwise.core.specs.storage_options import with_storage_options
from chunkwise.core.trees.attributes import NonFinite, check_non_finite
from chunkwise.core.trees.consolidated import parse_snapshot
from chunkwise.core.trees.container import check_container, container_root, create_container, mark_container
from chunkwise.core.trees.create import get_or_create, group_attributes, write_group
from chunkwise.core.trees.destination import Destination
from chunkwise.core.trees.location import Location, LocationLike, locate
from chunkwise.core.trees.node import (
    Node,
    find_documented,
    find_node,
    how_to_say,
    instead_of_node,
    node_of,
    nothing_at,
)
from chunkwise.core.trees.replacement import replacing
from chunkwise.core.trees.tree import ExternalLinks, Tree, check_format, check_group
from chunkwise.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError, PermissionDeniedError
from chunkwise.extension.trees import format_of, format_said
from chunkwise.groups.group import Group

__all__ = ["Mode", "check_implicit", "create_group", "open_group"]

Mode: TypeAlias = Literal["r", "r+", "a", "w", "w-"]

_MODES = ("r", "r+", "a", "w", "w-")


def open_group(
    place: LocationLike | Resolvable,
    mode: Mode = "r",
    *,
    format: str | None = None,
    attributes: Mapping[str, Any] | None = None,
    consolidated: bool | None = None,
    context: Context | None = None,
    non_finite: NonFinite = "error",
    external_links: ExternalLinks = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Group:
    """Open a group, or create one.

    Parameters
    ----------
    place : str, path-like, Spec, KvStore, KvStore.Spec or JSON
        Location of the group.
    mode : {"r", "r+", "a", "w", "w-"}
        ``r``: read-only, it must exist.  ``r+``: it must exist.  ``a``: it is created if it is missing.
        ``w``: an empty group replaces an existing node; files that belong to no array or group stay.  ``w-``:
        it is created, nothing may be there.
    format : {"zarr3", "zarr2", "n5"}, optional
        Format to look for or to create.  By default that of an existing group; for a new one that of the
        group that it is in, else N5 for a name ``*.n5``, else Zarr v3.  A directory without a document is a
        group only if a format is given, or in an N5 container.
    attributes : mapping, optional
        Attributes of a new group.
    consolidated : bool, optional
        Whether to read the whole tree from its consolidated metadata, not from the nodes themselves.  By
        default with mode ``r``, if there is any; with True, missing metadata is an error.
    context : Context, optional
        Source of the resources of a spec and of arrays.
    non_finite : {"error", "string", "literal"}
        Treatment of NaN and infinities in attributes.
    external_links : bool or callable
        Whether links to other trees are followed.  A function gets the source as the link names it, and its
        URL, and returns whether it may be followed.  The other tree is opened for reading.
    storage_options : mapping, optional
        Options for a URL as in fsspec, such as ``{"anon": True}``; see
        `chunkwise.core.specs.storage_options`.

    Returns
    -------
    Group
        Read-only in mode ``r``.

    Raises
    ------
    NotFoundError, AlreadyExistsError
        If it is missing and must exist, or exists and must not.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> path = tempfile.mkdtemp() + "/a.zarr"
    >>> group = chunkwise.create_group(path)
    >>> _ = group.create_array("raw/em", np.arange(6))
    >>> group = chunkwise.open_group(path)
    >>> sorted(group), "raw/em" in group
    (['raw'], True)
    >>> group["raw/em"][2:4].read().result()
    array([2, 3])
    """
    check_choice(mode, "mode", _MODES)
    check_non_finite(non_finite)
    if isinstance(place, str) and place.startswith("n5:"):
        raise InvalidArgumentError(f"{place!r} is an N5 URI: open it with open_n5_uri")
    context = as_context(context)
    place = with_storage_options(place, storage_options)
    asked = place._resolve().asked if isinstance(place, Resolvable) else None
    location = asked or locate(place, context)  # type: ignore[arg-type]  # an array, which is none
    wanted = format_said(location, format)
    if wanted is not None:
        check_format(wanted, group=True)
    if consolidated and mode != "r":
        raise InvalidArgumentError(
            f'consolidated metadata are for reading: open with mode "r", not {mode!r}, to use them'
        )
    options: dict[str, Any] = {
        "root": location,
        "non_finite": non_finite,
        "context": context,
        "external_links": external_links,
        "open_other": _open_other,
    }
    if mode == "r" and consolidated is not False:
        group = _from_snapshot(location, wanted, options)
        if group is not None and (group._tree.snapshot is not None or not consolidated):
            return group
        if consolidated:
            raise NotFoundError(f"there are no consolidated metadata at {location.text}")
    if mode == "w-":
        way = 'mode="w", or overwrite=True of create_group,'
        to = Destination.of(location, "group", format=wanted, way=way)
        return _create(to, attributes or {}, options)
    node = find_node(location, wanted)
    if node is not None and wanted is not None and node.format not in (wanted, None):
        if mode in ("r", "r+"):
            raise NotFoundError(
                f"there is no {wanted} group at {location.text}, but a {node.format} {node.kind}"
            )
        if mode == "a":
            raise AlreadyExistsError(
                f"{location.text} is a {node.kind} already ({node.format}), but format is {wanted}"
            )
    if mode == "w":
        to = Destination.of(location, "group", format=wanted, mode="overwrite")
        if to.state == "nothing":
            with suppress(AlreadyExistsError):  # another process was faster
                return _create(to, attributes or {}, options)
            to = Destination.of(location, "group", format=wanted, mode="overwrite")
        return _replace(to, attributes or {}, options)
    if mode == "r" and (node is None or node.undeclared):
        found = resolve(place, context).seen(location, node)
        if found.array is not None:
            raise InvalidArgumentError(
                f"{location.text} is {found.what}, not a group; chunkwise.open_multiscale opens it"
            )
        inside = found.location
        is_elsewhere = inside is not None and (inside.path, inside.text) != (location.path, location.text)
        if is_elsewhere and found.node is not None and (found.kind == "group" or node is None):
            location, node = found.node.location, found.node
            options["root"] = location
    if node is None or (node.implicit and mode == "a"):
        if mode in ("r", "r+"):
            raise nothing_at(location, "group")

        def new() -> Group:
            return _create(Destination.of(location, "group", format=wanted), attributes or {}, options)

        return get_or_create(lambda: _found(location, wanted, options), new)
    if node.implicit:
        check_implicit(node)
    return _opened(node, wanted, options, writable=mode != "r")


def _found(location: Location, wanted: FormatName | None, options: dict[str, Any]) -> Group | None:
    """Return the group that is declared at `location`, of a format if given, or None."""
    node = find_documented(location, wanted)
    if node is None or (wanted is not None and node.format != wanted):
        return None
    return _opened(node, wanted, options, writable=True)


def check_implicit(node: Node) -> None:
    """Raise NotFoundError for a directory that neither its container nor a given format makes a group."""
    location = node.location
    if inside := inside_array(location):
        raise inside
    if node.format is None:
        if instead := instead_of_node(node):
            raise NotFoundError(f"there is no group at {location.text}: {instead}")
        raise NotFoundError(
            f"there is no group at {location.text}, but a directory without metadata, which a format makes a "
            f'group: format="zarr3", "zarr2" or "n5"{how_to_say(node)}'
        )


def _open_other(location: Location, tree: Tree) -> Tree:
    """Open the tree that an external link in `tree` leads to."""
    other = open_group(
        location, context=tree.context, non_finite=tree.non_finite, external_links=tree.external_links
    )
    return other._tree


def _opened(node: Node, wanted: FormatName | None, options: dict[str, Any], *, writable: bool) -> Group:
    location = node.location
    node.check()
    holds_nodes = node.is_container and not writable  # a container, as found
    if node.kind == "array" and not holds_nodes:
        raise InvalidArgumentError(
            f"{location.text} is an array, not a group ({node.format}); chunkwise.open_array opens it"
        )
    check_group(node)
    if node.is_container:
        check_version(node.document[node.rules.container_member])
    elif node.rules.has_containers:
        check_container(location)
    tree = Tree(format=node.format or wanted or format_of(location, "group"), writable=writable, **options)
    return Group._make(tree, (), node)


@not_too_deep
def _from_snapshot(location: Location, wanted: FormatName | None, options: dict[str, Any]) -> Group | None:
    """Open a group from its consolidated metadata; None if it has none."""
    kv, path = location.store, location.path
    for format, rules in TREE_FORMATS.items():
        key = rules.consolidated_key
        try:
            found = read_bounded(kv, path + key) if key and wanted in (None, format) else None
        except PermissionDeniedError:  # as of a missing key in a bucket that may not be listed
            continue
        if found is None or found.value is None:
            continue
        if not rules.consolidated_member:
            document = load_json(found.value, location.describe(key))
            snapshot = parse_snapshot(key, document, found.time)
        else:
            node = node_of(location, key, found)
            is_group = not node.error and node.kind == "group"
            snapshot = parse_snapshot(key, node.document, found.time) if is_group else None
            if snapshot is None:
                return _opened(node, format, options, writable=False)
        if snapshot is not None:
            tree = Tree(format=snapshot.format, writable=False, snapshot=snapshot, **options)
            root = tree.find(())
            assert root is not None
            return Group._make(tree, (), root)
    return None


def create_group(
    place: LocationLike,
    *,
    format: str | None = None,
    attributes: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    context: Context | None = None,
    non_finite: NonFinite = "error",
    external_links: ExternalLinks = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Group:
    """Create a group and open it for reading and writing; see `open_group`.

    Parameters
    ----------
    place, format, attributes, context, non_finite, external_links, storage_options
        As for `open_group`.
    overwrite : bool
        Replace an existing node by an empty group, as mode ``w`` of `open_group` does.

    Returns
    -------
    Group
        Open for reading and writing.

    Raises
    ------
    AlreadyExistsError
        If there is an array or a group, unless `overwrite` is true.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> path = tempfile.mkdtemp() + "/a.zarr"
    >>> group = chunkwise.create_group(path)
    >>> _ = group.create_array("raw/em", np.arange(6))
    >>> group = chunkwise.open_group(path)
    >>> sorted(group), "raw/em" in group
    (['raw'], True)
    >>> group["raw/em"][2:4].read().result()
    array([2, 3])
    """
    return open_group(
        place,
        "w" if overwrite else "w-",
        format=format,
        attributes=attributes,
        context=context,
        non_finite=non_finite,
        external_links=external_links,
        storage_options=storage_options,
    )


def _create(to: Destination, attributes: Mapping[str, Any], options: dict[str, Any]) -> Group:
    location, format = to.location, to.format
    tree = Tree(format=format, writable=True, **options)
    values = group_attributes(tree, attributes)
    with to.parents_made() as made:
        node = write_group(location, format, values)
        if node is None:
            raise AlreadyExistsError(f"{location.text} was made by another process meanwhile")
        made.append(location)
        if tree.rules.has_containers:
            if container_root(location) is None:
                create_container(location)
            else:
                mark_container(location)
            node = find_node(location, format) or node
    return Group._make(tree, (), node)


def _replace(to: Destination, attributes: Mapping[str, Any], options: dict[str, Any]) -> Group:
    """Replace the present content by an empty group."""
    location, format = to.location, to.format
    tree = Tree(format=format, writable=True, **options)
    values = group_attributes(tree, attributes)
    above = location.parent
    root = None if above is None or not tree.rules.has_containers else container_root(above)
    with replacing(location) as staging:
        write_group(staging, format, values)
        if tree.rules.has_containers and root is None:
            create_container(staging)
        to.create_parents()
    node = find_node(location, format)
    if node is None:
        raise AlreadyExistsError(f"{location.text} was deleted by another process meanwhile")
    return Group._make(tree, (), node)
