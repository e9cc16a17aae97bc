"""Conversion of stored values for users: references as records, rows as NumPy records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.errors import DataCorruptionError
from chunkwise.hdmf.model.element import Element, bytes_, compound, number, reference, text
from chunkwise.hdmf.model.reference import Reference, parse_reference

__all__ = ["infer_element", "map_objects", "to_logical"]


def map_objects(values: npt.NDArray[Any], convert: Callable[[Any], Any]) -> npt.NDArray[Any]:
    """Return an object array of what `convert` makes of each value."""
    flat = np.empty(values.size, object)
    for i, value in enumerate(values.reshape(-1).tolist()):
        flat[i] = convert(value)
    return flat.reshape(values.shape)


def infer_element(values: npt.NDArray[Any]) -> Element:
    """Return the type of stored objects that are not declared, from the first that says something."""
    for value in values.reshape(-1).tolist():
        if isinstance(value, Mapping) and "path" in value:
            return reference
        if isinstance(value, str):
            return text
        if isinstance(value, bytes):
            return bytes_
        if isinstance(value, list):
            return compound([(f"f{i}", infer_element(_boxed(item))) for i, item in enumerate(value)])
        if isinstance(value, bool | int | float) and not (type(value) is int and value == 0):
            return number({bool: "bool", int: "int64", float: "float64"}[type(value)])
    return text


def _boxed(value: Any) -> npt.NDArray[Any]:
    out = np.empty(1, object)
    out[0] = value
    return out


def to_logical(values: npt.NDArray[Any], element: Element) -> npt.NDArray[Any]:
    """Return stored values as users see them."""
    if element.kind == "number":
        if values.dtype == object:
            try:
                return values.astype(element.memory_dtype)
            except (TypeError, ValueError, OverflowError) as e:
                raise DataCorruptionError(f"a value is no {element.name}: {e}") from None
        return values
    if element.kind == "compound":
        if values.dtype == object:
            return _rows(values, element)
        return _records(values, element)
    if element.kind == "text":
        return values if values.dtype == object and _all(values, str) else map_objects(values, _text)
    if element.kind == "bytes":
        return values if values.dtype == object and _all(values, bytes) else map_objects(values, _bytes)
    return map_objects(values, _reference_or_none)


def _all(values: npt.NDArray[Any], kind: type) -> bool:
    return all(type(value) is kind for value in values.reshape(-1).tolist())


def _text(value: Any) -> str:
    if value is None or (isinstance(value, int) and value == 0):
        return ""  # nothing is stored
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if not isinstance(value, str):
        raise DataCorruptionError(f"expected text, but found {value!r:.80}")
    return value


def _bytes(value: Any) -> bytes:
    if value is None or (isinstance(value, int) and value == 0):
        return b""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if not isinstance(value, bytes):
        raise DataCorruptionError(f"expected bytes, but found {value!r:.80}")
    return value


def _reference_or_none(value: Any) -> Reference | None:
    if value is None or (isinstance(value, int) and value == 0) or value == "":
        return None
    return parse_reference(value)


def _one(value: Any, element: Element) -> Any:
    if element.kind == "text":
        return _text(value)
    if element.kind == "bytes":
        return _bytes(value)
    if element.kind in ("reference", "region"):
        return _reference_or_none(value)
    if element.kind == "compound":
        return _row(value, element)
    if isinstance(value, bool | int | float):
        return value
    raise DataCorruptionError(f"expected {element.name}, but found {value!r:.80}")


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
        if value is None or (isinstance(value, int) and value == 0):
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
    missing: dict[str, Any] = {"text": "", "bytes": b"", "reference": None, "region": None}
    return tuple(
        _missing_row(m.element)
        if m.element.kind == "compound"
        else np.zeros((), m.element.dtype)[()]
        if m.element.dtype is not None
        else missing[m.element.kind]
        for m in element.members
    )


def _records(values: npt.NDArray[Any], element: Element) -> npt.NDArray[Any]:
    if values.dtype == element.memory_dtype:
        return values
    out = np.empty(values.shape, element.memory_dtype)
    for m in element.members:
        assert m.name is not None
        part = values[m.name]
        out[m.name] = to_logical(part.astype(object) if part.dtype.kind in "US" else part, m.element)
    return out
