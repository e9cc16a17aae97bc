"""Arrays as variables that are not decoded yet: names, attributes, encoding, lazy data.

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

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from xarray import Variable
from xarray.backends import BackendArray
from xarray.core import indexing

from chunkwise import TensorStore
from chunkwise.copying.array_template import NAMES, compressor_of
from chunkwise.copying.codec_option import Compressor
from chunkwise.dask.indexable import Indexable
from chunkwise.extension.inside import StoredArray, as_key, positions
from chunkwise.extension.trees import FILL_VALUE, Node, marker_from_json, with_number_types
from chunkwise.xarray.encode import restore_attributes, without_fingerprint, without_nczarr
from chunkwise.xarray.members import Member

__all__ = ["LazyArray", "open_variable"]


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
