"""Groups that a dataset is written to: opened, emptied, made, and finished."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pandas

from chunkwise.api.tensorstore import TensorStore
from chunkwise.arguments import check_choice
from chunkwise.binding import dump
from chunkwise.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError
from chunkwise.groups.group import Group
from chunkwise.groups.open_group import open_group
from chunkwise.hierarchy.attribute_value import NonFinite
from chunkwise.hierarchy.location import Location, locate
from chunkwise.hierarchy.new_location import format_by_name
from chunkwise.hierarchy.node_name import check_new_names, split_path
from chunkwise.xarray.create import create_variable
from chunkwise.xarray.encode import Encoded
from chunkwise.xarray.members import Member, member_of, members_of

__all__ = ["DatasetTarget"]

_FORMATS = ("zarr3", "zarr2", "n5")


class DatasetTarget:
    """A group, there or not, that a dataset is to be written to; nothing changes before `prepare`."""

    def __init__(
        self, place: Any, path: str | None, format: str | None, mode: str, non_finite: NonFinite
    ) -> None:
        if isinstance(place, Group) and place.mode == "r":
            raise InvalidArgumentError(f"{place.location.text} was opened with mode 'r', for reading only")
        location = place.location if isinstance(place, Group) else locate(place)
        for name in split_path(path or ""):
            location = location.child(name)
        if format is not None:
            check_choice(format, "format", _FORMATS)
        self._location: Location = location
        self._mode = mode
        self._non_finite = non_finite
        self._group = self._existing()
        found = None if self._group is None else self._group.format
        if mode == "w" and found is not None and format is None:
            format = found
        if mode != "w" and None not in (found, format) and found != format:
            raise InvalidArgumentError(f"{location.text} is a group of {found}, not {format}")
        self.format: str = format or found or format_by_name(location)

    def _existing(self) -> Group | None:
        """Return the group that is there, open for writing; None if there is nothing."""
        try:
            group = open_group(self._location, "r+", non_finite=self._non_finite)
        except NotFoundError:
            if self._mode == "r+":
                raise
            return None
        if self._mode == "w-":
            raise AlreadyExistsError(f"{self._location.text} is a group already ({group.format})")
        return group

    def __contains__(self, name: str) -> bool:
        return self._group is not None and self._mode in ("a", "r+") and name in self._group

    def members(self) -> dict[str, Member]:
        """Return the arrays that are there."""
        return {} if self._group is None else members_of(self._group)

    def require(self, name: str) -> Member:
        """Return the stored array of a variable; raise NotFoundError if there is none."""
        store = None if self._group is None else self._group.get(name)
        if not isinstance(store, TensorStore):
            raise NotFoundError(f"there is no variable {dump(name)} in {self._location.text}")
        return member_of(store)

    def check_name(self, name: Any) -> None:
        """Raise an error if an array of that name must not be made."""
        if not isinstance(name, str):
            raise InvalidArgumentError(f"names of variables are text, not {name!r}")
        if split_path(name) != [name]:
            raise InvalidArgumentError(f"{dump(name)} can't be the name of a variable: it is a path")
        check_new_names([name], self.format)
        if self._mode == "a" and self._group is not None and isinstance(self._group.get(name), Group):
            raise AlreadyExistsError(
                f"{self._location.child(name).text} is a group; only a variable can be replaced"
            )

    def check_source(self, name: str, variable: Any) -> None:
        """Raise InvalidArgumentError if the elements of a variable would be deleted before they are read."""
        data = variable._data
        while not hasattr(data, "store") and not isinstance(data, pandas.Index) and hasattr(data, "array"):
            data = data.array
        store = getattr(data, "store", None)
        node = store._find_node().node if isinstance(store, TensorStore) else None
        if self._group is None or node is None:
            return
        here, there = node.location, self._location.child(name) if self._mode == "a" else self._location
        if here.store.identity == there.store.identity and here.path.startswith(there.path):
            raise InvalidArgumentError(
                f"{dump(name)} is read from {here.text}, which is to be replaced; load the dataset first"
            )

    def prepare(self) -> None:
        """Make the group, after deleting what is there if the mode says so."""
        if self._group is None or self._mode == "w":
            mode = "w" if self._mode == "w" else "a"
            self._group = open_group(
                self._location, cast(Any, mode), format=self.format, non_finite=self._non_finite
            )

    def create(self, name: str, encoded: Encoded, *, asked: bool) -> TensorStore:
        """Make the array of a variable, instead of one that is there."""
        if self._group is not None and name in self._group:
            del self._group[name]
        return create_variable(self._location.child(name), name, encoded, self.format, asked=asked)

    def write_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Set attributes of the group; others that it has stay."""
        assert self._group is not None
        if attributes:
            self._group.attrs.update(attributes)

    def consolidate(self) -> None:
        """Write the consolidated metadata of the group; raise InvalidArgumentError in N5, which has none."""
        assert self._group is not None
        self._group.consolidate()
