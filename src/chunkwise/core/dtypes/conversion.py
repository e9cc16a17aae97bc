"""Conversions between data types.

An *implicit* conversion happens on any write, an *explicit* one only in a cast.  The table and the rules for
values are TensorStore's; ``convert_number`` and ``convert_text`` hold the rules.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.core.dtypes.convert_number import Convert, number_converter, number_is_exact
from chunkwise.core.dtypes.convert_text import (
    from_json_converter,
    number_to_text,
    numbers_as_json,
    objects,
    text_converter,
)
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.errors import InvalidArgumentError

__all__ = ["Conversion", "cast_converters", "converter", "convertible", "implicit_converter"]


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
        return lambda array: array.astype(memory)
    return lambda array: _reinterpreted(array, memory)


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
