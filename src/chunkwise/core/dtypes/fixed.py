"""Elements of a fixed number of bytes: strings, raw bytes, and records, whose members are such elements.

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

Records: in Zarr v3, the extension ``struct`` (members as objects) or its older form ``structured`` (members
as pairs); in Zarr v2, a list of ``[name, type]`` or ``[name, type, shape]``.  Fill value: base64 of the
stored record in Zarr v2 and for ``structured``, an object with a value for each member for ``struct``.  Both
forms, and a list of the values in order, are read everywhere.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, Members, expect_array, expect_int, expect_string, parse_array
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.integer import show
from chunkwise.core.dtypes.names import Notation
from chunkwise.errors import InvalidArgumentError, SpecError

__all__ = [
    "decode_base64",
    "members_of",
    "parse_fixed_bytes",
    "parse_fixed_text",
    "parse_struct",
    "parse_variable",
    "print_fixed_bytes",
    "print_fixed_text",
    "print_struct",
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


def _boxed(value: Any) -> npt.NDArray[Any]:
    """Return an array of shape ``()`` that holds `value`, which can be any object."""
    out = np.empty((), object)
    out[()] = value
    return out


def parse_variable(value: JSON, dtype: DataType, notation: Notation) -> npt.NDArray[Any]:
    """Return a fill value of string, ustring or json."""
    if dtype.kind == "json":
        return _boxed(value)
    if dtype.kind == "ustring" or notation.is_plain:
        try:
            raw = expect_string(value).encode()
        except UnicodeEncodeError:
            raise SpecError(f"Expected text that UTF-8 can encode, but received: {show(value)}") from None
        return _boxed(value if dtype.kind == "ustring" else raw)
    if notation.has_bits and isinstance(value, list):
        return _boxed(bytes(parse_array(value, lambda v: expect_int(v, 0, 255))))
    try:
        return _boxed(binascii.a2b_base64(expect_string(value), strict_mode=True))
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


def members_of(dtype: DataType) -> Iterator[tuple[str, DataType, tuple[int, ...]]]:
    """Yield name, type and shape of each member of a structured type."""
    memory = dtype.memory_dtype
    assert memory.names is not None and memory.fields is not None
    for name in memory.names:
        member = memory.fields[name][0]
        base, shape = member.subdtype or (member, ())
        yield name, DataType(base), shape


def parse_struct(
    value: JSON,
    dtype: DataType,
    notation: Notation,
    stored: np.dtype[Any] | None,
    parse_member: Callable[[JSON, DataType], npt.NDArray[Any]],
) -> npt.NDArray[Any]:
    """Return a fill value; `stored` tells the byte order of its base64 form, by default little-endian."""
    memory = dtype.memory_dtype
    if isinstance(value, str):
        raw = decode_base64(value, memory.itemsize, exact=True)
        return np.ndarray((), stored or memory.newbyteorder("<"), raw).astype(memory)
    if notation.has_stored_form or not isinstance(value, dict | list):
        expected = (
            "base64-encoded string" if notation.has_stored_form else "object, array, or base64-encoded string"
        )
        raise SpecError(f"Expected {expected}, but received: {show(value)}")
    members = list(members_of(dtype))
    if isinstance(value, list):
        value = dict(zip((m[0] for m in members), expect_array(value, len(members)), strict=True))
    given, out = Members(value), np.zeros((), memory)
    for name, member, shape in members:
        if shape:
            raise SpecError(
                f'Member "{name}" of shape {list(shape)} has no form but base64 of the whole record'
            )
        out[name] = given.take(name, lambda v, member=member: parse_member(v, member))  # type: ignore[misc]
    given.finish()
    return out


def print_struct(
    fill: npt.NDArray[Any], dtype: DataType, notation: Notation, stored: np.dtype[Any] | None
) -> str:
    """Return base64 of the record as stored, by default little-endian."""
    raw = fill.astype(stored or dtype.memory_dtype.newbyteorder("<")).tobytes()
    return base64.b64encode(raw).decode()
