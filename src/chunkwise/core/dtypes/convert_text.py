"""Conversions to, from and among text, bytes and JSON.

Numbers print as C's ``%g`` does, with six digits: ``1.5``, ``1e+20``, ``nan``; complex numbers as ``(1,2)``.
Bytes become text only if they are UTF-8.  JSON becomes a number if it is a number or a string of one;
booleans and text must be JSON booleans and strings.  Values too long for ``S<n>`` or ``U<n>`` are errors;
nothing is cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import expect_bool, expect_string
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.floating import read_float
from chunkwise.core.dtypes.integer import is_small, read_int, sign_extended
from chunkwise.errors import InvalidArgumentError

__all__ = ["from_json_converter", "number_to_text", "numbers_as_json", "objects", "text_converter"]

Array: TypeAlias = npt.NDArray[Any]
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
