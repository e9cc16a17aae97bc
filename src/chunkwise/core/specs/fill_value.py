"""Fill values of schemas: parsing, comparing, fitting to a domain, transforming.

A fill value may vary along dimensions; it is stored without expanding it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, dump
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.fill_value import array_from_json
from chunkwise.core.index_space import IndexDomain, IndexTransform, OutputIndexMap, inf
from chunkwise.core.specs.constraint import braces
from chunkwise.errors import InvalidArgumentError, OutOfRangeError

__all__ = [
    "NUMBERS",
    "check_broadcast",
    "equal_fill",
    "fill_from_json",
    "fill_text",
    "unbroadcast",
    "view_fill_value",
]

NUMBERS = "biufc"
"""Kinds of NumPy data types whose values may be kept as given, whatever the array's type."""

_JSON = DataType("json")
_UNBOUNDED: Final = 2 * inf + 1


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
    """Return an array as in messages, ``{1, 2}``, or the element if there is just one."""
    if array.ndim == 0:
        item = array.item()
        if array.dtype.hasobject and not isinstance(item, bytes):
            return dump(item)
        return f"{item:.6g}" if isinstance(item, float) else str(item)
    return "{" + ", ".join(fill_text(array[i, ...]) for i in range(array.shape[0])) + "}"


def check_broadcast(shape: Sequence[int], target: Sequence[int], context: str) -> None:
    """Raise InvalidArgumentError with `context` if an array of `shape` can't be broadcast to `target`."""
    leading = len(shape) - len(target)
    fits = all(n == 1 for n in shape[: max(0, leading)]) and all(
        n in (1, extent) for n, extent in zip(reversed(shape), reversed(target), strict=False)
    )
    if not fits:
        raise InvalidArgumentError(
            f"{context}: Cannot broadcast array of shape {braces(shape)} to target shape {braces(target)}"
        )


def unbroadcast(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the smallest array that broadcasts to `array`: repeated dimensions are removed."""
    # As in TensorStore, only dimensions of stride 0 or size 1 count as repeated; equal values that were given
    # one by one stay.
    index = tuple(
        slice(0, 1) if s == 0 and n > 1 else slice(None)
        for s, n in zip(array.strides, array.shape, strict=True)
    )
    array = array[(*index, ...)]
    while array.ndim and array.shape[0] == 1:
        array = array[0, ...]
    return array.copy()


def view_fill_value(
    fill: npt.NDArray[Any], transform: IndexTransform, domain: IndexDomain | None
) -> npt.NDArray[Any]:
    """Return the fill value of the view by `transform` of an array with `fill`."""
    if fill.ndim == 0:
        return fill
    shape = fill.shape
    fill = fill.reshape((1,) * (transform.output_rank - fill.ndim) + fill.shape)
    known = [False] * len(fill.shape) if domain is None else [n <= inf for n in domain.shape]
    sizes = [_shown(transform, m) for m in transform.output]
    if any(
        n > 1 and not k and size not in (n, _UNBOUNDED)
        for n, k, size in zip(fill.shape, known, sizes, strict=True)
    ):
        target = [_UNBOUNDED if size is None else size for size in sizes]
        raise InvalidArgumentError(
            "Error transforming fill_value: Cannot broadcast array of shape "
            f"{braces(shape)} to target shape {braces(target)}"
        )
    rank = transform.input_rank
    index: list[Any] = []
    for o, m in enumerate(transform.output):
        first = domain.inclusive_min[o] if domain is not None and known[o] else 0
        if fill.shape[o] == 1:
            position: Any = np.zeros((1,) * rank, np.intp)
        elif m.index_array is not None:
            assert m.stride is not None
            position = m.offset + m.stride * m.index_array - first
        elif m.input_dimension is None:
            position = np.full((1,) * rank, m.offset - first)
        else:
            assert m.stride is not None
            if known[o]:
                lo = transform.input_inclusive_min[m.input_dimension]
                n = transform.input_shape[m.input_dimension]
                along = (m.offset - first + m.stride * lo) + m.stride * np.arange(n)
            else:
                along = np.arange(fill.shape[o])[:: m.stride]
            position = along.reshape([-1 if d == m.input_dimension else 1 for d in range(rank)])
        outside = (position < 0) | (position >= fill.shape[o])
        if outside.any():
            value, stop = position[outside][0] + first, first + fill.shape[o]
            raise OutOfRangeError(
                f"Error transforming fill_value: In index array map for output dimension {o}: "
                f"Index {value} is outside valid range [{first}, {stop})"
            )
        index.append(position)
    # The ellipsis makes it an array of rank 0, not an element.
    return unbroadcast(fill[(*index, ...)])


def _shown(transform: IndexTransform, m: OutputIndexMap) -> int | None:
    """Return the number of indices of an output dimension in the view; None if not adjacent."""
    if m.index_array is not None:
        return None
    if m.input_dimension is None:
        return 1
    return transform.input_shape[m.input_dimension] if m.stride in (1, -1) else None
