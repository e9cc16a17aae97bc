"""Tensors of PyTorch as NumPy arrays over the same memory; missing values of pandas."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.extras import is_of
from chunkwise.core.dtypes.data_type import dtypes
from chunkwise.errors import InvalidArgumentError

__all__ = ["elements_of", "memory_of_tensor"]


def memory_of_tensor(tensor: Any) -> npt.NDArray[Any]:
    """Return the memory of a tensor; types that NumPy lacks, such as bfloat16, become ml_dtypes' types."""
    try:
        return tensor.numpy()  # type: ignore[no-any-return]
    except TypeError:
        found = dtypes.get(str(tensor.dtype).removeprefix("torch."))
        if found is None:
            raise
    dtype = found.memory_dtype
    # The module of the data type, since tensors have subclasses elsewhere, such as parameters.
    bits = getattr(sys.modules[type(tensor.dtype).__module__], f"int{8 * dtype.itemsize}")
    return tensor.view(bits).numpy().view(dtype)  # type: ignore[no-any-return]


_NUMBER = dict.fromkeys("iuf", "f")


def _check_missing(values: Any) -> None:
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, np.dtype) or getattr(dtype, "kind", "") not in ("i", "u", "b"):
        return
    if n_missing := int(values.isna().sum()):
        raise InvalidArgumentError(
            f"{n_missing} of {len(values)} values of {dtype} are missing, and an array keeps no mark; "
            'say what stands for them, as with values.fillna(0), or values.astype("float64") for NaN'
        )


def elements_of(value: Any) -> Any:
    """Return a tensor of a type that NumPy lacks as an array; anything else as it is.

    Integers and truth values of pandas of which some are missing are refused: NumPy would make them floats.
    """
    if isinstance(value, int | float | list):
        return value
    if is_of(value, "pandas"):
        columns = [column for _, column in value.items()] if hasattr(value, "columns") else [value]
        for column in columns:
            _check_missing(column)
        if len({_NUMBER.get(column.dtype.kind, column.dtype.kind) for column in columns[1:] and columns}) > 1:
            raise InvalidArgumentError(
                "the columns of the DataFrame are of several types: write group[name] = frame[name] for each"
            )
        return value
    kind, _, name = str(getattr(value, "dtype", "")).partition(".")
    found = dtypes.get(name) if kind == "torch" else None
    return value if found is None or found.memory_dtype.isbuiltin == 1 else memory_of_tensor(value)
