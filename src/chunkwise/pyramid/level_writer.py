"""Writing one level: blocks of whole chunks, and the metadata last, so that half a level is no array."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chunkwise.api.copy import BlockCopy
from chunkwise.api.open import open as open_spec
from chunkwise.api.tensorstore import TensorStore
from chunkwise.engine.blockwise import work_through
from chunkwise.hierarchy.attributes import write_first_attributes
from chunkwise.hierarchy.consolidated import update_consolidated
from chunkwise.hierarchy.location import Location
from chunkwise.hierarchy.new_location import check_free, clear, create_parents
from chunkwise.hierarchy.node import JOURNAL
from chunkwise.spec.context import Context
from chunkwise.tools.array_template import ArrayTemplate
from chunkwise.tools.journal import Journal
from chunkwise.tools.new_array import open_array
from chunkwise.tools.target import target_spec

__all__ = ["LevelWriter"]


class LevelWriter:
    """An array that is made of another one, block by block."""

    def __init__(
        self,
        location: Location,
        format: str,
        template: ArrayTemplate,
        task: Mapping[str, Any],
        *,
        block_nbytes: int,
        sync: bool,
    ) -> None:
        self._location, self._format, self._task = location, format, task
        self._block_nbytes = block_nbytes
        target = target_spec(template, format, ("codec", "shards"))
        if format == "zarr2":
            target.spec["metadata"]["dimension_separator"] = "/"
        self._attributes = target.attributes
        # A bound kvstore has its own ways with the disk; one that is JSON takes those of the context.
        in_files = location.base.get("driver") == "file"
        kvstore = location.kvstore_json() if in_files else location.kvstore()
        self._spec = {**target.spec, "kvstore": kvstore}
        unstored = {**self._spec, "open": True, "assume_metadata": True}
        context = Context({} if sync else {"file_io_sync": False})
        self._target = open_spec(unstored, context=context).result()
        self.nbytes = self._target.size * max(1, self._target.dtype.memory_dtype.itemsize)

    def prepare(self, *, overwrite: bool) -> None:
        """Make room, or raise AlreadyExistsError if there is none."""
        if overwrite:
            clear(self._location)
        check_free(self._location, self._format)

    def is_begun(self) -> bool:
        """Return True if there is a part of the level."""
        return self._location.kv.read(self._location.path + JOURNAL).value is not None

    def write(
        self, source: TensorStore, advance: Callable[[int], None], wanted: Callable[[], bool]
    ) -> TensorStore:
        """Write all blocks that aren't written yet, as long as they are `wanted`; return the array."""
        copy = BlockCopy(self._target, source, block_nbytes=self._block_nbytes)
        journal = Journal(
            self._location,
            {**self._task, "block shape": list(copy.blocks.shape)},
            copy.blocks.n_blocks,
            command="chunkwise pyramid --resume",
        )
        if self.is_begun():
            journal.resume()
        else:
            journal.begin()

        def work(item: tuple[int, Any]) -> None:
            number, block = item
            if not wanted():
                return
            if not journal.is_done(number):
                copy.copy(block)
                journal.mark(number)
            advance(copy.nbytes(block))

        try:
            work_through(enumerate(copy.blocks.domains()), work).result()
        finally:
            journal.save()
        if wanted():
            self._finish(journal)
        return open_array(self._location, read=True)

    def _finish(self, journal: Journal) -> None:
        location = self._location
        create_parents(location, self._format)
        write_first_attributes(location, self._format, self._attributes)
        open_spec({**self._spec, "open": True, "create": True}).result()
        journal.delete()
        update_consolidated(location.kv, location.path)
