"""``Destination``: kind, format and state of a location, decided before anything is written.

`chunkwise.core.trees.new_format` decides its format.  The present content is one of the states of `State`.
`_ANSWERS` has the states in which each kind of writer writes; docs/hierarchies.md shows the same table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Literal, Self, TypeAlias, cast, get_args

from chunkwise.core.base.binding import dump
from chunkwise.core.chunk_key import is_number
from chunkwise.core.driver.auto import is_info
from chunkwise.core.driver.n5.tree import is_marker
from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.core.kvstore.places.staging import is_staging
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, ByteRange, Stamped, WithDirectories, offers
from chunkwise.core.specs.context import Context
from chunkwise.core.trees.container import CONTAINER_FORMAT, check_container
from chunkwise.core.trees.key_ownership import is_made_here, was_replaced
from chunkwise.core.trees.location import Location, LocationLike, locate
from chunkwise.core.trees.look import check_outside_arrays, looking
from chunkwise.core.trees.new_format import Kind, format_of
from chunkwise.core.trees.new_location import create_parents, parents_made
from chunkwise.core.trees.node import (
    DOCUMENTS,
    JOURNAL,
    Node,
    check_new_names,
    find_documented,
    find_node,
    nodes_below,
)
from chunkwise.core.trees.walk import walk
from chunkwise.errors import AlreadyExistsError, ChunkwiseError, FailedPreconditionError

__all__ = ["Destination", "Mode", "State", "check_place"]

Mode: TypeAlias = Literal[
    "new",  # nothing may be there
    "add",  # to the group that is there, if there is one
    "resume",  # the same, or go on with an unfinished copy
    "among",  # the same among other files, which stay; members of the same names are replaced
    "overwrite",  # replace the present content
    "vacant",  # nothing may be there, in N5 neither
    "replace",  # replace an array, a group, or what is left of one
    "force",  # replace anything, even a file
]

State: TypeAlias = Literal[
    "nothing",  # or an empty directory
    "files",  # a directory with files that belong to no array or group
    "nodes",  # a directory without a document that holds arrays or groups
    "container",  # an N5 container without anything in it
    "group",
    "array",
    "unfinished",  # a copy that was begun and not finished
    "incomplete",  # an HDMF store whose writing was interrupted or goes on
    "volume",  # a precomputed one
    "database",  # of OCDBT
    "file",
]

_ANSWERS: dict[tuple[Kind, Mode], frozenset[State]] = {
    ("array", "new"): frozenset({"nothing", "container"}),
    ("array", "overwrite"): frozenset({"nothing", "container", "files", "array", "unfinished"}),
    ("group", "new"): frozenset({"nothing", "nodes"}),
    ("group", "add"): frozenset({"nothing", "nodes", "container", "group"}),
    ("group", "resume"): frozenset({"nothing", "nodes", "container", "group", "unfinished"}),
    ("group", "among"): frozenset({"nothing", "files", "nodes", "container", "group", "unfinished"}),
    ("group", "overwrite"): frozenset({"nothing", "files", "container", "group", "array", "unfinished"}),
    ("group", "vacant"): frozenset({"nothing"}),
    ("group", "replace"): frozenset({"nothing", "container", "group", "array", "unfinished", "incomplete"}),
    ("group", "force"): frozenset(get_args(State)) - {"volume", "database"},
    ("volume", "new"): frozenset({"nothing"}),
    ("volume", "overwrite"): frozenset({"nothing", "volume", "unfinished"}),
}
"""The states in which a writer writes; in all others it raises, and nothing has changed."""

_CALLED: dict[State, str] = {
    "files": "a directory with other files",
    "nodes": "a directory that holds arrays or groups",
    "container": "an empty N5 container",
    "group": "a group",
    "array": "an array",
    "unfinished": "an unfinished copy",
    "incomplete": "an unfinished HDMF store",
    "file": "a file",
}

OVERWRITE = "overwrite=True (--overwrite)"
"""How users of most functions and commands ask to replace the present content."""

_HOW = {"replace": 'mode "w" (overwrite=True, --overwrite)', "force": 'mode "w" with force_overwrite=True'}
"""How users of HDMF's writers ask to replace the present content, by mode."""

_VOLUME, _DATABASE = "info", "manifest.ocdbt"  # keys by which these are recognised


