"""Layers painted over each other: who is on top in each cell that a request touches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.errors import InvalidArgumentError
from chunkwise.index_space import IndexDomain
from chunkwise.plan.axis import PlanAxis
from chunkwise.plan.layer_cells import LayerCells
from chunkwise.plan.layers import LayerBoxes
from chunkwise.plan.layout import Layout
from chunkwise.plan.stack_part import HOLE, Leaf, StackPart
from chunkwise.plan.stack_runs import StridedRuns, cut, merge, place, runs_of

__all__ = ["painted"]


def painted(
    box: tuple[slice, ...],
    axes: Sequence[PlanAxis],
    layout: Layout,
    grid: LayerCells,
    boxes: LayerBoxes,
    numbers: npt.NDArray[np.int64],
    lowest: Sequence[int],
    itemsize: int,
    holes: bool,
) -> Iterator[StackPart]:
    owner = np.full([axis.n_entries for axis in axes], HOLE, np.int32)  # a position in `numbers`
    starts = [
        [grid.edges[dim][np.asarray(along)] for dim, along in zip(axis.dims, axis.cells, strict=True)]
        for axis in axes
    ]
    ranges: list[tuple[list[int], list[int]]] = []
    for axis, along in zip(axes, starts, strict=True):
        if not axis.indexed:
            (dim,), (first,) = axis.dims, along
            ranges.append(
                (
                    np.searchsorted(first, boxes.lower[numbers, dim]).tolist(),
                    np.searchsorted(first, boxes.upper[numbers, dim]).tolist(),
                )
            )
    indexed = any(axis.indexed for axis in axes)
    bounded: list[tuple[int, tuple[slice, ...]]] = []
    for i, number in enumerate(numbers.tolist()):
        if not indexed:
            bounds = tuple([slice(a[i], b[i]) for a, b in ranges])
            owner[bounds] = i
            bounded.append((i, bounds))
            continue
        masks = []
        for axis, along in zip(axes, starts, strict=True):
            if axis.indexed:
                lower, upper = boxes.lower[number], boxes.upper[number]
                inside = [
                    (first >= lower[dim]) & (first < upper[dim])
                    for dim, first in zip(axis.dims, along, strict=True)
                ]
                masks.append(np.flatnonzero(np.logical_and.reduce(inside)))
        slices = tuple(slice(a[i], b[i]) for a, b in ranges)
        where: Any = (*np.ix_(*masks), *slices, ...) if masks else (*slices, ...)
        owner[where] = i
        bounds = tuple(slice(int(m[0]), int(m[-1]) + 1) if len(m) else slice(0, 0) for m in masks)
        bounded.append((i, (*bounds, *slices)))
    if (owner == HOLE).any():
        if not holes:
            raise _missing(axes, owner, starts, boxes, lowest)
        bounded.append((HOLE, (slice(None),) * owner.ndim))
    strided = None if indexed else StridedRuns(axes, starts)
    leaf = Leaf(box, layout, strided)
    seen = np.bincount(owner.reshape(-1) + 1, minlength=len(numbers) + 1).tolist()  # of holes first
    layers = [*numbers.tolist(), HOLE]
    for i, bounds in bounded:
        if not seen[i + 1]:
            continue
        layer = layers[i]
        if strided is not None:
            if i >= 0 and seen[i + 1] == prod([s.stop - s.start for s in bounds]):
                yield StackPart(layer, leaf, bounds)  # all of it, as that of most layers
                continue
            for run in runs_of(owner[bounds] == i, tuple(s.start or 0 for s in bounds)):
                yield StackPart(layer, leaf, run)
            continue
        for run in runs_of(owner[bounds] == i, tuple(s.start or 0 for s in bounds)):
            merged = [merge(axis, along, s) for axis, along, s in zip(axes, starts, run, strict=True)]
            for pieces in product(*[cut(m, merged, itemsize) for m in merged]):
                yield StackPart(layer, leaf, place(pieces))


def _missing(
    axes: Sequence[PlanAxis],
    owner: npt.NDArray[np.int32],
    starts: Sequence[Sequence[npt.NDArray[np.int64]]],
    boxes: LayerBoxes,
    lowest: Sequence[int],
) -> InvalidArgumentError:
    """Return the error that names the first cell without a layer, and the hull of all of them."""
    missing = np.nonzero(owner == HOLE)
    origin, lower, upper = [0] * boxes.rank, [0] * boxes.rank, [0] * boxes.rank
    for axis, along, entries in zip(axes, starts, missing, strict=True):
        for k, dim in enumerate(axis.dims):

            def indices(i: int, k: int = k, axis: PlanAxis = axis, first: Any = along) -> list[int]:
                chunk = axis.chunk[i]
                part = chunk[k].reshape(-1) if axis.indexed else range(chunk.start, chunk.stop, chunk.step)
                return [int(first[k][i]) + int(x) for x in (part[0], min(part), max(part))]

            first = indices(int(entries[0]))[0]
            origin[dim] = boxes.edge_before(dim, first, lowest[dim])
            bounds = [indices(i) for i in np.unique(entries).tolist()]
            lower[dim] = min(lo for _, lo, _ in bounds)
            upper[dim] = max(hi for _, _, hi in bounds) + 1
    region = IndexDomain(inclusive_min=lower, exclusive_max=upper) if boxes.rank else "{  }"
    return InvalidArgumentError(
        f'Cell with origin={{{", ".join(map(str, origin))}}} missing layer mapping in "stack" driver '
        f"[domain='{region}']"
    )
