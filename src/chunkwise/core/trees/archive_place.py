"""``ArchivePlace``: what has many keys is made beside its ZIP archive, which is written once.

Every write to an archive replaces all of it, so a copy there would take time by the square of its size, and
each chunk would change the generation of its journal.  The name of the place of a copy follows from that of
the archive, so an unfinished copy is found again; that of a new array belongs to the process that makes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.kvstore.adapter.prefix import PrefixStore
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.places.keys_below import delete_all_below
from chunkwise.core.kvstore.places.replaced_places import note_replaced
from chunkwise.core.kvstore.places.staging import new_owner, staging_name
from chunkwise.core.kvstore.places.take_place import remove_abandoned
from chunkwise.core.trees.consolidated_tree import renew_copies_above
from chunkwise.core.trees.key_ownership import foreign_keys
from chunkwise.core.trees.location import Location, location_of
from chunkwise.core.trees.look import check_outside_arrays
from chunkwise.core.trees.new_location import create_parents
from chunkwise.core.trees.node import DOCUMENTS
from chunkwise.errors import InvalidArgumentError

if TYPE_CHECKING:
    from chunkwise.core.kvstore.adapter.zip import ZipStore

__all__ = ["ArchivePlace", "archive_place", "is_in_archive", "own_place"]


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


def own_place(location: Location) -> ArchivePlace:
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
