"""The place of a precomputed volume: beside the volume that it replaces, until it is complete."""

from __future__ import annotations

import re

from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_place import CopyPlace, unfinished
from chunkwise.copying.journal_document import read_journal
from chunkwise.core.driver.neuroglancer_precomputed.chunk_keys import parse_chunk_name
from chunkwise.core.driver.neuroglancer_precomputed.members import INFO_KEY
from chunkwise.errors import AlreadyExistsError
from chunkwise.extension.inside import KeyRange, parse_json
from chunkwise.extension.trees import Location, is_made_here

__all__ = ["foreign_keys", "place_of_volume"]

_SHARD = re.compile(r"[0-9a-f]+\.(?:shard|index|data)")


def place_of_volume(location: Location, how: CopyOptions) -> CopyPlace:
    """Return where a volume is written; raise if what is there can't be replaced."""
    place = CopyPlace.choose(
        location,
        "volume",
        overwrite=how.overwrite,
        go_on=how.go_on,
        documents=(INFO_KEY,),
        foreign=foreign_keys,
    )
    if how.overwrite and place.replacement is not None:
        journal = read_journal(location)
        if journal is not None and "scales" not in journal["task"]:
            raise unfinished(location)
        for key in foreign_keys(location):
            raise AlreadyExistsError(
                f"{location.text} can't be replaced: {location.store.describe(key)} belongs to no scale of "
                "the volume; delete it, or choose another place"
            )
    return place


def foreign_keys(location: Location) -> list[str]:
    """Return the keys below a location that belong to no scale of the volume there, nor to a copy to it."""
    path, below = location.path, KeyRange.of_prefix(location.path)
    value = location.store.read(path + INFO_KEY).value
    scales = None if value is None else {scale["key"] for scale in parse_json(bytes(value))["scales"]}
    return [
        key for key in location.store.list(below.start, below.stop) if not _is_own(key[len(path) :], scales)
    ]


def _is_own(name: str, scales: set[str] | None) -> bool:
    """Return True for a key of a volume with these scales; None if its ``info`` isn't there."""
    scale, _, chunk = name.rpartition("/")
    if name == INFO_KEY or any(map(is_made_here, name.split("/"))):
        return True
    if not scale or not (scales is None or scale in scales):
        return False
    return _SHARD.fullmatch(chunk) is not None or parse_chunk_name(chunk.removesuffix(".gz")) is not None
