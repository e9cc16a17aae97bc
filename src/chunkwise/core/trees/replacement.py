"""``replacing``: an array or group is written beside what it replaces, and takes its place when it is whole.

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

At the end of the block the new node takes the place of the old one; after any exception, an interrupt too,
it is deleted and the old one is as it was.  ``chunkwise.core.kvstore.take_place`` says how, and what a
killed process leaves.  Look before: what can be refused is refused before the first change.

The block writes to a `Location` as to any other.  Its documents are in no consolidated metadata, and it is in
no listing of the tree.  Only what belongs to the old node by its format is replaced: files of others
(`chunkwise.core.trees.own_keys`) are there at every moment.  Consolidated metadata above follow afterwards.

A copy that can be resumed, by other processes too, begins a `Replacement` with ``resumable=True``.  Its place
has a name that follows from the location; what is there already is kept, and who may work there is the
business of the copy's journal, which has to be gone before `Replacement.commit`.  The place of any other is
of this process and this call alone; the next replacement deletes those that killed processes have left.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial

from chunkwise.core.kvstore.staging import COMPLETE, is_staging, new_owner
from chunkwise.core.kvstore.take_place import (
    delete_all_below,
    remove_abandoned,
    staging_path,
    staging_paths,
    take_place,
)
from chunkwise.core.trees.consolidated import move_consolidated
from chunkwise.core.trees.consolidated_tree import subtree_copies
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.node import DOCUMENTS, find_documented
from chunkwise.core.trees.own_keys import foreign_keys
from chunkwise.errors import ChunkwiseError, UnlistedError

__all__ = ["Replacement", "leftovers", "replacing"]


@dataclass(frozen=True)
class Replacement:
    """New data for a location, until it takes the place of the old."""

    location: Location
    staging: Location  # the new data is written here

    @classmethod
    def begin(cls, location: Location, *, resumable: bool = False) -> Replacement:
        """Choose the place for the new data, and delete what killed processes have left there."""
        remove_abandoned(location.store, location.path, DOCUMENTS)
        owner = "" if resumable else new_owner()
        staging = location.at(staging_path(location.store, location.path, owner))
        return cls(location, staging if resumable else staging.alone())

    def commit(self) -> None:
        """Put the new data in the place of the old; what belongs to others stays."""
        location, staging = self.location, self.staging
        keep = [key for key in foreign_keys(location) if not key.startswith(staging.path)]
        take_place(location.store, staging.path, location.path, documents=DOCUMENTS, keep=keep)
        move_consolidated(location.store, location.path, cache(partial(subtree_copies, location)))

    def discard(self) -> None:
        """Delete the new data, unless `commit` has deleted some of the old already."""
        store, path = self.staging.store, self.staging.path
        if store.read(path + COMPLETE).value is not None and find_documented(self.location) is None:
            return
        delete_all_below(store, path)


@contextmanager
def replacing(location: Location) -> Iterator[Location]:
    """Give a place to write to, which becomes what `location` is when the block ends without an error."""
    replacement = Replacement.begin(location)
    try:
        yield replacement.staging
        replacement.commit()
    except BaseException:
        with suppress(ChunkwiseError):  # the store may have failed for good
            replacement.discard()
        raise


def leftovers(location: Location, *, inside: bool = False) -> list[Location]:
    """Return the places where new data for a location was written to, be it by somebody at work or not.

    Those for what is right `inside` a group are returned, too.
    """
    try:
        paths = set(staging_paths(location.store, location.path))
        if inside:
            prefixes = location.store.list_children(location.path).prefixes
            paths.update(prefix + "/" for prefix in prefixes if is_staging(prefix[len(location.path) :]))
    except UnlistedError:  # nothing is written there
        return []
    return [location.at(path) for path in sorted(paths)]
