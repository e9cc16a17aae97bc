"""``CopyPlace``: the location of a copy, the place where it is made, and that of its journal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Self

from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.journal_document import JournalDocument, read_journal
from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.core.engine.concurrent_requests import map_requests
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.places.replace_keys import nobody_else
from chunkwise.core.kvstore.places.staging import APPEND, REPLACED
from chunkwise.core.kvstore.places.take_place import staging_path
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.trees.consolidated import update_consolidated
from chunkwise.core.trees.container import container_root, create_container
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.new_location import create_parents
from chunkwise.core.trees.node import DOCUMENTS, find_documented
from chunkwise.core.trees.replacement import Replacement
from chunkwise.errors import AlreadyExistsError
from chunkwise.extension.inside import delete_all_below, excluding, is_of_ended
from chunkwise.extension.trees import (
    ArchivePlace,
    Kind,
    archive_place,
    check_outside_arrays,
    check_place,
    was_replaced,
)

__all__ = [
    "CopyPlace",
    "find_unfinished_copy",
    "is_session",
    "journal_location",
    "packed",
    "unfinished_copy_error",
]

# -- stores that are sessions -------------------------------------------------------------------------

# They have no place for a journal, and accept chunks only after metadata.  A journal isn't needed either:
# no other process sees the data before the caller commits.  So a copy writes the metadata first, and keeps
# its journal in the memory of this process.


def is_session(store: KvStoreDriver) -> bool:
    """Return True for such a store."""
    return traits_of(store).nodes_only


def journal_location(location: Location) -> Location:
    """Return where the journal of a new copy to a location is."""
    return location._replace(store=MemoryStore()) if is_session(location.store) else location


# -- places -------------------------------------------------------------------------------------------

# They are the same if nothing is replaced.  Otherwise the copy and its journal are made in a place beside the
# old data, which the copy replaces when it is complete (`chunkwise.core.trees.replacement`).  The name of the
# place follows from the location, so another process can find it and continue.


@dataclass(frozen=True)
class CopyPlace:
    """A location, and where the copy is made."""

    location: Location
    place: Location
    replacement: Replacement | None = None

    @classmethod
    def choose(
        cls,
        location: Location,
        kind: Kind = "array",
        format: FormatName = "zarr3",
        *,
        overwrite: bool,
        go_on: bool,
        **rules: Any,
    ) -> Self:
        """Return where a copy is made; raise if the old data can't be replaced.

        With `go_on`, that is where an unfinished copy is, if there is one.  `rules` of the replacement are
        those of `Replacement.begin`.
        """
        if overwrite:
            check_outside_arrays(location)
            state, _ = check_place(location, kind, format, "overwrite")
            is_replaced = state in ("array", "group", "volume", "unfinished") or (state, kind) == (
                "container",
                "group",
            )
            is_replaced = is_replaced or was_replaced(location)
            return cls.replacing(location, **rules) if is_replaced else cls(location, location)
        if go_on and not is_session(location.store) and read_journal(location) is None:
            beside = cls.replacing(location, **rules)
            if read_journal(beside.place) is not None or beside.is_staged:
                return beside
            beside._tidy()
        return cls(location, location)

    @classmethod
    def replacing(cls, location: Location, **rules: Any) -> Self:
        """Return a place beside a location."""
        replacement = Replacement.begin(location, resumable=True, **rules)
        return cls(location, replacement.staging, replacement)

    def in_store(self, store: KvStoreDriver) -> Self:
        """Return the same in another store of the same storage."""
        replacement = self.replacement
        if replacement is not None:
            staging = replacement.staging._replace(store=store)
            replacement = replace(
                replacement, location=replacement.location._replace(store=store), staging=staging
            )
        location, place = (at._replace(store=store) for at in (self.location, self.place))
        return replace(self, location=location, place=place, replacement=replacement)

    @property
    def is_made(self) -> bool:
        """True if the copy is complete but has not replaced the old data yet: a process was killed in
        between."""
        return read_journal(self.place) is None and self.is_staged

    @property
    def is_staged(self) -> bool:
        """True if the new data is complete beside the old data, and is not old data itself."""
        place = self.place
        if self.replacement is None or place.store.read(place.path + REPLACED).value is not None:
            return False
        if self.replacement.documents == DOCUMENTS:
            return find_documented(place) is not None
        return any(
            place.store.read(place.path + name).value is not None for name in self.replacement.documents
        )

    def _tidy(self) -> None:
        """Delete the remains of a process that was killed after its copy had taken its place."""
        store, place = self.location.store, self.place
        below, lease = store.list_children(place.path), store.read(self.location.path + APPEND).value
        if not (below.keys or below.prefixes or (lease is not None and is_of_ended(lease))):
            return
        with excluding(self.location):
            if read_journal(place) is None and not self.is_staged:
                self.clear()

    def clear(self) -> None:
        """Delete the remains of an unfinished copy, if its place is beside the location."""
        if self.replacement is not None:
            delete_all_below(self.place.store, self.place.path)

    def create_parents(self, format: str) -> None:
        """Make the groups above, and mark the container."""
        create_parents(self.location, format)
        if self.replacement is not None and tree_format(format).has_containers:
            root = container_root(self.location)
            if root is not None and root.path == self.location.path:
                create_container(self.place)

    def check_vacant(self, parts: Sequence[Location]) -> None:
        """Raise AlreadyExistsError if others have made an array at or around the place, or a part."""
        check_outside_arrays(self.location)
        here = self.place
        for node in map_requests(here.store, find_documented, [here, *parts]):
            if node is not None and (node.kind == "array" or node.location.path != here.path):
                raise AlreadyExistsError(f"{node.location.text} was made by another process meanwhile")

    def alone(self) -> AbstractContextManager[Callable[[], None]]:
        """Exclude other processes that begin again, or end, a copy in a place beside the same location."""
        is_alone = self.replacement is None or is_session(self.location.store)
        return nobody_else() if is_alone else excluding(self.location, clears=True)

    def commit(self, confirm: Callable[[], None]) -> None:
        """Let the copy, whose journal is deleted, replace the old data; `confirm` is what `alone` yields."""
        if self.replacement is not None:
            self.replacement.commit(confirm)
        else:
            update_consolidated(self.location.store, self.location.path)


def packed(
    location: Location, format: FormatName, how: CopyOptions, *, adds: bool = False
) -> tuple[ArchivePlace | None, Location, CopyOptions]:
    """Return the place beside its archive of a copy that is to be packed; see `archive_place`."""
    archive = archive_place(
        location, format, overwrite=how.overwrite, in_parts=how.part is not None, adds=adds
    )
    return (
        (None, location, how) if archive is None else (archive, archive.place, replace(how, overwrite=False))
    )


def find_unfinished_copy(location: Location) -> tuple[Location, JournalDocument] | None:
    """Return the place and journal of an unfinished copy to a location, or None."""
    beside = (
        [] if is_session(location.store) else [location.at(staging_path(location.store, location.path, ""))]
    )
    for at in (location, *beside):
        journal = read_journal(at)
        if journal is not None:
            return at, journal
    return None


def unfinished_copy_error(location: Location) -> AlreadyExistsError:
    """Return the error for an unfinished copy in the way of a new one."""
    return AlreadyExistsError(
        f"a copy to {location.text} was begun and not finished: --resume goes on with it, --overwrite starts "
        "again"
    )
