"""Values as arrays of one element type: of users and builders, and stored ones as users see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.errors import DataCorruptionError, InvalidArgumentError
from chunkwise.extension.inside import plain_array
from chunkwise.hdmf.model.element import Element, bytes_, compound, number, reference, region, text
from chunkwise.hdmf.model.reference import Reference, parse_reference

__all__ = [
    "as_values",
    "element_of_dtype",
    "guess_element",
    "infer_element",
    "map_members",
    "map_objects",
    "shape_of",
    "to_logical",
    "widened",
]

_PLAIN = {"text": str, "bytes": bytes, "reference": Reference}
"""Types of values that need no conversion, by the kind of the element."""

_CODE = "utf-8", "surrogateescape"

# -- stored values for users --------------------------------------------------------------------------


def map_objects(values: npt.NDArray[Any], convert: Callable[[Any], Any]) -> npt.NDArray[Any]:
    """Return an object array with `convert` applied to each value."""
    flat = np.empty(values.size, object)
    for i, value in enumerate(values.reshape(-1).tolist()):
        flat[i] = convert(value)
    return flat.reshape(values.shape)


def map_members(
    values: Any,
    element: Element,
    convert: Callable[[Any, Element], Any],
    dtype: np.dtype[Any] | None = None,
) -> npt.NDArray[Any]:
    """Return records, of `dtype` if given, with `convert` applied to the column and type of each member."""
    out = np.empty(values.shape, element.memory_dtype if dtype is None else dtype)
    for m in element.members:
        out[m.name] = convert(np.asarray(values[m.name]), m.element)
    return out


def infer_element(values: npt.NDArray[Any]) -> Element:
    """Return the type of stored objects without a declared type; the first that isn't missing decides."""
    return _inferred(values.reshape(-1).tolist())


def _inferred(values: Sequence[Any]) -> Element:
    there = [value for value in values if value is not None and not (type(value) is int and value == 0)]
    first = there[0] if there else ""
    if isinstance(first, Mapping) and "path" in first:
        return reference
    if isinstance(first, bytes):
        return bytes_
    if isinstance(first, list) and first:
        rows = [row for row in there if isinstance(row, list) and len(row) == len(first)]
        return compound([(f"f{i}", _inferred(column)) for i, column in enumerate(zip(*rows, strict=True))])
    if isinstance(first, bool | int | float):
        types = set(map(type, there))
        return number("float64" if float in types else "int64" if int in types else "bool")
    return text


def to_logical(values: npt.NDArray[Any], element: Element) -> npt.NDArray[Any]:
    """Return stored values as users see them."""
    if element.kind == "number":
        if values.dtype == object:
            try:
                return _as_number(values, element)
            except (TypeError, ValueError, OverflowError) as e:
                raise DataCorruptionError(f"a value is no {element.name}: {e}") from None
        return values
    if element.kind == "compound":
        if values.dtype == object:
            return _rows(values, element)
        return _records(values, element)
    plain = _PLAIN.get(element.kind)
    if values.dtype == object and all(type(value) is plain for value in values.reshape(-1).tolist()):
        return values
    return map_objects(values, lambda value: _one(value, element))


_MISSING: Mapping[str, Any] = {"text": "", "bytes": b"", "reference": None, "region": None}
"""Values of elements that are not stored, by their kind."""


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, int) and value == 0)


def _one(value: Any, element: Element) -> Any:
    kind = element.kind
    if kind == "compound":
        return _row(value, element)
    if kind == "number":
        whole = element.dtype is not None and element.dtype.kind in "biu"
        if isinstance(value, bool | int) or (isinstance(value, float) and (not whole or value.is_integer())):
            return value
    elif _is_missing(value):
        return _MISSING[kind]
    elif kind in ("reference", "region"):
        return parse_reference(value) if value != "" else None
    elif isinstance(value, _PLAIN[kind]):
        return value
    elif isinstance(value, str | bytes):
        return value.encode(*_CODE) if isinstance(value, str) else value.decode(*_CODE)
    raise DataCorruptionError(f"expected {kind if kind in _PLAIN else element.name}, but found {value!r:.80}")


def _row(value: Any, element: Element) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple) or len(value) != len(element.members):
        raise DataCorruptionError(
            f"expected a row of {len(element.members)} members, but found {value!r:.80}"
        )
    return tuple(_one(item, m.element) for item, m in zip(value, element.members, strict=True))


