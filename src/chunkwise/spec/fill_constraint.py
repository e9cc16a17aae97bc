"""A fill value as a constraint: JSON until the data type is known, compared, fitted to a domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.binding import JSON, dump
from chunkwise.dtypes.data_type import DataType
from chunkwise.dtypes.schema_value import array_from_json
from chunkwise.errors import InvalidArgumentError
from chunkwise.spec.constraint import braces

__all__ = ["check_broadcast", "equal_fill", "fill_from_json", "fill_text"]

_JSON = DataType("json")


def fill_from_json(value: JSON, dtype: DataType | None) -> npt.NDArray[Any]:
    """Return a fill value, or nested lists of them, as an array."""
    if dtype is not None and dtype.kind == "complex":
        raise InvalidArgumentError(f"Conversion from JSON to {dtype.name} is not implemented")
    if dtype is not None and dtype.kind != "json":
        return array_from_json(value, dtype)
    depth, level = 0, value
    while isinstance(level, list):
        depth += 1
        level = level[0] if level else None
    return array_from_json(value, _JSON, rank=depth)


def equal_fill(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    """Return True if two fill values are the same constraint; NaN equals NaN, and 0.0 equals -0.0."""
    if a.shape != b.shape:
        return False
    if a.dtype.kind in "fcmM" and b.dtype.kind in "fcmM":
        return bool(np.array_equal(a, b, equal_nan=True))
    return bool(np.array_equal(a, b))


def fill_text(array: npt.NDArray[Any]) -> str:
    """Return ``{1, 2}``, as messages show an array, or the element if there is just one."""
    if array.ndim == 0:
        item = array.item()
        if array.dtype.hasobject and not isinstance(item, bytes):
            return dump(item)
        return f"{item:.6g}" if isinstance(item, float) else str(item)
    return "{" + ", ".join(fill_text(array[i, ...]) for i in range(array.shape[0])) + "}"


def check_broadcast(shape: Sequence[int], target: Sequence[int], context: str) -> None:
    """Raise InvalidArgumentError, saying `context`, if an array of `shape` can't be repeated to `target`."""
    leading = len(shape) - len(target)
    fits = all(n == 1 for n in shape[: max(0, leading)]) and all(
        n in (1, extent) for n, extent in zip(reversed(shape), reversed(target), strict=False)
    )
    if not fits:
        raise InvalidArgumentError(
            f"{context}: Cannot broadcast array of shape {braces(shape)} to target shape {braces(target)}"
        )
