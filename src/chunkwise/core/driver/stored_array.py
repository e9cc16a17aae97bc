"""The record that a format's driver hands over, the last one that depends on the format; errors of chunks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON
from chunkwise.core.chunk_key import KeyEncoding
from chunkwise.core.codec.protocol import PreparedChain
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.grid import ChunkGrid
from chunkwise.core.kvstore.protocol import describe
from chunkwise.errors import InvalidArgumentError, NotFoundError, TooLargeError, braced, prefix

if TYPE_CHECKING:
    from chunkwise.core.codec.sharding import ShardLayout

__all__ = ["ShardLevel", "StoredArray", "StoredField", "failed", "missing_chunk", "shard_layout"]


class StoredField(NamedTuple):
    """A field of each stored element (a record) that is addressed as a separate array."""

    fill_value: npt.NDArray[Any]  # of shape ``()``: the record that fills a missing chunk
    shape: tuple[int, ...]  # inner dimensions, after the array's; not in keys
    # From an array of records to a view of the field, with the inner dimensions last.
    select: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]


class ShardLevel(NamedTuple):
    """Division of a stored object, a shard, into inner chunks (Zarr v3 codec ``sharding_indexed``)."""

    grid: ChunkGrid  # grid of inner chunks over the whole array; each shard holds a whole number of its cells
    chain: PreparedChain  # codec chain of one inner chunk
    index_location: Literal["end", "start"]  # position of the index in the shard
    # ``index_chain(chunks_per_shard)`` is the PreparedChain of the index, a uint64 array of shape
    # ``(*chunks_per_shard, 2)``; its encoded size is fixed.
    index_chain: Callable[[tuple[int, ...]], PreparedChain]


class StoredArray(NamedTuple):
    """A chunked array as stored in a kvstore, without anything that depends on its format."""

    shape: tuple[int, ...]  # Current shape of the stored array, in elements. Its origin is always 0.
    dtype: DataType  # type of the elements
    fill_value: npt.NDArray[Any]  # of shape ``()``: the value of missing chunks
    grid: ChunkGrid  # one cell per stored object
    chain: PreparedChain  # codec chain of one whole cell of `grid`
    keys: KeyEncoding  # cell to key; its prefix includes the path of the array
    # The metadata document as stored, for lossless rewriting; for Zarr v1, its translation to Zarr v2.
    document: Mapping[str, JSON]
    # Set if each stored object is a shard whose inner chunks can be read and written separately.
    shard: ShardLevel | None = None
    # True if a chunk that equals the fill value must be stored (Zarr v2 with a null fill value).
    store_fill_chunks: bool = False
    # Set if elements are fields of stored records.  Then `chain` is for chunks of records, and everything
    # else is about the field; `grid` has a single cell along each inner dimension.
    field: StoredField | None = None
    # True if chunks at the edges are stored without elements beyond the array, if those are all fill value.
    crop: bool = False

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy type of the elements in memory, in native byte order."""
        return self.fill_value.dtype


def shard_layout(array: StoredArray, shard: ShardLevel) -> ShardLayout:
    """Return the layout of the shards of `array`; raise if inner chunks don't divide them."""
    outer, inner = array.grid.chunk_shape, shard.grid.chunk_shape
    if outer is None or inner is None or any(o % i for o, i in zip(outer, inner, strict=True)):
        raise InvalidArgumentError(f"Inner chunks of shape {inner} do not divide shards of shape {outer}")
    counts = tuple(o // i for o, i in zip(outer, inner, strict=True))
    from chunkwise.core.codec.sharding import ShardLayout

    return ShardLayout.of(counts, shard.index_chain(counts), at_end=shard.index_location == "end")


def failed(error: Exception, operation: str, store: object, array: StoredArray, key: str) -> Exception:
    """Add the operation to `error`: ``Error reading "a/0/1": ...``; a note names the cell."""
    if isinstance(error, MemoryError) and not isinstance(error, TooLargeError):
        error = TooLargeError(str(error) or "out of memory")
    prefix(error, f"Error {operation} {describe(store, key)}")
    cell = array.keys.cell(key, array.grid.rank)
    if cell is not None:
        error.add_note(f"while {operation} chunk {braced(cell)}")
    return error


def missing_chunk(cell: Sequence[int], where: str) -> NotFoundError:
    """Return the error for a read that must not fill missing chunks."""
    return NotFoundError(f"chunk {braced(cell)} stored at {where} is missing")