def _rows(values: npt.NDArray[Any], element: Element) -> npt.NDArray[Any]:
    out = np.zeros(values.shape, element.memory_dtype)
    flat = out.reshape(-1)
    for i, value in enumerate(values.reshape(-1).tolist()):
        if _is_missing(value):
            flat[i] = _missing_row(element)
            continue
        try:
            flat[i] = _row(value, element)
        except (TypeError, ValueError, OverflowError) as e:
            if isinstance(e, DataCorruptionError):
                raise
            raise DataCorruptionError(f"row {i}: {e}") from None
    return out


def _missing_row(element: Element) -> tuple[Any, ...]:
    """Return the value of a row that is not stored."""
    return tuple(
        _missing_row(m.element)
        if m.element.kind == "compound"
        else np.zeros((), m.element.dtype)[()]
        if m.element.dtype is not None
        else _MISSING[m.element.kind]
        for m in element.members
    )


def _records(values: npt.NDArray[Any], element: Element) -> npt.NDArray[Any]:
    if values.dtype == element.memory_dtype:
        return values
    return map_members(
        values,
        element,
        lambda part, of: to_logical(part.astype(object) if part.dtype.kind in "US" else part, of),
    )


# -- values of users ----------------------------------------------------------------------------------


def shape_of(data: Any, is_item: Callable[[Any], bool] | None = None) -> tuple[int, ...]:
    """Return the shape of nested lists; text, bytes, mappings and references are items."""
    if hasattr(data, "shape"):
        return tuple(int(n) for n in data.shape)
    if not isinstance(data, list | tuple | range | set | frozenset) or (
        is_item is not None and is_item(data)
    ):
        return ()
    if not len(data):
        return (0,)
    shapes = {shape_of(item, is_item) for item in data}
    if len(shapes) > 1:
        raise InvalidArgumentError(f"nested lists of different lengths: {sorted(shapes)}")
    return (len(data), *shapes.pop())


def _is_row(item: Any) -> bool:
    return isinstance(item, tuple | np.void)


