"""Conversions between data types.

An *implicit* conversion happens on any write, an *explicit* one only in a cast.  The table and the rules for
values are TensorStore's.

Conversions among booleans, integers, floating-point and complex numbers.

Integers wrap modulo 2^n.  Floating-point numbers become integers by truncation toward zero.  A number that
doesn't fit is undefined in C++; here, on every machine, it gives what TensorStore gives on x86-64: see
`_out_of_range`.  Everything else rounds to nearest, ties to even.

Conversions to, from and among text, bytes and JSON.

Numbers print as C's ``%g`` does, with six digits: ``1.5``, ``1e+20``, ``nan``; complex numbers as ``(1,2)``.
Bytes become text only if they are UTF-8.  JSON becomes a number if it is a number or a string of one;
booleans and text must be JSON booleans and strings.  Values too long for ``S<n>`` or ``U<n>`` are errors;
nothing is cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from functools import lru_cache
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import expect_bool, expect_string
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.floating import component_of, read_float
from chunkwise.core.dtypes.integer import bounds_of, is_small, read_int, sign_extended
from chunkwise.errors import InvalidArgumentError

__all__ = [
    "Conversion",
    "Convert",
    "cast_converters",
    "converter",
    "convertible",
    "from_json_converter",
    "implicit_converter",
    "number_converter",
    "number_is_exact",
    "number_to_text",
    "numbers_as_json",
    "objects",
    "text_converter",
    "times_as",
]


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


_BYTES = ("string", "bytes")


def objects(values: Iterable[Any], shape: tuple[int, ...], size: int) -> Array:
    """Return an array of Python objects, lists among them."""
    return np.fromiter(values, object, size).reshape(shape)


def numbers_as_json(array: Array, source: DataType) -> list[Any]:
    """Return numbers as Python numbers, complex ones as pairs, in C order."""
    if source.kind == "complex":
        flat = array.ravel()
        return list(map(list, zip(flat.real.tolist(), flat.imag.tolist(), strict=True)))
    if source.kind == "float":
        return array.astype(np.float64).ravel().tolist()
    if is_small(source):
        return array.astype(np.int16).ravel().tolist()
    return array.ravel().tolist()


def number_to_text(source: DataType, target: DataType) -> Callable[[Array], Array]:
    """Return the function that prints numbers as ustring or string."""
    if source.kind == "int":
        show: Callable[[Any], str] = str
    elif source.kind == "float":
        show = "{:.6g}".format
    else:
        show = lambda pair: f"({pair[0]:.6g},{pair[1]:.6g})"  # noqa: E731
    finish: Callable[[str], Any] = str.encode if target.kind == "string" else str

    def convert(array: Array) -> Array:
        return objects((finish(show(v)) for v in numbers_as_json(array, source)), array.shape, array.size)

    return convert


def from_json_converter(target: DataType) -> Callable[[Array], Array]:
    """Return the converter of JSON values to numbers or booleans; it raises SpecError for any other value."""
    memory = target.memory_dtype

    def to_bool(array: Array) -> Array:
        values = [v == "true" if v in ("true", "false") else expect_bool(v) for v in array.ravel().tolist()]
        return np.array(values, bool).reshape(array.shape)

    def to_int(array: Array) -> Array:
        values = [read_int(v, target, strings=True) for v in array.ravel().tolist()]
        out = np.array(values, memory).reshape(array.shape)
        return sign_extended(out, target) if is_small(target) else out

    def to_float(array: Array) -> Array:
        values = np.array([read_float(v) for v in array.ravel().tolist()], np.float64)
        with np.errstate(all="ignore"):
            return values.astype(memory).reshape(array.shape)

    return {"bool": to_bool, "int": to_int, "float": to_float}[target.kind]


def text_converter(source: DataType, target: DataType) -> Callable[[Array], Array]:
    """Return the function that converts among string, ustring, json, ``S<n>`` and ``U<n>``."""
    # It raises InvalidArgumentError for bytes that are not UTF-8, JSON other than strings, and values that
    # are too long.
    want_bytes = target.kind in _BYTES
    if source.kind == "json":
        take: Callable[[Any], Any] = (lambda v: _encode(expect_string(v))) if want_bytes else expect_string
    elif (source.kind in _BYTES) == want_bytes:
        take = bytes if want_bytes else str
    else:
        take = _encode if want_bytes else _decode
    memory = target.memory_dtype

    def convert(array: Array) -> Array:
        values = [take(v) for v in array.ravel().tolist()]
        if memory.hasobject:
            return objects(values, array.shape, array.size)
        return fitted(values, target).reshape(array.shape)

    return convert


def fitted(values: list[Any], target: DataType) -> Array:
    """Return bytes or texts as an array of ``S<n>`` or ``U<n>``; raise for one that is too long."""
    # A trailing NUL doesn't fit either: it can't be told from padding.
    memory = target.memory_dtype
    room, nul = (memory.itemsize, b"\0") if memory.kind == "S" else (memory.itemsize // 4, "\0")
    for value in values:
        if len(value) > room or value.endswith(nul):
            raise InvalidArgumentError(
                f"{value!r} of length {len(value)} does not fit data type {target.name}"
            )
    return np.array(values, memory)


def _decode(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise InvalidArgumentError("Invalid UTF-8 sequence encountered") from None


def _encode(value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"{value!r} is not valid Unicode text") from None


class Conversion(IntEnum):
    """The kinds of conversion between two data types."""

    NONE = 0
    EXPLICIT = 1
    IMPLICIT = 2


_NUMBERS = ("bool", "int", "float", "complex")
_TEXTS = {
    # From bytes or text of one kind to another; between different sizes, the sizes decide.
    "bytes": {"string": 2, "ustring": 1, "json": 1, "text": 1},
    "text": {"string": 2, "ustring": 2, "json": 2, "bytes": 1},
    "string": {"ustring": 1, "json": 1, "bytes": 1, "text": 1},
    "ustring": {"string": 2, "json": 2, "bytes": 1, "text": 1},
    "json": {"string": 1, "ustring": 1, "bytes": 1, "text": 1},
}


@lru_cache(4096)
def convertible(source: DataType, target: DataType) -> Conversion:
    """Return whether elements of `source` convert to `target`, and whether they do so implicitly."""
    a, b = source.kind, target.kind
    if source is target:
        return Conversion.IMPLICIT
    if "extension" in (a, b):  # elements with the same form in memory are passed through
        same = a != b and source.memory_dtype == target.memory_dtype
        return Conversion.IMPLICIT if same else Conversion.NONE
    if a in _NUMBERS and b in _NUMBERS:
        if a == "complex" and b == "bool":
            return Conversion.NONE
        return Conversion.IMPLICIT if number_is_exact(source, target) else Conversion.EXPLICIT
    if a in _NUMBERS:
        if b == "json":
            return Conversion.IMPLICIT
        if b in ("string", "ustring") and a != "bool":
            return Conversion.EXPLICIT
    if a == "json" and b in ("bool", "int", "float"):
        return Conversion.EXPLICIT
    if a == b and a in ("bytes", "text"):
        return Conversion.IMPLICIT if source.itemsize <= target.itemsize else Conversion.EXPLICIT
    if a in _TEXTS and b in _TEXTS:
        return Conversion(_TEXTS[a][b])
    if {a, b} == {"char", "byte"}:
        return Conversion.IMPLICIT
    if a == b == "datetime" and source.memory_dtype.kind == target.memory_dtype.kind:
        safe = np.can_cast(source.memory_dtype, target.memory_dtype, "safe")
        return Conversion.IMPLICIT if safe else Conversion.EXPLICIT
    if {a, b} == {"datetime", "int"} and "int64" in (source.name, target.name):
        return Conversion.EXPLICIT
    return Conversion.NONE


@lru_cache(4096)
def converter(source: DataType, target: DataType) -> Convert:
    """Return the function that converts arrays of `source` to arrays of `target`, or raise."""
    # The function takes an array of any shape and strides whose dtype is ``source.memory_dtype``, and returns
    # an array of the same shape, which may be the same array or share its memory.
    if convertible(source, target) is Conversion.NONE:
        raise InvalidArgumentError(f"Cannot convert {source.name} -> {target.name}")
    a, b = source.kind, target.kind
    memory = target.memory_dtype
    if source is target or "extension" in (a, b):
        return lambda array: array
    if a in _NUMBERS and b in _NUMBERS:
        return number_converter(source, target)
    if a in _NUMBERS and b == "json":
        return lambda array: objects(numbers_as_json(array, source), array.shape, array.size)
    if a in _NUMBERS and b in ("string", "ustring"):
        return number_to_text(source, target)
    if a == "json" and b in _NUMBERS:
        return from_json_converter(target)
    if a in _TEXTS:
        return text_converter(source, target)
    if a == b == "datetime":
        return lambda array: times_as(array, memory)
    return lambda array: _reinterpreted(array, memory)


def times_as(array: Array, memory: np.dtype[Any]) -> Array:
    """Return times in another unit; NumPy wraps around those that it can't hold, which are errors here."""
    try:
        out = array.astype(memory, copy=False)
    except OverflowError:  # of NumPy 2.5
        first = next(time for time in array.flat if _overflows(time, memory))
        raise InvalidArgumentError(f"{first} is out of the range of {memory.name}") from None
    if out is not array and np.can_cast(array.dtype, memory, "safe"):  # otherwise times are cut by intention
        back = out.astype(array.dtype)
        lost = (back != array) & ~(np.isnat(back) & np.isnat(array))
        if lost.any():
            raise InvalidArgumentError(f"{array[lost].flat[0]} is out of the range of {memory.name}")
    return out


def _overflows(time: Any, memory: np.dtype[Any]) -> bool:
    try:
        time.astype(memory)
    except OverflowError:
        return True
    return False


def _reinterpreted(array: npt.NDArray[Any], memory: np.dtype[Any]) -> npt.NDArray[Any]:
    # char and byte, int64 and times: the same bits.
    return np.ascontiguousarray(array).view(memory).reshape(array.shape)


def implicit_converter(source: DataType, target: DataType) -> Convert:
    """Return `converter` for a write, which converts implicitly only."""
    if convertible(source, target) is Conversion.EXPLICIT:
        raise InvalidArgumentError(
            f"Explicit data type conversion required to convert {source.name} -> {target.name}"
        )
    return converter(source, target)


def cast_converters(base: DataType, target: DataType) -> tuple[Convert | None, Convert | None]:
    """Return the conversions to read and to write `base` as `target`; None for one that doesn't exist."""
    read = converter(base, target) if convertible(base, target) else None
    write = converter(target, base) if convertible(target, base) else None
    if read is None and write is None:
        raise InvalidArgumentError(f"Cannot convert {base.name} <-> {target.name}")
    return read, write
