"""Places in stored arrays for a variable: a whole array, a region, or rows after its end."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from chunkwise import TensorStore
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.inside import Append, Room, positions
from chunkwise.xarray.members import Member

__all__ = ["Place", "place_in"]


@dataclass
class Place:
    """A box of a stored array; along `axis`, if there is one, it lies after the end of the array."""

    store: TensorStore
    box: tuple[slice, ...]
    axis: int | None = None

    @property
    def room(self) -> Room | None:
        """The room for new rows, if the box lies after the end."""
        if self.axis is None:
            return None
        rows = self.box[self.axis]
        return Room(self.store, self.axis, rows.stop - rows.start)

    def view(self, append: Append | None = None) -> TensorStore:
        """Return the view of the box; what lies after the end can only be written, by an append."""
        room = self.room
        if room is not None and append is not None and not append.is_committed:
            view: TensorStore = room.open(append)
            return view
        if room is not None:
            room.close()
        return self.store[self.box] if self.box else self.store


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
