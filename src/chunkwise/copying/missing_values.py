"""The value that marks missing elements, carried from an array of one format to one of another.

xarray treats the fill value of Zarr v2 as this mark.  So an array without a mark gets a null fill value
there: with a fill value of zero, every zero would be missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.trees.missing_marker import FILL_VALUE, marker_from_json, marker_to_json
from chunkwise.errors import InvalidArgumentError

__all__ = ["marker_as", "marker_attribute", "take_marker"]

# Attributes that make an array of Zarr v2 a variable of a dataset, in which the fill value is a marker.
_OF_DATASETS = ("_ARRAY_DIMENSIONS", "_nczarr_array", "_NCZARR_ARRAY", "_nczarr_attrs", FILL_VALUE)


def take_marker(
    format: str | None,
    document: Mapping[str, JSON],
    fill_value: npt.NDArray[Any] | None,
    dtype: DataType,
    attributes: dict[str, JSON],
) -> npt.NDArray[Any] | None:
    """Return the mark of missing values, or None, and take it out of the attributes."""
    element = dtype.memory_dtype
    if element.hasobject or element.names or element.kind not in "iufcbSU":
        return None
    own = document.get("fill_value") if tree_format(format).fill_value_can_be_null else None
    if own is not None and fill_value is not None:
        if not any(name in attributes or name in document for name in _OF_DATASETS):
            return None
        attributes.pop(FILL_VALUE, None)
        return fill_value
    if FILL_VALUE not in attributes:
        return None
    try:
        value = np.asarray(marker_from_json(attributes[FILL_VALUE], element))
        marker = _exactly(value, element)
    except (InvalidArgumentError, TypeError, ValueError, OverflowError):
        return None
    if marker is not None:
        del attributes[FILL_VALUE]
    return marker


def marker_as(marker: npt.NDArray[Any] | None, dtype: DataType, notes: list[str]) -> npt.NDArray[Any] | None:
    """Return a marker in the type of the copy; None, with a note, if the type can't hold it."""
    if marker is None:
        return None
    found = _exactly(marker, dtype.memory_dtype)
    if found is None:
        notes.append(f'attribute "{FILL_VALUE}" is left out: {marker.item()!r} is no {dtype.name}')
    return found


def marker_attribute(marker: npt.NDArray[Any] | None, format: str) -> dict[str, JSON]:
    """Return the attribute that holds a marker in a format, if there is one."""
    return {} if marker is None else {FILL_VALUE: marker_to_json(marker, marker.dtype, format)}


def _exactly(value: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
    if value.dtype == dtype:
        return value
    if dtype.hasobject or dtype.names:
        return None
    with np.errstate(all="ignore"):
        out = value.astype(dtype)
        return out if bool(out == value) or bool((value != value) & (out != out)) else None
