"""Arrays of NumPy, dask, xarray, h5py and z5py that a program holds, as arrays of chunkwise."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from chunkwise.core.api.array import array
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.extras import is_of
from chunkwise.core.dtypes.data_type import DTypeLike
from chunkwise.core.dtypes.tensor import elements_of
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.specs.chunk_layout import ChunkLayout

__all__ = ["HeldArray", "held_array", "type_of"]


class HeldArray(Protocol):
    """An array of NumPy, dask, xarray, h5py or z5py."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> Any: ...
    def __getitem__(self, key: Any, /) -> Any: ...


def held_array(value: Any) -> TensorStore | None:
    """Return an array that a program holds; None if it is anything else.

    Arrays of NumPy, and tensors, share memory.  A chunk of others, such as dask's, is read when it is needed.
    """
    value = elements_of(value)
    if isinstance(value, np.ndarray):
        return array(value, type_of(value) if value.dtype == object else None)
    if isinstance(value, TensorStore | str | os.PathLike | Mapping) or is_of(value, "zarr"):
        return None  # an array of zarr-python has a place, which is opened instead
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if not isinstance(shape, tuple) or dtype is None or not hasattr(value, "__getitem__"):
        return None
    if not isinstance(dtype, np.dtype):  # a tensor
        return array(value) if hasattr(value, "__array__") else None
    if is_of(value, "xarray"):
        held = held_array(value.data)
        return None if held is None else held.label[tuple(map(str, value.dims))]
    if dtype.kind == "O":
        return held_array(np.asarray(value))
    return _read_in_chunks(value, shape, dtype)


def type_of(values: Any) -> DTypeLike:
    """Return the data type of an array; objects that are all text, or all bytes, have one too."""
    if isinstance(values, np.ndarray) and values.dtype == object and values.size:
        kinds = set(map(type, values.ravel().tolist()))
        if kinds <= {str, np.str_}:
            return "ustring"
        if kinds <= {bytes, np.bytes_}:
            return "string"
    found: DTypeLike = values.dtype
    return found


def _read_in_chunks(value: HeldArray, shape: tuple[int, ...], dtype: np.dtype[Any]) -> TensorStore:
    sizes = getattr(value, "chunks", None) or shape
    chunks = [max(1, *(size if isinstance(size, tuple) else (size,))) for size in sizes]
    layout = ChunkLayout(read_chunk_shape=chunks) if shape else None
    from chunkwise.core.api.virtual_chunked import virtual_chunked  # with the driver, which few need

    return virtual_chunked(_Read(value), dtype=dtype, shape=shape, chunk_layout=layout)


@dataclass(frozen=True)
class _Read:
    """Reads chunks of an array; sent to another process if that can be."""

    array: HeldArray

    def __call__(self, domain: IndexDomain, out: np.ndarray[Any, Any], params: object) -> None:
        out[...] = np.asarray(self.array[domain.index_exp])
