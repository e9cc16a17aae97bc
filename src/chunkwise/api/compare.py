"""Comparing what was stored with what was to be stored, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.dtypes.fill_value import same_object
from chunkwise.errors import DataCorruptionError
from chunkwise.index_space import IndexDomain

__all__ = ["compare"]


def compare(wanted: npt.NDArray[Any], found: npt.NDArray[Any], block: IndexDomain) -> None:
    """Raise DataCorruptionError unless two arrays over the domain `block` are the same bits."""
    different = _different(wanted, found)
    if not different.any():
        return
    first = np.unravel_index(int(np.argmax(different)), different.shape)
    at = [int(i) + lo for i, lo in zip(first, block.inclusive_min, strict=True)]
    raise DataCorruptionError(
        f"the copy differs from the source at {at}: {found[first]!r} instead of {wanted[first]!r} "
        f"({int(different.sum())} of {different.size} elements of the block {block} differ)"
    )


def _different(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    if a.dtype.hasobject:
        pairs = zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
        return np.array([not same_object(x, y) for x, y in pairs], bool).reshape(a.shape)
    if a.dtype.itemsize == 0:
        return np.asarray(a != b, bool).reshape(a.shape)
    bits = [np.ascontiguousarray(x).reshape(-1).view(np.uint8).reshape(a.size, -1) for x in (a, b)]
    return np.asarray((bits[0] != bits[1]).any(axis=1)).reshape(a.shape)
