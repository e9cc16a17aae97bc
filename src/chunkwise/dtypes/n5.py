"""Data types in the ``attributes.json`` of N5: ``dataType`` is one of ten numeric names or ``string``.

zarr-python 2 writes other NumPy names there (``bool``, ``float16``, ``datetime64[ns]``) with big-endian
elements; they are read, not written.
"""

from __future__ import annotations

from chunkwise.binding import JSON, expect_string
from chunkwise.dtypes.data_type import DataType, dtypes
from chunkwise.errors import InvalidArgumentError, SpecError, UnsupportedError

__all__ = ["parse_n5"]

_NAMES = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64")
_FOREIGN = ("bool", "float16", "complex64", "complex128")


def parse_n5(value: JSON) -> DataType:
    """Return the data type that ``dataType`` of an N5 dataset means, or raise."""
    name = expect_string(value)
    if name in _NAMES or name in _FOREIGN:
        return dtypes[name]
    if name == "string":
        return dtypes["ustring"]
    if name == "object":
        raise UnsupportedError("N5 data type object (serialised Java objects) is not supported")
    if name.startswith(("datetime64[", "timedelta64[")):
        try:
            return DataType(name)
        except InvalidArgumentError:
            pass
    raise SpecError(f"{name} data type is not one of the supported data types: {', '.join(_NAMES)}")
