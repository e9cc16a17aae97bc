"""The layers of a stack that meet a region, and the part of a request that falls to each.

The boxes are sorted by their lower bounds along the dimension that separates them best, and the largest upper
bound so far is kept for each.  The boxes that can meet an interval are consecutive in that order.

To find what boxes leave uncovered, and boxes that overlap, a region is split around one of the boxes that
meet it.  The parts outside that box, on either side along each dimension, are then split in the same way by
the boxes that meet them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.cached import cached_property
from chunkwise.core.index_space import IndexDomain, IndexTransform, OutputIndexMap
from chunkwise.core.index_space.output_map import single_map
from chunkwise.core.plan.partition import Layout, PlanAxis

__all__ = [
    "NO_LAYER",
    "Box",
    "LayerBoxes",
    "LayerCells",
    "LayerRequest",
    "LayerRequests",
    "Overlap",
    "Region",
    "Run",
    "cut",
    "joined_request",
    "overlaps",
    "uncovered",
]

Numbers = npt.NDArray[np.int64]

_FAR = 2**62


class LayerBoxes:
    """Boxes in index space, numbered from 0; an empty box meets nothing."""

    __slots__ = ("_all_meet", "_dim", "_edges", "_highest", "_lowest", "_order", "lower", "rank", "upper")

    def __init__(self, lower: Sequence[Sequence[int]], upper: Sequence[Sequence[int]], rank: int) -> None:
        self.rank = rank
        # Bounds along one dimension are adjacent in memory, since they are searched by dimension.
        self.lower: Numbers = np.asfortranarray(np.asarray(lower, np.int64).reshape(len(lower), rank))
        self.upper: Numbers = np.asfortranarray(np.asarray(upper, np.int64).reshape(len(lower), rank))
        self._edges: list[Numbers | None] = [None] * rank
        distinct = [len(_distinct(self.lower[:, d])) for d in range(rank)]
        self._dim = max(range(rank), key=distinct.__getitem__) if rank else 0
        if not rank:
            return
        order = np.argsort(self.lower[:, self._dim], kind="stable")
        self._order = order[(self.lower < self.upper)[order].all(axis=1)]  # except empty ones
        self._lowest = self.lower[self._order, self._dim]
        # An interval that begins before the one and ends after the other meets all boxes along a dimension.
        last, first = self.lower.max(axis=0, initial=-_FAR), self.upper.min(axis=0, initial=_FAR)
        self._all_meet = list(zip(last.tolist(), first.tolist(), strict=True))
        self._highest = np.maximum.accumulate(self.upper[self._order, self._dim])

    def meeting(self, lower: Sequence[int], upper: Sequence[int]) -> Numbers:
        """Return the numbers of the boxes that have an index in common with ``[lower, upper)``, ascending."""
        if not self.rank:
            return np.arange(len(self.lower))
        stop = int(np.searchsorted(self._lowest, upper[self._dim], "left"))
        start = int(np.searchsorted(self._highest, lower[self._dim], "right"))
        run = np.sort(self._order[start:stop])
        for d, (last, first) in enumerate(self._all_meet):
            if lower[d] < first and last < upper[d]:
                continue
            meets = (self.lower[run, d] < upper[d]) & (self.upper[run, d] > lower[d])
            if not meets.all():
                run = run[meets]
        return run

    def edges(self, dim: int) -> Numbers:
        """Return all bounds of boxes along `dim`, ascending, each once."""
        edges = self._edges[dim]
        if edges is None:
            edges = self._edges[dim] = _distinct(np.concatenate([self.lower[:, dim], self.upper[:, dim]]))
        return edges

    def edge_before(self, dim: int, index: int, lowest: int) -> int:
        """Return the greatest bound of a box along `dim` that is at most `index`, or else `lowest`."""
        edges = self.edges(dim)
        place = int(np.searchsorted(edges, index, "right"))
        return int(edges[place - 1]) if place else lowest


class LayerCells:
    """Cells that each lie wholly inside or outside every layer."""

    chunk_shape = None

    def __init__(
        self, boxes: LayerBoxes, numbers: npt.NDArray[np.int64], lower: list[int], upper: list[int]
    ) -> None:
        self.edges: list[npt.NDArray[np.int64]] = []
        for d, (lo, hi) in enumerate(zip(lower, upper, strict=True)):
            if len(numbers) == len(boxes.lower):
                edges = boxes.edges(d)
            else:
                edges = np.concatenate([boxes.lower[numbers, d], boxes.upper[numbers, d]])
                edges.sort()
                edges = edges[np.diff(edges, prepend=lo) > 0]
            inside = edges[np.searchsorted(edges, lo, "right") : np.searchsorted(edges, hi, "left")]
            self.edges.append(np.concatenate([[lo], inside, [hi]]))
        self._lists = [edges.tolist() for edges in self.edges]

    def cell(self, dim: int, index: int) -> tuple[int, int, int]:
        number = bisect_right(self._lists[dim], index) - 1
        return (number, *self.bounds(dim, number))

    def cells(self, dim: int, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.searchsorted(self.edges[dim], indices, "right") - 1

    def bounds(self, dim: int, cell: int) -> tuple[int, int]:
        edges = self._lists[dim]
        return edges[cell], edges[cell + 1]


def _distinct(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the distinct `numbers` in order."""
    # Not numpy.unique: its first call loads numpy.ma, which takes as long as reading a hundred layers.
    ordered = np.sort(numbers)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))] if len(ordered) else ordered


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


