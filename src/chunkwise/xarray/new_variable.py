"""Arrays of new variables, which may replace others when they are written."""

from __future__ import annotations

from contextlib import suppress
from itertools import accumulate
from typing import Any

from chunkwise import TensorStore
from chunkwise.copying.new_array import Target, create_array, open_array
from chunkwise.errors import ChunkwiseError
from chunkwise.extension.trees import Location, Replacement, delete_own, find_node, update_consolidated

__all__ = ["NewVariable"]


class NewVariable:
    """An array that is made; nothing is changed before `view`."""

    def __init__(self, name: str, variable: Any, target: Target, *, is_replaced: bool) -> None:
        self.name = name
        self.variable = variable
        self.is_replaced = is_replaced
        self._target = target
        self._replacement: Replacement | None = None
        self._made: Location | None = None
        self._location: Location | None = None

    def view(self, group: Location) -> TensorStore:
        """Make the array in a group, beside the one that it replaces."""
        location = self._location = group.child(self.name)
        if self.is_replaced:
            self._replacement = Replacement.begin(location)
            location = self._replacement.staging
        elif find_node(location) is None:
            self._made = location
        array = create_array(location.alone(), self._target)
        return array if _is_apart(self.variable, array) else open_array(location)

    def commit(self) -> None:
        """Replace the old array."""
        if self._replacement is not None:
            self._replacement.commit()
            self._replacement = None

    def reopen(self, group: Location) -> TensorStore:
        """Return the array where it is now."""
        return open_array(group.child(self.name))

    def undo(self) -> None:
        """Delete what was made, unless it has already replaced the old array."""
        with suppress(ChunkwiseError):  # the store may have failed for good
            if self._replacement is not None:
                self._replacement.discard()
            elif self._made is not None:
                delete_own(self._made)
                update_consolidated(self._made.store, self._made.path)


def _is_apart(variable: Any, array: TensorStore) -> bool:
    """Return True if no two blocks of a variable meet in one chunk of an array."""
    sizes = array.chunk_layout.write_chunk.shape
    if variable.chunks is None:
        return True
    return sizes is not None and all(
        size and not any(end % size for end in accumulate(blocks[:-1]))
        for blocks, size in zip(variable.chunks, sizes, strict=True)
    )
