"""Fill values and arrays in the JSON of a schema or of the ``array`` driver: nested lists of elements.

Elements are read as TensorStore converts JSON: numbers also from strings, booleans and text strictly.
Types for which TensorStore has no JSON form have one here: complex numbers are pairs; ``S<n>``, ``V<n>`` and
structured values are base64; times are their count.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.fill_value import parse_element, print_element
from chunkwise.core.dtypes.integer import bounds_of, is_small, show
from chunkwise.core.dtypes.names import SCHEMA
from chunkwise.errors import InvalidArgumentError, SpecError, braced, prefix

__all__ = ["array_from_json", "array_to_json", "fill_value_from_json", "fill_value_to_json"]


_MAX_RANK = 32  # the limit of every domain


def array_from_json(value: JSON, dtype: DataType, rank: int | None = None) -> npt.NDArray[Any]:
    """Return nested lists as an array of `dtype`; raise SpecError with the position of an invalid element."""
    # `rank` is the depth of the lists that make up the array.  It is needed for json, whose elements can be
    # lists, and defaults to 0 there.  Otherwise all lists count, except those that form an element, such as a
    # complex number.
    if rank is None:
        rank = 0 if dtype.kind == "json" else max(0, _depth(value) - _element_rank(dtype))
    if rank > _MAX_RANK:
        raise SpecError(f"Array rank ({rank}) is outside valid range [0, {_MAX_RANK}]")
    shape: list[int] = []
    level = value
    for _ in range(rank):
        if not isinstance(level, list):
            raise SpecError(f"Array rank ({len(shape)}) does not match expected rank ({rank})")
        shape.append(len(level))
        if not level:
            break
        level = level[0]
    shape += [0] * (rank - len(shape))
    elements: list[JSON] = []
    _flatten(value, shape, (), elements)
    if dtype.kind == "int" and not is_small(dtype) and set(map(type, elements)) == {int}:
        lo, hi = bounds_of(dtype)
        if lo <= min(elements) and max(elements) <= hi:  # the common case, in one step
            return np.array(elements, dtype.memory_dtype).reshape(shape)
    out = np.empty(len(elements), dtype.memory_dtype)
    for i, element in enumerate(elements):
        try:
            out[i] = parse_element(element, dtype, SCHEMA)[()]
        except InvalidArgumentError as e:
            position = ", ".join(map(str, np.unravel_index(i, shape))) if shape else ""
            raise prefix(e, f"Error parsing array element at position {{{position}}}") from None
    return out.reshape(shape)


def array_to_json(array: npt.NDArray[Any], dtype: DataType) -> JSON:
    """Return `array` as nested lists; inverse of `array_from_json`."""
    if array.ndim:
        # The ellipsis keeps an element of an object array in an array of rank 0.
        return [array_to_json(array[i, ...], dtype) for i in range(len(array))]
    return print_element(array, dtype, SCHEMA)


fill_value_from_json = array_from_json
fill_value_to_json = array_to_json


def _element_rank(dtype: DataType) -> int:
    """Return the depth of the lists that form an element in JSON."""
    return 1 if dtype.kind == "complex" else getattr(dtype.extension, "fill_rank", 0)


def _depth(value: JSON) -> int:
    depth = 0
    while isinstance(value, list):
        depth += 1
        if not value:
            break
        value = value[0]
    return depth


def _flatten(value: JSON, shape: list[int], at: tuple[int, ...], out: list[JSON]) -> None:
    level = len(at)
    if level == len(shape):
        out.append(value)
        return
    full = braced(shape)
    position = braced(at)
    if not isinstance(value, list):
        raise SpecError(
            f"Expected rank-{len(shape)} array, "
            f"but found non-array element {show(value)} at position {position}."
        )
    if len(value) != shape[level]:
        raise SpecError(
            f"Expected array of shape {full}, but found array element {show(value)} "
            f"of length {len(value)} at position {position}."
        )
    for i, part in enumerate(value):
        _flatten(part, shape, (*at, i), out)
