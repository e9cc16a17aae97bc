"""The parts of a region that boxes leave uncovered, and boxes that overlap.

A region is split around one of the boxes that meet it.  The parts outside that box, on either side along each
dimension, are then split in the same way by the boxes that meet them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.plan.layers import LayerBoxes

__all__ = ["Box", "Overlap", "overlaps", "uncovered"]

Corner: TypeAlias = "tuple[int, ...]"


class Box(NamedTuple):
    """A region of indices."""

    lower: Corner
    upper: Corner

    @property
    def size(self) -> int:
        """Number of indices."""
        return prod(b - a for a, b in zip(self.lower, self.upper, strict=True))


class Overlap(NamedTuple):
    """Two boxes, by number, whose intersection is `box`; the later one hides the other."""

    below: int
    above: int
    box: Box


def uncovered(lower: Sequence[int], upper: Sequence[int], boxes: LayerBoxes) -> Iterator[Box]:
    """Yield disjoint boxes that make up the part of ``[lower, upper)`` outside all `boxes`."""
    first = Box(tuple(lower), tuple(upper))
    todo = [(first, boxes.meeting(first.lower, first.upper))]
    while todo:
        region, numbers = todo.pop()
        if not region.size:
            continue
        if not len(numbers):
            yield region
            continue
        lows = np.maximum(boxes.lower[numbers], region.lower)
        highs = np.minimum(boxes.upper[numbers], region.upper)
        sizes = (highs - lows).astype(float).prod(axis=1)
        largest = np.flatnonzero(sizes == sizes.max())
        chosen = int(largest[len(largest) // 2])  # a box in the middle leaves two halves
        low, high = lows[chosen].tolist(), highs[chosen].tolist()
        rest_low, rest_high = list(region.lower), list(region.upper)
        for dim in range(boxes.rank):
            for side in ("before", "after"):
                a, b = list(rest_low), list(rest_high)
                if side == "before":
                    b[dim] = low[dim]
                else:
                    a[dim] = high[dim]
                if a[dim] < b[dim]:
                    meets = _meeting(boxes, numbers, a, b)
                    todo.append((Box(tuple(a), tuple(b)), meets))
            rest_low[dim], rest_high[dim] = low[dim], high[dim]


def overlaps(boxes: LayerBoxes) -> Iterator[Overlap]:
    """Yield all pairs of boxes that overlap."""
    for number in range(len(boxes.lower)):
        lower, upper = boxes.lower[number], boxes.upper[number]
        if not (lower < upper).all():
            continue
        found = boxes.meeting(lower.tolist(), upper.tolist())
        for above in found[found > number].tolist():
            low = np.maximum(lower, boxes.lower[above])
            high = np.minimum(upper, boxes.upper[above])
            yield Overlap(number, above, Box(tuple(low.tolist()), tuple(high.tolist())))


def _meeting(
    boxes: LayerBoxes, numbers: npt.NDArray[np.int64], lower: list[int], upper: list[int]
) -> npt.NDArray[np.int64]:
    meets = (boxes.lower[numbers] < np.asarray(upper)) & (boxes.upper[numbers] > np.asarray(lower))
    return numbers[meets.all(axis=1)]
