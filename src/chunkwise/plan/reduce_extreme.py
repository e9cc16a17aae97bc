"""The least or greatest element of each cell."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from chunkwise.plan.reduce_planes import fold, planes

__all__ = ["extreme_float", "extreme_int"]

Array = npt.NDArray[Any]
Which = Literal["min", "max"]


def extreme_int(block: Array, which: Which) -> Array:
    """Return the least or greatest of integers or booleans."""
    return fold(block, np.minimum if which == "min" else np.maximum, block.dtype)


def extreme_float(block: Array, which: Which) -> Array:
    """Return the least or greatest of 32 or 64-bit floats, the first of several equal ones."""
    # NaN counts only where there is nothing else; of such a cell the least is infinity and the greatest minus
    # infinity, as in TensorStore.
    out = fold(block, np.fmin if which == "min" else np.fmax, block.dtype)
    if out.size and (out.min() > 0 or out.max() < 0):
        return out  # neither zeros nor NaN
    if not out.all():
        # What sign NumPy gives to the less of 0.0 and -0.0 depends on the processor.
        bits = np.dtype(f"i{block.dtype.itemsize}")
        if (block.view(bits) == np.iinfo(bits).min).any():
            out = _in_order(block, which)
    nothing = np.isnan(out)
    if nothing.any():
        out = np.where(nothing, out.dtype.type(np.inf if which == "min" else -np.inf), out)
    return out


def _in_order(block: Array, which: Which) -> Array:
    out = np.full(block.shape[::2], np.inf if which == "min" else -np.inf, block.dtype)
    for plane in planes(block):
        np.copyto(out, plane, where=plane < out if which == "min" else plane > out)
    return out
