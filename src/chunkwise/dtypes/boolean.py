"""``bool``: one byte per element, 0 or 1.

Fill value: JSON ``true`` or ``false`` in every format (Zarr v3 "Data Types", "Permitted fill values"); 0 or
1, which other writers store and zarr-python reads, in Zarr v2 too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.binding import JSON, expect_bool
from chunkwise.dtypes.data_type import DataType
from chunkwise.dtypes.names import Notation

__all__ = ["parse_bool", "print_bool"]


def parse_bool(value: JSON, dtype: DataType, notation: Notation) -> npt.NDArray[Any]:
    """Return a fill value; in a schema the strings ``"true"`` and ``"false"`` will do too."""
    if notation == "json" and value in ("true", "false"):
        value = value == "true"
    if notation == "zarr2" and type(value) is int and value in (0, 1):
        value = value == 1
    return np.array(expect_bool(value))


def print_bool(fill: npt.NDArray[Any], dtype: DataType, notation: Notation) -> JSON:
    """Return the JSON form of a fill value."""
    return bool(fill)
