"""``datetime64[<unit>]`` and ``timedelta64[<unit>]``: 64-bit counts of a unit or of a multiple of it.

In Zarr v3 these are the extensions ``numpy.datetime64`` and ``numpy.timedelta64`` with members ``unit`` and
``scale_factor``; in Zarr v2 NumPy's type strings ``<M8[10ms]``.  Fill value: the count as a number, where
not-a-time is the least 64-bit integer; ``"NaT"`` is read too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.binding import JSON, expect_int
from chunkwise.dtypes.data_type import DataType
from chunkwise.dtypes.names import Notation

__all__ = ["parse_datetime", "print_datetime"]


def parse_datetime(value: JSON, dtype: DataType, notation: Notation) -> npt.NDArray[Any]:
    """Return a fill value."""
    count = -(2**63) if value == "NaT" else expect_int(value)
    return np.array(count, np.int64).view(dtype.memory_dtype)


def print_datetime(fill: npt.NDArray[Any], dtype: DataType, notation: Notation) -> int:
    """Return the JSON form of a fill value."""
    return int(fill.view(np.int64))
