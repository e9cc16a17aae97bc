"""The topmost layer in each cell that a request touches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.core.index_space import IndexDomain
from chunkwise.core.plan.axis import PlanAxis, is_indexed
from chunkwise.core.plan.layer_requests import (
    NO_LAYER,
    LayerRequest,
    LayerRequests,
    Region,
    Run,
    cut,
    joined_request,
)
from chunkwise.core.plan.layers import LayerBoxes, LayerCells
from chunkwise.core.plan.partition import Layout
from chunkwise.errors import InvalidArgumentError

__all__ = ["resolve_topmost"]

Numbers = npt.NDArray[np.int64]


def resolve_topmost(
    box: tuple[slice, ...],
    axes: Sequence[PlanAxis],
    layout: Layout,
    grid: LayerCells,
    boxes: LayerBoxes,
    numbers: Numbers,
    lowest: Sequence[int],
    itemsize: int,
    holes: bool,
) -> Iterator[LayerRequest | LayerRequests]:
    """Yield the visible parts of layers in one region of a request, which is divided into cells."""

    def check() -> None:
        if not holes and (owner == NO_LAYER).any():
            raise _missing(axes, owner, starts, boxes, lowest)

    owner = np.full([axis.n_entries for axis in axes], NO_LAYER, np.int32)  # a position in `numbers`
    starts = [
        [grid.edges[dim][np.asarray(along)] for dim, along in zip(axis.dims, axis.cells, strict=True)]
        for axis in axes
    ]
    if not is_indexed(axes):
        runs = _resolve_boxes(owner, axes, starts, boxes, numbers)
        check()
        layers, runs = _seen(owner, runs, numbers)
        yield LayerRequests(Region(box, layout, False), axes, starts, layers, runs)
        return
    bounded = _resolve_indexed(owner, axes, starts, boxes, numbers)
    check()
    region = Region(box, layout, True)
    seen = np.bincount(owner.reshape(-1) + 1, minlength=len(numbers) + 1).tolist()  # holes first
    names = [*numbers.tolist(), NO_LAYER]
    for i, bounds in [*bounded, (NO_LAYER, (slice(None),) * owner.ndim)]:
        if not seen[i + 1]:
            continue
        for run in _runs_of(owner[bounds] == i, tuple(s.start or 0 for s in bounds)):
            joined = [
                Run.of(axis, along, s.start, s.stop) for axis, along, s in zip(axes, starts, run, strict=True)
            ]
            for pieces in product(*[cut(part, joined, itemsize) for part in joined]):
                yield LayerRequest(names[i], region, *joined_request(pieces))


def _resolve_boxes(
    owner: npt.NDArray[np.int32],
    axes: Sequence[PlanAxis],
    starts: Sequence[Sequence[Numbers]],
    boxes: LayerBoxes,
    numbers: Numbers,
) -> Numbers:
    """Resolve without index arrays; return the entries of each layer, of shape ``(n, rank, 2)``."""
    lowers, uppers = boxes.lower, boxes.upper
    if len(numbers) < len(lowers):
        lowers, uppers = lowers[numbers], uppers[numbers]
    runs = np.empty((2, len(axes), len(numbers)), np.int64).transpose(2, 1, 0)
    for i, (axis, along) in enumerate(zip(axes, starts, strict=True)):
        (dim,), (first,) = axis.dims, along
        runs[:, i, 0] = np.searchsorted(first, lowers[:, dim])
        runs[:, i, 1] = np.searchsorted(first, uppers[:, dim])
    if owner.ndim and (runs[..., 1] - runs[..., 0] == 1).all():  # like most mosaics
        cells = np.ravel_multi_index(tuple(runs[..., 0].T), owner.shape)
        owner.reshape(-1)[cells] = np.arange(len(numbers))  # with equal indices the last one wins
        return runs
    for i, run in enumerate(runs.tolist()):
        owner[tuple([slice(a, b) for a, b in run])] = i
    return runs


def _seen(owner: npt.NDArray[np.int32], runs: Numbers, numbers: Numbers) -> tuple[Numbers, Numbers]:
    """Return the visible parts of layers, and the holes: layer numbers, and a box of entries for each."""
    seen = np.bincount(owner.reshape(-1) + 1, minlength=len(numbers) + 1)
    n_holes, seen = int(seen[0]), seen[1:]
    size = runs[..., 1] - runs[..., 0]
    whole = (seen > 0) & (seen == np.multiply.reduce(size.T))  # like most layers
    if whole.all() and not n_holes:
        return numbers, runs
    found: list[tuple[int, tuple[slice, ...]]] = []
    if n_holes:
        found += ((NO_LAYER, run) for run in _runs_of(owner == NO_LAYER, (0,) * owner.ndim))
    for i in np.flatnonzero((seen > 0) & ~whole).tolist():
        bounds = tuple([slice(a, b) for a, b in runs[i].tolist()])
        mask = owner[bounds] == i
        found += ((int(numbers[i]), run) for run in _runs_of(mask, tuple([s.start for s in bounds])))
    layers, runs = numbers[whole], runs[whole]
    if found:
        layers = np.concatenate([layers, [layer for layer, _ in found]])
        more = [[(s.start, s.stop) for s in run] for _, run in found]
        runs = np.concatenate([runs, np.asarray(more, np.int64).reshape(len(found), *runs.shape[1:])])
        order = np.argsort(layers, kind="stable")
        layers, runs = layers[order], runs[order]
    return layers, runs


def _runs_of(mask: npt.NDArray[np.bool_], origin: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Yield boxes that cover the True elements; equal neighbours are joined, the slowest dimension first."""
    if not mask.ndim:
        yield ()
        return
    (first,), rest = origin[:1], origin[1:]
    if mask.all():
        yield tuple([slice(o, o + n) for o, n in zip(origin, mask.shape, strict=True)])
        return
    if mask.ndim == 1:
        edges = np.flatnonzero(np.diff(mask, prepend=False, append=False)) + first
        yield from ((slice(a, b),) for a, b in edges.reshape(-1, 2).tolist())
        return
    changes = (mask[1:] != mask[:-1]).any(axis=tuple(range(1, mask.ndim)))
    cuts = [0, *(np.flatnonzero(changes) + 1).tolist(), len(mask)]
    for start, stop in pairwise(cuts):
        if mask[start].any():
            for inner in _runs_of(mask[start], rest):
                yield (slice(first + start, first + stop), *inner)


