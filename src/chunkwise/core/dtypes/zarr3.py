"""Data types and fill values in ``zarr.json``.

Specification: Zarr v3 core, "Data types" and "Extension definition"; the extensions as zarr-python and
TensorStore write them.  A simple type is its name, ``"uint16"`` or ``{"name": "uint16"}``; one with options
is an object, ``{"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}}``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import (
    JSON,
    Members,
    dump,
    expect_array,
    expect_int,
    expect_object,
    expect_string,
    parse_array,
)
from chunkwise.core.base.catalogue import data_types
from chunkwise.core.dtypes.data_type import DataType, dtypes
from chunkwise.core.dtypes.extension import find_extension
from chunkwise.core.dtypes.fill_value import parse_element, print_element
from chunkwise.core.dtypes.fixed import members_of
from chunkwise.core.dtypes.names import ZARR3, pack
from chunkwise.core.dtypes.zarr2 import unsupported
from chunkwise.errors import InvalidArgumentError, SpecError, UnsupportedError, prefixed

__all__ = ["fill_value_to_zarr3", "parse_fill_value_zarr3", "parse_zarr3", "to_zarr3"]

_SIMPLE = {
    **{name: d for name, d in dtypes.items() if d.kind in ("bool", "int", "float", "complex")},
    "complex_float32": dtypes["complex64"],
    "complex_float64": dtypes["complex128"],
    "string": dtypes["ustring"],
    "bytes": dtypes["string"],
    "variable_length_bytes": dtypes["string"],
}
_RAW_BITS = re.compile(r"r([0-9]+)")
_SIZED = {"fixed_length_utf32": ("U", 4), "null_terminated_bytes": ("S", 1), "raw_bytes": ("V", 1)}
_TIMES = {"numpy.datetime64": "datetime64", "numpy.timedelta64": "timedelta64"}
_MAX = 2**31 - 1


def parse_zarr3(value: JSON) -> DataType:
    """Return the data type of member ``data_type`` of a Zarr v3 array, or raise SpecError."""
    if isinstance(value, str):
        return _simple(value)
    members = Members(expect_object(value))
    name = members.take("name", expect_string)
    configuration = members.take("configuration", expect_object, None)
    if members.take("must_understand", lambda v: v, True) is not True:
        raise SpecError(f'"must_understand" can\'t be false for a data type: {dump(value)}')
    members.finish()
    if name in _SIZED or name in _TIMES or name in ("struct", "structured"):
        options = Members({} if configuration is None else configuration)
        with prefixed(f'Error parsing configuration of "{name}"'):
            dtype = _configured(name, options)
            options.finish()
        return dtype
    if name not in _SIMPLE and not _RAW_BITS.fullmatch(name):
        return _extension(name, configuration or {})
    dtype = _simple(name)
    if configuration:
        raise SpecError(f'data type "{name}" has no configuration, but received: {dump(configuration)}')
    return dtype


def _simple(name: str) -> DataType:
    if name in _SIMPLE:
        return _SIMPLE[name]
    if match := _RAW_BITS.fullmatch(name):
        bits = int(match[1])
        if bits == 0 or bits % 8 or bits > 8 * _MAX:
            raise SpecError(f"{name} data type is invalid; expected r<N> where N is a positive multiple of 8")
        return DataType(f"V{bits // 8}")
    return _extension(name, {})


def _extension(name: str, configuration: Mapping[str, JSON]) -> DataType:
    with prefixed(f'Error parsing configuration of "{name}"'):
        found = find_extension(name, configuration)
    if found is not None:
        return DataType.of_extension(found)
    known = ", ".join(
        [*_SIMPLE, "r<N>", *_SIZED, *_TIMES, "structured", "struct", *data_types.names("zarr3")]
    )
    raise SpecError(f"{name} data type is not one of the supported data types: {known}")


def _configured(name: str, options: Members) -> DataType:
    if name in _SIZED:
        letter, unit = _SIZED[name]
        nbytes = options.take("length_bytes", lambda v: expect_int(v, 1, _MAX))
        if nbytes % unit:
            raise SpecError(f'"length_bytes" of {name} must be a multiple of {unit}, but received: {nbytes}')
        return DataType(f"{letter}{nbytes // unit}")
    if name in _TIMES:
        unit_name = options.take("unit", expect_string)
        scale = options.take("scale_factor", lambda v: expect_int(v, 1, _MAX), 1)
        if unit_name == "generic":
            if scale != 1:
                raise SpecError(f'"scale_factor" of unit "generic" must be 1, but received: {scale}')
            return DataType(_TIMES[name])
        try:
            return DataType(f"{_TIMES[name]}[{scale}{unit_name}]")
        except InvalidArgumentError:
            raise SpecError(f'Expected "unit" of NumPy, but received: {dump(unit_name)}') from None
    fields = options.take("fields", lambda v: parse_array(v, _field))
    try:
        return DataType(pack(fields))
    except (TypeError, ValueError) as e:
        raise SpecError(f'Error parsing object member "fields": {e}') from None


def _field(value: JSON) -> tuple[str, np.dtype[Any]]:
    if isinstance(value, dict):
        members = Members(value)
        name, dtype = members.take("name", expect_string), members.take("data_type", parse_zarr3)
        members.finish()
    else:
        pair = expect_array(value, 2)
        name, dtype = expect_string(pair[0]), parse_zarr3(pair[1])
    if dtype.memory_dtype.hasobject or dtype.extension is not None:
        raise SpecError(f'field "{name}" needs a data type of fixed size that NumPy has, not {dtype.name}')
    return name, dtype.memory_dtype


def to_zarr3(dtype: DataType) -> JSON:
    """Return member ``data_type`` of a Zarr v3 array for `dtype`; raise UnsupportedError if there is none."""
    memory, kind = dtype.memory_dtype, dtype.kind
    if dtype.extension is not None:
        configuration = dtype.extension.to_json()
        name = dtype.extension.name
        return {"name": name, "configuration": configuration} if configuration else name
    if kind in ("bool", "int", "float", "complex"):
        return dtype.name
    if kind in ("ustring", "string"):
        return "string" if kind == "ustring" else "variable_length_bytes"
    if kind == "raw":
        return f"r{8 * memory.itemsize}"
    if kind in ("bytes", "text"):
        name = "null_terminated_bytes" if kind == "bytes" else "fixed_length_utf32"
        return {"name": name, "configuration": {"length_bytes": memory.itemsize}}
    if kind == "datetime":
        unit, scale = np.datetime_data(memory)
        name = "numpy.datetime64" if memory.kind == "M" else "numpy.timedelta64"
        return {"name": name, "configuration": {"unit": unit, "scale_factor": scale}}
    if kind == "struct":
        fields = []
        for name, member, shape in members_of(dtype):
            if shape:
                raise UnsupportedError(f'Zarr v3 has no data type for field "{name}" of shape {list(shape)}')
            fields.append({"name": name, "data_type": to_zarr3(member)})
        return {"name": "struct", "configuration": {"fields": fields}}
    raise unsupported(dtype)


def parse_fill_value_zarr3(value: JSON, dtype: DataType) -> npt.NDArray[Any]:
    """Return member ``fill_value`` of a Zarr v3 array as an array of shape ``()``, or raise SpecError."""
    return parse_element(value, dtype, ZARR3)


def fill_value_to_zarr3(fill: npt.NDArray[Any], dtype: DataType, data_type: JSON = None) -> JSON:
    """Return member ``fill_value`` of a Zarr v3 array; exact inverse of `parse_fill_value_zarr3`."""
    # `data_type` is the name in the document.  For ``structured`` and ``raw_bytes`` the fill value is base64,
    # for ``struct`` an object with all members, for ``r<N>`` a list of byte values.
    if dtype.kind not in ("struct", "raw"):
        return print_element(fill, dtype, ZARR3)
    data_type = to_zarr3(dtype) if data_type is None else data_type
    name = data_type if isinstance(data_type, str) else data_type["name"]
    if _RAW_BITS.fullmatch(name):
        return list(np.asarray(fill, dtype.memory_dtype).tobytes())
    if name != "struct":
        return print_element(fill, dtype, ZARR3)
    fields = data_type["configuration"]["fields"]
    return {
        member: fill_value_to_zarr3(fill[member], of, field["data_type"] if type(field) is dict else field[1])
        for (member, of, _), field in zip(members_of(dtype), fields, strict=True)
    }
