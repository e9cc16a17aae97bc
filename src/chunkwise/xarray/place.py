"""Places in stored arrays for a variable: a whole array, a region, or room after its end."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from chunkwise import TensorStore
from chunkwise.copying.new_array import open_array
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, ResizedError
from chunkwise.extension.inside import positions
from chunkwise.xarray.members import Member

__all__ = ["Place", "place_in"]


@dataclass
class Place:
    """A box of a stored array, which grows if the box lies after its end."""

    store: TensorStore
    box: tuple[slice, ...]
    axis: int | None = None  # along which the array grows
    _grown: TensorStore | None = field(default=None, repr=False)
    _grows: bool = field(default=False, repr=False)

    def view(self) -> TensorStore:
        """Return the view of the box, after making room for it."""
        store = self.store
        if self.axis is not None and self._grown is None:
            room = self.box[self.axis]
            self._grows = True
            try:
                self._grown = store._resize_from(self.axis, room.start, room.stop).result()
            except ResizedError:  # the room is another writer's
                self._grows = False
                raise
        store = self._grown or store
        return store[self.box] if self.box else store

    def undo(self) -> None:
        """Remove the room that was made, unless the array has grown further."""
        node = self.store._find_node().node
        if not self._grows or self.axis is None or node is None:
            return
        with suppress(ChunkwiseError):  # the store may have failed for good
            now = open_array(node.location)  # the resize itself may have failed after it was stored
            room = self.box[self.axis]
            now._resize_from(self.axis, room.stop, room.start).result()
        self._grown, self._grows = None, False


def place_in(
    name: str,
    variable: Any,
    member: Member,
    append_dim: Hashable | None,
    region: Mapping[Any, slice] | None,
) -> Place:
    """Return the place of a variable in a stored array; raise if it doesn't fit."""
    store = member.store
    dims = variable.dims
    if append_dim in dims:
        axis = dims.index(append_dim)
        _check_sizes(name, dims, variable.shape, store.shape, besides=append_dim)
        before = store.shape[axis]
        box = [slice(0, n) for n in store.shape]
        box[axis] = slice(before, before + variable.shape[axis])
        return Place(store, tuple(box), axis)
    index: list[slice] = []
    for dim, size in zip(dims, store.shape, strict=True):
        along = (region or {}).get(dim, slice(None))
        (found,) = positions(along, (size,))
        assert isinstance(found, range)
        if along.stop is not None and along.stop > size:
            raise InvalidArgumentError(
                f'region: "{dim}" of "{name}" ends at {size}, before {along.stop}; append_dim grows it'
            )
        index.append(slice(found.start, found.start + len(found)))
    _check_sizes(name, dims, variable.shape, [part.stop - part.start for part in index])
    return Place(store, tuple(index))


def _check_sizes(
    name: str, dims: tuple[Any, ...], shape: tuple[int, ...], stored: Any, besides: Any = None
) -> None:
    for dim, new, old in zip(dims, shape, stored, strict=True):
        if dim != besides and new != old:
            raise InvalidArgumentError(
                f'variable "{name}" has size {new} along "{dim}", where {old} is needed'
            )
