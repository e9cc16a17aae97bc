"""Fill values: from the JSON of each format to an array of shape ``()`` in memory, and back.

``parse_element`` and ``print_element`` call the functions of the data type's family, whose modules describe
the forms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON
from chunkwise.core.dtypes.as_array import as_array, elements_of
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.extension import Extension
from chunkwise.core.dtypes.fixed import (
    parse_fixed_bytes,
    parse_fixed_text,
    parse_variable,
    print_fixed_bytes,
    print_fixed_text,
    print_variable,
)
from chunkwise.core.dtypes.floating import parse_complex, parse_float, print_complex, print_float
from chunkwise.core.dtypes.integer import (
    parse_bool,
    parse_datetime,
    parse_int,
    print_bool,
    print_datetime,
    print_int,
    show,
)
from chunkwise.core.dtypes.names import Kind, Notation
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, OptionError, SpecError

__all__ = [
    "check_held",
    "exact_fill",
    "parse_element",
    "print_element",
    "same_fill",
    "same_object",
]

_PARSE: dict[Kind, Callable[[JSON, DataType, Notation], npt.NDArray[Any]]] = {
    "bool": parse_bool,
    "int": parse_int,
    "float": parse_float,
    "char": parse_fixed_bytes,
    "byte": parse_fixed_bytes,
    "bytes": parse_fixed_bytes,
    "raw": parse_fixed_bytes,
    "text": parse_fixed_text,
    "datetime": parse_datetime,
    "string": parse_variable,
    "ustring": parse_variable,
    "json": parse_variable,
}
_PRINT: dict[Kind, Callable[[npt.NDArray[Any], DataType, Notation], JSON]] = {
    "bool": print_bool,
    "int": print_int,
    "float": print_float,
    "complex": print_complex,
    "char": print_fixed_bytes,
    "byte": print_fixed_bytes,
    "bytes": print_fixed_bytes,
    "raw": print_fixed_bytes,
    "text": print_fixed_text,
    "datetime": print_datetime,
    "string": print_variable,
    "ustring": print_variable,
    "json": print_variable,
}


def parse_element(
    value: JSON, dtype: DataType, notation: Notation, stored: np.dtype[Any] | None = None
) -> npt.NDArray[Any]:
    """Return the element that `value` stands for in `notation`, with shape ``()``, or raise SpecError."""
    # `stored` is the type with the byte order it is stored in; it matters for base64 of complex and
    # structured types.
    if dtype.kind == "struct":
        from chunkwise.core.dtypes.struct import parse_struct

        return parse_struct(
            value, dtype, notation, stored, lambda v, member: parse_element(v, member, notation)
        )
    if dtype.kind == "complex":
        return parse_complex(value, dtype, notation, stored)
    if dtype.extension is not None:
        return _parse_extension(value, dtype, dtype.extension)
    return _PARSE[dtype.kind](value, dtype, notation)


def _parse_extension(value: JSON, dtype: DataType, extension: Extension) -> npt.NDArray[Any]:
    try:
        return np.array(extension.parse_fill_value(value), dtype.memory_dtype).reshape(())
    except ChunkwiseError:
        raise
    except (TypeError, ValueError, LookupError, ArithmeticError) as e:  # how packages refuse a value
        raise SpecError(f"Expected value of {dtype.name}, but received: {show(value)} ({e})") from e


def print_element(
    fill: npt.NDArray[Any], dtype: DataType, notation: Notation, stored: np.dtype[Any] | None = None
) -> JSON:
    """Return the JSON of an element, given as an array of shape ``()``; inverse of `parse_element`."""
    fill = np.asarray(fill, dtype.memory_dtype) if dtype.kind != "json" else fill
    if dtype.kind == "struct":
        from chunkwise.core.dtypes.struct import print_struct

        return print_struct(fill, dtype, notation, stored)
    if dtype.extension is not None:
        return dtype.extension.print_fill_value(fill)
    return _PRINT[dtype.kind](fill, dtype, notation)


def same_fill(a: npt.NDArray[Any] | None, b: npt.NDArray[Any] | None) -> bool:
    """Return True if two fill values have the same bits: NaN is equal to itself, 0.0 not to -0.0."""
    if a is None or b is None:
        return a is b
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.hasobject:
        return all(map(same_object, a.ravel().tolist(), b.ravel().tolist()))
    return a.tobytes() == b.tobytes()


def same_object(a: Any, b: Any) -> bool:
    """Return True if two Python objects have the same type and the same contents, at all depths."""
    if isinstance(a, float) and isinstance(b, float):
        return (a == b and math.copysign(1, a) == math.copysign(1, b)) or (a != a and b != b)
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same_object(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same_object, a, b))
    if isinstance(a, np.ndarray):
        return same_fill(a, b)
    return bool(a == b)


def exact_fill(value: Any, dtype: DataType) -> npt.NDArray[Any]:
    """Return a fill value as an array without dimensions; raise OptionError unless `dtype` can hold it."""
    value = elements_of(value)
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value[()]
    try:
        out = as_array(value, dtype).reshape(())
    except (ValueError, OverflowError, TypeError, InvalidArgumentError) as e:
        raise OptionError(f"fill_value: {value!r} is not a value of {dtype.name}: {e}") from None
    if not isinstance(value, np.ndarray) or value.dtype != out.dtype:
        check_held(value, out, dtype)
    return out


def check_held(asked: Any, stored: npt.NDArray[Any], dtype: DataType) -> None:
    """Raise OptionError unless fill values of `dtype` are those that were asked for."""
    values = np.asarray(asked)
    is_text = dtype.kind == "bool" and values.dtype.kind not in "iufcb"  # for NumPy any text is true
    if is_text or (
        values.dtype.kind in "iufcb"
        and not all(map(_holds, values.reshape(-1).tolist(), stored.reshape(-1), [dtype] * values.size))
    ):
        raise OptionError(f"fill_value: {dtype.name} can't hold {asked!r}")


def _holds(asked: complex, stored: Any, dtype: DataType) -> bool:
    """Return True if a number has kept its value, or for floating point, has been rounded."""
    if dtype.kind in ("bool", "int"):
        return int(stored) == asked
    if dtype.kind not in ("float", "complex"):
        return True
    from cmath import isfinite, isnan  # for fill values in schemas alone

    found = complex(stored) if dtype.kind == "complex" else complex(float(stored))
    return isfinite(found) == isfinite(asked) and isnan(found) == isnan(asked)
