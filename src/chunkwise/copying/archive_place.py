"""``ArchivePlace``: copies into ZIP archives are made beside the archive, which is written once.

Every write to an archive replaces all of it, so a copy there would take time by the square of its size, and
each chunk would change the generation of its journal.  The name of the place follows from that of the
archive, so an unfinished copy is found again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, cast

from chunkwise.copying.copy_options import CopyOptions
from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.kvstore.adapter.prefix import PrefixStore
from chunkwise.core.kvstore.adapter.zip import ZipStore
from chunkwise.core.kvstore.adapter.zip_export import export_archive
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.staging import staging_name
from chunkwise.core.trees.location import Location, location_of
from chunkwise.core.trees.new_location import create_parents
from chunkwise.core.trees.own_keys import foreign_keys
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.inside import delete_all_below

__all__ = ["ArchivePlace", "archive_place"]


class ArchivePlace(NamedTuple):
    """Where a copy into an archive is made."""

    location: Location  # in the archive
    place: Location  # beside it
    format: FormatName
    replaces: bool  # an archive was there before

    def pack(self) -> None:
        """Put the copy into the archive."""
        here, place = self.location, self.place
        archive = cast(ZipStore, here.store)
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
    location: Location, format: FormatName, how: CopyOptions, *, adds: bool = False
) -> tuple[ArchivePlace | None, CopyOptions]:
    """Return where a copy to a location is made if that is in an archive, and how; None for other places.

    The caller has checked the location.  One that `adds` to what is there writes to the archive itself.
    """
    if not isinstance(location.store, ZipStore) or location.store_spec.base is None:
        return None, how
    file = location_of(location.store_spec.base)
    assert file.parent is not None, "an archive has a name"
    at = file.parent.child(staging_name(file.name, ""))
    place = at._replace(text=location.text)
    begun = next(iter(at.store.list(at.path, KeyRange.of_prefix(at.path).stop)), None) is not None
    below = KeyRange.of_prefix(location.path) if location.path else KeyRange()
    there = any(key in below for key in location.store.list())
    if there and (adds or not (how.overwrite or begun)):
        return None, how
    if how.part is not None:
        raise InvalidArgumentError(
            f"{location.text} is in an archive, which one process writes: copy the parts to a directory, "
            "which `chunkwise zip` puts into an archive"
        )
    if how.overwrite:
        delete_all_below(at.store, at.path)
        how = replace(how, overwrite=False)
    is_file = file.store.read(file.path.rstrip("/")).value is not None
    return ArchivePlace(location, place, format, is_file), how
