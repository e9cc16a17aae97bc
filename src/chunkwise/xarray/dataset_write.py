"""``DatasetWrite``: a dataset on its way to a group, in steps; all but the first change the store.

1. Everything is checked: names, encodings, layouts, coordinates, sources.
2. `begin` makes the group and the new arrays, beside those that they replace.
3. Values are written, of several datasets together (`chunkwise.xarray.write`).
4. `commit` puts the new arrays in place, and writes the attributes and the consolidated metadata.

Rows that are appended become visible after that, those of all datasets together.  After an error in step 2 or
3, `undo` deletes what was made.

Places in stored arrays for a variable: a whole array, a region, or rows after its end.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from chunkwise import TensorStore
from chunkwise.copying.losses import finite_attributes
from chunkwise.copying.overlap import places
from chunkwise.dask.in_place import Written
from chunkwise.errors import ChunkwiseError, InvalidArgumentError
from chunkwise.extension.inside import Append, Room, positions
from chunkwise.extension.trees import NonFinite, delete_own, to_json_value, tree_format
from chunkwise.xarray.create import NewVariable, plan_variable
from chunkwise.xarray.encode import Encoded, check_storable, encode_variable
from chunkwise.xarray.members import Member
from chunkwise.xarray.target import DatasetTarget
from chunkwise.xarray.update import check_lengths, encode_like, find_region, stored_variable

__all__ = ["DatasetWrite", "Place", "place_in"]


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


class DatasetWrite:
    """A dataset that was checked, and can be written."""

    def __init__(
        self,
        xr: Any,
        dataset: Any,
        at: DatasetTarget,
        *,
        mode: str,
        encoding: Mapping[str, Mapping[str, Any]] | None,
        consolidated: bool | None,
        append_dim: Hashable | None,
        region: Mapping[Any, slice | Literal["auto"]] | Literal["auto"] | None,
        non_finite: NonFinite,
    ) -> None:
        self.at = at
        self._mode = mode
        self.new: list[NewVariable] = []
        self.added: list[tuple[str, Any, Place]] = []  # to existing arrays
        encoding = encoding or {}
        variables, attributes = xr.conventions.encode_dataset_coordinates(dataset)
        values = to_json_value(dict(attributes), "attributes of the dataset", non_finite)
        self._attributes: dict[str, Any] = values
        notes: list[str] = []
        if not tree_format(at.format).keeps_null:
            self._attributes, notes = finite_attributes(values, at.format)
        for note in notes:
            warnings.warn(f"{at.location.text}: {note}", stacklevel=4)
        if region is not None:
            region = find_region(xr, dataset, region, at.require)
        members = at.members()
        for name, variable in variables.items():
            check_storable(name, variable)
            asked = encoding.get(name)
            if mode == "r+" or region is not None or (append_dim is not None and name in at):
                if asked is not None:
                    raise InvalidArgumentError(f'encoding: "{name}" is there already, encoded in its own way')
                member = at.require(name)
                encoded = encode_like(xr, name, variable, member)
                place = place_in(name, encoded.variable, member, append_dim, region)
                is_label = name in dataset.coords and (
                    variable.dims == (name,) if region is not None else append_dim not in variable.dims
                )
                by_slice = region is not None
                is_added = mode == "r+" and not by_slice
                if is_added or not (is_label and _is_stored(name, encoded, place, by_slice=by_slice)):
                    self.added.append((name, encoded.variable, place))
                continue
            at.check_name(name)
            if mode == "a":
                _check_replaced(xr, name, variable, members, variables)
            encoded = encode_variable(xr, name, variable, at.format, encoding=asked, non_finite=non_finite)
            target = plan_variable(at.location.child(name), name, encoded, at.format, asked=asked is not None)
            self.new.append(NewVariable(name, encoded.variable, target, is_replaced=name in at))
        self._lengths = (members, variables, append_dim)
        self._grows = mode != "r+" and region is None
        if consolidated:
            at.check_consolidated()
        self._consolidates = consolidated or (
            consolidated is None and mode != "r+" and bool(tree_format(at.format).consolidated_key)
        )

    def sources(self) -> list[tuple[str, Any]]:
        """Return the data of all variables, with their names for messages."""
        variables = [(new.name, new.variable) for new in self.new]
        variables += [(name, variable) for name, variable, _ in self.added]
        return [(f'variable "{name}"', None if v._in_memory else v._data) for name, v in variables]

    def written(self, first: int, *, at_once: bool) -> Iterator[Written]:
        """Yield the places that change while sources are read; `first` is the number of the first of
        `sources`."""
        # An array beside the old one replaces it afterwards, or before dask computes anything.
        if at_once and self.at.is_replaced:
            yield Written([self.at.location])
        for new in self.new if at_once else ():
            if new.is_replaced:
                yield Written([self.at.location.child(new.name)])
        for number, (_, _, place) in enumerate(self.added, first + len(self.new)):
            ranges = [(part.start, part.stop - 1, 1) for part in place.box]
            yield Written(places(place.store), ranges, number, place.view() if place.axis is None else None)

    def begin(self) -> None:
        """Make the group and the arrays."""
        if self._mode != "r+":
            self.at.begin()

    def check_lengths(self) -> None:
        """Raise if variables would have different lengths; those of others' appends may have, meanwhile."""
        if self._grows:
            check_lengths(*self._lengths)

    def rooms(self) -> list[Room]:
        """Return the room of each variable that is appended to."""
        return [room for _, _, place in self.added if (room := place.room) is not None]

    def views(self, append: Append | None) -> list[tuple[Any, TensorStore]]:
        """Return the variables with the views to write them to."""
        made = [(new.variable, new.view(self.at.place, self.at.node)) for new in self.new]
        return [*made, *((variable, place.view(append)) for _, variable, place in self.added)]

    def lazy(self) -> list[tuple[Any, TensorStore]]:
        """Return the dask variables, with the views to write them to after `commit`."""
        made = [(new.variable, new) for new in self.new if new.variable.chunks is not None]
        added = [(variable, place) for _, variable, place in self.added if variable.chunks is not None]
        location = self.at.location
        return [*((v, new.reopen(location)) for v, new in made), *((v, place.view()) for v, place in added)]

    def commit(self, confirm: Callable[[], None] | None = None) -> None:
        """Put the new arrays in place, and write attributes and consolidated metadata.

        A caller that excludes others from the group passes `confirm`, as to `Replacement.commit`.
        """
        self.at.check_there()
        for new in self.new:
            new.commit()
        if self._mode != "r+":
            self.at.write_attributes(self._attributes)
        if self._consolidates:
            self.at.consolidate()  # raises if the group is gone
        elif self._mode != "r+":
            self.at.check_there()
        self.at.commit(confirm)

    def undo(self) -> None:
        """Delete what was made, and chunks that were written after others have deleted their arrays."""
        gone = None
        with suppress(ChunkwiseError):  # the store may have failed for good
            if self.at.is_gone:
                gone = self.at.location
                for name, _, _ in self.added:
                    delete_own(gone.child(name))
        for new in reversed(self.new) if not self.at.is_staged else ():
            new.undo(gone)
        self.at.undo()


