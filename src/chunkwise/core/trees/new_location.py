"""The groups above a new node: made with it, and removed again if it can't be made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import takewhile
from types import EllipsisType

from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.places.keys_below import delete_wanted_below
from chunkwise.core.kvstore.places.lease import HeldError, check_not_held, takes_turns
from chunkwise.core.kvstore.places.staging import APPEND, in_staging
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, WithDirectories, offers
from chunkwise.core.trees.consolidated import update_consolidated
from chunkwise.core.trees.container import CONTAINER_FORMAT, mark_container
from chunkwise.core.trees.document import dump_like
from chunkwise.core.trees.key_ownership import is_made_here
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.look import is_inside_array, looking
from chunkwise.core.trees.new_format import is_named
from chunkwise.core.trees.node import DOCUMENTS, Node, find_documented
from chunkwise.errors import AlreadyExistsError, ChunkwiseError, PermissionDeniedError

__all__ = [
    "create_parents",
    "missing_groups",
    "parents_made",
    "remove_groups",
    "removed_after_failure",
    "write_alone",
]

_TREES = ("object", "zip")  # stores that are trees as a whole: of another library, archives
_MOST_BESIDE = 100  # nodes in a directory that no document declares


def create_parents(
    location: Location, format: str, *, text: bool = False, above: Node | EllipsisType | None = ...
) -> list[Location]:
    """Make the Zarr groups above an array, as `missing_groups` says, or mark its N5 container."""
    # Returns the new groups, from the top down; in N5 the new directories, which are groups.
    made: list[Location] = []
    missing = missing_groups(location, format, above=above)
    if format == CONTAINER_FORMAT:
        mark_container(location, text=text)
        return missing
    with removed_after_failure(made):
        for between in missing:
            ((key, group),) = tree_format(format).group_documents({}).items()
            if write_alone(between, key, dump_like(group, b""), partial(_follow, between, format)):
                made.append(between)
            elif (node := find_documented(between)) is not None and node.kind == "array":
                raise AlreadyExistsError(f"{between.text} is an array; nothing can be below it")
    return made


def _follow(location: Location, format: str, looks: Sequence[Callable[[], object]]) -> None:
    update_consolidated(location.store, location.path, format=format, looks=looks)


def write_alone(
    location: Location, key: str, raw: bytes, finish: Callable[[Sequence[Callable[[], object]]], object]
) -> bytes | None:
    """Write the document of a new group unless there is one, and `finish` it; return its generation, or None.

    `finish` is given looks, which raise HeldError while another process replaces or deletes what was there:
    then the document is deleted again, and the group is made when that is over.
    """
    kv, turn = location.store, location.path + APPEND
    has_turns = takes_turns(kv, turn) and not in_staging(location.path)
    looks = [partial(check_not_held, kv, turn)] if has_turns else []
    while (generation := kv.write(location.path + key, raw, if_equal=MISSING_GENERATION)) is not None:
        try:
            finish(looks)
            return generation
        except HeldError as e:
            with suppress(ChunkwiseError):  # the store may have failed for good
                kv.delete(location.path + key, if_equal=generation)
            e.wait()
            if find_documented(location) is not None:  # Zarr v2's array has another document than its group
                return None
        except BaseException:
            with suppress(ChunkwiseError):
                remove_groups([location])
            raise
    return None


def missing_groups(
    location: Location, format: str, *, above: Node | EllipsisType | None = ...
) -> list[Location]:
    """Return the places that become groups with a new node at a location, from the top down.

    They lie below the nearest group; without one, at and below the nearest name such as ``a.zarr``, or the
    root of an archive or of a store of another library.
    In N5 they are the missing directories.  `above` is the nearest group, if the caller has just looked.
    """
    if format == CONTAINER_FORMAT:
        return _missing_directories(location)
    if not tree_format(format).group_key:
        return []
    if above is ...:
        with looking(location) as seen:
            above = _nearest(seen)
    if above is None:
        return _new_tree(location, format)
    if (above.format, above.kind) != (format, "group"):
        return []
    return list(takewhile(lambda at: at.path != above.location.path, location.parents))[::-1]


def _new_tree(location: Location, format: str) -> list[Location]:
    """Return the places from one that is named as a tree down to a location; none if others are there."""
    is_tree = location.base.get("driver") in _TREES
    parents = [at for at in location.parents if at.path or is_tree]
    top = next((n for n, at in enumerate(parents) if is_named(at.name, format)), len(parents) * is_tree - 1)
    for at in parents[: top + 1]:
        found = at.store.list_children(at.path)
        names = [key[len(at.path) :].rstrip("/") for key in (*found.keys, *found.prefixes)]
        others = [name for name in names if not is_made_here(name) and name not in DOCUMENTS]
        nodes = [find_documented(at.child(name)) for name in others[:_MOST_BESIDE]]
        is_strange = any(node is not None and node.format not in (None, format) for node in nodes)
        if is_strange or len(others) > _MOST_BESIDE or any(at.path + name in found.keys for name in others):
            return []
    return parents[: top + 1][::-1]


def _nearest(location: Location) -> Node | None:
    """Return the nearest array or group with a document above `location`; not at the root of all files."""
    is_whole = offers(location.store, WithDirectories)
    above = takewhile(lambda at: at.path or not is_whole, location.parents)
    try:
        return next((node for node in map(find_documented, above) if node is not None), None)
    except PermissionDeniedError:  # locations that far above are inaccessible
        return None


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
    with removed_after_failure(made):
        yield made


@contextmanager
def removed_after_failure(made: Sequence[Location]) -> Iterator[None]:
    """Remove new groups again that are empty, if the block fails."""
    try:
        yield
    except BaseException:  # an interrupt too
        with suppress(ChunkwiseError):  # the store may have failed permanently
            remove_groups(made)
        raise


def remove_groups(made: Sequence[Location]) -> None:
    """Remove those of new groups that are empty, the deepest first."""
    for location in sorted(made, key=lambda at: at.path, reverse=True):
        keys = KeyRange.of_prefix(location.path)  # not its directories, some of which may be empty
        found = set(location.store.list(keys.start, keys.stop))
        names = (key[len(location.path) :] for key in found)
        if not all(name in DOCUMENTS or name == APPEND for name in names):
            if not is_inside_array(location):
                _remove_beside_array(location)
                continue
            found.intersection_update(location.path + name for name in DOCUMENTS)  # the rest is its chunks
        delete_wanted_below(location.store, location.path, found.__contains__)
        update_consolidated(location.store, location.path)


def _remove_beside_array(location: Location) -> None:
    """Remove the document of a group of Zarr v2 in whose place another process has made an array."""
    kv, path = location.store, location.path
    rules = tree_format("zarr2")
    group = kv.read(path + rules.group_key)
    if group.value is None:
        return
    # A group that takes the array's place would have it after this check, or have removed the array before.
    with suppress(HeldError):
        check_not_held(kv, path + APPEND)
        if kv.read(path + rules.array_key).value is not None:
            kv.delete(path + rules.group_key, if_equal=group.generation)
