"""A batch of a plan as one box: which elements, and where they lie in the caller's array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy.typing as npt

from chunkwise.grid.protocol import ChunkGrid

__all__ = ["Region", "region_of"]


class Region(NamedTuple):
    """A box of elements without gaps.

    Attributes
    ----------
    start : tuple of int
        Its first element, in storage coordinates.
    at : tuple of slice
        Where it lies in the caller's array, in the order of the plan.
    """

    start: tuple[int, ...]
    at: tuple[slice, ...]

    def of(self, view: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the box of the caller's array, `view` being that in the order of the plan."""
        at: Any = (*self.at, ...)  # or one without dimensions would be an element
        return view[at]  # type: ignore[no-any-return]


class _Axis(Protocol):
    """What sets of chunks and of shards have in common."""

    def span(self, grid: ChunkGrid) -> tuple[int, slice] | None: ...


def region_of(axes: Sequence[_Axis], grid: ChunkGrid) -> Region | None:
    """Return the box that a batch is, None if it leaves elements out or has index arrays.

    Parameters
    ----------
    axes : sequence of PlanAxis or ShardAxis
    grid : ChunkGrid
        The grid of the chunks, for shards that of the inner ones.
    """
    spans = [axis.span(grid) for axis in axes]
    known = [span for span in spans if span is not None]
    if len(known) < len(spans):
        return None
    return Region(tuple(start for start, _ in known), tuple(at for _, at in known))
