"""Values of attributes: conversion of Python and NumPy objects to JSON.

NumPy scalars become numbers, text and booleans; arrays, ranges and tuples become lists; bytes that are UTF-8
become text, as h5py's text in HDF5 files does in a copy.  Nothing is guessed: anything else that JSON can't
express is refused, and the error says where in the value it is, and what to make of it.

JSON has no NaN and no infinities.  The caller chooses how to treat them:

===========  =====================================================================================
``error``    They are refused.  The default.
``string``   They become ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``, as in Zarr v3 fill values.
``literal``  They are written as the bare words ``NaN``, ``Infinity`` and ``-Infinity``, which is what
             zarr-python and hdmf-zarr write.  Strict readers, TensorStore for one, can't read such a
             document at all.
===========  =====================================================================================

In reading, the bare words become numbers, and text stays text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from typing import Any, Literal, TypeAlias

import numpy as np

from chunkwise.core.base.arguments import check_choice
from chunkwise.core.base.binding import JSON, MOST_GIVEN, dump
from chunkwise.core.base.extras import is_of
from chunkwise.errors import InvalidArgumentError

__all__ = [
    "NonFinite",
    "attributes_to_json",
    "check_non_finite",
    "has_non_finite",
    "is_text",
    "to_json_value",
]

NonFinite: TypeAlias = Literal["error", "string", "literal"]

_CHOICES = ("error", "string", "literal")
_HALF = "{!r} has half a surrogate pair, which UTF-8 and strict readers of JSON can't hold"


class _TypeRefusedError(InvalidArgumentError, TypeError):  # as json, h5py and z5py raise it
    pass


def check_non_finite(choice: object) -> NonFinite:
    """Return `choice` if it is one of the words in the table above."""
    check_choice(choice, "non_finite", _CHOICES)
    return choice  # type: ignore[return-value]


def to_json_value(value: Any, where: str, non_finite: NonFinite = "error") -> Any:
    """Return `value` as JSON; raise InvalidArgumentError, which names `where`, if JSON can't hold it."""
    return _Converter(where, non_finite).convert(value, "", 0)


def attributes_to_json(attributes: Mapping[str, Any], non_finite: NonFinite = "error") -> dict[str, JSON]:
    """Return attributes as JSON; raise InvalidArgumentError, which names one that JSON can't hold."""
    if not isinstance(attributes, Mapping):
        raise InvalidArgumentError(f"attributes: expected names and values, not {attributes!r}")
    for name in attributes:
        if not isinstance(name, str):
            raise InvalidArgumentError(f"attributes: they have text as names, not {name!r}")
        if not is_text(name):
            raise InvalidArgumentError(f"attributes: {_HALF.format(name)}")
    return {
        str.__str__(name): to_json_value(value, f"attribute {dump(name)}", non_finite)
        for name, value in attributes.items()
    }


def is_text(value: str) -> bool:
    """Return True unless text has half a surrogate pair, which UTF-8 can't hold."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def has_non_finite(value: Any) -> bool:
    """Return True if there is a NaN or an infinity in a JSON value."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Mapping):
        return any(map(has_non_finite, value.values()))
    return isinstance(value, list) and any(map(has_non_finite, value))


