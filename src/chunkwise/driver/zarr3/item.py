"""What the codecs of a Zarr v3 array are given: one chunk, or the part of it that is known."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from chunkwise.codec.protocol import ChunkSpec
from chunkwise.dtypes.data_type import DataType
from chunkwise.grid.protocol import ChunkGrid

__all__ = ["array_to_bytes_name", "chunk_item"]

ARRAY_TO_BYTES = {"ustring": "vlen-utf8", "string": "vlen-bytes"}


def array_to_bytes_name(dtype: DataType) -> str:
    """Name of the array -> bytes codec that new arrays of `dtype` get."""
    return ARRAY_TO_BYTES.get(dtype.name, "bytes")


def chunk_item(grid: ChunkGrid, shape: tuple[int, ...], fill_value: npt.NDArray[Any]) -> ChunkSpec:
    """Return what a codec sees of a chunk; of a grid of unequal cells, the first one."""
    chunk_shape = grid.chunk_shape
    if chunk_shape is None:
        bounds = (grid.bounds(dim, 0) for dim in range(len(shape)))
        chunk_shape = tuple(stop - start for start, stop in bounds)
    return ChunkSpec(chunk_shape, fill_value.dtype, fill_value)
