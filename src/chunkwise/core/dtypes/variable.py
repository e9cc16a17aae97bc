"""Values of any length: ``string`` (bytes), ``ustring`` (text) and ``json``; in memory, Python objects.

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

import base64
import binascii
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, expect_int, expect_string, parse_array
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.integer import show
from chunkwise.core.dtypes.names import Notation
from chunkwise.errors import InvalidArgumentError, SpecError

__all__ = ["boxed", "parse_variable", "print_variable"]


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
        return boxed(base64.b64decode(expect_string(value), validate=True))
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
        return base64.b64encode(value).decode()
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise InvalidArgumentError("Invalid UTF-8 sequence encountered") from None
