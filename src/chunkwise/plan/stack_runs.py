"""Runs of neighbouring cells of one layer, and the request for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.index_space import IndexDomain, IndexTransform, OutputIndexMap
from chunkwise.index_space.output_map import single_map
from chunkwise.plan.axis import PlanAxis

__all__ = ["Bounds", "Run", "StridedRuns", "cut", "joined_request", "merge", "runs_of"]

Numbers = npt.NDArray[np.int64]
Bounds: TypeAlias = tuple[Numbers, Numbers, Numbers]
"""Of many parts: where they begin in the stack, where they begin and end in the view, each ``(n, rank)``."""

_POINTS_NBYTES = 4 << 20


def runs_of(mask: npt.NDArray[np.bool_], origin: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Yield boxes that together are what is true: equal neighbours are joined, the slowest first."""
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
            for inner in runs_of(mask[start], rest):
                yield (slice(first + start, first + stop), *inner)


class Run(NamedTuple):
    """Neighbouring entries of a connected set, put together."""

    dims: tuple[int, ...]
    # for each of `dims`, indices of the elements in the stack: a range or an array
    coordinates: tuple[Any, ...]
    out: Any  # their place in the caller's array: a slice, or index arrays
    indexed: bool  # True if `coordinates` and `out` are index arrays

    @property
    def n(self) -> int:
        return len(self.coordinates[0])


def merge(axis: PlanAxis, starts: Sequence[npt.NDArray[np.int64]], run: slice) -> Run:
    if not axis.indexed:
        chunk, out = axis.chunk[run.start], axis.out[run.start]
        first = int(starts[0][run.start]) + chunk.start
        n = axis.out[run.stop - 1].stop - out.start
        along = range(first, first + (n - 1) * chunk.step + 1, chunk.step)
        return Run(axis.dims, (along,), slice(out.start, out.start + n), False)
    numbers = range(run.start, run.stop)
    coordinates = tuple(
        np.concatenate([starts[k][i] + axis.chunk[i][k].reshape(-1) for i in numbers])
        for k in range(len(axis.dims))
    )
    n_outs = len(axis.out[run.start])
    out = tuple(np.concatenate([axis.out[i][k].reshape(-1) for i in numbers]) for k in range(n_outs))
    return Run(axis.dims, coordinates, out, True)


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
    rank = len(runs)
    output: dict[int, OutputIndexMap] = {}
    at: list[Any] = []
    n_indexed = sum(run.indexed for run in runs)
    for i, run in enumerate(runs):
        for dim, along in zip(run.dims, run.coordinates, strict=True):
            if isinstance(along, range):
                output[dim] = OutputIndexMap(input_dimension=i, offset=along.start, stride=along.step)
            else:
                output[dim] = OutputIndexMap(along.reshape([-1 if k == i else 1 for k in range(rank)]))
        if run.indexed:
            at += [o.reshape([-1 if k == i else 1 for k in range(n_indexed)]) for o in run.out]
        else:
            at.append(run.out)
    domain = IndexDomain(shape=[run.n for run in runs])
    request = IndexTransform(domain, [output[dim] for dim in sorted(output)])
    return request, (*at, ...)


class StridedRuns:
    """The entries of connected sets without index arrays, for parts by the ten thousand."""

    def __init__(self, axes: Sequence[PlanAxis], starts: Sequence[Sequence[npt.NDArray[np.int64]]]) -> None:
        self._axes = [
            (
                (along[0] + [chunk.start for chunk in axis.chunk]).tolist(),
                axis.chunk[0].step,
                [out.start for out in axis.out],
                [out.stop for out in axis.out],
            )
            for axis, along in zip(axes, starts, strict=True)
        ]

    def bounds(self, runs: Numbers) -> Bounds | None:
        """Return first indices, and bounds in the view, of shape ``(n, rank)``; None if there are steps."""
        # `runs`, of shape ``(n, rank, 2)``, are the entries of each part.
        if any(step != 1 for _, step, _, _ in self._axes):
            return None
        first, start, stop = (np.empty(runs.shape[:2], np.int64) for _ in range(3))
        for i, (firsts, _, out, stops) in enumerate(self._axes):
            begin = runs[:, i, 0]
            first[:, i] = np.asarray(firsts)[begin]
            start[:, i] = np.asarray(out)[begin]
            stop[:, i] = np.asarray(stops)[runs[:, i, 1] - 1]
        return first, start, stop

    def part(self, run: tuple[slice, ...]) -> tuple[IndexTransform, tuple[Any, ...]]:
        """Return the request for neighbouring entries, and their index in the view."""
        shape, output = [], []
        at: list[Any] = []
        for i, (entries, (firsts, step, out, stops)) in enumerate(zip(run, self._axes, strict=True)):
            start, stop = out[entries.start], stops[entries.stop - 1]
            shape.append(stop - start)
            at.append(slice(start, stop))
            output.append(single_map(firsts[entries.start], step, i))
        return IndexTransform._make(IndexDomain._of_shape(shape), tuple(output)), (*at, ...)
