"""The value that marks missing data, in each format.

In CF it is the attribute ``_FillValue``.  In Zarr v2 it is the fill value of the array.  In Zarr v3 it is an
attribute, which xarray writes in a JSON form for every value: floating-point numbers as base64 of a
little-endian float64, complex numbers as two of these, bytes as base64, everything else unchanged.  In N5 it
is an attribute too: a number, or its name if it isn't finite, as in Zarr's own metadata.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from typing import Any

import numpy as np

from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.errors import InvalidArgumentError

__all__ = ["FILL_VALUE", "marker_from_json", "marker_to_json"]

FILL_VALUE = "_FillValue"

_NAMED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def marker_to_json(value: Any, dtype: np.dtype[Any], format: str) -> Any:
    """Return the attribute for a marker: base64 for a float in Zarr v3, ``NaN`` in N5."""
    value = np.asarray(value)[()]
    kind = dtype.kind
    if kind in "iu":
        return int(value)
    if kind == "b":
        return bool(value)
    if kind == "f":
        return tree_format(format).float_marker(float(value))
    if kind == "c":
        return [tree_format(format).float_marker(float(part)) for part in (value.real, value.imag)]
    if kind == "S":
        return base64.standard_b64encode(bytes(value)).decode()
    return str(value)


def marker_from_json(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return the value of an attribute, which may be a plain number; raise if it isn't of the type."""
    kind = dtype.kind
    try:
        if kind in "iu":
            return int(value)
        if kind == "b":
            return bool(value)
        if kind == "f":
            return _float_from_json(value)
        if kind == "c":
            if isinstance(value, list):
                real, imaginary = map(_float_from_json, value)
                return complex(real, imaginary)
            return complex(value)
        if kind == "S" and isinstance(value, str):
            return base64.standard_b64decode(value)
    except (ValueError, TypeError, binascii.Error, struct.error) as e:
        raise InvalidArgumentError(f'"{FILL_VALUE}" of {value!r} is not a {dtype}: {e}') from None
    return value


def _float_from_json(value: Any) -> float:
    if isinstance(value, str):
        if value in _NAMED:
            return _NAMED[value]
        (number,) = struct.unpack("<d", base64.standard_b64decode(value))
        return float(number)
    return float(value)