def _resolve_indexed(
    owner: npt.NDArray[np.int32],
    axes: Sequence[PlanAxis],
    starts: Sequence[Sequence[Numbers]],
    boxes: LayerBoxes,
    numbers: Numbers,
) -> list[tuple[int, tuple[slice, ...]]]:
    """Resolve if some entries are index arrays; return a box around the entries of each layer."""
    bounded = []
    for i, number in enumerate(numbers.tolist()):
        lower, upper = boxes.lower[number], boxes.upper[number]
        masks: list[Numbers] = []
        slices: list[slice] = []
        for axis, along in zip(axes, starts, strict=True):
            if axis.indexed:
                inside = [
                    (first >= lower[dim]) & (first < upper[dim])
                    for dim, first in zip(axis.dims, along, strict=True)
                ]
                masks.append(np.flatnonzero(np.logical_and.reduce(inside)))
            else:
                (dim,), (first,) = axis.dims, along
                slices.append(slice(*np.searchsorted(first, (lower[dim], upper[dim])).tolist()))
        where: Any = (*np.ix_(*masks), *slices, ...)
        owner[where] = i
        bounds = [slice(int(m[0]), int(m[-1]) + 1) if len(m) else slice(0, 0) for m in masks]
        bounded.append((i, (*bounds, *slices)))
    return bounded


def _missing(
    axes: Sequence[PlanAxis],
    owner: npt.NDArray[np.int32],
    starts: Sequence[Sequence[npt.NDArray[np.int64]]],
    boxes: LayerBoxes,
    lowest: Sequence[int],
) -> InvalidArgumentError:
    """Return the error that names the first cell without a layer, and the hull of all of them."""
    missing = np.nonzero(owner == NO_LAYER)
    origin, lower, upper = [0] * boxes.rank, [0] * boxes.rank, [0] * boxes.rank
    for axis, along, entries in zip(axes, starts, missing, strict=True):
        for k, dim in enumerate(axis.dims):

            def indices(i: int, k: int = k, axis: PlanAxis = axis, first: Any = along) -> list[int]:
                chunk = axis.chunk[i]
                part = chunk[k].reshape(-1) if axis.indexed else range(chunk.start, chunk.stop, chunk.step)
                return [int(first[k][i]) + int(x) for x in (part[0], min(part), max(part))]

            first = indices(int(entries[0]))[0]
            origin[dim] = boxes.edge_before(dim, first, lowest[dim])
            bounds = [indices(i) for i in sorted(set(entries.tolist()))]
            lower[dim] = min(lo for _, lo, _ in bounds)
            upper[dim] = max(hi for _, _, hi in bounds) + 1
    region = IndexDomain(inclusive_min=lower, exclusive_max=upper) if boxes.rank else "{  }"
    return InvalidArgumentError(
        f'Cell with origin={{{", ".join(map(str, origin))}}} missing layer mapping in "stack" driver '
        f"[domain='{region}']"
    )
