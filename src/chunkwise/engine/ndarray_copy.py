"""Reads and writes of an array in memory through an index transform.

Without index arrays that is one assignment between views.  With them it is done in blocks of points, so
that what NumPy copies on the way stays small.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.plan.ndarray_view import PointView, point_view, strided_view
from chunkwise.plan.partition import Transform

__all__ = ["read_ndarray", "write_ndarray"]

_BLOCK_NBYTES = 2**20


def read_ndarray(source: npt.NDArray[Any], transform: Transform, out: npt.NDArray[Any]) -> None:
    """Fill `out` with what `transform` selects of `source`."""
    # Besides the coordinates of points it takes 1 MiB at most.  The first element of `source` has index 0.
    if 0 in transform.input_shape:
        return
    view = strided_view(source, transform)
    if view is not None:
        out[...] = view
        return
    selection = point_view(source, transform)
    target = _in_order(out, selection, first=True)
    for block in _blocks(selection):
        target[block] = selection.view[_at(selection, block)]
    for dim in selection.unused:
        if out.shape[dim] > 1:
            before = (slice(None),) * dim
            out[(*before, slice(1, None))] = out[(*before, slice(0, 1))]


def write_ndarray(target: npt.NDArray[Any], transform: Transform, source: npt.NDArray[Any]) -> None:
    """Store `source` in the elements of `target` that `transform` selects."""
    # Of several values for one element the last, in C order of the domain, stays.  Besides the coordinates of
    # points it takes 1 MiB at most.  The first element of `target` has index 0.
    if 0 in transform.input_shape:
        return
    view = strided_view(target, transform)
    if view is not None:
        # An input that nothing depends on has a stride of 0 in `view`: its last value is the one that stays.
        used = {m.input_dimension for m in transform.output}
        last = tuple(slice(None) if d in used else slice(-1, None) for d in range(source.ndim))
        view[last] = source[last]
        return
    selection = point_view(target, transform)
    values = _in_order(source, selection, first=False)
    n_points = len(selection.inputs)
    for block in _blocks(selection):
        part = values[(*block, ...)]
        # A single dimension of points, for only there NumPy's order of assignment is certain.
        at = tuple(
            np.broadcast_to(points[_broadcast(points, block)], part.shape[:n_points]).reshape(-1)
            for points in selection.points
        )
        selection.view[at] = part.reshape(-1, *part.shape[n_points:])


def _in_order(array: npt.NDArray[Any], selection: PointView, *, first: bool) -> npt.NDArray[Any]:
    """Return `array` with the dimensions of the points in front, and one index of unused dimensions."""
    end = 0 if first else -1
    index = tuple(end if d in selection.unused else slice(None) for d in range(array.ndim))
    kept = [d for d in range(array.ndim) if d not in selection.unused]
    order = [kept.index(d) for d in (*selection.inputs, *selection.rest)]
    ordered: npt.NDArray[Any] = array[(*index, ...)].transpose(order)
    return ordered


def _blocks(selection: PointView) -> Iterator[tuple[Any, ...]]:
    """Yield slices of the dimensions of the points that together are all of them, in C order."""
    shape = np.broadcast_shapes(*[p.shape for p in selection.points])
    view = selection.view
    point_nbytes = view.itemsize * prod(view.shape[len(selection.points) :]) + 8 * len(selection.points)
    yield from _cut(shape, max(1, _BLOCK_NBYTES // max(1, point_nbytes)))


def _cut(shape: tuple[int, ...], n: int) -> Iterator[tuple[slice, ...]]:
    if not shape:
        yield ()
        return
    rest = prod(shape[1:])
    step = n // rest if rest else shape[0]
    if step:
        for start in range(0, shape[0], step):
            yield (slice(start, min(start + step, shape[0])), *[slice(None)] * (len(shape) - 1))
        return
    for i in range(shape[0]):
        for inner in _cut(shape[1:], n):
            yield (slice(i, i + 1), *inner)


def _at(selection: PointView, block: tuple[slice, ...]) -> tuple[npt.NDArray[np.int64], ...]:
    return tuple(points[_broadcast(points, block)] for points in selection.points)


def _broadcast(points: npt.NDArray[np.int64], block: tuple[slice, ...]) -> tuple[slice, ...]:
    """Return `block` for an array that has some of its dimensions with an extent of 1."""
    return tuple(slice(None) if n == 1 else s for n, s in zip(points.shape, block, strict=True))
