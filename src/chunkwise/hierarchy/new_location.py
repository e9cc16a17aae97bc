"""Locations of new arrays: choosing a format, checking that they are free, clearing them, making parents."""

from __future__ import annotations

from itertools import chain
from pathlib import PurePath

from chunkwise.driver.n5.document import is_marker
from chunkwise.errors import AlreadyExistsError, FailedPreconditionError, PermissionDeniedError
from chunkwise.hierarchy.consolidated import update_consolidated
from chunkwise.hierarchy.container import check_container, mark_container
from chunkwise.hierarchy.location import Location
from chunkwise.hierarchy.node import JOURNAL, FormatName, Node, find_documented, find_node
from chunkwise.hierarchy.walk import walk
from chunkwise.kvstore.key_range import KeyRange
from chunkwise.kvstore.protocol import MISSING_GENERATION

__all__ = [
    "array_above",
    "check_free",
    "check_outside_arrays",
    "clear",
    "clear_tree",
    "create_parents",
    "format_by_name",
    "suggested_format",
]

_GROUPS = {
    "zarr3": ("zarr.json", b'{"zarr_format":3,"node_type":"group","attributes":{}}'),
    "zarr2": (".zgroup", b'{"zarr_format":2}'),
}


def check_free(location: Location, format: str) -> None:
    """Raise AlreadyExistsError unless an array of `format` can be made at `location`."""
    # A group must not be hidden; only an N5 container with nothing in it can become a dataset.
    if format == "n5":
        check_container(location)
    node = find_node(location)
    if node is None:
        return
    if node.kind == "array":
        raise AlreadyExistsError(f"{location.text} is an array already ({node.format})")
    if node.key == JOURNAL:
        raise AlreadyExistsError(f"{location.text} is an {node.error}")
    is_bare = format == "n5" == node.format and is_marker(node.document)
    if is_bare and not location.store.list_children(location.path).prefixes:
        return
    if node.implicit:
        raise AlreadyExistsError(f"{location.text} is a directory that isn't empty")
    raise AlreadyExistsError(f"{location.text} is a group already ({node.format})")


def check_outside_arrays(location: Location) -> None:
    """Raise AlreadyExistsError if `location` is inside an array: what is made there could be its chunks."""
    array = array_above(location)
    if array is not None:
        raise AlreadyExistsError(f"{array.text} is an array; nothing can be below it")


def array_above(location: Location) -> Location | None:
    """Return the array that `location` is inside, None if it is in none."""
    for at in location.parents:
        try:
            node = find_documented(at)
        except PermissionDeniedError:  # what lies so far above is somebody else's
            return None
        if node is not None:
            return at if node.kind == "array" else None
    return None


def clear(location: Location) -> None:
    """Delete the array or unfinished copy at `location`; raise if it is a group or has nodes below."""
    node = find_node(location)
    if node is None:
        return
    if node.kind == "group" and node.key != JOURNAL:
        if node.implicit or is_marker(node.document):
            return  # check_free says whether it is in the way
        raise FailedPreconditionError(f"{location.text} is a group; only an array can be overwritten")
    below = [walked.name for walked in walk(node) if walked.name]
    if below:
        raise FailedPreconditionError(
            f"{location.text} can't be overwritten: there are others below it, such as {below[0]}"
        )
    keys = KeyRange.of_prefix(location.path)
    location.store.delete_range(keys.start, keys.stop)
    update_consolidated(location.store, location.path)


def clear_tree(node: Node) -> None:
    """Delete a node and everything below it; raise if it is a directory that nothing says to be a group."""
    location = node.location
    if node.implicit:
        if not location.store.list_children(location.path).prefixes:
            return
        raise FailedPreconditionError(
            f"{location.text} is a directory that is neither group nor array and not empty; "
            "delete it yourself if nothing in it is needed"
        )
    keys = KeyRange.of_prefix(location.path)
    location.store.delete_range(keys.start, keys.stop)


def create_parents(location: Location, format: str, *, text: bool = False) -> None:
    """Make the Zarr groups between an array and the nearest group above, or mark its N5 container."""
    if format == "n5":
        mark_container(location, text=text)
        return
    if format not in _GROUPS:
        return
    key, document = _GROUPS[format]
    missing: list[Location] = []
    for at in location.parents:
        if not at.path:
            return
        node = find_documented(at)
        if node is not None:
            if node.format == format and node.kind == "group":
                for between in missing:
                    if between.store.write(between.path + key, document, if_equal=MISSING_GENERATION):
                        update_consolidated(between.store, between.path)
            return
        missing.append(at)


def format_by_name(location: Location) -> FormatName:
    """Return ``"n5"`` if a part of the path says so, such as ``a.n5``, else ``"zarr3"``."""
    return "n5" if any(name.endswith(".n5") for name in location.path.split("/")) else "zarr3"


_SUFFIXES: dict[str, str] = {".n5": "n5", ".zarr": "zarr3", ".zarr3": "zarr3"}


def suggested_format(location: Location, source: str | None = None) -> str | None:
    """Return the format of the nearest group above, else that of a suffix such as ``.n5``, else `source`."""
    for at in chain((location,), location.parents):
        group = None if at is location else _group_format(at)
        if group is not None:
            return group
        suffix = PurePath(at.name).suffix  # ".zarr" can be any format of Zarr
        if suffix == ".zarr" and source is not None and source != "n5":
            return source
        if suffix in _SUFFIXES:
            return _SUFFIXES[suffix]
    return source


def _group_format(location: Location) -> str | None:
    try:
        node = find_documented(location)
    except PermissionDeniedError:  # what lies so far above is somebody else's
        return None
    return node.format if node is not None and node.kind == "group" else None
