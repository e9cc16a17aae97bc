"""The groups above a new node: made with it, and removed again if it can't be made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from types import EllipsisType

from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.keys_below import delete_wanted_below
from chunkwise.core.kvstore.protocol import WithDirectories, offers
from chunkwise.core.kvstore.staging import APPEND
from chunkwise.core.trees.consolidated import update_consolidated
from chunkwise.core.trees.container import CONTAINER_FORMAT, mark_container
from chunkwise.core.trees.document import write_new
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.look import looking
from chunkwise.core.trees.node import DOCUMENTS, Node, find_documented
from chunkwise.errors import AlreadyExistsError, ChunkwiseError

__all__ = ["create_parents", "parents_made", "remove_groups"]


def create_parents(
    location: Location, format: str, *, text: bool = False, above: Node | EllipsisType | None = ...
) -> list[Location]:
    """Make the Zarr groups between an array and the nearest group above, or mark its N5 container."""
    # Returns the new groups, from the top down; in N5 the new directories, which are groups.  `above` is that
    # group, if the caller has just looked.
    made: list[Location] = []
    if format == CONTAINER_FORMAT:
        made = _missing_directories(location)
        mark_container(location, text=text)
        return made
    rules = tree_format(format)
    if not rules.group_key:
        return made
    if above is ...:
        with looking(location) as seen:
            above = _nearest(seen)
    if above is None or not above.location.path or (above.format, above.kind) != (format, "group"):
        return made
    ((key, group),) = rules.group_documents({}).items()
    missing = list(takewhile(lambda at: at.path != above.location.path, location.parents))
    try:
        for between in reversed(missing):
            if write_new(between.store, between.path + key, group):
                made.append(between)
                update_consolidated(between.store, between.path, format=format)
            elif (node := find_documented(between)) is not None and node.kind == "array":
                raise AlreadyExistsError(f"{between.text} is an array; nothing can be below it")
    except BaseException:
        with suppress(ChunkwiseError):  # the store may have failed permanently
            remove_groups(made)
        raise
    return made


def _nearest(location: Location) -> Node | None:
    """Return the nearest array or group with a document above `location`, but for the root of the store."""
    found = map(find_documented, takewhile(lambda at: at.path, location.parents))
    return next((node for node in found if node is not None), None)


def _missing_directories(location: Location) -> list[Location]:
    """Return the places above `location` that become directories with it, from the top down."""
    if not offers(location.store, WithDirectories):
        return []
    there = location.store.is_directory
    return list(takewhile(lambda at: at.path and not there(at.path[:-1]), location.parents))[::-1]


@contextmanager
def parents_made(
    location: Location, format: str, *, text: bool = False, above: Node | EllipsisType | None = ...
) -> Iterator[list[Location]]:
    """Make the groups above a new node, as `create_parents` does; remove them again if the block fails."""
    # The block may append other groups that it makes.
    made = create_parents(location, format, text=text, above=above)
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
        found = set(location.store.list(keys.start, keys.stop))
        names = (key[len(location.path) :] for key in found)
        if not all(name in DOCUMENTS or name == APPEND for name in names):
            return
        delete_wanted_below(location.store, location.path, found.__contains__)
        update_consolidated(location.store, location.path)
