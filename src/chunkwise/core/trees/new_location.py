"""Locations of new nodes: choosing a format, checking for existing data, making the groups above."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, pairwise, takewhile
from pathlib import PurePath

from chunkwise.core.base.binding import dump
from chunkwise.core.driver.n5.document import is_marker
from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, WithDirectories, offers
from chunkwise.core.kvstore.staging import APPEND, is_staging
from chunkwise.core.trees.consolidated import update_consolidated
from chunkwise.core.trees.container import CONTAINER_FORMAT, check_container, mark_container
from chunkwise.core.trees.document import dump_like
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.node import DOCUMENTS, JOURNAL, Node, find_documented, find_node, nodes_below
from chunkwise.core.trees.own_keys import delete_own, is_made_here
from chunkwise.core.trees.walk import walk
from chunkwise.errors import (
    AlreadyExistsError,
    ChunkwiseError,
    FailedPreconditionError,
    PermissionDeniedError,
)

__all__ = [
    "array_above",
    "check_declared",
    "check_free",
    "check_outside_arrays",
    "check_replaceable",
    "check_vacant",
    "create_parents",
    "format_of_new",
    "parents_made",
    "remove_groups",
    "suggested_format",
]


def check_free(location: Location, format: str, *, among_others: bool = False) -> None:
    """Raise AlreadyExistsError unless an array of `format` can be made at `location`."""
    # A group must not be hidden; only an empty N5 container can become a dataset.  Files that belong to no
    # node are in the way too, unless the array may be `among_others`.
    if format == CONTAINER_FORMAT:
        check_container(location)
    others: list[str] = []
    node = find_node(location, None, others)
    if node is None or (node.implicit and among_others and not _holds_nodes(node)):
        if not among_others:
            _check_no_others(location, others)
        return
    if node.kind == "array":
        raise AlreadyExistsError(f"{location.text} is an array already ({node.format})")
    if node.key == JOURNAL:
        raise AlreadyExistsError(f"{location.text} is an {node.error}")
    if node.implicit and not nodes_below(location):  # in N5, an empty directory, or one with files
        _check_no_others(location, others)
        return
    is_bare = format == CONTAINER_FORMAT == node.format and is_marker(node.document)
    if is_bare and not nodes_below(location):
        return
    if node.implicit:
        if find_documented(location) is not None:  # somebody has just made it
            check_free(location, format, among_others=among_others)
            return
        raise AlreadyExistsError(f"{location.text} is a directory that isn't empty")
    raise AlreadyExistsError(f"{location.text} is a group already ({node.format})")


def check_vacant(location: Location, node: Node | None, others: list[str]) -> None:
    """Raise AlreadyExistsError if a new group at `location` would be among files of no node."""
    # `others` and `node` are the results of `find_node`.
    if node is None or (node.undeclared and not _holds_nodes(node)):
        _check_no_others(location, others if node is None else [*others, *nodes_below(location)])


def _holds_nodes(node: Node) -> bool:
    return any(name for name, _ in walk(node))


def _check_no_others(location: Location, others: list[str]) -> None:
    names = [name for name in others if not is_made_here(name) and name not in DOCUMENTS]
    if names:
        raise AlreadyExistsError(
            f"{location.text} is a directory with files that belong to no array or group, such as "
            f"{dump(min(names))}; these are kept; allow overwriting to write beside them"
        )


def check_replaceable(location: Location, format: str) -> bool:
    """Return True if something exists that an array of `format` can replace; raise if it can't."""
    others: list[str] = []
    node = find_node(location, None, others)
    if format == CONTAINER_FORMAT:
        check_container(location)
    if node is None or (node.implicit and not _holds_nodes(node)):
        return bool(others) or (node is not None and bool(nodes_below(location)))
    if node.implicit:
        if find_documented(location) is not None:  # somebody has just made it
            return check_replaceable(location, format)
        raise AlreadyExistsError(f"{location.text} is a directory that isn't empty")
    if node.kind == "group" and is_marker(node.document) and not nodes_below(location):
        return True  # it is an empty N5 container, which can become a dataset
    if node.kind == "group" and node.key != JOURNAL:
        raise FailedPreconditionError(f"{location.text} is a group; only an array can be overwritten")
    below = [walked.name for walked in walk(node) if walked.name]
    if below:
        raise FailedPreconditionError(
            f"{location.text} can't be overwritten: there are others below it, such as {below[0]}"
        )
    return True


