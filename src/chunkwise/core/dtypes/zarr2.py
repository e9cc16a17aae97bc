"""Data types and fill values in ``.zarray`` and, in the same forms, in the ``meta`` of Zarr v1.

Specification: Zarr v2, "Data type encoding" and "Fill value encoding".  A type is a NumPy type string with
byte order (``"<f4"``), a list of fields, or, written by TensorStore, a plain name (``"bfloat16"``).
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, expect_array, expect_int, expect_string, parse_array
from chunkwise.core.base.catalogue import codecs
from chunkwise.core.dtypes.data_type import DataType, dtypes
from chunkwise.core.dtypes.fill_value import parse_element, print_element
from chunkwise.core.dtypes.fixed import members_of
from chunkwise.core.dtypes.integer import show
from chunkwise.core.dtypes.names import ZARR2, pack
from chunkwise.errors import SpecError, UnknownExtensionError, UnsupportedError, prefixed

__all__ = [
    "fill_value_to_zarr2",
    "object_dtype",
    "parse_fill_value_zarr2",
    "parse_zarr2",
    "stored_dtype",
    "to_zarr2",
    "unsupported",
]

_PLAIN = {
    name: d for name, d in dtypes.items() if d.kind in ("int", "float") and d.memory_dtype.isbuiltin != 1
}
_DIGITS = re.compile(r"-?[0-9]{1,20}")
_TYPE_STRING = re.compile(r"([<>|])([biufcSUVmM])([0-9]+)(\[[^\]]*\])?")


def parse_zarr2(value: JSON, object_codec: str | None = None) -> tuple[DataType, np.dtype[Any]]:
    """Return the data type of member ``dtype`` of a Zarr v2 array, and the NumPy type with its byte order."""
    # `object_codec` is the ``id`` of the first filter, which decides what ``|O`` is.
    if isinstance(value, list):
        fields = [
            (name or _gap(i, kind), kind, *shape)
            for i, (name, kind, *shape) in enumerate(parse_array(value, _field))
        ]
        try:
            stored = pack(fields)
        except (TypeError, ValueError) as e:
            raise SpecError(f"Invalid structured zarr dtype {show(value)}: {e}") from None
        return DataType(stored), stored
    name = expect_string(value)
    if name in _PLAIN:
        return _PLAIN[name], _PLAIN[name].memory_dtype
    if name == "|O":
        dtype = None if object_codec is None else object_dtype(object_codec)
        if dtype is None:
            known = ", ".join(filter(object_dtype, codecs.names("zarr2")))
            found = "there is none" if object_codec is None else f'it is "{object_codec}"'
            raise SpecError(
                f'zarr dtype "|O" needs a first filter that makes objects, one of {known}; {found}'
            )
        return dtype, np.dtype(object)
    stored = _from_type_string(name)
    return DataType(stored), stored


def object_dtype(codec: str) -> DataType | None:
    """Return the data type of ``|O`` with a first filter of that ``id``; None if it makes no objects."""
    try:
        name = codecs.find(codec, "zarr2").object_dtype
    except UnknownExtensionError:
        return None
    return None if name is None else dtypes[name]


def _from_type_string(name: str) -> np.dtype[Any]:
    match = _TYPE_STRING.fullmatch(name)
    if match is not None:
        order, kind, size, unit = match[1], match[2], int(match[3]), match[4]
        # A type has a byte order exactly if it has several bytes; only a time has a unit.  The specification
        # demands a unit, but zarr-python writes NumPy's times without one as ``<M8``.
        if (order != "|" or size == 1 or kind in "SV") and size > 0 and (unit is None or kind in "mM"):
            try:
                stored = np.dtype(name)
                DataType(stored)
                return stored
            except (TypeError, ValueError):
                pass
    raise SpecError(f"Unsupported zarr dtype: {show(name)}")


def _field(value: JSON) -> tuple[Any, ...]:
    parts = expect_array(value)
    if len(parts) not in (2, 3):
        raise SpecError(f"Expected [name, dtype] or [name, dtype, shape], but received: {show(value)}")
    name = expect_string(parts[0])
    with prefixed(f'Error parsing field "{name}"'):
        dtype, stored = parse_zarr2(parts[1])
        if dtype.memory_dtype.hasobject:
            raise SpecError(f"Expected a dtype of fixed size, but received: {show(parts[1])}")
        if len(parts) == 2:
            return name, stored
        return name, stored, tuple(parse_array(parts[2], lambda v: expect_int(v, 0)))


def _gap(i: int, dtype: np.dtype[Any]) -> str:
    """Return the name that NumPy gives to bytes between two fields, which are nameless in the document."""
    return f"f{i}" if dtype.kind == "V" and dtype.names is None else ""


def unsupported(dtype: DataType) -> UnsupportedError:
    """Return the error for a data type that Zarr doesn't have; it says what holds bytes."""
    sized = {"char": "S5", "byte": "V5"}.get(dtype.name)
    hint = f'; "{sized}" has elements of 5 bytes, "string" of any number' if sized else ""
    return UnsupportedError(f"Data type not supported: {dtype.name}{hint}")


def to_zarr2(dtype: DataType, endian: str = "little") -> JSON:
    """Return member ``dtype`` of a Zarr v2 array for `dtype`; raise UnsupportedError if there is none."""
    # For string, ustring and json it is ``"|O"``; the caller adds the filter for it.
    if dtype.kind in ("char", "byte", "extension"):
        raise unsupported(dtype)
    if dtype.memory_dtype.hasobject:
        return "|O"
    if dtype.name in _PLAIN:
        return dtype.name
    if dtype.kind == "struct":
        return [
            [name, to_zarr2(member, endian), *([list(shape)] if shape else [])]
            for name, member, shape in members_of(dtype)
        ]
    return dtype.memory_dtype.newbyteorder("<" if endian == "little" else ">").str


def stored_dtype(dtype: DataType, endian: str = "little") -> np.dtype[Any]:
    """Return the NumPy type, with byte order, of elements stored as ``to_zarr2(dtype, endian)`` says."""
    if dtype.memory_dtype.hasobject or dtype.name in _PLAIN:
        return dtype.memory_dtype
    return parse_zarr2(to_zarr2(dtype, endian))[1]


def parse_fill_value_zarr2(
    value: JSON, dtype: DataType, stored: np.dtype[Any] | None = None
) -> npt.NDArray[Any] | None:
    """Return member ``fill_value`` of a Zarr v2 array as an array of shape ``()``; None for null."""
    # `stored` is the type with its byte order from `parse_zarr2`, by default little-endian.  Structured and
    # complex values are base64 of the bytes as stored. zarr-python used to write 0 for a missing fill value,
    # before it wrote base64.  It reads a number as text of any length, and the digits in a text as an
    # integer.
    if type(value) is int and value == 0 and dtype.kind in ("bytes", "text", "raw", "struct", "string"):
        return dtype.zero()
    if dtype.kind == "ustring" and type(value) in (int, float):
        value = str(value)
    if dtype.kind == "int" and isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    return None if value is None else parse_element(value, dtype, ZARR2, stored)


def fill_value_to_zarr2(
    fill: npt.NDArray[Any] | None, dtype: DataType, stored: np.dtype[Any] | None = None
) -> JSON:
    """Return member ``fill_value`` of a Zarr v2 array; inverse of `parse_fill_value_zarr2`."""
    # Every NaN becomes ``"NaN"``, the only one in Zarr v2.
    return None if fill is None else print_element(fill, dtype, ZARR2, stored)