Array = npt.NDArray[Any]
Bounds: TypeAlias = tuple[Numbers, Numbers, Numbers]

NO_LAYER = -1
"""Marks cells without a layer."""

# Elements selected by index arrays are read into a buffer and scattered from there. 4,000,000 of them in 16
# layers take 146 ms with 256 KiB, 62 ms with 1 MiB, 51 to 54 ms with 4 to 128 MiB.
_POINTS_NBYTES = 4 << 20


class Region(NamedTuple):
    """A region of a request in which the topmost layers are resolved at once."""

    box: tuple[slice, ...]  # the part of the caller's array
    # the order in which the parts see it; None if it belongs to one layer and is seen unchanged
    layout: Layout | None
    indexed: bool  # True if its elements are scattered by index arrays

    @property
    def index(self) -> Any:
        """Index of the region in the caller's array."""
        return (*self.box, ...)

    def view(self, array: Array, *, last: bool = False) -> Array:
        """Return the caller's array as the parts see it; see `Layout.view` for `last`."""
        part = array[self.index]
        return part if self.layout is None else self.layout.view(part, last=last)

    def finish(self, array: Array) -> None:
        """Repeat the data read along dimensions that nothing depends on."""
        if self.layout is not None:
            self.layout.broadcast(array[self.index])


class LayerRequest(NamedTuple):
    """The part of a request that falls to one layer."""

    layer: int  # the layer's number, or `NO_LAYER`
    region: Region  # the region of the request that it belongs to
    request: IndexTransform  # transform into the stack
    at: tuple[Any, ...]  # index of its elements in `Region.view`


