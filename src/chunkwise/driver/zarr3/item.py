"""The chunk that the codecs of a Zarr v3 array are made for."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from chunkwise.codec.protocol import ChunkSpec
from chunkwise.dtypes.data_type import DataType
from chunkwise.grid.protocol import ChunkGrid

__all__ = ["array_to_bytes_name", "chunk_item", "first_chunk_shape"]

ARRAY_TO_BYTES = {"ustring": "vlen-utf8", "string": "vlen-bytes"}


def array_to_bytes_name(dtype: DataType) -> str:
    """Name of the array -> bytes codec that new arrays of `dtype` get."""
    return ARRAY_TO_BYTES.get(dtype.name, "bytes")


def chunk_item(grid: ChunkGrid, fill_value: npt.NDArray[Any]) -> ChunkSpec:
    """Return what a codec sees of a chunk; of a grid of unequal cells, the first one."""
    return ChunkSpec(grid.chunk_shape or first_chunk_shape(grid), fill_value.dtype, fill_value)


def first_chunk_shape(grid: ChunkGrid) -> tuple[int, ...]:
    """Return the shape of the cell at the origin of a grid."""
    bounds = (grid.bounds(dim, 0) for dim in range(grid.rank))
    return tuple(stop - start for start, stop in bounds)
