"""The metadata document of an array whose chunks a transaction changes.

Chunks mean something only with the metadata that they were encoded for.  A commit checks the document before
it stores any, since another writer may have replaced, deleted or resized the array since then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import ge, lt
from typing import Self

from chunkwise.core.driver.chunked.metadata_cache import layout_of
from chunkwise.core.driver.chunked.open_flow import Opened, OpenRequest, read_metadata
from chunkwise.core.driver.chunked.resize_flow import replaced
from chunkwise.core.driver.flow import run
from chunkwise.core.kvstore.adapter.pending import PendingStore
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.errors import ChunkwiseError, prefix

__all__ = ["ArrayDocument"]


@dataclass(frozen=True, slots=True)
class ArrayDocument:
    """The metadata that the changed chunks of one array were encoded for."""

    request: OpenRequest
    opened: Opened
    store: KvStoreDriver  # the array's store outside the transaction
    above: str  # prefix of its keys in the store of the transaction
    shape: tuple[int, ...]  # largest shape at any of the changes

    def joined(self, later: Self) -> Self:
        """Return one for the changes of both; raise if they are changes of different arrays."""
        known, found = self.opened.metadata, later.opened.metadata
        if known is found:
            return self
        if not self.request.format.same_but_resized(known, found):
            raise replaced(self.request, known, found)
        return replace(later, shape=tuple(map(max, self.shape, later.shape)))

    def check(self, store: PendingStore) -> bytes:
        """Return the document's current generation; raise if it is another array's.

        Changes of chunks that a resize has left outside are dropped, as if the resize came after them.
        """
        request, known = self.request, self.opened.metadata
        try:
            found = run(read_metadata(request, self.opened), self.store)
            if not request.format.same_but_resized(known, found.metadata):
                raise replaced(request, known, found.metadata)
        except ChunkwiseError as e:
            raise prefix(e, f"Error writing {self.store.describe(request.path)}") from None
        if any(map(lt, found.metadata.shape, self.shape)):
            stored = layout_of(request.format, found.metadata, request.path, request.options).stored
            limits = [stored.grid.n_cells(dim, size) for dim, size in enumerate(stored.shape)]

            def is_outside(key: str) -> bool:
                cell = stored.keys.cell(key.removeprefix(self.above), stored.grid.rank)
                return key.startswith(self.above) and cell is not None and any(map(ge, cell, limits))

            store.drop(is_outside)
        return found.generation
