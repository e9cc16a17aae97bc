"""Strings and raw bytes of fixed size: ``S<n>``, ``U<n>``, ``V<n>``; ``char`` and ``byte`` are one byte long.

============ ================================== ==================== =======================
type         in Zarr v3                         in Zarr v2           fill value
============ ================================== ==================== =======================
``S<n>``     ``null_terminated_bytes``          ``|S<n>``            base64
``U<n>``     ``fixed_length_utf32``             ``<U<n>``            the text
``V<n>``     ``r<8 n>``, read: ``raw_bytes``    ``|V<n>``            base64
============ ================================== ==================== =======================

Sizes are in bytes; for ``U<n>``, in code points of four bytes.  Peers differ in whether the base64 of an
``S<n>`` includes the padding.  TensorStore requires all `n` bytes in Zarr v2, so the padding is written
there; zarr-python leaves it out, so it is left out in Zarr v3, where TensorStore has no ``S<n>``.  For ``r<8
n>``, the list of byte values of the Zarr v3 specification is written; base64, which both peers write, is read
too.

Values of any length: ``string`` (bytes), ``ustring`` (text) and ``json``; in memory, Python objects.

=========== ============================ ============================================== ==========
type        in Zarr v3                   in Zarr v2: ``|O`` and the first filter        fill value
=========== ============================ ============================================== ==========
ustring     ``string``                   ``vlen-utf8``, ``categorize``                  the text
string      ``variable_length_bytes``    ``vlen-bytes``                                 base64
json        --                           ``json2``, ``msgpack2``, ``pickle``;           any JSON
                                         ``vlen-array``: elements are arrays
=========== ============================ ============================================== ==========

zarr-python 2 writes 0 for a missing fill value of ``|O``; it is read as empty.
"""

from __future__ import annotations

import binascii
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, expect_int, expect_string, parse_array
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.integer import show
from chunkwise.core.dtypes.names import Notation
from chunkwise.errors import InvalidArgumentError, SpecError

__all__ = [
    "boxed",
    "decode_base64",
    "parse_fixed_bytes",
    "parse_fixed_text",
    "parse_variable",
    "print_fixed_bytes",
    "print_fixed_text",
    "print_variable",
]


def decode_base64(value: JSON, nbytes: int, *, exact: bool = False) -> bytes:
    """Return the bytes of a base64 string: `nbytes` of them, or fewer unless `exact`, padded with zeros."""
    try:
        raw = binascii.a2b_base64(expect_string(value), strict_mode=True)
    except (binascii.Error, ValueError):
        raw = None
    if raw is None or len(raw) > nbytes or (exact and len(raw) != nbytes):
        raise SpecError(f"Expected {nbytes} base64-encoded bytes, but received: {show(value)}")
    return raw.ljust(nbytes, b"\0")


def parse_fixed_bytes(value: JSON, dtype: DataType, notation: Notation) -> npt.NDArray[Any]:
    """Return a fill value of ``S<n>``, ``V<n>``, char or byte."""
    # Zarr v3 also has lists of byte values, and 0 for bytes that are all zero, which TensorStore writes for
    # the raw members of a structured type.
    nbytes = dtype.itemsize
    raw_bits = notation.has_bits and dtype.kind == "raw"
    if raw_bits and isinstance(value, list):
        raw = bytes(parse_array(value, lambda v: expect_int(v, 0, 255), nbytes))
    elif raw_bits and value == 0 and not isinstance(value, bool):
        raw = bytes(nbytes)
    else:
        raw = decode_base64(value, nbytes, exact=raw_bits)
    return np.frombuffer(raw, dtype.memory_dtype).reshape(()).copy()


def print_fixed_bytes(fill: npt.NDArray[Any], dtype: DataType, notation: Notation) -> str:
    """Return the JSON form of a fill value of ``S<n>``, ``V<n>``, char or byte."""
    raw = fill.tobytes()
    if not notation.pads_bytes and dtype.kind == "bytes":
        raw = raw.rstrip(b"\0")
    return binascii.b2a_base64(raw, newline=False).decode()


def parse_fixed_text(value: JSON, dtype: DataType, notation: Notation) -> npt.NDArray[Any]:
    """Return a fill value of ``U<n>``."""
    text, room = expect_string(value), dtype.itemsize // 4
    if len(text) > room:
        raise SpecError(f"Expected string of at most {room} characters, but received: {show(value)}")
    return np.array(text, dtype.memory_dtype)


def print_fixed_text(fill: npt.NDArray[Any], dtype: DataType, notation: Notation) -> str:
    """Return the JSON form of a fill value of ``U<n>``."""
    return str(fill)


def boxed(value: Any) -> npt.NDArray[Any]:
    """Return an array of shape ``()`` that holds `value`, which can be any object."""
    out = np.empty((), object)
    out[()] = value
    return out


def parse_variable(value: JSON, dtype: DataType, notation: Notation) -> npt.NDArray[Any]:
    """Return a fill value of string, ustring or json."""
    if dtype.kind == "json":
        return boxed(value)
    if dtype.kind == "ustring" or notation.is_plain:
        try:
            raw = expect_string(value).encode()
        except UnicodeEncodeError:
            raise SpecError(f"Expected text that UTF-8 can encode, but received: {show(value)}") from None
        return boxed(value if dtype.kind == "ustring" else raw)
    if notation.has_bits and isinstance(value, list):
        return boxed(bytes(parse_array(value, lambda v: expect_int(v, 0, 255))))
    try:
        return boxed(binascii.a2b_base64(expect_string(value), strict_mode=True))
    except (binascii.Error, ValueError) as e:
        if isinstance(e, SpecError):
            raise
        raise SpecError(f"Expected base64-encoded bytes, but received: {show(value)}") from None


def print_variable(fill: npt.NDArray[Any], dtype: DataType, notation: Notation) -> JSON:
    """Return the JSON form of a fill value of string, ustring or json."""
    value: Any = fill[()]
    if dtype.kind != "string":
        return value
    if not notation.is_plain:
        return binascii.b2a_base64(value, newline=False).decode()
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise InvalidArgumentError("Invalid UTF-8 sequence encountered") from None
