"""The elements that a region selects, whatever its stored form, for comparing regions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from chunkwise.hdmf.model.region import parse_region

__all__ = ["same_region"]

_Axis: TypeAlias = tuple[range, ...]
"""Indices along an axis: ranges that follow each other."""

_MAX_EXPANDED = 1 << 22
"""Regions of up to so many elements are compared element by element."""


def same_region(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Return True if two regions select the same elements in the same order."""
    a, b = parse_region(a), parse_region(b)
    if a == b:
        return True
    parts = [_boxes(region) for region in (a, b)]
    sizes = [sum(math.prod(sum(map(_size, axis)) for axis in box) for box in boxes) for boxes in parts]
    if sizes[0] != sizes[1]:
        return False
    if sizes[0] == 0:
        return True
    if parts[0] == parts[1]:
        return True
    if sizes[0] > _MAX_EXPANDED:
        return False
    x, y = map(_expanded, parts)
    return x.shape == y.shape and bool((x == y).all())


def _boxes(region: Mapping[str, Any]) -> list[tuple[_Axis, ...]]:
    """Return grids of indices, whose elements follow each other."""
    kind = region["type"]
    if kind == "all":
        return [tuple(_joined([range(n)]) for n in region["shape"])]
    if kind == "slices":
        return [tuple(_joined([range(*part)]) for part in region["slices"])]
    if kind == "hyperslab":
        terms = zip(region["start"], region["stride"], region["count"], region["block"], strict=True)
        return [tuple(_slab(*term) for term in terms)]
    if kind == "points":
        return [tuple((range(i, i + 1),) for i in point) for point in region["points"]]
    if kind == "blocks":
        return [
            tuple((range(f, t + 1),) for f, t in zip(first, last, strict=True))
            for first, last in region["blocks"]
        ]
    return []


def _slab(start: int, stride: int, count: int, block: int) -> _Axis:
    if block == 1:
        return _joined([range(start, start + stride * count, stride)])
    if count > _MAX_EXPANDED:  # too many to be listed; equal to the same slab only
        return (range(start, start + stride * count, stride), range(-block, 0))
    return _joined([range(at, at + block) for at in range(start, start + stride * count, stride)])


def _joined(parts: Sequence[range]) -> _Axis:
    """Return ranges with those of step 1 that touch made one, and none that is empty."""
    out: list[range] = []
    for part in parts:
        part = part if _size(part) != 1 else range(part.start, part.start + 1)
        if out and part and out[-1].step == part.step == 1 and out[-1].stop == part.start:
            out[-1] = range(out[-1].start, part.stop)
        elif part:
            out.append(part)
    return tuple(out)


def _size(part: range) -> int:
    # len() has a limit, which numbers in a file need not keep to.
    return max(0, -((part.start - part.stop) // part.step))


def _expanded(boxes: Sequence[tuple[_Axis, ...]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the coordinates of all elements, one row for each."""
    rows = []
    for box in boxes:
        axes = [np.concatenate([np.arange(r.start, r.stop, r.step) for r in axis]) for axis in box]
        rows.append(np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes)))
    return np.concatenate(rows)
