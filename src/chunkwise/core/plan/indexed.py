"""Connected sets that are not one slice: index arrays, masks, diagonals.

1. The storage coordinates of all points of the set are computed, one array for each storage dimension.
2. So are their cells, joined into one number for each point.
3. A stable sort brings the points of a cell together, in the order of the request.  So of several values for
   one element the last is written, as in NumPy.
4. The runs of equal numbers are the entries; their index arrays are views of the sorted coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.grid.protocol import ChunkGrid
from chunkwise.core.plan.axis import PlanAxis

__all__ = ["indexed_axis", "sliced"]

Indices: TypeAlias = "npt.NDArray[np.int64]"


def indexed_axis(
    grid: ChunkGrid,
    dims: Sequence[int],
    coordinates: Sequence[Indices],
    input_shape: tuple[int, ...],
    *,
    position: int,
    n_sets: int,
    check_cover: bool,
) -> PlanAxis:
    """Partition points by the cells that they lie in."""
    # For each of `dims`, `coordinates` has the storage coordinate of each point; it is broadcast to
    # `input_shape`. `position` says which of the `n_sets` indexed sets of the plan this is, and so the shape
    # of the index arrays.
    flat = [np.broadcast_to(along, input_shape).ravel() for along in coordinates]
    cells = [grid.cells(dim, along) for dim, along in zip(dims, flat, strict=True)]
    order, starts = _group(cells)
    stops = np.append(starts[1:], len(order))
    counts = stops - starts

    entry_cells, entry_extents, inside = [], [], []
    for dim, along, cell in zip(dims, flat, cells, strict=True):
        found = cell[order[starts]]
        numbers = found.tolist()
        entry_cells.append(tuple(numbers))
        if grid.chunk_shape is not None:
            begins = found * grid.chunk_shape[dim]
            entry_extents.append((grid.chunk_shape[dim],) * len(numbers))
        else:
            known = {number: grid.bounds(dim, number) for number in set(numbers)}
            bounds = np.array([known[number] for number in numbers], np.int64)
            begins = bounds[:, 0]
            entry_extents.append(tuple((bounds[:, 1] - begins).tolist()))
        inside.append(along[order] - np.repeat(begins, counts))
    where = np.unravel_index(order, input_shape)

    shape = [1] * n_sets
    shape[position] = -1
    runs = list(map(slice, starts.tolist(), stops.tolist()))
    chunk = _pieces(inside, runs, shape)
    out = _pieces(where, runs, shape)
    whole = (False,) * len(runs)
    if check_cover:
        extents = list(zip(*entry_extents, strict=True))
        whole = tuple(map(_covers, chunk, extents))
    return PlanAxis(tuple(dims), tuple(entry_cells), tuple(entry_extents), chunk, out, whole, True)


def sliced(axis: PlanAxis) -> PlanAxis:
    """Return an indexed set of one dimension with slices instead, if each of its entries is a slice."""
    # Single elements, and neighbours that are requested in order, such as samples and sorted indices, are
    # then copied without index arrays, and whole chunks are decoded in place.
    chunk, out = [], []
    for (inside,), (place,) in zip(axis.chunk, axis.out, strict=True):
        n = inside.size
        first, start = inside.item(0), place.item(0)
        if n > 1 and not (_ascends(inside, first, n) and _ascends(place, start, n)):
            return axis
        chunk.append(slice(first, first + n))
        out.append(slice(start, start + n))
    whole = tuple([s.stop - s.start == n for s, n in zip(chunk, axis.extents[0], strict=True)])
    return axis._replace(chunk=tuple(chunk), out=tuple(out), whole=whole, indexed=False)


def _ascends(numbers: Indices, first: int, n: int) -> bool:
    """Return True if `numbers` are ``range(first, first + n)``."""
    last = int(numbers.flat[n - 1])
    return last - first == n - 1 and bool((numbers.reshape(-1) == np.arange(first, first + n)).all())


def _pieces(arrays: Sequence[Indices], runs: list[slice], shape: list[int]) -> tuple[Any, ...]:
    pieces: list[list[Indices]] = [list(map(along.__getitem__, runs)) for along in arrays]
    if len(shape) > 1:
        pieces = [[piece.reshape(shape) for piece in along] for along in pieces]
    return tuple(zip(*pieces, strict=True))


def _group(cells: list[Indices]) -> tuple[Indices, Indices]:
    """Return the order that brings equal cells together, and the start of each group in it."""
    number = np.zeros(cells[0].size, np.int64)
    n_numbers = 1
    for along in cells:
        low = int(along.min())
        span = int(along.max()) - low + 1
        if n_numbers * span >= 2**62:  # too sparse to be numbered directly
            along = np.unique(along, return_inverse=True)[1].reshape(-1)
            number = np.unique(number, return_inverse=True)[1].reshape(-1)
            low, span, n_numbers = 0, int(along.max()) + 1, int(number.max()) + 1
        number = number * span + (along - low)
        n_numbers *= span
    # NumPy sorts small numbers in linear time
    order = np.argsort(number.astype(np.uint16) if n_numbers <= 2**16 else number, kind="stable")
    ordered = number[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return order, starts


def _covers(inside: tuple[Indices, ...], extents: tuple[int, ...]) -> bool:
    n_elements = prod(extents)
    if inside[0].size < n_elements:
        return False
    places = np.ravel_multi_index(tuple(along.ravel() for along in inside), extents)
    places.sort()
    return bool(np.count_nonzero(places[1:] != places[:-1]) + 1 == n_elements)
