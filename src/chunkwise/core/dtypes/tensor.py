"""Tensors of PyTorch as NumPy arrays over the same memory."""

from __future__ import annotations

import sys
from typing import Any

import numpy.typing as npt

from chunkwise.core.dtypes.data_type import dtypes

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


def elements_of(value: Any) -> Any:
    """Return a tensor of a type that NumPy lacks as an array; anything else as it is."""
    if isinstance(value, int | float | list):
        return value
    kind, _, name = str(getattr(value, "dtype", "")).partition(".")
    found = dtypes.get(name) if kind == "torch" else None
    return value if found is None or found.memory_dtype.isbuiltin == 1 else memory_of_tensor(value)
