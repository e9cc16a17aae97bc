"""Which layer of a stack is on top where: a read or write of a stack as reads or writes of its layers.

1. The layers that the request can meet are looked up.  If the topmost of them holds all of it, that is all.
2. Their bounds divide the request into cells, each of which lies wholly inside or outside a layer; the
   request is partitioned by them as any other is by chunks.
3. The layers are painted over each other, in a table with an entry for each cell.  Should that be too
   large, the request is halved first.
4. Runs of cells with the same owner are put together again; those of cells that no layer has are an error,
   or are given back as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.errors import InvalidArgumentError
from chunkwise.index_space import IndexDomain, IndexTransform
from chunkwise.plan.axis import PlanAxis
from chunkwise.plan.layers import LayerBoxes
from chunkwise.plan.layout import Layout
from chunkwise.plan.partition import Transform, partition
from chunkwise.plan.stack_runs import StridedRuns, cut, merge, place, runs_of

__all__ = ["HOLE", "StackPart", "plan_stack"]

Array = npt.NDArray[Any]

HOLE = -1
"""What stands for a layer where there is none."""

_LARGEST_TABLE = 2**20


class StackPart(NamedTuple):
    """What one layer has of a request.

    Attributes
    ----------
    layer : int
        :data:`HOLE` if no layer has it.
    leaf : Leaf
        The part of the request that it belongs to.
    place : tuple
        What to read or write, in the index space of the stack, and where the elements are in the caller's
        array as :meth:`view` shows it; or the entries of the leaf from which that follows.
    """

    layer: int
    leaf: Leaf
    place: Any

    def where(self) -> tuple[IndexTransform, tuple[Any, ...]]:
        """Return what to read or write, and where the elements are in :meth:`view`."""
        if isinstance(self.place[0], IndexTransform):
            request, at = self.place
            return request, at
        assert self.leaf.strided is not None
        return self.leaf.strided.part(self.place)

    @property
    def indexed(self) -> bool:
        """Whether the elements are where index arrays say."""
        return self.leaf.layout is not None and self.leaf.strided is None

    @property
    def strided(self) -> bool:
        """Whether what to read or write is one stride along each dimension of the stack."""
        return self.leaf.strided is not None

    def box(self, view: Array) -> tuple[list[int], Array] | None:
        """Return where in the stack a part without steps begins, and where its elements go.

        Parameters
        ----------
        view : ndarray
            What :meth:`view` returns.

        Returns
        -------
        (first, out) or None
            `out` has an axis for each dimension of the stack.  None if neighbours are not read as neighbours.
        """
        if self.leaf.strided is not None:
            return self.leaf.strided.box(self.place, view)
        if self.leaf.layout is not None:
            return None
        request = self.place[0]
        first: list[int] = []
        axes: list[slice | None] = []
        n_used = 0
        for m in request._output:
            if m._dim is None:
                if m._array is not None:
                    return None
                first.append(m._offset)
                axes.append(None)
                continue
            if m._dim != n_used or m._stride != 1:
                return None
            first.append(m._offset + request._domain._lo[n_used])
            axes.append(slice(None))
            n_used += 1
        if n_used != view.ndim:
            return None
        return first, view[(*axes, ...)]

    def view(self, array: Array, *, last: bool = False) -> Array:
        """Return the caller's array as the part sees it; see :meth:`Layout.view` for `last`."""
        part = array[self.leaf.index]
        layout = self.leaf.layout
        return part if layout is None else layout.view(part, last=last)

    def finish(self, array: Array) -> None:
        """Repeat what was read along dimensions that nothing depends on."""
        if self.leaf.layout is not None:
            self.leaf.layout.broadcast(array[self.leaf.index])


class Leaf(NamedTuple):
    """A part of a request that is painted at once.

    Attributes
    ----------
    box : tuple of slice
        Which part of the caller's array it has to do with.
    layout : Layout or None
        How that part is seen; None if it belongs to one layer and is seen as it is.
    strided : StridedRuns or None
        Its connected sets, if there are no index arrays.
    """

    box: tuple[slice, ...]
    layout: Layout | None
    strided: StridedRuns | None

    @property
    def index(self) -> Any:
        """Index of its part of the caller's array."""
        return (*self.box, ...)


def plan_stack(
    transform: IndexTransform, boxes: LayerBoxes, lowest: Sequence[int], itemsize: int, *, holes: bool = False
) -> list[StackPart]:
    """Divide a request among the topmost layers.

    Parameters
    ----------
    transform : IndexTransform
        From the request to the index space of the stack.
    boxes : LayerBoxes
        Where the layers lie; later ones are on top.
    lowest : sequence of int
        Lower bounds of the stack.
    itemsize : int
        Bytes of an element; parts with index arrays are kept to 4 MiB.
    holes : bool
        Whether there are to be parts for indices without a layer.

    Raises
    ------
    InvalidArgumentError
        If there is no layer at some index, and no `holes`; the text names the cell and what is missing.
    """
    return list(_divide(transform, boxes, lowest, itemsize, holes))


