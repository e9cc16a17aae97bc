"""Structured types: records of named members, each of a fixed-size type, without padding.

In Zarr v3, the extension ``struct`` (members as objects) or its older form ``structured`` (members as pairs);
in Zarr v2, a list of ``[name, type]`` or ``[name, type, shape]``.  Fill value: base64 of the stored record in
Zarr v2 and for ``structured``, an object with a value for each member for ``struct``.  Both forms, and a list
of the values in order, are read everywhere.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, Members, expect_array
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.fixed import decode_base64
from chunkwise.core.dtypes.integer import show
from chunkwise.core.dtypes.names import Notation
from chunkwise.errors import SpecError

__all__ = ["members_of", "parse_struct", "print_struct"]


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
