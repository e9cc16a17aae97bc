"""``ArchivePlace``: copies into ZIP archives are made beside the archive, which is written once.

Every write to an archive replaces all of it, so a copy there would take time by the square of its size, and
each chunk would change the generation of its journal.  The name of the place follows from that of the
archive, so an unfinished copy is found again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.kvstore.adapter.prefix import PrefixStore
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.keys_below import delete_all_below
from chunkwise.core.kvstore.staging import staging_name
from chunkwise.core.trees.key_ownership import foreign_keys
from chunkwise.core.trees.location import Location, location_of
from chunkwise.core.trees.new_location import create_parents
from chunkwise.errors import InvalidArgumentError

if TYPE_CHECKING:
    from chunkwise.core.kvstore.adapter.zip import ZipStore

__all__ = ["ArchivePlace", "archive_place"]


class ArchivePlace(NamedTuple):
    """Where a copy into an archive is made."""

    location: Location  # in the archive
    place: Location  # beside it
    format: FormatName
    replaces: bool  # an archive was there before

    def pack(self) -> None:
        """Put the copy into the archive."""
        from chunkwise.core.kvstore.adapter.zip_export import export_archive

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
            create_parents(here, self.format)
        delete_all_below(place.store, place.path)


def archive_place(
    location: Location, format: FormatName, *, overwrite: bool, in_parts: bool = False, adds: bool = False
) -> ArchivePlace | None:
    """Return where a copy to a location is made if that is in an archive; None for other places.

    The caller has checked the location.  A copy that `adds` to an archive writes to the archive itself.
    """
    if location.store_spec.driver != "zip" or location.store_spec.base is None:
        return None
    from chunkwise.core.kvstore.adapter.zip import ZipStore  # several modules, for archives alone

    if not isinstance(location.store, ZipStore):
        return None
    file = location_of(location.store_spec.base)
    assert file.parent is not None, "an archive has a name"
    place = file.parent.child(staging_name(file.name, ""))
    begun = any(True for _ in place.store.list(place.path, KeyRange.of_prefix(place.path).stop))
    below = KeyRange.of_prefix(location.path) if location.path else KeyRange()
    if any(key in below for key in location.store.list()) and (adds or not (overwrite or begun)):
        return None
    if in_parts:
        raise InvalidArgumentError(
            f"{location.text} is in an archive, which one process writes: copy the parts to a directory, "
            "which `chunkwise zip` puts into an archive"
        )
    if overwrite:
        delete_all_below(place.store, place.path)
    is_file = file.store.read(file.path.rstrip("/")).value is not None
    return ArchivePlace(location, place._replace(text=location.text), format, is_file)