@dataclass(frozen=True)
class Destination:
    """A location, its new kind and format, and its present state."""

    location: Location
    kind: Kind
    format: FormatName
    state: State
    node: Node | None  # that is there
    above: Node | None = field(default=None, repr=False)  # the nearest that is declared

    @classmethod
    def of(
        cls,
        place: LocationLike,
        kind: Kind,
        *,
        format: str | None = None,
        source: str | None = None,
        default: FormatName = "zarr3",
        mode: Mode = "new",
        way: str = OVERWRITE,
        context: Context | None = None,
    ) -> Self:
        """Decide; raise if the location can't be written to, before anything is written.

        `way` is how the caller's user asks to replace the present content.
        """
        location = locate(place, context)
        with looking(location) as seen:
            above = check_outside_arrays(seen)
            chosen = format_of(location, kind, format=format, source=source, default=default, above=above)
            if location.name and not is_staging(location.name):
                check_new_names([location.name], chosen)
            state, node = check_place(seen, kind, chosen, mode, way=way)
        return cls(location, kind, chosen, state, node and node.in_store(location.store), above)

    @property
    def _below_parents(self) -> Location | None:
        """Return the last parent, or the location below it; None for the root of a store."""
        # A group of N5 itself must not be there before: the container above gets the mark.
        is_directory = self.kind == "group" and tree_format(self.format).has_containers
        return self.location.parent if is_directory else self.location

    def create_parents(self, *, text: bool = False) -> list[Location]:
        """Make the groups above, and return them; mark a container, perhaps one that gets `text`."""
        at = self._below_parents
        return [] if at is None else create_parents(at, self.format, text=text, above=self._looked)

    @contextmanager
    def parents_made(self) -> Iterator[list[Location]]:
        """Make the groups above; remove them, and others that the block appends, if it fails."""
        at = self._below_parents
        if at is None:
            yield []
            return
        with parents_made(at, self.format, above=self._looked) as made:
            yield made

    @property
    def _looked(self) -> Node | EllipsisType | None:
        """The node above, if it was looked for: not from a place for new data, which is in no tree yet."""
        return ... if any(map(is_staging, self.location.path.split("/"))) else self.above


def check_place(
    location: Location,
    kind: Kind,
    format: FormatName,
    mode: Mode = "new",
    found: tuple[Node | None, list[str]] | None = None,
    *,
    way: str = OVERWRITE,
) -> tuple[State, Node | None]:
    """Return the state of a location; raise if a writer of this kind and mode doesn't write there."""
    # `found` is the node, with the names of keys that exist instead of a document, if that is known.
    if format == CONTAINER_FORMAT:
        check_container(location)
    if found is None:
        others: list[str] = []
        node = find_node(location, None, others)
    else:
        node, others = found
    state = _state(location, node, others)
    if state in ("files", "nodes") and found is None and find_documented(location) is not None:
        others = []
        node = find_node(location, None, others)  # which another process has just made
        state = _state(location, node, others)
    if state == "container" and kind == "array" and format != CONTAINER_FORMAT:
        state = "group"
    if mode in ("overwrite", *_HOW) and state in ("files", "nodes") and was_replaced(location):
        state = "unfinished"  # without its document for a moment, in which a process was killed
    # Where a node would be a second format, or the directory has to be its own.
    is_strict = state in ("volume", "database", "incomplete") or mode in ("vacant", *_HOW)
    if state not in _ANSWERS[kind, mode] and (is_strict or not _is_n5_group(node, kind, format)):
        is_new = found is None and node is not None and node.implicit and find_documented(location)
        if is_new:  # another process has just made it
            return check_place(location, kind, format, mode, way=way)
        raise _refusal(location, kind, mode, state, node, others, way)
    if state in ("files", "nodes") and mode != "force":
        _check_contents(location, kind, format, state, node)
    elif state == "array" and kind == "array" and node is not None:
        below = [walked.name for walked in walk(node) if walked.name]
        if below:
            raise FailedPreconditionError(
                f"{location.text} can't be overwritten: there are others below it, such as {below[0]}"
            )
    return state, node


def _state(location: Location, node: Node | None, others: Collection[str]) -> State:
    if _DATABASE in others:
        return "database"
    if _VOLUME in others and is_info(bytes(location.store.read(location.path + _VOLUME).value or b"")):
        return "volume"
    if node is None:
        if _foreign(others):
            return "files"
        return "file" if _is_file(location) else "nothing"
    if node.is_unfinished:
        return "unfinished" if node.key == JOURNAL else "incomplete"
    if node.kind == "array":
        return "array"
    below = nodes_below(location)
    if not node.implicit:
        is_bare = node.format == CONTAINER_FORMAT and is_marker(node.document) and not below
        return "container" if is_bare else "group"
    if below and _first_below(node) is not None:
        return "nodes"
    return "files" if below or _foreign(others) else "nothing"


