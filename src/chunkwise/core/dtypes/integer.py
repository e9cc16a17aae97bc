"""Integers of 2 to 64 bits, and types stored as integers: booleans, times and durations.

Integers below 8 bits take one byte each, sign-extended or zero-extended.  Fill value: a JSON number without
fraction that the type can hold (Zarr v3 "Data Types", "Permitted fill values"; Zarr v2 "Fill value
encoding").  ``5.0`` is read as 5, as peers do.

``bool`` is one byte, 0 or 1.  Fill value: JSON ``true`` or ``false`` in every format (Zarr v3, as above); in
Zarr v2 also 0 or 1, which other writers store and zarr-python reads.

``datetime64`` and ``timedelta64`` are 64-bit counts of a unit or of a multiple of a unit.  In Zarr v3 they
are the extensions ``numpy.datetime64`` and ``numpy.timedelta64`` with members ``unit`` and ``scale_factor``;
in Zarr v2 NumPy's type strings ``<M8[10ms]``.  Fill value: the count as a number, where not-a-time is the
least 64-bit integer; ``"NaT"`` is read too.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, MISSING, dump, expect_bool, expect_int
from chunkwise.core.dtypes.data_type import NOT_A_TIME, DataType
from chunkwise.core.dtypes.names import Notation
from chunkwise.errors import SpecError

__all__ = [
    "bounds_of",
    "is_small",
    "parse_bool",
    "parse_datetime",
    "parse_int",
    "print_bool",
    "print_datetime",
    "print_int",
    "read_int",
    "sign_extended",
]

_DECIMAL = r"(?a)\s*([+-]?)0*([0-9]{1,40})\s*"


@cache
def bounds_of(dtype: DataType) -> tuple[int, int]:
    """Return the least and the greatest value of an integer type."""
    info: Any = ml_dtypes.iinfo(dtype.memory_dtype)
    return int(info.min), int(info.max)


def is_small(dtype: DataType) -> bool:
    """Return True for an integer of less than 8 bits."""
    return dtype.name in ("int2", "int4", "uint2", "uint4")


def sign_extended(array: npt.NDArray[Any], dtype: DataType) -> npt.NDArray[Any]:
    """Return an array of 2- or 4-bit integers with the unused bits of each byte set to the sign."""
    # In ``ml_dtypes`` these bits depend on where a value came from, but elements are stored and compared as
    # whole bytes.
    signed = dtype.name[0] == "i"
    shift = np.array(8 - int(dtype.name[-1]), np.int8 if signed else np.uint8)
    whole = np.ascontiguousarray(array).view(shift.dtype).reshape(array.shape)
    return ((whole << shift) >> shift).view(dtype.memory_dtype).reshape(array.shape)


def read_int(value: JSON, dtype: DataType, *, strings: bool = False) -> int:
    """Return a JSON value as an int that `dtype` can hold; decimal strings only if `strings`."""
    lo, hi = bounds_of(dtype)
    number = value
    if isinstance(value, float) and value.is_integer():
        number = int(value)
    elif strings and isinstance(value, str) and (lo < 0 or "-" not in value):
        match = re.fullmatch(_DECIMAL, value)
        number = int(match[1] + match[2]) if match else value
    if isinstance(number, bool) or not isinstance(number, int) or not lo <= number <= hi:
        if dtype.itemsize == 8:
            what = f"64-bit {'signed' if lo else 'unsigned'} integer"
        else:
            what = f"integer in the range [{lo}, {hi}]"
        received = "but member is missing" if value is MISSING else f"but received: {show(value)}"
        raise SpecError(f"Expected {what}, {received}")
    return number


def show(value: JSON) -> str:
    """Return a JSON value as text for a message; NaN and infinity print as null, since JSON lacks them."""
    if isinstance(value, float) and not np.isfinite(value):
        return "null"
    try:
        return dump(value)
    except (TypeError, ValueError):
        return repr(value)


def parse_int(value: JSON, dtype: DataType, notation: Notation) -> npt.NDArray[Any]:
    """Return a fill value; a schema may have a string of digits."""
    number = read_int(value, dtype, strings=notation.is_plain)
    if is_small(dtype):
        return sign_extended(np.array(number, dtype.memory_dtype), dtype)
    return np.array(number, dtype.memory_dtype)


def print_int(fill: npt.NDArray[Any], dtype: DataType, notation: Notation) -> JSON:
    """Return the JSON form of a fill value."""
    return int(fill)


def parse_bool(value: JSON, dtype: DataType, notation: Notation) -> npt.NDArray[Any]:
    """Return a fill value; a schema may have the strings ``"true"`` and ``"false"``."""
    if notation.is_plain and value in ("true", "false"):
        value = value == "true"
    if not notation.is_plain and type(value) is int and value in (0, 1):
        value = value == 1
    return np.array(expect_bool(value))


def print_bool(fill: npt.NDArray[Any], dtype: DataType, notation: Notation) -> JSON:
    """Return the JSON form of a fill value."""
    return bool(fill)


def parse_datetime(value: JSON, dtype: DataType, notation: Notation) -> npt.NDArray[Any]:
    """Return a fill value."""
    count = NOT_A_TIME if value == "NaT" else expect_int(value)
    return np.array(count, np.int64).view(dtype.memory_dtype)


def print_datetime(fill: npt.NDArray[Any], dtype: DataType, notation: Notation) -> int:
    """Return the JSON form of a fill value."""
    return int(fill.view(np.int64))
