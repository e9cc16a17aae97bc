"""Arrays of a group as members of a dataset: variables that are not decoded yet; and the groups below it.

Each format has the names of dimensions in its own place:

======  ========================================================================================
zarr3   member ``dimension_names``; failing that, as in Zarr v2
zarr2   attribute ``_ARRAY_DIMENSIONS``; failing that, the references of NCZarr's ``_nczarr_array``, which
        was ``_NCZARR_ARRAY`` and a member of the document before
n5      member ``axes``
======  ========================================================================================

A dimension without a name is named after its variable: ``a_dim_0`` is the first one of ``a``.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from xarray import Variable
from xarray.backends import BackendArray
from xarray.core import indexing

from chunkwise import TensorStore
from chunkwise.copying.array_template import NAMES, compressor_of
from chunkwise.copying.codec_option import Compressor
from chunkwise.dask.convert import Indexable
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, NotFoundError
from chunkwise.extension.inside import StoredArray, as_key, positions, sizes_before, stored_axis
from chunkwise.extension.trees import (
    FILL_VALUE,
    UNREADABLE,
    Node,
    locate,
    map_requests,
    marker_from_json,
    split_path,
    with_number_types,
)
from chunkwise.groups.group import Group
from chunkwise.groups.open_group import open_group
from chunkwise.xarray.encode import restore_attributes, without_fingerprint, without_nczarr

__all__ = [
    "LazyArray",
    "Member",
    "even_members",
    "group_at",
    "groups_below",
    "is_of_netcdf",
    "members_of",
    "open_variable",
]


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


class LazyArray(BackendArray):
    """A TensorStore as the data of a lazy variable."""

    __slots__ = ("_indexable", "dtype", "shape")

    def __init__(self, store: TensorStore) -> None:
        self._indexable = Indexable(store)
        self.shape = self._indexable.shape
        self.dtype = _marked(self._indexable.dtype, store.dtype.name)

    @property
    def store(self) -> TensorStore:
        """The array that is read."""
        return self._indexable.view

    def __getitem__(self, key: Any) -> Any:
        # xarray's adapter isn't needed: it is for backends that can't read backwards.
        if isinstance(key, indexing.VectorizedIndexer):
            return self.store.vindex[self._key(key.tuple)].read().result()
        if isinstance(key, indexing.OuterIndexer):
            return self.store.oindex[self._key(key.tuple, outer=True)].read().result()
        return self._basic(key.tuple)

    def _basic(self, key: tuple[Any, ...]) -> npt.NDArray[Any]:
        read: Any = self._indexable[key]
        if self.dtype.kind == "O" and not any(isinstance(term, slice) for term in key):
            out = np.empty((), object)  # xarray would turn a list into an array
            out[()] = read
            return out
        return read  # type: ignore[no-any-return]

    def _key(self, key: tuple[Any, ...], *, outer: bool = False) -> tuple[Any, ...]:
        return as_key(positions(key, self.shape, outer=outer), self.store.origin)

    def __dask_tokenize__(self) -> str:
        return self.store.__dask_tokenize__()


def _marked(dtype: np.dtype[Any], name: str) -> np.dtype[Any]:
    """Return `dtype` with the mark by which xarray knows text without looking at the elements."""
    if dtype.kind == "O" and name == "ustring":
        return np.dtype("O", metadata={"element_type": str})
    return dtype


# The object, and its list of paths of dimensions.
_NCZARR = {"_nczarr_array": "dimension_references", "_NCZARR_ARRAY": "dimrefs"}


def open_variable(name: str, member: Member, fill_value_as_mask: bool | None) -> Variable:
    """Return the variable of an array in its stored form."""
    array = LazyArray(member.store)
    attributes = with_number_types(member.node, without_fingerprint(without_nczarr(member.attributes)))
    names, hidden = _dimension_names(name, len(array.shape), member.node, member.attributes)
    attributes = {key: value for key, value in attributes.items() if key not in hidden}
    if not member.node.rules.keeps_null:
        attributes = restore_attributes(attributes)
    if fill_value_as_mask is None:
        fill_value_as_mask = member.node.rules.fill_value_is_marker
    if fill_value_as_mask:
        # A null in Zarr v2 says that no value marks missing ones, unless an attribute does.
        if member.node.document.get("fill_value") is not None:
            attributes[FILL_VALUE] = _stored(member).fill_value[()]
    elif FILL_VALUE in attributes:
        attributes[FILL_VALUE] = marker_from_json(attributes[FILL_VALUE], array.dtype)
    return Variable(names, indexing.LazilyIndexedArray(array), attributes, _encoding(names, member))


def _encoding(names: tuple[str, ...], member: Member) -> dict[str, Any]:
    """Return the encoding of the array, in the form that `write_dataset` takes."""
    stored = _stored(member)
    encoding: dict[str, Any] = {}
    chunks = (stored.grid if stored.shard is None else stored.shard.grid).chunk_shape
    blocks = stored.grid.chunk_shape
    if chunks is not None and blocks is not None:
        encoding["chunks"] = tuple(chunks)
        # Whole shards: smaller dask blocks would each read the shard's index again.
        encoding["preferred_chunks"] = dict(zip(names, blocks, strict=True))
        encoding["shards"] = None if stored.shard is None else tuple(blocks)
    codec = compressor_of(member.node)
    if isinstance(codec, Compressor):
        encoding["codec"] = str(codec)
    if member.node.rules.fill_value_is_plain:
        encoding["fill_value"] = stored.fill_value[()]
    return encoding


def _stored(member: Member) -> StoredArray:
    array: Any = member.store._array
    stored: StoredArray = array.stored
    return stored


# -- names of dimensions ------------------------------------------------------------------------------


def _dimension_names(
    variable: str, rank: int, node: Node, attributes: Mapping[str, Any]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names, and the attributes that only hold names, which a dataset doesn't show."""
    member = node.rules.names_member
    found: Any = node.document.get(member) if member else None
    hidden: tuple[str, ...] = (member,) if node.rules.attributes_are_members else ()
    if _names(found, rank) is None and not hidden:
        found, hidden = attributes.get(NAMES), (NAMES,)
        if _names(found, rank) is None:
            found = _nczarr(node.document, attributes)
    names = _names(found, rank)
    if names is None:
        names, hidden = (None,) * rank, ()
    named = tuple(name or f"{variable}_dim_{dim}" for dim, name in enumerate(names))
    return named, hidden


def _names(value: Any, rank: int) -> tuple[str | None, ...] | None:
    if not isinstance(value, list | tuple) or len(value) != rank:
        return None
    return tuple(value) if all(name is None or isinstance(name, str) for name in value) else None


def _nczarr(document: Mapping[str, Any], attributes: Mapping[str, Any]) -> list[str] | None:
    """Return the names in NCZarr's own metadata: the last parts of paths such as ``/group/x``."""
    for members in (document, attributes):
        for name, list_of in _NCZARR.items():
            own = members.get(name)
            references = own.get(list_of) if isinstance(own, Mapping) else None
            if isinstance(references, list):
                return [str(reference).rpartition("/")[2] for reference in references]
    return None
