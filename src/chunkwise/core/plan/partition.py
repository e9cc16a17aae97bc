"""From an index transform and a grid to a plan: find the connected sets and partition each.

Input and storage dimensions that depend on each other through the output index maps form a *connected
set*.  Each set is partitioned alone, and the touched chunks are the outer product of the sets, so
planning costs the sum of the chunks along the dimensions and not their product.

1. An output index map that depends on no input dimension, or through an index array only on dimensions of
   size 1, is a constant: a slice of one element.
2. Storage dimensions whose maps share an input dimension belong to one set.
3. A set of one storage dimension with an affine map is a slice; any other is turned into points.

The caller's array is transposed and reversed once (``Layout``), instead of for each chunk.

Connected sets that are not one slice: index arrays, masks, diagonals.

1. The storage coordinates of all points of the set are computed, one array for each storage dimension.
2. So are their cells, joined into one number for each point.
3. A stable sort brings the points of a cell together, in the order of the request.  So of several values for
   one element the last is written, as in NumPy.
4. The runs of equal numbers are the entries; their index arrays are views of the sorted coordinates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.grid import PlanGrid

__all__ = [
    "Layout",
    "OutputMap",
    "PlanAxis",
    "Transform",
    "in_storage_order",
    "is_indexed",
    "partition",
    "repeat_first",
]


class PlanAxis(NamedTuple):
    """A connected set: parallel tuples with one entry for each group of cells that it touches."""

    dims: tuple[int, ...]  # storage dimensions of the set, ascending
    cells: tuple[tuple[int, ...], ...]  # for each of `dims`, the position in the grid of each entry
    # for each of `dims`, the size of the cell of each entry, in elements
    extents: tuple[tuple[int, ...], ...]
    # selections inside the chunk: slices, or tuples of index arrays that broadcast to the product of the sets
    chunk: tuple[Any, ...]
    out: tuple[Any, ...]  # the same in the result, seen through `Layout.view`
    # True if the whole chunk is selected along these dimensions, so that it may be decoded in place or
    # overwritten
    whole: tuple[bool, ...]
    indexed: bool  # True if `chunk` and `out` hold tuples of index arrays, not slices

    @property
    def n_entries(self) -> int:
        """Number of groups of cells."""
        return len(self.whole)

    def take(self, entries: slice) -> PlanAxis:
        """Return the set with some of its entries only."""
        cells: tuple[tuple[int, ...], ...]
        extents: tuple[tuple[int, ...], ...]
        if len(self.dims) == 1:
            cells, extents = (self.cells[0][entries],), (self.extents[0][entries],)
        else:
            cells = tuple([along[entries] for along in self.cells])
            extents = tuple([along[entries] for along in self.extents])
        return PlanAxis(
            self.dims,
            cells,
            extents,
            self.chunk[entries],
            self.out[entries],
            self.whole[entries],
            self.indexed,
        )


def is_indexed(axes: Iterable[PlanAxis]) -> bool:
    """Return True if there are index arrays in a product of sets."""
    for axis in axes:  # noqa: SIM110 - a generator is resumed for each set
        if axis.indexed:
            return True
    return False


def _strided_axis(grid: PlanGrid, dim: int, offset: int, stride: int, size: int) -> PlanAxis:
    """Partition ``offset + stride * i``, for i in ``[0, size)``, by the cells of `grid` along `dim`."""
    # `stride` is positive: the layout of the result turns a negative one around, once.  A cell that the
    # stride skips has no entry.
    cells, extents, chunk, out, whole = [], [], [], [], []
    i = 0
    while i < size:
        first = offset + stride * i
        cell, start, stop = grid.cell(dim, first)
        n = min((stop - first + stride - 1) // stride, size - i)
        first -= start
        extent = stop - start
        cells.append(cell)
        extents.append(extent)
        chunk.append(slice(first, first + (n - 1) * stride + 1, stride))
        out.append(slice(i, i + n))
        whole.append(n == extent)
        i += n
    return PlanAxis((dim,), (tuple(cells),), (tuple(extents),), tuple(chunk), tuple(out), tuple(whole), False)


Indices: TypeAlias = "npt.NDArray[np.int64]"


def _indexed_axis(
    grid: PlanGrid,
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


def _sliced(axis: PlanAxis) -> PlanAxis:
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


class Layout(NamedTuple):
    """Converts an array in the order of the request to one in the order of the plan."""

    # for each axis of the view, its input dimension; None for a constant, of size 1
    input_dims: tuple[int | None, ...]
    flipped: frozenset[int]  # input dimensions that are read backwards
    n_inputs: int  # rank of the request

    def view(self, array: np.ndarray[Any, Any], *, last: bool = False) -> np.ndarray[Any, Any]:
        """Return a view of `array`, which has the shape of the request, in the order of the plan."""
        # An input dimension that nothing depends on is represented by its first element, or its `last`.
        used = set(self.input_dims)
        index: list[Any] = []
        for dim in range(self.n_inputs):
            if dim not in used:
                index.append(-1 if last else 0)
            else:
                index.append(slice(None, None, -1) if dim in self.flipped else slice(None))
        kept = sorted([dim for dim in used if dim is not None])
        order = [kept.index(dim) for dim in self.input_dims if dim is not None]
        expand = [None if dim is None else slice(None) for dim in self.input_dims]
        # the ellipses keep an array of rank 0 an array
        viewed: np.ndarray[Any, Any] = array[(*index, ...)].transpose(order)[(*expand, ...)]
        return viewed

    def broadcast(self, array: np.ndarray[Any, Any]) -> None:
        """Repeat the data read into the first element of each dimension that nothing depends on."""
        used = set(self.input_dims)
        repeat_first(array, [dim for dim in range(self.n_inputs) if dim not in used])


def repeat_first(array: np.ndarray[Any, Any], dims: Iterable[int]) -> None:
    """Repeat the elements at the first index of some dimensions along these."""
    for dim in dims:
        if array.shape[dim] > 1:
            before = (slice(None),) * dim
            array[(*before, slice(1, None))] = array[(*before, slice(0, 1))]


class OutputMap(Protocol):
    """The part of an output index map that planning needs; its value is a storage coordinate."""

    # A constant map has neither an `input_dimension` nor an `index_array`.  An index array has the full input
    # rank, and in each dimension the extent of the input or 1.

    @property
    def offset(self) -> int: ...
    @property
    def stride(self) -> int | None: ...
    @property
    def input_dimension(self) -> int | None: ...
    @property
    def index_array(self) -> npt.NDArray[Any] | None: ...


class Transform(Protocol):
    """The part of an index transform that planning needs: a finite domain, and maps inside the array."""

    @property
    def input_inclusive_min(self) -> tuple[int, ...]: ...
    @property
    def input_shape(self) -> tuple[int, ...]: ...
    @property
    def output(self) -> Sequence[OutputMap]: ...


class _Map(NamedTuple):
    """An output index map relative to the origin of the domain: ``offset + stride * (i or array)``."""

    offset: int
    stride: int
    inputs: frozenset[int]
    array: npt.NDArray[np.int64] | None


_NOTHING = PlanAxis((), (), (), (), (), (), False)


def partition(
    transform: Transform, grid: PlanGrid, *, check_cover: bool
) -> tuple[tuple[PlanAxis, ...], Layout]:
    """Divide the storage coordinates that `transform` selects among the cells of `grid`."""
    # The touched chunks are the product of the sets, indexed ones first; the layout is that of their ``out``.
    shape = tuple(transform.input_shape)
    if 0 in shape:
        return (_NOTHING,), Layout((None,) * len(transform.output), frozenset(), len(shape))
    origin = transform.input_inclusive_min
    maps = [_simplify(m, origin) for m in transform.output]
    indexed: list[tuple[int, ...]] = []
    strided: list[tuple[int, ...]] = []
    for dims in _connected(maps):
        single = len(dims) == 1 and maps[dims[0]].array is None
        (strided if single else indexed).append(dims)

    axes = []
    input_dims: list[int | None] = []
    for position, dims in enumerate(indexed):
        inputs = sorted(frozenset[int]().union(*(maps[dim].inputs for dim in dims)))
        extents = tuple(shape[i] for i in inputs)
        coordinates = [_coordinates(maps[dim], inputs, shape) for dim in dims]
        axes.append(
            _indexed_axis(
                grid,
                dims,
                coordinates,
                extents,
                position=position,
                n_sets=len(indexed),
                check_cover=check_cover,
            )
        )
        input_dims += inputs
    flipped = set()
    for (dim,) in strided:
        offset, stride, uses, _ = maps[dim]
        source = next(iter(uses), None)
        size = 1 if source is None else shape[source]
        if stride < 0 and source is not None:
            flipped.add(source)
            offset, stride = offset + stride * (size - 1), -stride
        axes.append(_strided_axis(grid, dim, offset, stride, size))
        input_dims.append(source)
    return tuple(axes), Layout(tuple(input_dims), frozenset(flipped), len(shape))


def in_storage_order(axes: tuple[PlanAxis, ...], layout: Layout) -> tuple[tuple[PlanAxis, ...], Layout]:
    """Return the sets in storage order if each has one storage dimension and one axis of the view."""
    if not is_indexed(axes) or not len(axes) == len(layout.input_dims) == sum(len(x.dims) for x in axes):
        return axes, layout
    order = sorted(range(len(axes)), key=lambda i: axes[i].dims)
    input_dims = tuple([layout.input_dims[i] for i in order])
    ordered = tuple([_sliced(axes[i]) if axes[i].indexed else axes[i] for i in order])
    return ordered, layout._replace(input_dims=input_dims)


def _simplify(m: OutputMap, origin: tuple[int, ...]) -> _Map:
    array, stride = m.index_array, m.stride
    if array is not None and stride:
        inputs = frozenset(dim for dim, size in enumerate(array.shape) if size > 1)
        if inputs:
            return _Map(m.offset, stride, inputs, array)
        return _Map(m.offset + stride * int(array.reshape(-1)[0]), 1, frozenset(), None)
    dim = m.input_dimension
    if dim is not None and stride:
        return _Map(m.offset + stride * origin[dim], stride, frozenset((dim,)), None)
    return _Map(m.offset, 1, frozenset(), None)


def _connected(maps: list[_Map]) -> list[tuple[int, ...]]:
    """Return the storage dimensions of each connected set, ascending; sets are ordered by their first."""
    sets: list[tuple[list[int], set[int]]] = []
    for dim, m in enumerate(maps):
        joined: tuple[list[int], set[int]] = ([dim], set(m.inputs))
        apart = []
        for other in sets:
            if other[1] & joined[1]:
                joined = (other[0] + joined[0], other[1] | joined[1])
            else:
                apart.append(other)
        sets = [*apart, joined]
    return sorted([tuple(sorted(dims)) for dims, _ in sets])


def _coordinates(m: _Map, inputs: list[int], shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Return the storage coordinates of a map, with one axis for each of `inputs`."""
    if m.array is None:
        (dim,) = m.inputs
        values = np.arange(shape[dim], dtype=np.int64)
        values = values.reshape([-1 if i == dim else 1 for i in inputs])
    else:
        values = m.array.astype(np.int64, copy=False)
        values = values.reshape([size for i, size in enumerate(values.shape) if i in inputs])
    return values * m.stride + m.offset