def guess_element(data: Any) -> Element:
    """Return the element type of values without a declared type."""
    dtype = getattr(data, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return element_of_dtype(dtype)
    value = data
    while isinstance(value, list | tuple | range | np.ndarray):
        value = value.reshape(-1) if isinstance(value, np.ndarray) else value
        if len(value) == 0:
            raise InvalidArgumentError("could not determine type")
        value = value[0]
    if isinstance(value, Reference):
        return reference if value.region is None else region
    if isinstance(value, str):
        return text
    if isinstance(value, bytes):
        return bytes_
    if isinstance(value, datetime | date):
        return bytes_
    if isinstance(value, bool):
        return number("bool", "bool")
    if isinstance(value, int):
        return number("int64", "int")
    if isinstance(value, float):
        return number("float64", "float")
    if hasattr(value, "dtype") and isinstance(value.dtype, np.dtype):
        return element_of_dtype(value.dtype)
    raise InvalidArgumentError(f"no HDMF type for {type(value).__name__}")


def element_of_dtype(dtype: np.dtype[Any]) -> Element:
    """Return the element type that a NumPy type means."""
    if dtype.names is not None and dtype.fields is not None:
        return compound([(name, element_of_dtype(dtype.fields[name][0])) for name in dtype.names])
    if dtype.kind == "S":
        return bytes_
    if dtype.kind in "UT" or dtype.kind == "O":
        return text
    return number(dtype)


def widened(element: Element, data: Any) -> Element:
    """Return a type of numbers, wider if a list has several; hdmf looks at one element only."""
    if element.dtype is None or not isinstance(data, list | tuple):
        return element
    try:
        common = np.asarray(data).dtype
    except (ValueError, OverflowError):  # which is an error of its values
        return element
    if common.kind not in "biufmM" or np.can_cast(common, element.dtype):
        return element
    types = set(map(type, np.asarray(data, object).reshape(-1).tolist()))
    # Integers that are too large for all types are no floats either.
    if common.kind == "f" and not any(issubclass(t, float | np.floating) for t in types):
        return element
    return number(common) if len(types) > 1 or common.kind in "mM" else element


def as_values(data: Any, element: Element, shape: Sequence[int] | None = None) -> npt.NDArray[Any]:
    """Return an array of ``element.memory_dtype``."""
    if element.kind == "number":
        try:
            values = plain_array(data)
            if values.dtype != element.memory_dtype:
                values = _as_number(values, element)
        except (TypeError, ValueError, OverflowError) as e:
            raise InvalidArgumentError(f"Expected values of {element.name}: {e}") from None
        return values
    if element.kind == "compound":
        return _as_records(data, element, shape)
    plain = _PLAIN.get(element.kind)
    if isinstance(data, list) and set(map(type, data)) == {plain}:  # as most columns are
        values = np.empty(len(data), object)
        values[:] = data
        return values
    if isinstance(data, np.ndarray) and data.dtype == object and set(map(type, data.flat)) == {plain}:
        return data
    if isinstance(data, np.ndarray):
        values = data
    else:
        found = shape_of(data) if shape is None else tuple(shape)
        values = np.empty(found, object)
        flat = values.reshape(-1)
        for i, item in enumerate(_flat(data, len(found))):
            flat[i] = item
    return map_objects(values, lambda value: _object(value, element))


def _as_number(values: npt.NDArray[Any], element: Element) -> npt.NDArray[Any]:
    dtype = element.memory_dtype
    if values.dtype.kind in "OSU" and (
        values.dtype.kind != "O" or any(isinstance(v, str | bytes) for v in values.reshape(-1).tolist())
    ):
        raise TypeError("text is not a number")
    given, wanted = values.dtype.kind, dtype.kind
    with np.errstate(all="ignore"):
        out = (values.real if given == "c" and wanted in "biuf" else values).astype(dtype)
        if wanted in "biu" and given in "biufcO":
            lost = np.asarray(out != values)
        elif wanted == "f" and given in "fc":
            lost = (np.isinf(out) & ~np.isinf(values)) | (values.imag != 0)
        elif wanted in "mM" and given == wanted:
            lost = ~np.isnat(values) & (out.astype(values.dtype) != values)
        else:
            return out
    if lost.any():
        raise OverflowError(f"{values[lost].reshape(-1)[0]} does not fit {dtype}")
    return out


def _flat(data: Any, depth: int) -> list[Any]:
    items = [data]
    for _ in range(depth):
        items = [item for part in items for item in part]
    return items


def _object(value: Any, element: Element) -> Any:
    if element.kind == "text":
        if isinstance(value, str):
            return str(value)
        if isinstance(value, bytes):
            try:
                return value.decode()
            except UnicodeDecodeError as e:
                raise InvalidArgumentError(
                    f"Expected text, but received bytes that are not UTF-8: {value!r:.100} ({e})"
                ) from None
        if value is None:
            return ""
        if isinstance(value, datetime | date):
            return value.isoformat()
    elif element.kind == "bytes":
        if isinstance(value, bytes):
            return bytes(value)
        if isinstance(value, str):
            return value.encode()
        if value is None:
            return b""
        if isinstance(value, datetime | date):
            return value.isoformat().encode()
    elif value is None or isinstance(value, Reference):
        if value is not None and element.kind == "region" and value.region is None:
            raise InvalidArgumentError("Expected a region reference, but received one without a region")
        return value
    raise InvalidArgumentError(f"Expected {element.name}, but received: {value!r:.100}")


def _as_records(data: Any, element: Element, shape: Sequence[int] | None) -> npt.NDArray[Any]:
    memory = element.memory_dtype
    if isinstance(data, np.ndarray | np.void) and data.dtype.names is not None:
        source = np.asarray(data)
        if source.dtype == memory and not memory.hasobject:
            return source
        names, own = data.dtype.names, [m.name for m in element.members]
        by_name = set(names) == set(own)
        # Names that say nothing, such as f0 and f1, are those of columns in order.
        if not by_name and (len(names) != len(own) or set(names) & set(own)):
            raise InvalidArgumentError(
                f"records have members {', '.join(names)}, but expected {', '.join(own)}"
            )
        out = np.zeros(source.shape, memory)
        for member, name in zip(element.members, own if by_name else names, strict=True):
            out[member.name] = as_values(source[name], member.element, source.shape)
        return out
    found = shape_of(data, _is_row) if shape is None else tuple(shape)
    if not isinstance(data, tuple | np.void) and found and shape is None and isinstance(data, list):
        # Rows may be lists as well: the innermost lists are rows then.
        first = data
        depth = 0
        while isinstance(first, list) and first:
            first, depth = first[0], depth + 1
        if not isinstance(first, tuple | np.void) and depth > 1:
            found = found[: depth - 1]
    out = np.zeros(found, memory)
    flat = out.reshape(-1)
    for i, item in enumerate(_flat(data, len(found))):
        flat[i] = _member(item, element)
    return out


def _member(value: Any, element: Element) -> Any:
    if element.kind == "compound":
        row = value[()] if isinstance(value, np.ndarray) else value  # one without dimensions is its element
        is_row = isinstance(row, list | tuple | np.void | np.ndarray)
        parts = list(row) if is_row else []
        if len(parts) != len(element.members):
            raise InvalidArgumentError(
                f"Expected a row of {len(element.members)} members, but received: {value!r:.100}"
            )
        return tuple(_member(v, m.element) for v, m in zip(parts, element.members, strict=True))
    if element.kind == "number":
        return as_values(value, element)[()]
    return _object(value, element)
