"""Byte ranges of one stored object, joined where a hole is cheaper to read than to skip."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy.typing as npt

from chunkwise.errors import InvalidArgumentError

__all__ = ["coalesce_ranges"]


def coalesce_ranges(
    offsets: npt.NDArray[Any], lengths: npt.NDArray[Any], *, gap: int, largest: int
) -> list[slice]:
    """Group byte ranges of one object so that close neighbours share a request.

    Parameters
    ----------
    offsets, lengths : ndarray of uint64, shape (n,)
        Start and size of each range, in bytes, sorted by offset; ranges may overlap.
    gap : int
        Largest hole, in bytes, that is cheaper to read than to skip.
    largest : int
        Size of a request, in bytes, beyond which nothing more is joined to it.

    Returns
    -------
    list of slice
        Half-open runs over ``range(n)``; one request serves each run.

    Raises
    ------
    InvalidArgumentError
        If `offsets` is not sorted.

    Notes
    -----
    Source: Zarr v3 codec *sharding_indexed*, "Binary shard format": inner chunks may lie anywhere in
    the shard and may leave holes.

    Examples
    --------
    >>> import numpy as np
    >>> coalesce_ranges(np.array([0, 40, 900], "u8"), np.array([40, 10, 5], "u8"), gap=64, largest=4096)
    [slice(0, 2, None), slice(2, 3, None)]
    """
    runs: list[slice] = []
    starts, sizes = offsets.tolist(), lengths.tolist()
    if any(a > b for a, b in pairwise(starts)):
        raise InvalidArgumentError("byte ranges are not sorted by offset")
    first = origin = stop = 0
    for i, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        if i > first and (start - stop > gap or start + size - origin > largest):
            runs.append(slice(first, i))
            first = i
        if i == first:
            origin = stop = start
        stop = max(stop, start + size)
    if starts:
        runs.append(slice(first, len(starts)))
    return runs
