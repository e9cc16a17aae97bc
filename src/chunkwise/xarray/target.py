"""Groups that a dataset is written to: checked, made or replaced, and completed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal

from chunkwise import TensorStore
from chunkwise.errors import (
    AbortedError,
    AlreadyExistsError,
    ChunkwiseError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
)
from chunkwise.extension.inside import check_choice, dump
from chunkwise.extension.trees import (
    Location,
    Mode,
    Node,
    NonFinite,
    Replacement,
    check_format,
    check_new_names,
    check_outside_arrays,
    check_place,
    create_parents,
    find_documented,
    format_of,
    format_said,
    locate,
    missing_groups,
    read_only,
    remove_groups,
    split_path,
    tree_format,
)
from chunkwise.groups.group import Group
from chunkwise.groups.open_group import open_group
from chunkwise.xarray.members import Member, member_of, members_of

__all__ = ["DatasetTarget"]

_FORMATS = ("zarr3", "zarr2", "n5")


class DatasetTarget:
    """An existing or new group for a dataset; nothing changes before `begin`."""

    def __init__(
        self,
        place: Any,
        path: str | None,
        format: str | None,
        mode: str,
        non_finite: NonFinite,
        root: DatasetTarget | None = None,
        *,
        whole: bool = False,
    ) -> None:
        # `root`: the target of the tree around this group, if both are written together.  `whole`: a new
        # group appears when it is complete.
        if isinstance(place, Group) and place.mode == "r":
            raise InvalidArgumentError(read_only(place.location.text))
        top = place.location if isinstance(place, Group) else locate(place)
        names: list[str] = split_path(path or "")
        self.location = top
        for name in names:
            self.location = self.location.child(name)
        if format is not None:
            check_choice(format, "format", _FORMATS)
        self._root = root
        self._below = names[len(root._names) :] if root is not None else []
        self._names: list[str] = names
        self._mode = mode
        self._non_finite = non_finite
        self._whole = whole
        self._is_occupied = False
        self._group = None if root is not None and root.is_replaced else self._existing()
        self._replacement: Replacement | None = None
        self._made: list[Location] = []
        self.format: str = self._format(format, top)
        if self._group is None or self.is_replaced:
            self._check_place()

    @property
    def is_replaced(self) -> bool:
        """True if there is a group, or something else, that a new one replaces."""
        return self._mode == "w" and (self._group is not None or self._is_occupied)

    @property
    def appears_whole(self) -> bool:
        """True if the group is written beside its place, and put there when it is complete."""
        return self.is_replaced or (self._whole and self._group is None and self._root is None)

    def _existing(self) -> Group | None:
        """Return the existing group, open for writing, or None."""
        try:
            group = open_group(self.location, "r+", non_finite=self._non_finite)
        except (NotFoundError, InvalidArgumentError, FailedPreconditionError):
            if self._mode == "r+" or (self._mode != "w" and find_documented(self.location) is not None):
                raise
            return None
        if group._node.undeclared or (self._mode == "w-" and group._node.implicit):
            return None
        if self._mode == "w-":
            raise AlreadyExistsError(
                f'{self.location.text} is a group already ({group.format}); mode="w" replaces it, '
                'mode="a" adds or replaces variables, and append_dim appends along a dimension'
            )
        return group

    def _format(self, format: str | None, top: Location) -> str:
        """Return the format to write, which an existing group or tree determines."""
        found = self._group.format if self._group is not None else None
        text = self.location.text
        format = format_said(self.location, format)
        if not self.is_replaced and None not in (found, format) and found != format:
            raise InvalidArgumentError(f"{text} is a group of {found}, not {format}")
        if found is not None and not self.is_replaced:
            return found
        above: str | None = self._root.format if self._root is not None else None
        if above is None and self._names:
            at = self.location.parent
            while at is not None and at.path.startswith(top.path) and above is None:
                node = find_documented(at)
                above, at = (None if node is None else node.format), at.parent
        if None not in (above, format) and above != format:
            raise InvalidArgumentError(f"{text} is in a tree of {above}, where {format} would not be found")
        return format_of(self.location, "group", format=format or above, source=found)

    def _check_place(self) -> None:
        """Raise if a group can't be made."""
        check_outside_arrays(self.location)
        check_new_names(self._names, self.format)
        if self._root is None:
            modes: dict[str, Mode] = {"w": "overwrite", "w-": "new"}
            mode = modes.get(self._mode, "add")
            state, _ = check_place(self.location, "group", check_format(self.format), mode, way='mode="w"')
            self._is_occupied = state in ("array", "group", "container", "unfinished")

    def __contains__(self, name: str) -> bool:
        return self._group is not None and self._mode in ("a", "r+") and name in self._group

    def members(self) -> dict[str, Member]:
        """Return the existing arrays, which stay or are replaced one by one."""
        return {} if self._group is None or self.is_replaced else members_of(self._group)

    def require(self, name: str) -> Member:
        """Return the stored array of a variable; raise NotFoundError if there is none."""
        store = None if self._group is None else self._group.get(name)
        if not isinstance(store, TensorStore):
            raise NotFoundError(f"there is no variable {dump(name)} in {self.location.text}")
        return member_of(store)

    def check_name(self, name: Any) -> None:
        """Raise an error if an array must not have this name."""
        if not isinstance(name, str):
            raise InvalidArgumentError(f"names of variables are text, not {name!r}")
        if split_path(name) != [name]:
            raise InvalidArgumentError(f"{dump(name)} can't be the name of a variable: it is a path")
        check_new_names([name], self.format)
        if self._mode == "a" and self._group is not None and isinstance(self._group.get(name), Group):
            raise AlreadyExistsError(
                f"{self.location.child(name).text} is a group; only a variable can be replaced"
            )

    def check_consolidated(self) -> None:
        """Raise InvalidArgumentError if the format has no consolidated metadata."""
        if not tree_format(self.format).consolidated_key:
            raise InvalidArgumentError(
                f"{self.location.text} is a group of N5; only groups of Zarr v2 and v3 have consolidated "
                "metadata"
            )

    @property
    def is_staged(self) -> bool:
        """True while the group, or the tree that it is in, is written beside what it replaces."""
        return self._replacement is not None or (self._root is not None and self._root.is_staged)

    # -- changes ------------------------------------------------------------------------------------------

    @property
    def place(self) -> Location:
        """Location at which the group is written: beside the group that it replaces, if there is one."""
        if self._replacement is not None:
            return self._replacement.staging
        place = self.location if self._root is None else self._root.place
        for name in self._below:
            place = place.child(name)
        return place

    def begin(self) -> None:
        """Make the group if it is missing or to be replaced."""
        if self.appears_whole:
            self._replacement = Replacement.begin(self.location)
        elif self._group is not None:
            return
        elif self._root is None or not self._root.is_replaced:
            self._made = list(self._missing())
        # Only this call writes what it makes.
        mode: Literal["a", "w"] = "w" if self._mode == "w" and self._root is None else "a"
        place = self.place.alone()
        self._group = open_group(place, mode, format=self.format, non_finite=self._non_finite)

    def _missing(self) -> Iterator[Location]:
        """Yield the groups to make: this one, and those above it up to an existing one."""
        yield self.location
        yield from reversed(missing_groups(self.location, self.format))

    def write_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Set attributes of the group; others stay."""
        assert self._group is not None
        if attributes:
            self._group.attrs.update(attributes)

    def consolidate(self) -> None:
        """Write the consolidated metadata of the group."""
        assert self._group is not None
        self._group.consolidate()

    @property
    def node(self) -> Node | None:
        """The group, if it has a document."""
        return None if self._group is None or self._group._node.implicit else self._group._node

    @property
    def is_gone(self) -> bool:
        """True if others have deleted the group: no reader finds the dataset."""
        return self.node is not None and not self.is_staged and find_documented(self.place) is None

    def check_there(self) -> None:
        """Raise AbortedError if others have deleted the group."""
        if self.is_gone:
            raise AbortedError(f"{self.location.text} was deleted by another process meanwhile")

    def commit(self, confirm: Callable[[], None] | None = None) -> None:
        """Replace the old group."""
        if self._replacement is not None:
            create_parents(self.location, self.format)
            self._replacement.commit(confirm)
            self._replacement = None

    def undo(self) -> None:
        """Delete the group if it was made; what was made below is deleted already."""
        with suppress(ChunkwiseError):  # the store may have failed for good
            if self._replacement is not None:
                self._replacement.discard()
            remove_groups(self._made[::-1])
