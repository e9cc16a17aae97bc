"""Writing one level: its journal first and the metadata last, so that half a level isn't an array."""

from __future__ import annotations

from collections.abc import Mapping

from chunkwise import Context, TensorStore
from chunkwise import open as open_spec
from chunkwise.copying.array_template import ArrayTemplate
from chunkwise.copying.destination import Destination
from chunkwise.copying.fence import Fence
from chunkwise.copying.journal import Journal
from chunkwise.copying.journal_document import read_journal
from chunkwise.copying.new_array import open_array
from chunkwise.copying.target import target_spec
from chunkwise.extension import JSON
from chunkwise.extension.trees import (
    JOURNAL,
    FormatName,
    Location,
    check_place,
    find_documented,
    tree_format,
    write_first_attributes,
)

__all__ = ["LevelWriter"]


class LevelWriter:
    """An array that is made from another one, block by block."""

    def __init__(
        self,
        location: Location,
        format: FormatName,
        template: ArrayTemplate,
        task: Mapping[str, JSON],
        *,
        sync: bool,
        replaces: bool,
    ) -> None:
        self._format = format
        # The old array stays until all levels are complete: they may be made from it.
        self._to = Destination.replacing(location) if replaces else Destination(location, location)
        self._location = location = self._to.place
        target = target_spec(template, format, ("codec", "shards"))
        if separator := tree_format(format).separator_member:
            target.spec["metadata"][separator] = "/"
        self._attributes = target.attributes
        self.target_json: JSON = dict(target.spec)
        self._task = {**task, "target": self.target_json}
        # A bound kvstore has its own ways with the disk; one that is JSON takes those of the context.
        in_files = location.base.get("driver") == "file"
        kvstore = location.kvstore_json() if in_files else location.kvstore()
        self._spec = {**target.spec, "kvstore": kvstore}
        unstored = {**self._spec, "open": True, "assume_metadata": True}
        context = Context({} if sync else {"file_io_sync": False})
        self.target = open_spec(unstored, context=context).result()
        self.nbytes = self.target.size * max(1, self.target.dtype.memory_dtype.itemsize)

    def check(self) -> None:
        """Raise AlreadyExistsError if something is in the way that can't be replaced."""
        if self._to.replacement is None:
            check_place(self._location, "array", self._format)
        else:
            Destination.choose(self._to.location, "array", self._format, overwrite=True, go_on=False)

    def clear(self) -> None:
        """Delete what an unfinished level has left beside what it was to replace."""
        self._to.clear()

    def journal(self, task: Mapping[str, JSON], n_tasks: int) -> Journal:
        """Return the journal of the blocks, new or resumed."""
        journal = Journal(
            self._location, {**self._task, **task}, n_tasks, command="chunkwise pyramid --resume"
        )
        if self.begun() is None:
            journal.begin()
        else:
            journal.resume()
        return journal

    def begun(self) -> dict[str, JSON] | None:
        """Return the task of a level that is partly there."""
        found = read_journal(self._location)
        return None if found is None else dict(found["task"])

    def forget(self) -> None:
        """Delete the journal of a finished level, which a driver that was killed may have left."""
        if self.begun() is not None:
            self._location.store.delete(self._location.path + JOURNAL)

    def fence(self, journal: Journal) -> Fence:
        """Return the guard that keeps workers from writing when the level is done."""
        return Fence(self._location.store, journal.key, journal.owner)

    def finish(self) -> TensorStore:
        """Make the level an array; return it, where it is until `commit`."""
        location = self._location
        self._to.create_parents(self._format)
        write_first_attributes(location, self._format, self._attributes)
        open_spec({**self._spec, "open": True, "create": True}).result()
        if self._to.replacement is None:
            self._to.commit()
        return open_array(location, read=True)

    def open(self) -> TensorStore:
        """Return the level that is finished, where it is."""
        moved = self._to.replacement is not None and find_documented(self._location) is None
        return open_array(self._to.location if moved else self._location, read=True)

    def commit(self) -> TensorStore:
        """Replace the old array by the level, unless that is done; return the level."""
        if self._to.replacement is not None and find_documented(self._location) is not None:
            self._to.commit()
        return open_array(self._to.location, read=True)
