"""Fill values that a data type holds exactly, or rounded to its floating-point numbers."""

from __future__ import annotations

import cmath
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.core.dtypes.as_array import as_array
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.errors import InvalidArgumentError, OptionError

__all__ = ["check_held", "exact_fill"]

_NUMBERS = "iufcb"


def exact_fill(value: Any, dtype: DataType) -> npt.NDArray[Any]:
    """Return a fill value as an array without dimensions; raise OptionError unless `dtype` can hold it."""
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value[()]
    try:
        out = as_array(value, dtype).reshape(())
    except (ValueError, OverflowError, TypeError, InvalidArgumentError) as e:
        raise OptionError(f"fill_value: {value!r} is no value of {dtype.name}: {e}") from None
    if not isinstance(value, np.ndarray) or value.dtype != out.dtype:
        check_held(value, out, dtype)
    return out


def check_held(asked: Any, stored: npt.NDArray[Any], dtype: DataType) -> None:
    """Raise OptionError unless fill values of `dtype` are those that were asked for."""
    values = np.asarray(asked)
    is_text = dtype.kind == "bool" and values.dtype.kind not in _NUMBERS  # for NumPy any text is true
    if is_text or (
        values.dtype.kind in _NUMBERS
        and not all(map(_holds, values.reshape(-1).tolist(), stored.reshape(-1), [dtype] * values.size))
    ):
        raise OptionError(f"fill_value: {dtype.name} can't hold {asked!r}")


def _holds(asked: complex, stored: Any, dtype: DataType) -> bool:
    """Return True if a number has kept its value, or for floating point, has been rounded."""
    if dtype.kind in ("bool", "int"):
        return int(stored) == asked
    if dtype.kind not in ("float", "complex"):
        return True
    found = complex(stored) if dtype.kind == "complex" else complex(float(stored))
    return cmath.isfinite(found) == cmath.isfinite(asked) and cmath.isnan(found) == cmath.isnan(asked)