class _Converter:
    def __init__(self, where: str, non_finite: NonFinite) -> None:
        self._where = where
        self._non_finite = non_finite

    def _refuse(
        self, at: str, why: str, error: type[InvalidArgumentError] = InvalidArgumentError
    ) -> InvalidArgumentError:
        return error(f"{self._where}{f' at {at}' if at else ''}: {why}")

    def _refuse_type(self, at: str, kind: str, value: object) -> InvalidArgumentError:
        return self._refuse(at, f"JSON can't hold a {kind}{_advice(value)}", _TypeRefusedError)

    def convert(self, value: Any, at: str, depth: int) -> Any:
        if depth > MOST_GIVEN:
            raise self._refuse(at[:40] + "…", f"nested more than {MOST_GIVEN} deep; does it contain itself?")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, np.ndarray | np.generic):
            return self._numpy(value, at, depth)
        if isinstance(value, str):
            return self._text(value, at)
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return self._float(float(value), at)
        if isinstance(value, bytes | bytearray):
            return self._bytes(bytes(value), at)
        if isinstance(value, list | tuple | range):
            return [self.convert(item, f"{at}[{i}]", depth + 1) for i, item in enumerate(value)]
        if isinstance(value, Mapping):
            return {self._name(k, at): self.convert(v, _below(at, k), depth + 1) for k, v in value.items()}
        raise self._refuse_type(at, _type_name(value), value)

    def _name(self, name: Any, at: str) -> str:
        if not isinstance(name, str):
            raise self._refuse(at, f"members of JSON objects have text as names, not {name!r}")
        return self._text(name, at)

    def _text(self, value: str, at: str) -> str:
        if not is_text(value):
            raise self._refuse(at, _HALF.format(value))
        return str.__str__(value)

    def _bytes(self, value: bytes, at: str) -> str:
        """Return text for the bytes that h5py gives for text; other bytes are refused."""
        try:
            text = value.decode()
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            raise self._refuse(
                at, f"JSON can't hold bytes that are not text, {value[:20]!r}; make them a list of numbers"
            )
        return text

    def _float(self, value: float, at: str) -> Any:
        if math.isfinite(value) or self._non_finite == "literal":
            return value
        name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        if self._non_finite == "string":
            return name
        raise self._refuse(
            at, f'JSON has no {name}; choose non_finite="string" or "literal" to write it anyway'
        )

    def _numpy(self, value: Any, at: str, depth: int) -> Any:
        kind = value.dtype.kind
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            raise self._refuse(at, "JSON can't hold a masked array; fill it first")
        if value.ndim and kind in "biufUV" and value.dtype.names is None:
            return [self._numpy(item, f"{at}[{i}]", depth + 1) for i, item in enumerate(value)]
        if value.ndim:
            return [self.convert(item, f"{at}[{i}]", depth + 1) for i, item in enumerate(value)]
        if kind == "O":
            return self.convert(value.item(), at, depth + 1)
        if kind == "b":
            return value.item()
        if kind == "U":
            return self._text(value.item(), at)
        if kind == "S":
            return self._bytes(value.item(), at)
        if kind in "iu":
            return int(value)
        if kind == "f" or np.issubdtype(value.dtype, np.floating) or _is_small_float(value.dtype):
            number = float(value)
            if value.dtype.itemsize > 8 and math.isfinite(number) and value.dtype.type(number) != value:
                raise self._refuse(at, f"{value!r} is not a 64-bit floating-point number; round it first")
            return self._float(number, at)
        raise self._refuse_type(at, f"NumPy value of type {value.dtype}", value)


def _is_small_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "V" and dtype.names is None and "float" in dtype.name


def _below(at: str, name: Any) -> str:
    return f"{at}.{name}" if at else dump(str(name))


def _type_name(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _has_text(value: Any) -> bool:
    module = type(value).__module__.partition(".")[0]
    return module in ("datetime", "decimal", "fractions", "pathlib", "uuid") or hasattr(value, "isoformat")


def _advice(value: Any) -> str:
    """Return what to make of a value that JSON can't hold."""
    dtype = getattr(value, "dtype", None)
    if isinstance(value, complex) or (isinstance(dtype, np.dtype) and dtype.kind == "c"):
        how = "a list of real and imaginary part"
    elif isinstance(value, set | frozenset):
        how = "a list, such as sorted(value)"
    elif isinstance(value, np.void) and value.dtype.names:
        how = "a dict of names and values"
    elif isinstance(value, np.void):
        how = "a list of numbers, such as list(bytes(value))"
    elif isinstance(value, Enum):
        how = "its value or its name"
    elif isinstance(value, type):
        how = "text, such as the name of a data type"
    elif isinstance(value, slice):
        how = "a list of start and stop"
    elif isinstance(value, np.datetime64 | np.timedelta64 | np.dtype) or _has_text(value):
        how = "text with str()"
    elif is_of(value, "h5py"):
        how = "the name of what it refers to, or None for h5py.Empty"
    elif hasattr(value, "__array__"):
        how = "a list of its elements, or store them as an array"
    else:
        how = "text, numbers, lists or dicts of them"
    return f"; make it {how}"