class LayerRequests:
    """Parts of one region without index arrays, perhaps thousands."""

    # `runs`, of shape ``(n, rank, 2)``, are the entries of `axes` of each part, and `starts` the first
    # indices of their cells; layers ascend.

    def __init__(
        self,
        region: Region,
        axes: Sequence[PlanAxis],
        starts: Sequence[Sequence[Numbers]],
        layers: Numbers,
        runs: Numbers,
    ) -> None:
        self.region = region
        self.layers = layers
        self._axes = axes
        self._starts = starts
        self._runs = runs

    @cached_property
    def bounds(self) -> Bounds | None:
        """First indices in the stack and bounds in the view, each ``(n, rank)``; None with steps."""
        if any(axis.chunk[0].step != 1 for axis in self._axes):
            return None
        first, start, stop = (np.empty(self._runs.shape[:2], np.int64) for _ in range(3))
        for i, (axis, (along,)) in enumerate(zip(self._axes, self._starts, strict=True)):
            begin, end = self._runs[:, i].T
            first[:, i] = (along + [chunk.start for chunk in axis.chunk])[begin]
            start[:, i] = np.array([out.start for out in axis.out])[begin]
            stop[:, i] = np.array([out.stop for out in axis.out])[end - 1]
        return first, start, stop

    def parts(self, numbers: Iterable[int] | None = None) -> Iterator[LayerRequest]:
        """Yield some of the parts, by default all."""
        for i in range(len(self.layers)) if numbers is None else numbers:
            runs = [
                Run.of(axis, along, a, b)
                for axis, along, (a, b) in zip(self._axes, self._starts, self._runs[i].tolist(), strict=True)
            ]
            yield LayerRequest(int(self.layers[i]), self.region, *joined_request(runs))


class Run(NamedTuple):
    """Adjacent entries of a connected set, joined."""

    dims: tuple[int, ...]
    # for each of `dims`, indices of the elements in the stack: a range or an array
    coordinates: tuple[Any, ...]
    out: Any  # their indices in the caller's array: a slice, or index arrays
    indexed: bool  # True if `coordinates` and `out` are index arrays

    @property
    def n(self) -> int:
        return len(self.coordinates[0])

    @classmethod
    def of(cls, axis: PlanAxis, starts: Sequence[Numbers], begin: int, end: int) -> Run:
        """Join the entries from `begin` to before `end`."""
        if not axis.indexed:
            chunk, out = axis.chunk[begin], slice(axis.out[begin].start, axis.out[end - 1].stop)
            first = int(starts[0][begin]) + chunk.start
            along = range(first, first + (out.stop - out.start - 1) * chunk.step + 1, chunk.step)
            return cls(axis.dims, (along,), out, False)
        coordinates = tuple(
            np.concatenate([starts[k][i] + axis.chunk[i][k].reshape(-1) for i in range(begin, end)])
            for k in range(len(axis.dims))
        )
        parts = zip(*axis.out[begin:end], strict=True)
        return cls(
            axis.dims, coordinates, tuple(np.concatenate([x.reshape(-1) for x in p]) for p in parts), True
        )


def cut(run: Run, runs: Sequence[Run], itemsize: int) -> Iterator[Run]:
    """Yield an indexed run in pieces of limited size; a slice as it is."""
    if not run.indexed:
        yield run
        return
    others = prod(r.n for r in runs if r is not run)
    length = max(1, _POINTS_NBYTES // max(1, others * itemsize))
    for start in range(0, run.n, length):
        piece = slice(start, start + length)
        yield run._replace(
            coordinates=tuple(c[piece] for c in run.coordinates), out=tuple(o[piece] for o in run.out)
        )


def joined_request(runs: Sequence[Run]) -> tuple[IndexTransform, tuple[Any, ...]]:
    """Return the request for the product of runs, and the index of its elements in the view."""
    rank = len(runs)
    output: dict[int, OutputIndexMap] = {}
    at: list[Any] = []
    n_indexed = sum(run.indexed for run in runs)
    for i, run in enumerate(runs):
        for dim, along in zip(run.dims, run.coordinates, strict=True):
            if run.indexed:
                output[dim] = OutputIndexMap(along.reshape([-1 if k == i else 1 for k in range(rank)]))
            else:
                output[dim] = single_map(along.start, along.step, i)
        if run.indexed:
            at += [o.reshape([-1 if k == i else 1 for k in range(n_indexed)]) for o in run.out]
        else:
            at.append(run.out)
    domain = IndexDomain._of_shape([run.n for run in runs])
    return IndexTransform._make(domain, tuple([output[dim] for dim in sorted(output)])), (*at, ...)
