"""Element types and values of hdmf builders."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
from hdmf.build import DatasetBuilder, GroupBuilder, ReferenceBuilder
from hdmf.container import AbstractContainer

from chunkwise.errors import InvalidArgumentError
from chunkwise.hdmf.backend.builder_references import RegionReference
from chunkwise.hdmf.model.element import (
    Element,
    bytes_,
    compound,
    element_of_word,
    number,
    reference,
    region,
    text,
)
from chunkwise.hdmf.model.reference import Reference
from chunkwise.hdmf.model.values import element_of_dtype, guess_element, widened

__all__ = ["element_of_builder", "is_reference", "is_scalar", "with_references"]

_SPEC_WORDS = {
    "float": "float32",
    "double": "float64",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "uint": "uint32",
}
"""Names of types in schemas; stored, "int" and "float" are Python's types of 64 bits."""


_INCOMPLETE = (np.datetime64, np.timedelta64, np.void)
"""Types of scalars that leave open a unit or a size, which the data has."""


def is_reference(value: Any) -> bool:
    """Return True if a value in a builder is a reference: in one of hdmf's ways, a builder or a container."""
    # hdmf leaves the containers in the records of a compound to the backend.
    return isinstance(value, ReferenceBuilder | GroupBuilder | DatasetBuilder | AbstractContainer)


def is_scalar(data: Any, element: Element) -> bool:
    """Return True if data is one value."""
    if is_reference(data) or isinstance(data, str | bytes | np.generic):
        return True
    shape = getattr(data, "shape", None)
    if shape is not None:
        return tuple(shape) == ()
    if isinstance(data, tuple) and element.kind == "compound":
        return not (data and isinstance(data[0], tuple | list | np.void))
    return not hasattr(data, "__len__") and not hasattr(data, "__next__") and not hasattr(data, "__iter__")


def element_of_builder(dtype: Any, data: Any) -> Element:
    """Return the element type of a dataset builder."""
    return widened(_element_of_builder(dtype, data), data)


def _element_of_builder(dtype: Any, data: Any) -> Element:
    found = None
    if isinstance(dtype, list | tuple) and dtype and not all(isinstance(d, str) for d in dtype):
        return _with_regions(compound([(d["name"], _declared(d["dtype"])) for d in dtype]), data)
    if isinstance(dtype, list | tuple) or dtype == "numeric" or dtype in _INCOMPLETE:
        dtype = None
    if dtype is not None:
        found = _declared(dtype)
    if found is not None and found.kind == "reference":
        first = _first(data)
        if isinstance(first, RegionReference) or (isinstance(first, Reference) and first.region is not None):
            return region
        if first is None or is_reference(first) or isinstance(first, Reference):
            return found
        return guess_element(data)  # "object" also stands for text that came from HDF5
    if found is not None:
        return found
    first = _first(data)
    if is_reference(first):
        return region if isinstance(first, RegionReference) else reference
    return guess_element(data)


def _with_regions(element: Element, data: Any) -> Element:
    """Return a compound whose members of references are those of regions where the rows have such."""
    row = data[0] if isinstance(data, list) and data else data
    row = row.tolist() if isinstance(row, np.void) else row
    if not element.has_references or not isinstance(row, tuple):
        return element
    members = []
    for m, value in zip(element.members, row, strict=False):
        is_region = m.element.kind == "reference" and isinstance(value, RegionReference)
        members.append((m.name, region if is_region else m.element))
    return compound(members) if len(members) == len(element.members) else element


def _first(data: Any) -> Any:
    while isinstance(data, list | tuple | np.ndarray):
        if isinstance(data, np.ndarray) and (data.dtype != object or data.ndim == 0):
            return data[()] if data.dtype == object else None
        if len(data) == 0:
            return None
        data = data[0]
    return data


def _declared(dtype: Any) -> Element:
    if isinstance(dtype, dict):  # a RefSpec
        return region if dtype.get("reftype") == "region" else reference
    if isinstance(dtype, list):
        return compound([(d["name"], _declared(d["dtype"])) for d in dtype])
    if isinstance(dtype, np.dtype):
        return reference if dtype.kind == "O" else element_of_dtype(dtype)
    if isinstance(dtype, type):
        if issubclass(dtype, str):
            return text
        if issubclass(dtype, bytes | date):
            return bytes_
        if dtype in (bool, int, float):
            return number({bool: "bool", int: "int64", float: "float64"}[dtype], dtype.__name__)
        return reference if issubclass(dtype, np.object_) or dtype is object else number(dtype)
    if not isinstance(dtype, str):
        raise InvalidArgumentError(f"Expected a type, but received: {dtype!r:.100}")
    return element_of_word(_SPEC_WORDS.get(dtype, dtype))


def _has_no_references(kind: type) -> bool:
    return kind in (str, bytes, bool, int, float) or issubclass(kind, np.number | np.bool_ | np.character)


def with_references(data: Any, convert: Callable[[Any], Reference]) -> Any:
    """Return data with references as records; lists stay lists, arrays of objects become such."""
    if data is None or isinstance(data, str | bytes):
        return data
    if is_reference(data):
        return convert(data)
    if isinstance(data, np.ndarray):
        if data.dtype.names is not None and data.dtype.hasobject:
            return _records(data, convert)
        if data.dtype != object:
            return data
        out = np.empty(data.shape, object)
        flat, source = out.reshape(-1), data.reshape(-1)
        for i in range(len(flat)):
            flat[i] = with_references(source[i], convert)
        return out
    if isinstance(data, np.void) and data.dtype.hasobject:
        return tuple(with_references(item, convert) for item in data.tolist())
    if isinstance(data, tuple):
        return tuple(with_references(item, convert) for item in data)
    if isinstance(data, list):
        if all(map(_has_no_references, set(map(type, data)))):  # as most columns are
            return data
        return [with_references(item, convert) for item in data]
    return data


def _records(data: npt.NDArray[Any], convert: Callable[[Any], Reference]) -> npt.NDArray[Any]:
    out = data.copy()
    for name in data.dtype.names or ():
        if data.dtype[name].hasobject:
            out[name] = with_references(data[name], convert)
    return out