def check_outside_arrays(location: Location) -> None:
    """Raise AlreadyExistsError if `location` is inside an array: new keys could look like its chunks."""
    array = array_above(location)
    if array is not None:
        raise AlreadyExistsError(f"{array.text} is an array; nothing can be below it")


def array_above(location: Location) -> Location | None:
    """Return the array around `location`, or None."""
    for below, at in pairwise(chain((location,), location.parents)):
        if is_staging(below.name):  # this is not its final location
            return None
        try:
            node = find_documented(at)
        except PermissionDeniedError:  # locations that far above are inaccessible
            return None
        if node is not None:
            return at if node.kind == "array" else None
    return None


def check_declared(node: Node) -> None:
    """Raise FailedPreconditionError for an undeclared directory with other files in it."""
    location = node.location
    if node.undeclared and nodes_below(location):
        raise FailedPreconditionError(
            f"{location.text} is a directory that is neither group nor array and not empty; "
            "delete it yourself if nothing in it is needed"
        )


def create_parents(location: Location, format: str, *, text: bool = False) -> list[Location]:
    """Make the Zarr groups between an array and the nearest group above, or mark its N5 container."""
    # Returns the new groups, from the top down; in N5 the new directories, which are groups.
    made: list[Location] = []
    if format == CONTAINER_FORMAT:
        made = _missing_directories(location)
        mark_container(location, text=text)
        return made
    rules = tree_format(format)
    if not rules.group_key:
        return made
    ((key, group),) = rules.group_documents({}).items()
    document = dump_like(group, b"")
    missing: list[Location] = []
    for at in location.parents:
        if not at.path:
            break
        node = find_documented(at)
        if node is not None:
            if node.format == format and node.kind == "group":
                try:
                    for between in reversed(missing):
                        if between.store.write(between.path + key, document, if_equal=MISSING_GENERATION):
                            made.append(between)
                            update_consolidated(between.store, between.path)
                except BaseException:
                    with suppress(ChunkwiseError):  # the store may have failed permanently
                        remove_groups(made)
                    raise
            break
        missing.append(at)
    return made


def _missing_directories(location: Location) -> list[Location]:
    """Return the places above `location` that become directories with it, from the top down."""
    if not offers(location.store, WithDirectories):
        return []
    there = location.store.is_directory
    return list(takewhile(lambda at: at.path and not there(at.path[:-1]), location.parents))[::-1]


@contextmanager
def parents_made(location: Location, format: str, *, text: bool = False) -> Iterator[list[Location]]:
    """Make the groups above a new node, as `create_parents` does; remove them again if the block fails."""
    # The block may append other groups that it makes.
    made = create_parents(location, format, text=text)
    try:
        yield made
    except BaseException:  # an interrupt too
        with suppress(ChunkwiseError):  # the store may have failed permanently
            remove_groups(made)
        raise


def remove_groups(made: Sequence[Location]) -> None:
    """Remove new groups, from the last, as long as they are empty."""
    for location in reversed(made):
        keys = KeyRange.of_prefix(location.path)  # not its directories, some of which may be empty
        below = location.store.list(keys.start, keys.stop)
        names = (key[len(location.path) :] for key in below)
        if not all(name in DOCUMENTS or name == APPEND for name in names):
            return
        delete_own(location)
        update_consolidated(location.store, location.path)


def format_of_new(location: Location) -> FormatName:
    """Return the format of a new node if none is given: from the group above, or by the name."""
    # A part of the path indicates N5, such as "a.n5".
    for at in location.parents:
        group = _group_format(at)
        if group is not None:
            return group
    return "n5" if any(name.endswith(".n5") for name in location.path.split("/")) else "zarr3"


_SUFFIXES: dict[str, str] = {".n5": "n5", ".zarr": "zarr3", ".zarr3": "zarr3"}


def suggested_format(location: Location, source: str | None = None) -> str | None:
    """Return the format of the nearest group above, or of a suffix such as ``.n5``, or else `source`."""
    for at in chain((location,), location.parents):
        group = None if at is location else _group_format(at)
        if group is not None:
            return group
        suffix = PurePath(at.name).suffix  # ".zarr" can be any format of Zarr
        if source is not None and suffix == tree_format(source).suffix:
            return source
        if suffix in _SUFFIXES:
            return _SUFFIXES[suffix]
    return source


def _group_format(location: Location) -> FormatName | None:
    try:
        node = find_documented(location)
    except PermissionDeniedError:  # locations that far above are inaccessible
        return None
    return node.format if node is not None and node.kind == "group" else None
