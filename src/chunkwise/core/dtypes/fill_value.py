"""Fill values: from the JSON of each format, and of schemas, to arrays in memory, and back.

``parse_element`` and ``print_element`` call the functions of the data type's family, whose modules describe
the forms.

Elements of schemas are read as TensorStore converts JSON: numbers also from strings, booleans and text
strictly.  Types for which TensorStore has no JSON form have one here: complex numbers are pairs; ``S<n>``,
``V<n>`` and structured values are base64; times are their count.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Number
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
    bounds_of,
    is_small,
    parse_bool,
    parse_datetime,
    parse_int,
    print_bool,
    print_datetime,
    print_int,
    show,
)
from chunkwise.core.dtypes.names import SCHEMA, Kind, Notation
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, OptionError, SpecError, braced, prefix

__all__ = [
    "array_from_json",
    "array_to_json",
    "exact_fill",
    "fill_value_from_json",
    "fill_value_to_json",
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
        from chunkwise.core.dtypes.fixed import parse_struct

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
        from chunkwise.core.dtypes.fixed import print_struct

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
        _check_held(value, out, dtype)
    return out


def _check_held(asked: Any, stored: npt.NDArray[Any], dtype: DataType) -> None:
    """Raise OptionError unless fill values of `dtype` are those that were asked for."""
    values = np.asarray(asked)
    flat, kind = values.reshape(-1).tolist(), values.dtype.kind
    is_number = kind in "iufcb" or (kind == "O" and all(isinstance(value, Number) for value in flat))
    # For NumPy any text is true, and times are numbers.
    is_other = (dtype.kind == "bool" and not is_number) or (kind in "mM" and dtype.kind in _NUMBERS)
    if is_other or (is_number and not all(map(_holds, flat, stored.reshape(-1), [dtype] * values.size))):
        raise OptionError(f"fill_value: {dtype.name} can't hold {asked!r}")


_NUMBERS = ("int", "float", "complex")


def _holds(asked: complex, stored: Any, dtype: DataType) -> bool:
    """Return True if a number has kept its value, or for floating point, has been rounded."""
    if dtype.kind in ("bool", "int"):
        return int(stored) == asked
    if dtype.kind == "datetime":
        return bool(stored.view(np.int64) == asked)
    if dtype.kind not in ("float", "complex"):
        return True
    from cmath import isfinite, isnan  # for fill values in schemas alone

    found = complex(stored) if dtype.kind == "complex" else complex(float(stored))
    return isfinite(found) == isfinite(asked) and isnan(found) == isnan(asked)


_MAX_RANK = 32  # the limit of every domain


def array_from_json(value: JSON, dtype: DataType, rank: int | None = None) -> npt.NDArray[Any]:
    """Return nested lists as an array of `dtype`; raise SpecError with the position of an invalid element."""
    # `rank` is the depth of the lists that make up the array.  It is needed for json, whose elements can be
    # lists, and defaults to 0 there.  Otherwise all lists count, except those that form an element, such as a
    # complex number.
    if rank is None:
        rank = 0 if dtype.kind == "json" else max(0, _depth(value) - _element_rank(dtype))
    if rank > _MAX_RANK:
        raise SpecError(f"Array rank ({rank}) is outside valid range [0, {_MAX_RANK}]")
    shape: list[int] = []
    level = value
    for _ in range(rank):
        if not isinstance(level, list):
            raise SpecError(f"Array rank ({len(shape)}) does not match expected rank ({rank})")
        shape.append(len(level))
        if not level:
            break
        level = level[0]
    shape += [0] * (rank - len(shape))
    elements: list[JSON] = []
    _flatten(value, shape, (), elements)
    if dtype.kind == "int" and not is_small(dtype) and set(map(type, elements)) == {int}:
        lo, hi = bounds_of(dtype)
        if lo <= min(elements) and max(elements) <= hi:  # the common case, in one step
            return np.array(elements, dtype.memory_dtype).reshape(shape)
    out = np.empty(len(elements), dtype.memory_dtype)
    for i, element in enumerate(elements):
        try:
            out[i] = parse_element(element, dtype, SCHEMA)[()]
        except InvalidArgumentError as e:
            position = ", ".join(map(str, np.unravel_index(i, shape))) if shape else ""
            raise prefix(e, f"Error parsing array element at position {{{position}}}") from None
    return out.reshape(shape)


def array_to_json(array: npt.NDArray[Any], dtype: DataType) -> JSON:
    """Return `array` as nested lists; inverse of `array_from_json`."""
    if array.ndim:
        # The ellipsis keeps an element of an object array in an array of rank 0.
        return [array_to_json(array[i, ...], dtype) for i in range(len(array))]
    return print_element(array, dtype, SCHEMA)


fill_value_from_json = array_from_json
fill_value_to_json = array_to_json


def _element_rank(dtype: DataType) -> int:
    """Return the depth of the lists that form an element in JSON."""
    return 1 if dtype.kind == "complex" else getattr(dtype.extension, "fill_rank", 0)


def _depth(value: JSON) -> int:
    depth = 0
    while isinstance(value, list):
        depth += 1
        if not value:
            break
        value = value[0]
    return depth


def _flatten(value: JSON, shape: list[int], at: tuple[int, ...], out: list[JSON]) -> None:
    level = len(at)
    if level == len(shape):
        out.append(value)
        return
    full = braced(shape)
    position = braced(at)
    if not isinstance(value, list):
        raise SpecError(
            f"Expected rank-{len(shape)} array, "
            f"but found non-array element {show(value)} at position {position}."
        )
    if len(value) != shape[level]:
        raise SpecError(
            f"Expected array of shape {full}, but found array element {show(value)} "
            f"of length {len(value)} at position {position}."
        )
    for i, part in enumerate(value):
        _flatten(part, shape, (*at, i), out)
