"""``replacing``: an array or group is written beside the one it replaces, or beside its ZIP archive.

>>> import tempfile
>>> import chunkwise
>>> from chunkwise.core.trees.location import locate
>>> from chunkwise.core.trees.replacement import replacing
>>> place = locate(tempfile.mkdtemp() + "/a.zarr")
>>> _ = chunkwise.create_group(place)
>>> with replacing(place) as staging:
...     _ = chunkwise.create_array(staging, [1, 2])
>>> chunkwise.read(place)
array([1, 2])

At the end of the block, the new node replaces the old one; after any exception, even an interrupt, it is
deleted and the old one is unchanged.  In an archive, it is made beside the archive, which is written once.
``chunkwise.core.kvstore.places.take_place`` describes the steps elsewhere, and what a killed process leaves.
Callers check for errors before the first change.

Every write to an archive replaces all of it, so a copy there would take time by the square of its size, and
each chunk would change the generation of its journal.  The name of the place of a copy follows from that of
the archive, so an unfinished copy is found again; that of a new array belongs to the process that makes it.

The block writes to an ordinary `Location`.  Its documents are in no consolidated metadata, and it is in no
listing of the tree.  Only keys that belong to the old node by its format are replaced: foreign files
(`chunkwise.core.trees.key_ownership`) exist at every moment.  Consolidated metadata above is updated
afterwards.

A copy that can be resumed, even by other processes, begins a `Replacement` with ``resumable=True``.  The name
of its staging place follows from the location; existing data there is kept.  The copy's journal controls
which processes work there, and must be gone before `Replacement.commit`.  The staging place of any other
replacement belongs to this process and this call alone; the next replacement deletes places that killed
processes have left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.kvstore.adapter.prefix import PrefixStore
from chunkwise.core.kvstore.atomic import Directories
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.places.keys_below import delete_all_below
from chunkwise.core.kvstore.places.lease import in_one_step
from chunkwise.core.kvstore.places.replace_keys import NewData, check_nothing_inside
from chunkwise.core.kvstore.places.replaced_places import note_replaced
from chunkwise.core.kvstore.places.staging import (
    COMPLETE,
    give_up,
    is_staging,
    new_owner,
    staging_name,
)
from chunkwise.core.kvstore.places.take_place import (
    begin_staging,
    end_staging,
    remove_abandoned,
    settle_in_place,
    staging_path,
    staging_paths,
    take_place,
)
from chunkwise.core.kvstore.protocol import SyncedLater, offers
from chunkwise.core.trees.append import excluding
from chunkwise.core.trees.consolidated_tree import renew_copies_above
from chunkwise.core.trees.key_ownership import foreign_keys
from chunkwise.core.trees.location import Location, location_of
from chunkwise.core.trees.look import check_outside_arrays
from chunkwise.core.trees.new_location import create_parents
from chunkwise.core.trees.node import DOCUMENTS, find_documented
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, UnlistedError

if TYPE_CHECKING:
    from chunkwise.core.kvstore.adapter.zip import ZipStore

__all__ = ["ArchivePlace", "Replacement", "archive_place", "is_in_archive", "leftovers", "replacing"]


class ArchivePlace(NamedTuple):
    """Where something in an archive is made."""

    location: Location  # in the archive
    place: Location  # beside it
    format: FormatName | None  # of the groups above; None if they are there
    replaces: bool  # an archive was there before

    def pack(self) -> None:
        """Put it into the archive."""
        from chunkwise.core.kvstore.adapter.zip_write import export_archive

        here, place = self.location, self.place
        archive = cast("ZipStore", here.store)
        gone = KeyRange.of_prefix(here.path) if here.path else KeyRange()
        foreign = set(foreign_keys(here))
        kept = [key for key in archive.list() if key not in gone or key in foreign]
        made = PrefixStore(place.store, place.path)
        if not kept and not here.path:
            export_archive(
                made, archive.base, archive.key, compression=archive.compression, overwrite=self.replaces
            )
        else:
            values = {here.path + key: made.read(key).value for key in made.list()}
            keys = [key for key in archive.list() if key in gone and key not in foreign]
            archive.write_all({**dict.fromkeys(keys), **values}, conditions={})
        if self.format is not None:
            create_parents(here, self.format)
        self.clear()
        note_replaced(here.store, here.path)
        renew_copies_above(here)

    def clear(self) -> None:
        """Delete the place."""
        delete_all_below(self.place.store, self.place.path)


def is_in_archive(location: Location) -> bool:
    """Return True for a location in an archive."""
    if location.store_spec.driver != "zip" or location.store_spec.base is None:
        return False
    from chunkwise.core.kvstore.adapter.zip import ZipStore  # several modules, for archives alone

    return isinstance(location.store, ZipStore)


def _own_place(location: Location) -> ArchivePlace:
    """Return the place of what this process makes in an archive, beside those of copies."""
    beside = _beside(location)
    remove_abandoned(beside.store, beside.path, DOCUMENTS)
    made = _made_at(location, beside, None, new_owner())
    return made._replace(place=made.place.alone())


def archive_place(
    location: Location, format: FormatName, *, overwrite: bool, in_parts: bool = False, adds: bool = False
) -> ArchivePlace | None:
    """Return where a copy to a location is made if that is in an archive; None for other places.

    The caller has checked the state of the location.  A copy that `adds` to an archive writes to the archive
    itself.
    """
    if not is_in_archive(location):
        return None
    made = _made_at(location, _beside(location), format)
    place = made.place
    begun = any(True for _ in place.store.list(place.path, KeyRange.of_prefix(place.path).stop))
    below = KeyRange.of_prefix(location.path) if location.path else KeyRange()
    if any(key in below for key in location.store.list()) and (adds or not (overwrite or begun)):
        return None
    check_outside_arrays(location)
    if in_parts:
        raise InvalidArgumentError(
            f"{location.text} is in an archive, which one process writes: copy the parts to a directory, "
            "which `chunkwise zip` puts into an archive"
        )
    if overwrite:
        made.clear()
    return made


def _file_of(location: Location) -> Location:
    """Return the location of the archive that a location is in."""
    base = location.store_spec.base
    assert base is not None, "it is in an archive"
    return location_of(base)


def _beside(location: Location) -> Location:
    """Return a location for an archive beside it, or beside the archive that it is in."""
    file = _file_of(location)
    names = [file.name]
    while is_in_archive(file):
        file = _file_of(file)
        names.append(file.name)
    assert file.parent is not None, "an archive has a name"
    return file.parent.child(".".join(reversed(names)))


def _made_at(
    location: Location, beside: Location, format: FormatName | None, owner: str = ""
) -> ArchivePlace:
    file = _file_of(location)
    assert beside.parent is not None, "it has a name"
    place = beside.parent.child(staging_name(beside.name, owner))
    is_file = file.store.read(file.path.rstrip("/")).value is not None
    return ArchivePlace(location, place._replace(text=location.text), format, is_file)


@dataclass(frozen=True)
class Replacement:
    """New data for a location, until it replaces the old."""

    location: Location
    staging: Location  # the new data is written here
    is_vacant: bool = False  # there is no old data
    documents: tuple[str, ...] = DOCUMENTS  # that make old and new data what they are
    foreign: Callable[[Location], list[str]] = foreign_keys  # finds the keys that stay

    @classmethod
    def begin(
        cls,
        location: Location,
        *,
        resumable: bool = False,
        documents: tuple[str, ...] = DOCUMENTS,
        foreign: Callable[[Location], list[str]] = foreign_keys,
    ) -> Replacement:
        """Choose the staging place, and delete what killed processes have left."""
        remove_abandoned(location.store, location.path, documents)
        owner = "" if resumable else new_owner()
        staging = location.at(staging_path(location.store, location.path, owner))
        begin_staging(location.store, staging.path)
        staging = staging if resumable else staging.alone()
        return cls(location, staging, documents=documents, foreign=foreign)

    @classmethod
    def begin_vacant(cls, location: Location) -> Replacement | None:
        """Choose the staging place of a node that must not be seen before a loss of power leaves all of it.

        Returns None in stores that don't wait for the disk, or where that takes more than a renaming.
        """
        store: Any = location.store
        path = location.path
        if not (path and offers(location.store, SyncedLater) and offers(location.store, Directories)):
            return None
        if store.unsynced() is None or not store.can_exchange(path[:-1]) or any(store.list_children(path)):
            return None
        remove_abandoned(store, path, DOCUMENTS)
        return cls(location, location.at(staging_path(store, path, new_owner())).alone(), is_vacant=True)

    def commit(self, confirm: Callable[[], None] | None = None) -> None:
        """Replace the old data by the new; foreign keys stay.

        A caller that excludes others by `chunkwise.core.trees.append.excluding` passes the function that it
        yields.
        """
        location, staging = self.location, self.staging
        check = partial(check_outside_arrays, location)  # others may have replaced a group above by an array
        if self.is_vacant:
            store: Any = location.store
            end_staging(store, staging.path)
            store.move_directory(staging.path[:-1], location.path[:-1])
            note_replaced(store, location.path)
            undo = partial(store.move_directory, location.path[:-1], staging.path[:-1])
            settle_in_place(store, location.path, self.documents, check, undo)
            renew_copies_above(location)
            return
        keep = [key for key in self.foreign(location) if not key.startswith(staging.path)]
        alone = partial(excluding, location, clears=True, checks=[check])
        if confirm is not None and not in_one_step(location.store):
            check()
        new = NewData(location.store, staging.path, location.path, self.documents, keep, alone, settle=check)
        if confirm is not None:
            new = new._replace(excluding=lambda: nullcontext(confirm), confirm=confirm)
        at_once = take_place(new)
        renew_copies_above(location)
        if not at_once:
            _check_nothing_inside(location)

    def discard(self) -> None:
        """Delete the new data, unless `commit` has already deleted some of the old."""
        store, path = self.staging.store, self.staging.path
        give_up(path)
        if store.read(path + COMPLETE).value is not None and find_documented(self.location) is None:
            return
        delete_all_below(store, path)


def _check_nothing_inside(location: Location) -> None:
    """Raise AlreadyExistsError if another process made a node inside the new array while it was moved."""
    node = find_documented(location)
    if node is None or node.kind != "array" or node.is_container:
        return
    check_nothing_inside(location.store, location.path, DOCUMENTS)


@contextmanager
def replacing(location: Location, replacement: Replacement | None = None) -> Iterator[Location]:
    """Yield a staging place, which replaces `location` when the block ends without an error."""
    if replacement is None and is_in_archive(location):
        made = _own_place(location)
        try:
            yield made.place
            made.pack()
        except BaseException:
            with suppress(ChunkwiseError):
                made.clear()
            raise
        return
    replacement = replacement or Replacement.begin(location)
    try:
        if replacement.is_vacant:  # not before, since the mark makes the directories above
            begin_staging(location.store, replacement.staging.path)
        yield replacement.staging
        replacement.commit()
    except BaseException:
        with suppress(ChunkwiseError):  # the store may have failed permanently
            replacement.discard()
        raise


def leftovers(location: Location, *, inside: bool = False) -> list[Location]:
    """Return the staging places for a location, of active writers or not.

    Staging places for nodes directly `inside` a group are returned too.
    """
    try:
        paths = set(staging_paths(location.store, location.path))
        if inside:
            prefixes = location.store.list_children(location.path).prefixes
            paths.update(prefix + "/" for prefix in prefixes if is_staging(prefix[len(location.path) :]))
    except UnlistedError:  # the store is read-only
        return []
    return [location.at(path) for path in sorted(paths)]
