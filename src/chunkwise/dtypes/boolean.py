"""``bool``: one byte per element, 0 or 1.

Fill value: JSON ``true`` or ``false`` in every format (Zarr v3 "Data Types", "Permitted fill values").
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.binding import JSON, expect_bool
from chunkwise.dtypes.data_type import DataType
from chunkwise.dtypes.names import Form

__all__ = ["parse_bool", "print_bool"]


def parse_bool(value: JSON, dtype: DataType, form: Form) -> npt.NDArray[Any]:
    """Return a fill value; in a schema the strings ``"true"`` and ``"false"`` will do too."""
    if form == "json" and value in ("true", "false"):
        value = value == "true"
    return np.array(expect_bool(value))


def print_bool(fill: npt.NDArray[Any], dtype: DataType, form: Form) -> JSON:
    """Return the JSON form of a fill value."""
    return bool(fill)
