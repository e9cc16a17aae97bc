"""Names of data types and the NumPy types behind them.

A *named* type is one of TensorStore's, or a similar one that ``ml_dtypes`` adds.  A *sized* type has its size
or unit in its name: ``S5``, ``U7``, ``V5``, ``datetime64[10ms]``.  A structured type is named by the JSON
list of its fields, ``[["x","int32"],["y","float32",[2]]]``.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

import ml_dtypes
import numpy as np

__all__ = [
    "NAMED",
    "SCHEMA",
    "ZARR2",
    "ZARR3",
    "Kind",
    "Notation",
    "name_of",
    "numpy_of",
    "pack",
    "struct_of",
]

Kind: TypeAlias = Literal[
    "bool",
    "int",
    "float",
    "complex",
    "char",
    "byte",
    "bytes",
    "text",
    "raw",
    "datetime",
    "struct",
    "string",
    "ustring",
    "json",
    "extension",
]
"""Family of a data type: selects the module for its fill values, and its row in the conversion table."""


class Notation(NamedTuple):
    """Form of fill values in one kind of document."""

    is_plain: bool = False  # numbers of any kind, and bytes as text
    has_bits: bool = False  # as well: floats as hexadecimal bits, bytes as a list of numbers
    has_stored_form: bool = False  # everything but single numbers as base64 of the stored bytes
    pads_bytes: bool = True  # with zeros, to the size of the data type


ZARR3 = Notation(has_bits=True, pads_bytes=False)
ZARR2 = Notation(has_stored_form=True)
SCHEMA = Notation(is_plain=True)  # TensorStore's

_ML_INTS = ("int2", "int4", "uint2", "uint4")
_ML_FLOATS = (
    "float4_e2m1fn",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e4m3b11fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "bfloat16",
)
_INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")

NAMED: dict[str, tuple[Kind, np.dtype[Any]]] = {
    "bool": ("bool", np.dtype(bool)),
    "char": ("char", np.dtype("S1")),
    "byte": ("byte", np.dtype("V1")),
    **{name: ("int", np.dtype(getattr(ml_dtypes, name))) for name in _ML_INTS},
    **{name: ("int", np.dtype(name)) for name in _INTS},
    **{name: ("float", np.dtype(getattr(ml_dtypes, name))) for name in _ML_FLOATS},
    **{name: ("float", np.dtype(name)) for name in ("float16", "float32", "float64")},
    **{name: ("complex", np.dtype(name)) for name in ("complex64", "complex128")},
    "string": ("string", np.dtype(object)),
    "ustring": ("ustring", np.dtype(object)),
    "json": ("json", np.dtype(object)),
}
"""Family and type in memory of all types with a fixed name."""

_BY_NUMPY = {t: name for name, (kind, t) in NAMED.items() if kind in ("bool", "int", "float", "complex")}
_SIZED: dict[str, Kind] = {"S": "bytes", "U": "text", "V": "raw"}
_SIZED_NAME = r"[SUV][1-9][0-9]*|(datetime64|timedelta64)(\[[0-9A-Za-zμ]+\])?"


def name_of(dtype: np.dtype[Any]) -> tuple[str, Kind] | None:
    """Return the name and family of the data type for a NumPy type in any byte order, or None."""
    # Objects have no data type: the NumPy type alone doesn't tell whether they are bytes, text or JSON.
    if dtype.names is not None:
        fields = _fields_of(dtype)
        return None if fields is None else (dump_fields(fields), "struct")
    if dtype.subdtype is not None or dtype.kind == "O":
        return None
    if dtype.kind in "mM":
        return dtype.name, "datetime"
    if dtype.kind == "T":
        return "ustring", "ustring"
    native = dtype.newbyteorder("=")
    for t, name in _BY_NUMPY.items():
        if t == native:
            return name, NAMED[name][0]
    if dtype.kind in "SV" and dtype.itemsize == 0:
        return ("char", "char") if dtype.kind == "S" else ("byte", "byte")
    # ml_dtypes types that are not listed above have kind "V" too.
    if dtype.kind not in _SIZED or dtype.itemsize == 0 or dtype.type not in (np.bytes_, np.str_, np.void):
        return None
    return f"{dtype.kind}{dtype.itemsize // (4 if dtype.kind == 'U' else 1)}", _SIZED[dtype.kind]


@lru_cache(1024)
def numpy_of(name: str) -> tuple[Kind, np.dtype[Any]] | None:
    """Return the family and native NumPy type of the data type called `name`; None if unknown."""
    if name in NAMED:
        return NAMED[name]
    try:
        if re.fullmatch(_SIZED_NAME, name):
            dtype = np.dtype(name)
            return ("datetime" if dtype.kind in "mM" else _SIZED[dtype.kind]), dtype
        if name.startswith("["):
            return "struct", struct_of(json.loads(name))
    except (TypeError, ValueError):
        pass
    return None


def struct_of(fields: Any) -> np.dtype[Any]:
    """Return the packed structured type for a list of ``[name, type]`` or ``[name, type, shape]``."""
    if not isinstance(fields, list):
        raise ValueError("expected a list of fields")
    out: list[Any] = []
    for field in fields:
        if not isinstance(field, list | tuple) or len(field) not in (2, 3) or not isinstance(field[0], str):
            raise ValueError(f"expected [name, type] or [name, type, shape], not {field!r}")
        member = struct_of(field[1]) if isinstance(field[1], list) else _member_of(field[1])
        shape = tuple(field[2]) if len(field) == 3 else ()
        out.append((field[0], member, shape) if shape else (field[0], member))
    return pack(out)


def pack(fields: list[Any]) -> np.dtype[Any]:
    """Return ``np.dtype(fields)``, refusing field names that NumPy would replace or confuse."""
    names = [field[0] for field in fields]
    if not names:
        raise ValueError("there must be at least one field")
    for i, name in enumerate(names):
        if not name:
            raise ValueError("a field needs a name")
        if name in names[:i]:
            raise ValueError(f"field {name!r} is there twice")
    return np.dtype(fields)


def dump_fields(fields: list[Any]) -> str:
    """Return the name of a structured type from the list of its fields."""
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


def _member_of(name: Any) -> np.dtype[Any]:
    found = numpy_of(name) if isinstance(name, str) else None
    if found is None or found[1].hasobject:
        raise ValueError(f"there is no data type of fixed size called {name!r}")
    return found[1]


def _fields_of(dtype: np.dtype[Any]) -> list[Any] | None:
    """Return the fields of a structured type as JSON, None if a field's type is not a data type."""
    out = []
    for name in dtype.names or ():
        assert dtype.fields is not None
        member = dtype.fields[name][0]
        member, shape = member.subdtype or (member, ())
        if member.names is not None:
            inner: Any = _fields_of(member)
        else:
            # As fields, "char" and "byte" can't be told from S1 and V1.
            found = name_of(member)
            inner = None if found is None or member.kind == "T" else found[0]
        if inner is None or not name:
            return None
        out.append([name, inner, list(shape)] if shape else [name, inner])
    return out or None
