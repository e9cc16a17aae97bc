"""Byte ranges of one stored object, joined where a hole is cheaper to read than to skip.

Source: Zarr v3 codec *sharding_indexed*, "Binary shard format": inner chunks may lie anywhere in the shard
and may leave holes.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from chunkwise.errors import InvalidArgumentError

__all__ = ["coalesce_ranges"]


def coalesce_ranges(
    offsets: npt.NDArray[Any], lengths: npt.NDArray[Any], *, gap: int, largest: int
) -> list[slice]:
    """Return runs of byte ranges, sorted by offset, each of which one request serves."""
    # Holes of at most `gap` bytes are read; nothing more is joined to a request of `largest` bytes.
    if (offsets[1:] < offsets[:-1]).any():
        raise InvalidArgumentError("byte ranges are not sorted by offset")
    runs: list[slice] = []
    first = origin = stop = 0
    starts = offsets.tolist()
    for i, (start, size) in enumerate(zip(starts, lengths.tolist(), strict=True)):
        if i > first and (start - stop > gap or start + size - origin > largest):
            runs.append(slice(first, i))
            first = i
        if i == first:
            origin = stop = start
        stop = max(stop, start + size)
    if starts:
        runs.append(slice(first, len(starts)))
    return runs
