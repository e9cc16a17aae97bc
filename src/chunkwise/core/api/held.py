"""Arrays of NumPy, dask, xarray, h5py and z5py that a program holds, as arrays of chunkwise."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.arrays.memory_array import MemoryArray
from chunkwise.core.base.arguments import as_flag
from chunkwise.core.base.extras import is_of
from chunkwise.core.driver.in_memory import ArraySpec
from chunkwise.core.dtypes.as_array import as_array, as_numpy, elements_of, of_objects, plain_array
from chunkwise.core.dtypes.data_type import DataType, DTypeLike
from chunkwise.core.index_space import IndexDomain, IndexTransform
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.context import Context, as_context
from chunkwise.core.specs.schema import Schema
from chunkwise.errors import InvalidArgumentError, OptionError

__all__ = ["HeldArray", "array", "check_shape", "held_array", "type_of"]


def array(
    array: Any,
    dtype: DTypeLike | None = None,
    *,
    context: Context | None = None,
    copy: bool | None = None,
    write: bool | None = None,
) -> TensorStore:
    """Return a view of a NumPy array, sharing its memory if possible.

    Parameters
    ----------
    array : array_like
        A NumPy array of type `dtype` in native byte order is shared: changes are seen on both sides.
        Anything else is converted.
    dtype : dtype_like, optional
        Data type of the elements.
    context : Context, optional
        Source of shared resources.
    copy : bool, optional
        True: always copy.  False: fail if a copy can't be avoided.
    write : bool, optional
        False: make it read-only.  True: copy a read-only array.

    Returns
    -------
    TensorStore
        An array with the shape of `array`.

    Raises
    ------
    ValueError
        If the type of `array` is not a data type, or `copy` is false and a copy is needed.
    TypeError
        If an array can't be safely converted to `dtype`.

    Examples
    --------
    >>> import numpy as np
    >>> import chunkwise
    >>> a = np.arange(5)
    >>> chunkwise.array(a)[1:3] = 7
    >>> a
    array([0, 7, 7, 3, 4])
    """
    if isinstance(array, TensorStore):
        array = array.read().result()
    copy = None if copy is None else as_flag(copy, "copy")
    write = None if write is None else as_flag(write, "write")
    given = array if isinstance(array, np.ndarray) else None
    if dtype is not None:
        element_type = DataType(dtype)
    else:
        array = as_numpy(array)
        element_type = _natural(array)
    values = as_array(array, element_type)
    shared = given is not None and values is given
    if copy is False and (not shared or (write and not values.flags.writeable)):
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    if copy or (write and not values.flags.writeable):
        values = values.copy(order="K")
    writable = values.flags.writeable if write is None else write
    spec = ArraySpec(schema=Schema(dtype=element_type, rank=values.ndim), array=values).bind(
        as_context(context)
    )
    opened = MemoryArray(spec, writable=writable)
    return TensorStore._make(opened, IndexTransform.identity(opened.domain))


def _natural(array: np.ndarray[Any, Any]) -> DataType:
    return DataType("json") if array.dtype.kind == "O" else DataType(array.dtype)


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
    if not isinstance(dtype, np.dtype):  # a tensor, or of pandas
        return held_array(as_numpy(value)) if hasattr(value, "__array__") else None
    if is_of(value, "xarray"):
        held = held_array(value.data)
        return None if held is None else held.label[tuple(map(str, value.dims))]
    if dtype.kind == "O":
        return held_array(plain_array(value))
    check_shape(value)
    return _read_in_chunks(value, shape, dtype)


def check_shape(array: HeldArray) -> None:
    """Raise if a size of an array of dask is not known."""
    if any(n != n for n in array.shape):
        raise InvalidArgumentError(
            f"the shape {array.shape} of the dask array is not known: write array.compute_chunk_sizes() first"
        )


def type_of(values: Any) -> DTypeLike:
    """Return the data type of an array; objects that are all text, or all bytes, have one too."""
    if isinstance(values, np.ndarray) and values.dtype == object and values.size:
        kinds = set(map(type, values.ravel().tolist()))
        if kinds <= {str, np.str_}:
            return "ustring"
        if kinds <= {bytes, np.bytes_}:
            return "string"
        raise OptionError(f"dtype: {of_objects(values)}")
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
        out[...] = plain_array(self.array[domain.index_exp])