def _is_stored(name: str, encoded: Encoded, place: Place, *, by_slice: bool) -> bool:
    """Return True if a stored coordinate stays, False if none is stored; raise if it differs.

    In a region the slice says where data goes.  Labels that differ are not written, with a warning; the same
    labels in another order are an error.
    """
    given: npt.NDArray[Any] = np.asarray(encoded.variable.values)
    stored = place.view().read().result()
    differs = ~_same(given, stored)
    if not differs.any():
        return True
    if stored.dtype.kind in "fcmM" and not (differs & (stored == stored)).any():
        return False
    if by_slice and sorted(given.tolist()) != sorted(stored.tolist()):
        warnings.warn(f"{_difference(name, given, stored)}; it is not written", stacklevel=4)
        return True
    raise _other(name, given, stored)


def _check_replaced(
    xr: Any, name: str, variable: Any, members: Mapping[str, Member], written: Collection[str]
) -> None:
    """Raise if a coordinate would be replaced by a different one that still labels other variables."""
    if variable.dims != (name,) or name not in members:
        return
    labelled = [
        other
        for other, member in members.items()
        if other not in written and name in stored_variable(other, member).dims
    ]
    if not labelled:
        return
    stored = members[name].store.read().result()
    try:
        given = np.asarray(encode_like(xr, name, variable, members[name]).variable.values)
    except InvalidArgumentError:
        given = np.asarray(variable.values)
    if given.shape == stored.shape and _same(given, stored).all():
        return
    raise _other(name, given, stored, f" of {', '.join(labelled)}")


def _same(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    return np.asarray((a == b) | ((a != a) & (b != b)), bool)


def _difference(name: str, given: npt.NDArray[Any], stored: npt.NDArray[Any]) -> str:
    one, other = (np.array2string(values, threshold=8, edgeitems=3) for values in (given, stored))
    return f'coordinate "{name}" is {one}, but stored as {other}'


def _other(
    name: str, given: npt.NDArray[Any], stored: npt.NDArray[Any], of: str = ""
) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{_difference(name, given, stored)}: data{of} that is there would be labelled anew; reindex the "
        'dataset, drop the coordinate (drop_vars), or change it alone with mode="r+"'
    )
