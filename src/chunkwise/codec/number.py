"""Real numbers in codec configurations: their data types, and scalars in the form of fill values."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from chunkwise.binding import JSON, dump
from chunkwise.dtypes.data_type import DataType
from chunkwise.dtypes.zarr3 import parse_fill_value_zarr3, parse_zarr3
from chunkwise.errors import SpecError

__all__ = ["is_integer", "is_number", "number_dtype", "parse_number", "value_range"]

_SMALL_INTEGERS = ("int2", "int4", "uint2", "uint4")


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Return True if `dtype` holds whole numbers only."""
    return dtype.kind in "iu" or dtype.name in _SMALL_INTEGERS


def is_number(dtype: np.dtype[Any]) -> bool:
    """Return True if `dtype` holds real numbers."""
    return dtype.kind in "iuf" or dtype.isbuiltin == 2


def number_dtype(value: JSON) -> np.dtype[Any]:
    """Return the NumPy type of the Zarr v3 data type `value`, which must be one of real numbers."""
    dtype = parse_zarr3(value).memory_dtype
    if not is_number(dtype):
        raise SpecError(f"Expected data type of real numbers, but received: {dump(value)}")
    return dtype


def value_range(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the least and the greatest finite value of `dtype`, as Python numbers."""
    info: Any = ml_dtypes.iinfo(dtype) if is_integer(dtype) else ml_dtypes.finfo(dtype)
    kind = int if is_integer(dtype) else float
    return kind(info.min), kind(info.max)


def parse_number(value: JSON, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the scalar `value`, written as a Zarr v3 fill value of `dtype`, with shape ``()``."""
    # ``"+Infinity"``, as the registry's examples have it, is ``"Infinity"``.
    return parse_fill_value_zarr3("Infinity" if value == "+Infinity" else value, DataType(dtype))