def _is_n5_group(node: Node | None, kind: Kind, format: FormatName) -> bool:
    """Return True for a directory in an N5 container, which is a group without being declared one."""
    return (
        kind == "group"
        and format == CONTAINER_FORMAT
        and node is not None
        and node.implicit
        and not node.undeclared
    )


def _first_below(node: Node) -> Node | None:
    return next((walked.node for walked in walk(node) if walked.name), None)


def _foreign(names: Collection[str]) -> list[str]:
    return [name for name in names if not is_made_here(name) and name not in DOCUMENTS]


def _is_file(location: Location) -> bool:
    """Return True if there is a file in place of a directory, in a store that has directories."""
    store, path = location.store, location.path[:-1]
    if not path or not offers(store, WithDirectories):
        return False
    try:
        found: Stamped = location.store.read(path, byte_range=ByteRange(0, 0))
        return found.generation != MISSING_GENERATION
    except ChunkwiseError:  # it is a directory, or what reads it will say why it can't be
        return False


def _check_contents(
    location: Location, kind: Kind, format: FormatName, state: State, node: Node | None
) -> None:
    """Raise for directories that the new node would hide, or make part of itself."""
    if kind == "array" and format == CONTAINER_FORMAT:
        names = [name for name in nodes_below(location) if not is_number(name)]
        if names:
            raise AlreadyExistsError(
                f"{location.text} is a directory that isn't empty: in N5 its directory {dump(names[0])} is a "
                "group"
            )
    found = None if state != "nodes" or node is None else _first_below(node)
    if kind == "group" and found is not None and found.format not in (format, None):
        raise AlreadyExistsError(
            f"{location.text} holds {tree_format(found.format).title}, such as {found.location.text}, which "
            f'a group of {tree_format(format).title} does not list: say format="{found.format}" '
            f"(--format {found.format}), or choose another place"
        )


def _refusal(
    location: Location,
    kind: Kind,
    mode: Mode,
    state: State,
    node: Node | None,
    others: Collection[str],
    way: str,
) -> ChunkwiseError:
    """Return the error for a state in which nothing is written."""
    text = location.text
    if kind == "volume" and state not in ("unfinished", "file", "database"):
        way = f"{way} replaces it"
        if mode == "overwrite" or state != "volume":
            way = "a precomputed volume replaces only a volume: delete this first, or choose another place"
        return AlreadyExistsError(f"there is something at {text} already; {way}")
    if state == "volume":
        return AlreadyExistsError(
            f"{text} is a precomputed volume, which only copies to a volume replace: delete it first, or "
            "choose another place"
        )
    if state == "database":
        return AlreadyExistsError(
            f"{text} is an OCDBT database: {text}|ocdbt: is a place in it; delete it first to replace it"
        )
    if mode in ("vacant", *_HOW):
        asked = next(how for name, how in _HOW.items() if state in _ANSWERS["group", cast(Mode, name)])
        return AlreadyExistsError(
            f"there is something at {text} already, {_CALLED[state]}: {asked} replaces it, or choose another "
            "place"
        )
    if state == "file":
        return AlreadyExistsError(f"{text} is a file, and the new {kind} is a directory: choose another name")
    if state == "files":
        names = _foreign(others) or nodes_below(location)
        return AlreadyExistsError(
            f"{text} is a directory that isn't empty, with files that belong to no array or group, such as "
            f"{dump(min(names))}; these are kept; allow overwriting to write beside them"
        )
    assert node is not None
    if state == "incomplete":
        return AlreadyExistsError(f"{text} is an {node.error}; delete it first to replace it")
    if state == "unfinished":
        return AlreadyExistsError(f"{text} is an {node.error}, and {way} replaces it")
    if state == "nodes":
        if kind == "group":
            return FailedPreconditionError(
                f"{text} is a directory that is neither group nor array and not empty; delete it yourself if "
                "nothing in it is needed"
            )
        return AlreadyExistsError(f"{text} is a directory that isn't empty")
    if kind == "array" and mode == "overwrite":
        return FailedPreconditionError(f"{text} is a group; only an array can be overwritten")
    what = "an array" if state == "array" else "a group"
    if kind == "group" and what == "an array" and mode != "new":
        return AlreadyExistsError(f"{text} is an array, not a group ({node.format})")
    is_kept = kind == "array" and state != "array"
    how = "" if is_kept else f"; {way} replaces it"
    return AlreadyExistsError(f"{text} is {what} already ({node.format}){how}")
