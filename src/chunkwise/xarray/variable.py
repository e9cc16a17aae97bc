"""Arrays as variables that are not decoded yet: names, attributes, encoding, lazy data."""

from __future__ import annotations

from typing import Any

from xarray import Variable
from xarray.core import indexing

from chunkwise.driver.stored_array import StoredArray
from chunkwise.tools.array_template import compressor_of
from chunkwise.tools.compressor import Compressor
from chunkwise.xarray.array import LazyArray
from chunkwise.xarray.fill_value import FILL_VALUE, fill_value_from_json
from chunkwise.xarray.members import Member
from chunkwise.xarray.n5_attributes import restore_attributes
from chunkwise.xarray.names import dimension_names

__all__ = ["open_variable"]


def open_variable(name: str, member: Member, fill_value_as_mask: bool | None) -> Variable:
    """Return the variable of an array, as it is stored."""
    array = LazyArray(member.store)
    attributes = dict(member.attributes)
    format = member.format
    names, hidden = dimension_names(name, len(array.shape), format, member.node.document, attributes)
    attributes = {key: value for key, value in attributes.items() if key not in hidden}
    if format == "n5":
        attributes = restore_attributes(attributes)
    if fill_value_as_mask is None:
        fill_value_as_mask = format in ("zarr2", "zarr1")
    if fill_value_as_mask:
        attributes.pop(FILL_VALUE, None)
        # A null in Zarr v2 says that no value stands for a missing one.
        if member.node.document.get("fill_value") is not None:
            attributes[FILL_VALUE] = _stored(member).fill_value[()]
    elif FILL_VALUE in attributes:
        attributes[FILL_VALUE] = fill_value_from_json(attributes[FILL_VALUE], array.dtype)
    return Variable(names, indexing.LazilyIndexedArray(array), attributes, _encoding(names, member))


def _encoding(names: tuple[str, ...], member: Member) -> dict[str, Any]:
    """Return the encoding of the array, in the words that `write_dataset` takes."""
    stored = _stored(member)
    encoding: dict[str, Any] = {}
    chunks = (stored.grid if stored.shard is None else stored.shard.grid).chunk_shape
    blocks = stored.grid.chunk_shape
    if chunks is not None and blocks is not None:
        encoding["chunks"] = tuple(chunks)
        # Whole shards: a block of dask that is less would read a shard's index again for each.
        encoding["preferred_chunks"] = dict(zip(names, blocks, strict=True))
        encoding["shards"] = None if stored.shard is None else tuple(blocks)
    codec = compressor_of(member.node)
    if isinstance(codec, Compressor):
        encoding["codec"] = str(codec)
    if member.format == "zarr3":
        encoding["fill_value"] = stored.fill_value[()]
    return encoding


def _stored(member: Member) -> StoredArray:
    array: Any = member.store._array
    stored: StoredArray = array.stored
    return stored
