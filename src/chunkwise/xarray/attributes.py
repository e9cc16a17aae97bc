"""Attributes of a variable as each format has them.

``_FillValue`` of CF is the value that stands for a missing one.  In Zarr v2 it is the fill value of the
array.  In Zarr v3 it is an attribute, which xarray writes so that every value has a place in JSON:
floating-point numbers as the base64 of a little-endian float64, complex numbers as two of these, bytes as
base64, all else as it is.  In N5 it is an attribute too, a number, or its name if it isn't finite, as in
Zarr's own metadata.

In N5 some names are members of the dataset's metadata.  ``units`` of CF is text, while that of N5 is a list
with the unit of each dimension, and other software refuses a dataset in which it is anything else.  So
attributes with such names, and those that are null, which N5 software takes for missing, are members of an
object in the attribute ``xarray``.

Attributes whose names begin with ``_nc`` are NCZarr's own (``_nczarr_attr``, ``_NCProperties``), and no
dataset has them, as in xarray's own engine.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from chunkwise.driver.n5.members import DATASET_MEMBERS
from chunkwise.errors import InvalidArgumentError

__all__ = [
    "FILL_VALUE",
    "fill_value_from_json",
    "fill_value_to_json",
    "hide_attributes",
    "restore_attributes",
    "without_nczarr",
]

FILL_VALUE = "_FillValue"

_MEMBER = "xarray"
_TAKEN = (*DATASET_MEMBERS, "compressionType", "codecs", "n5", _MEMBER)

_NAMED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def fill_value_to_json(value: Any, dtype: np.dtype[Any], format: str) -> Any:
    """Return the attribute for a fill value: base64 for a float in Zarr v3, ``NaN`` in N5."""
    value = np.asarray(value)[()]
    kind = dtype.kind
    if kind in "iu":
        return int(value)
    if kind == "b":
        return bool(value)
    if kind == "f":
        return _float_to_json(float(value), format)
    if kind == "c":
        return [_float_to_json(float(part), format) for part in (value.real, value.imag)]
    if kind == "S":
        return base64.standard_b64encode(bytes(value)).decode()
    return str(value)


def fill_value_from_json(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return the value of an attribute, plain numbers included; raise if it is none of the type."""
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
        raise InvalidArgumentError(f'"{FILL_VALUE}" of {value!r} is no {dtype}: {e}') from None
    return value


def _float_to_json(value: float, format: str) -> Any:
    if format == "n5":
        return value if math.isfinite(value) else "NaN" if value != value else f"{'-' * (value < 0)}Infinity"
    return base64.standard_b64encode(struct.pack("<d", value)).decode()


def _float_from_json(value: Any) -> float:
    if isinstance(value, str):
        if value in _NAMED:
            return _NAMED[value]
        (number,) = struct.unpack("<d", base64.standard_b64decode(value))
        return float(number)
    return float(value)


def without_nczarr(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes without those that NCZarr keeps for itself, such as ``_nczarr_array``."""
    return {name: value for name, value in attributes.items() if not name.lower().startswith("_nc")}


def hide_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes that N5 can hold: the others move into the attribute ``xarray``."""
    hidden = {name: value for name, value in attributes.items() if name in _TAKEN or value is None}
    shown = {name: value for name, value in attributes.items() if name not in hidden}
    return {**shown, _MEMBER: hidden} if hidden else shown


def restore_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that `hide_attributes` was given; others are as they are."""
    hidden = attributes.get(_MEMBER)
    if not isinstance(hidden, Mapping) or not all(name in _TAKEN or v is None for name, v in hidden.items()):
        return dict(attributes)
    return {**{name: value for name, value in attributes.items() if name != _MEMBER}, **hidden}
