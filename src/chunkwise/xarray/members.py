"""Arrays of a group as members of a dataset, and the groups below it."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from chunkwise import TensorStore
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, NotFoundError
from chunkwise.extension.inside import sizes_before, stored_axis
from chunkwise.extension.trees import UNREADABLE, Node, locate, map_requests, split_path
from chunkwise.groups.group import Group
from chunkwise.groups.open_group import open_group

__all__ = ["Member", "even_members", "group_at", "groups_below", "is_of_netcdf", "members_of"]


class Member(NamedTuple):
    """An array."""

    store: TensorStore
    node: Node
    attributes: Mapping[str, Any]

    @property
    def format(self) -> str:
        """``"zarr3"``, ``"zarr2"``, ``"zarr1"`` or ``"n5"``."""
        return self.node.format or ""


def group_at(
    place: Any, path: str | None, *, format: str | None = None, consolidated: bool | None = None
) -> Group:
    """Open a group for reading, from the consolidated metadata of `place`, or else its own."""
    names = split_path(path or "")
    if isinstance(place, Group):
        if format is not None or consolidated is not None:
            raise InvalidArgumentError("format and consolidated are for opening a group; this one is open")
        return _below(place, names)
    location = locate(place)
    if names and consolidated is not False:
        try:
            return _below(open_group(location, "r", format=format, consolidated=True), names)
        except NotFoundError:
            pass
    top = partial(open_group, place, "r", format=format, consolidated=consolidated)
    if not names:
        return top()
    for name in names:
        location = location.child(name)
    try:
        return open_group(location, "r", format=format, consolidated=consolidated)
    except NotFoundError as e:
        try:
            return _below(top(), names)  # of a file, such as HDF5 or an archive
        except NotFoundError:
            raise e from None


def _below(group: Group, names: list[str]) -> Group:
    found = group["/".join(names)] if names else group
    if not isinstance(found, Group):
        raise InvalidArgumentError(f'"{"/".join(names)}" is an array, not a group')
    return found


def members_of(group: Group, dropped: Collection[str] = ()) -> dict[str, Member]:
    """Return the arrays of a group by name; dropped ones are not opened."""
    # Links to arrays count; those that lead nowhere, or out of the tree, are left out.
    found = {}
    links = group.links()
    names = [name for name in group if name not in dropped]

    def get(name: str) -> Any:
        try:
            return group.get(name)
        except ChunkwiseError as e:
            return e

    for name, member in zip(names, map_requests(group.location.store, get, names), strict=True):
        try:
            if isinstance(member, ChunkwiseError):
                raise member
        except UNREADABLE as e:
            if name not in links:
                warnings.warn(f"variable {name!r} is left out: {e.message}", stacklevel=2)
            continue
        except ChunkwiseError:
            if name not in links:
                raise
            continue
        if isinstance(member, TensorStore):
            found[name] = member_of(member)
    return found


def even_members(members: Mapping[str, Member], variables: Mapping[str, Any], dim: Any) -> dict[str, Member]:
    """Return members as they were before an append along `dim` that is just becoming visible, or was killed.

    If it has ended meanwhile, they are read again.
    """
    axes = {name: v.dims.index(dim) for name, v in variables.items() if dim in v.dims}
    places = {
        name: (members[name].node.location, stored_axis(members[name].store, axis)[0])
        for name, axis in axes.items()
    }
    before = sizes_before(places)
    if not before:
        return {name: member._replace(store=_reread(member.store)) for name, member in members.items()}
    even = dict(members)
    for name, size in before.items():
        store = members[name].store
        if size < store.shape[axes[name]]:
            even[name] = members[name]._replace(store=store[(*(slice(None),) * axes[name], slice(0, size))])
    return even


def _reread(store: TensorStore) -> TensorStore:
    array: Any = store._array
    if hasattr(array, "refresh"):
        array.refresh()
    return store.resolve().result()


def member_of(store: TensorStore) -> Member:
    """Return an array of a group as a member."""
    node = store._find_node().node
    assert node is not None, "the array was found in a group"
    return Member(store, node, store.attrs)


def is_of_netcdf(member: Member) -> bool:
    """Return True if an array may follow netCDF's conventions, as NCZarr or its file format indicates."""
    location = member.node.location
    marked = any(name.lower().startswith("_nc") for name in (*member.node.document, *member.attributes))
    return marked or location.store_spec.driver in ("reference", "hdf5")


def groups_below(group: Group) -> Iterator[tuple[str, Group]]:
    """Yield a group and all below it, with their paths: ``/``, ``/a``, ``/a/b``."""
    yield "/", group
    for path, member in group.walk():
        if isinstance(member, Group):
            yield f"/{path}", member
