"""``Destination``: the location of a copy, and the place where it is made.

They are the same if nothing is replaced.  Otherwise the copy and its journal are made in a place beside the
old data, which the copy replaces when it is complete (`chunkwise.core.trees.replacement`).  The name of the
place follows from the location, so another process can find it and continue.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from chunkwise.copying.journal_document import JournalDocument, read_journal
from chunkwise.copying.sessions import is_session
from chunkwise.core.driver.n5.document import is_marker
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.core.kvstore.staging import REPLACED
from chunkwise.core.kvstore.take_place import delete_all_below, staging_path
from chunkwise.core.trees.consolidated import update_consolidated
from chunkwise.core.trees.container import container_root, create_container
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.new_location import create_parents
from chunkwise.core.trees.node import JOURNAL, Node, find_documented, find_node, nodes_below
from chunkwise.core.trees.replacement import Replacement
from chunkwise.core.trees.walk import walk
from chunkwise.errors import AlreadyExistsError, FailedPreconditionError

__all__ = ["Destination", "begun_at", "unfinished"]


@dataclass(frozen=True)
class Destination:
    """A location, and where the copy is made."""

    location: Location
    place: Location
    replacement: Replacement | None = None
    clears: bool = False  # whether the old data is deleted first: only in a session

    @classmethod
    def choose(cls, location: Location, *, overwrite: bool, go_on: bool, tree: bool = False) -> Self:
        """Return where a copy is made; raise if the old data can't be replaced.

        With `go_on`, that is where an unfinished copy is, if there is one.  With `tree` a group may be
        replaced.
        """
        if overwrite:
            node = _replaceable(location, tree=tree)
            if is_session(location.store):
                return cls(location, location, clears=node is not None)
            return cls(location, location) if node is None else cls.replacing(location)
        if go_on and not is_session(location.store) and read_journal(location) is None:
            beside = cls.replacing(location)
            if read_journal(beside.place) is not None or beside.is_staged:
                return beside
        return cls(location, location)

    @classmethod
    def replacing(cls, location: Location) -> Self:
        """Return a place beside a location."""
        replacement = Replacement.begin(location, resumable=True)
        return cls(location, replacement.staging, replacement)

    @property
    def is_made(self) -> bool:
        """True if the copy is complete but has not replaced the old data yet: a process was killed in
        between."""
        return read_journal(self.place) is None and self.is_staged

    @property
    def is_staged(self) -> bool:
        """True if a node is beside the old data that is to replace it, and is not old data itself."""
        place = self.place
        return (
            self.replacement is not None
            and find_documented(place) is not None
            and place.store.read(place.path + REPLACED).value is None
        )

    def clear(self) -> None:
        """Delete what an unfinished copy has left, if its place is beside the location."""
        if self.replacement is not None or self.clears:
            delete_all_below(self.place.store, self.place.path)

    def create_parents(self, format: str) -> None:
        """Make the groups above, and mark the container."""
        create_parents(self.location, format)
        if self.replacement is not None and tree_format(format).has_containers:
            root = container_root(self.location)
            if root is not None and root.path == self.location.path:
                create_container(self.place)

    def commit(self) -> None:
        """Let the copy, whose journal is deleted, replace the old data."""
        if self.replacement is not None:
            self.replacement.commit()
        else:
            update_consolidated(self.location.store, self.location.path)


def begun_at(location: Location) -> tuple[Location, JournalDocument] | None:
    """Return the place and journal of an unfinished copy to a location, or None."""
    beside = (
        [] if is_session(location.store) else [location.at(staging_path(location.store, location.path, ""))]
    )
    for at in (location, *beside):
        journal = read_journal(at)
        if journal is not None:
            return at, journal
    return None


def unfinished(location: Location) -> AlreadyExistsError:
    """Return the error for an unfinished copy in the way of a new one."""
    return AlreadyExistsError(
        f"a copy to {location.text} was begun and not finished: --resume goes on with it, --overwrite starts "
        "again"
    )


def _replaceable(location: Location, *, tree: bool) -> Node | None:
    """Return the node to replace; raise FailedPreconditionError if it must not be replaced."""
    node = find_node(location)
    if node is None:
        return None
    if tree:
        if not node.implicit:
            return node
        if nodes_below(location):
            raise FailedPreconditionError(
                f"{location.text} is a directory that is neither group nor array and not empty; "
                "delete it yourself if nothing in it is needed"
            )
        return None
    if node.kind == "group" and node.key != JOURNAL:
        if node.implicit or is_marker(node.document):
            return None  # `check_free` says whether it is in the way
        raise FailedPreconditionError(f"{location.text} is a group; only an array can be overwritten")
    below = [walked.name for walked in walk(node) if walked.name]
    if below:
        raise FailedPreconditionError(
            f"{location.text} can't be overwritten: there are others below it, such as {below[0]}"
        )
    return node
