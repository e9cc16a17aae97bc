"""Conversion of N5 blocks to Python values, and back; see `chunkwise.n5.blocks`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.errors import DataCorruptionError, InvalidArgumentError
from chunkwise.extension import n5 as blocks
from chunkwise.extension.n5 import decode_label_multiset, encode_label_multiset

__all__ = ["BlockValues", "Kind"]

Kind: TypeAlias = Literal["numbers", "strings", "object", "label_multiset"]


class BlockValues(NamedTuple):
    """Kind, element type and shape of the blocks of one dataset."""

    kind: Kind
    element: np.dtype[Any]
    block_size: tuple[int, ...]

    def decode(self, data: blocks.N5BlockData, region: tuple[int, ...]) -> Any:
        """Return the value of a block; `region` is its shape, cropped to the dataset."""
        if self.kind == "object":
            return blocks.decode_object(data)
        if self.kind == "numbers":
            return blocks.decode_elements(data, self.element)
        if self.kind == "label_multiset":
            return _shaped(decode_label_multiset(data, region), region)
        if prod(data.dims) > 4 * prod(self.block_size):
            raise DataCorruptionError(f"N5 string block of size {list(data.dims)} is larger than its cell")
        return _shaped(blocks.decode_strings(data), data.dims)

    def encode(self, value: Any, region: tuple[int, ...]) -> blocks.N5BlockData:
        """Return the block that holds `value`; `region` is its shape, cropped to the dataset."""
        if self.kind == "object":
            return blocks.encode_object(value)
        if self.kind == "numbers":
            return blocks.encode_elements(_numbers(value, self.element), region, self.element)
        if self.kind == "label_multiset":
            cells = _listed(value, region)
            return encode_label_multiset([tuple(map(tuple, entries)) for entries in cells], region)
        return blocks.encode_strings(_listed(value, region), region)


def _numbers(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return a value as a 1-D array of `dtype`; raise if a number would change."""
    if isinstance(value, list | tuple) and all(isinstance(v, int | np.integer) for v in value):
        value = np.array([int(v) for v in value], object)  # NumPy makes floats of large integers
        if dtype.kind in "iu" and all(np.iinfo(dtype).min <= v <= np.iinfo(dtype).max for v in value):
            value = value.astype(dtype)
    array = np.asarray(value)
    if array.ndim != 1:
        raise InvalidArgumentError(f"a block of numbers is a 1-D array, not one of shape {array.shape}")
    if array.size == 0:
        return np.empty(0, dtype)
    if array.dtype.kind not in "iuf" or (array.dtype.kind == "f" and dtype.kind != "f"):
        raise InvalidArgumentError(f"values of type {array.dtype} can't be stored as {dtype}")
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if int(array.min()) < limits.min or int(array.max()) > limits.max:
            raise InvalidArgumentError(f"values from {array.min()} to {array.max()} don't fit {dtype}")
    return array.astype(dtype)


def _shaped(values: Sequence[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return values, given first dimension fastest, as an object array."""
    line = np.empty(len(values), object)
    for i, value in enumerate(values):
        line[i] = value
    return line.reshape(shape[::-1]).T


def _listed(value: Any, shape: tuple[int, ...]) -> list[Any]:
    """Return the elements of an array of objects with the first dimension fastest."""
    if not isinstance(value, np.ndarray) or value.shape != shape:
        given = getattr(value, "shape", type(value).__name__)
        raise InvalidArgumentError(f"expected an array of objects of shape {shape}, but received: {given}")
    return list(value.T.ravel().tolist())
