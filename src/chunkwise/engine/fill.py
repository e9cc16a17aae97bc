"""A test for chunks that hold nothing but the fill value.

The comparison is bit by bit: a NaN equals itself, and 0.0 is not -0.0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["open_fill_test"]


def open_fill_test(fill_value: npt.NDArray[Any]) -> Callable[[npt.NDArray[Any]], bool]:
    """Return a function that returns True for arrays in which every element is `fill_value`."""
    # The arrays have its dtype and any shape but no extent of 0.
    dtype = fill_value.dtype
    if dtype.hasobject:
        wanted = fill_value.item()
        return lambda array: all(type(x) is type(wanted) and x == wanted for x in array.flat)
    if dtype.itemsize in (1, 2, 4, 8) and dtype.names is None:
        bits = np.dtype(f"u{dtype.itemsize}")
        number = fill_value.view(bits)[()]

        def equal(array: npt.NDArray[Any]) -> bool:
            array = array.view(bits)
            # most chunks that have data have some at a corner
            if array[(0,) * array.ndim] != number or array[(-1,) * array.ndim] != number:
                return False
            return bool((array == number).all())

        return equal
    pattern = np.frombuffer(fill_value.tobytes(), np.uint8)

    def equal_bytes(array: npt.NDArray[Any]) -> bool:
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return bool((raw.reshape(-1, len(pattern)) == pattern).all())

    return equal_bytes