def _divide(
    transform: IndexTransform, boxes: LayerBoxes, lowest: Sequence[int], itemsize: int, holes: bool
) -> Iterator[StackPart]:
    todo = [(transform, (slice(None),) * transform.input_rank)]
    while todo:
        part, box = todo.pop()
        if 0 in part.input_shape:
            continue
        lower, upper = _hull(part)
        numbers = boxes.meeting(lower, upper)
        if len(numbers):
            top = int(numbers[-1])
            if (boxes.lower[top] <= lower).all() and (boxes.upper[top] >= upper).all():
                yield StackPart(top, Leaf(box, None, None), (part, (...,)))
                continue
        grid = _Cells(boxes, numbers, lower, upper)
        axes, layout = partition(part, grid, check_cover=False)
        if prod(axis.n_entries for axis in axes) > _LARGEST_TABLE:
            todo += reversed(_halves(part, box, axes, layout))
            continue
        yield from _painted(box, axes, layout, grid, boxes, numbers, lowest, itemsize, holes)


def _hull(transform: Transform) -> tuple[list[int], list[int]]:
    """Return the bounds of what a transform with a domain that is not empty reaches."""
    lower, upper = [], []
    origin, shape = transform.input_inclusive_min, transform.input_shape
    for m in transform.output:
        ends = [m.offset]
        if m.stride is not None:
            if m.index_array is not None:
                of = (int(m.index_array.min()), int(m.index_array.max()))
            else:
                assert m.input_dimension is not None
                first = origin[m.input_dimension]
                of = (first, first + shape[m.input_dimension] - 1)
            ends = [m.offset + m.stride * x for x in of]
        lower.append(min(ends))
        upper.append(max(ends) + 1)
    return lower, upper


class _Cells:
    """The cells between the bounds of some boxes, as a grid to partition by."""

    chunk_shape = None

    def __init__(
        self, boxes: LayerBoxes, numbers: npt.NDArray[np.int64], lower: list[int], upper: list[int]
    ) -> None:
        self.rank = boxes.rank
        self.edges: list[npt.NDArray[np.int64]] = []
        for d, (lo, hi) in enumerate(zip(lower, upper, strict=True)):
            edges = np.concatenate([boxes.lower[numbers, d], boxes.upper[numbers, d], [lo, hi]])
            edges = np.unique(edges)
            self.edges.append(edges[(edges >= lo) & (edges <= hi)])
        self._lists = [edges.tolist() for edges in self.edges]

    def cell(self, dim: int, index: int) -> tuple[int, int, int]:
        number = int(np.searchsorted(self.edges[dim], index, "right")) - 1
        return (number, *self.bounds(dim, number))

    def cells(self, dim: int, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.searchsorted(self.edges[dim], indices, "right") - 1

    def bounds(self, dim: int, cell: int) -> tuple[int, int]:
        edges = self._lists[dim]
        return edges[cell], edges[cell + 1]

    def n_cells(self, dim: int, size: int) -> int:
        return len(self._lists[dim]) - 1


def _halves(
    part: IndexTransform, box: tuple[slice, ...], axes: Sequence[PlanAxis], layout: Layout
) -> list[tuple[IndexTransform, tuple[slice, ...]]]:
    """Return a request in two halves, cut where it meets the most cells."""
    origin, shape = part.input_inclusive_min, part.input_shape
    position, widest, most = 0, 0, 0
    for axis in axes:
        n_dims = len(axis.out[0]) if axis.indexed else 1
        for dim in layout.input_dims[position : position + n_dims]:
            if dim is not None and shape[dim] > 1 and axis.n_entries > most:
                widest, most = dim, axis.n_entries
        position += n_dims
    middle = shape[widest] // 2
    start = box[widest].start or 0
    out = []
    for lo, hi in ((0, middle), (middle, shape[widest])):
        bounds = [list(origin), [a + n for a, n in zip(origin, shape, strict=True)]]
        bounds[0][widest], bounds[1][widest] = origin[widest] + lo, origin[widest] + hi
        half = IndexDomain(inclusive_min=bounds[0], exclusive_max=bounds[1])
        inner = (*box[:widest], slice(start + lo, start + hi), *box[widest + 1 :])
        out.append((part[half], inner))
    return out


def _painted(
    box: tuple[slice, ...],
    axes: Sequence[PlanAxis],
    layout: Layout,
    grid: _Cells,
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
    painted: list[tuple[int, tuple[slice, ...]]] = []
    for i, number in enumerate(numbers.tolist()):
        if not indexed:
            bounds = tuple([slice(a[i], b[i]) for a, b in ranges])
            owner[bounds] = i
            painted.append((i, bounds))
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
        painted.append((i, (*bounds, *slices)))
    if (owner == HOLE).any():
        if not holes:
            raise _missing(axes, owner, starts, boxes, lowest)
        painted.append((HOLE, (slice(None),) * owner.ndim))
    strided = None if indexed else StridedRuns(axes, starts)
    leaf = Leaf(box, layout, strided)
    seen = np.bincount(owner.reshape(-1) + 1, minlength=len(numbers) + 1).tolist()  # of holes first
    layers = [*numbers.tolist(), HOLE]
    for i, bounds in painted:
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
