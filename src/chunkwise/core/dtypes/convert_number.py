"""Conversions among booleans, integers, floating-point and complex numbers.

Integers wrap modulo 2^n.  Floating-point numbers become integers by truncation toward zero.  A number that
doesn't fit is undefined in C++; here, on every machine, it gives what TensorStore gives on x86-64: see
`_out_of_range`.  Everything else rounds to nearest, ties to even.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.floating import component_of
from chunkwise.core.dtypes.integer import bounds_of, is_small, sign_extended

__all__ = ["Convert", "number_converter", "number_is_exact"]

Array: TypeAlias = npt.NDArray[Any]
Convert: TypeAlias = Callable[[Array], Array]
"""Returns the elements of an array, of any shape and strides, in another type; maybe the same array."""


def number_is_exact(source: DataType, target: DataType) -> bool:
    """Return True if every value has an equal in the other numeric type, so the conversion is implicit."""
    # Floating-point types are compared by mantissa and exponent range, not by special values.
    if source is target or source.kind == "bool":
        return True
    if target.kind == "bool":
        return False
    if target.kind == "complex":
        return number_is_exact(
            component_of(source) if source.kind == "complex" else source, component_of(target)
        )
    if source.kind == "complex" or (source.kind == "float" and target.kind == "int"):
        return False
    if source.kind == "int":
        lo, hi = bounds_of(source)
        if target.kind == "int":
            least, greatest = bounds_of(target)
            return least <= lo and hi <= greatest
        return hi.bit_length() <= _float_limits(target)[0]
    digits, least, greatest = _float_limits(source)
    to_digits, to_least, to_greatest = _float_limits(target)
    return digits <= to_digits and to_least <= least and greatest <= to_greatest


def _float_limits(dtype: DataType) -> tuple[int, int, int]:
    """Return the digits of the mantissa, and the least and greatest binary exponent."""
    info: Any = ml_dtypes.finfo(dtype.memory_dtype)
    digits, least, greatest = int(info.nmant) + 1, int(info.minexp), int(info.maxexp)
    # The least value of float8_e8m0fnu, 2^-127, is an exact subnormal of bfloat16 and float32.
    return digits, least + (digits == 1), greatest


def number_converter(source: DataType, target: DataType) -> Convert:
    """Return the converter of one numeric type to another; only complex targets keep the imaginary part."""
    memory = target.memory_dtype
    if source is target:
        return lambda array: array
    if source.kind == "complex" and target.kind != "complex":
        of_part = number_converter(component_of(source), target)
        return lambda array: of_part(array.real)
    if target.kind == "int":
        if source.kind == "float":
            return lambda array: _float_to_int(array, target)
        if is_small(target):
            whole = np.int8 if target.name[0] == "i" else np.uint8
            return lambda array: sign_extended(array.astype(whole), target)

    # Before 0.5.4, ml_dtypes can't convert its small integers directly to its floating-point types.
    between = np.dtype(np.int8 if source.name[0] == "i" else np.uint8) if is_small(source) else None

    def convert(array: Array) -> Array:
        with np.errstate(all="ignore"):
            return (array if between is None else array.astype(between)).astype(memory)

    return convert


def _float_to_int(array: Array, target: DataType) -> Array:
    lo, hi = bounds_of(target)
    # Exact: float32 holds all values of every type below 32 bits.
    wide = array if array.dtype.itemsize > 2 else array.astype(np.float32)
    small = is_small(target)
    whole = (np.dtype(np.int8) if lo else np.dtype(np.uint8)) if small else target.memory_dtype
    with np.errstate(all="ignore"):
        # NaN makes both comparisons false.
        if wide.size == 0 or (wide.min() > lo - 1 and wide.max() < hi + 1):
            out = wide.astype(whole)
        else:
            out = _out_of_range(np.trunc(wide.astype(np.float64)), target, whole)
    return sign_extended(out, target) if small else out


def _out_of_range(whole_numbers: Array, target: DataType, memory: np.dtype[Any]) -> Array:
    """Convert whole numbers that don't all fit."""
    # to             wraps                          anything else, NaN included
    # 8 and 16 bits  what fits int32                0
    # int32, int64   --                             the least value
    # uint32         what fits int32 or uint32      2^31; from 2^32 upwards 0
    # uint64         what fits int64 or uint64      2^63; from 2^64 upwards 0
    end = 2.0**63 if target.itemsize == 8 else 2.0**31
    top = 2 * end if target.name in ("uint32", "uint64") else end
    wraps = (whole_numbers >= -end) & (whole_numbers < top)
    high = wraps & (whole_numbers >= end)
    # Only uint64 can take numbers from 2^63 upwards directly; smaller ones are converted through int64.
    out = np.where(wraps & ~high, whole_numbers, 0).astype(np.int64).astype(memory)
    out[high] = whole_numbers[high].astype(memory)
    if target.itemsize >= 4:
        low = ~wraps & ~(whole_numbers >= top)
        out[~wraps] = bounds_of(target)[0]
        out[low] = int(end) if top > end else bounds_of(target)[0]
    return out
