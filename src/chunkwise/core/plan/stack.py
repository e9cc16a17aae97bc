"""The topmost layers of a stack: a read or write of a stack as reads or writes of its layers.

1. The layers that the request can meet are looked up.  If the topmost one holds the whole request, nothing
   else is needed.
2. Their bounds divide the request into cells that each lie wholly inside or outside a layer; the request is
   partitioned by these as others are by chunks.
3. A table gets the topmost layer of each cell.  If it would be too large, the request is halved first.
4. Adjacent cells of the same layer are joined again.  Cells without a layer are an error, or are returned as
   holes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from chunkwise.core.index_space import IndexDomain, IndexTransform
from chunkwise.core.plan.axis import PlanAxis
from chunkwise.core.plan.layer_requests import LayerRequest, LayerRequests, Region
from chunkwise.core.plan.layers import LayerBoxes, LayerCells
from chunkwise.core.plan.partition import Layout, Transform, partition
from chunkwise.core.plan.topmost import resolve_topmost

__all__ = ["divide_stack"]

# Number of cells, of 4 bytes each.  Resolving 1,500 scattered boxes takes 0.47 s of processor time, 0.35 with
# 2**16 cells, 0.73 with 2**24; most mosaics have fewer cells.
_LARGEST_TABLE = 2**20


def divide_stack(
    transform: IndexTransform, boxes: LayerBoxes, lowest: Sequence[int], itemsize: int, *, holes: bool = False
) -> Iterator[LayerRequest | LayerRequests]:
    """Yield the parts of a request by topmost layer; later layers are on top."""
    # `lowest` are the lower bounds of the stack.  Parts with index arrays are limited to 4 MiB, computed with
    # `itemsize`.  With `holes`, indices without a layer give parts too; otherwise they are an error.
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
                yield LayerRequest(top, Region(box, None, False), part, (...,))
                continue
        grid = LayerCells(boxes, numbers, lower, upper)
        axes, layout = partition(part, grid, check_cover=False)
        if prod(axis.n_entries for axis in axes) > _LARGEST_TABLE:
            todo += reversed(_halves(part, box, axes, layout))
            continue
        yield from resolve_topmost(box, axes, layout, grid, boxes, numbers, lowest, itemsize, holes)


def _hull(transform: Transform) -> tuple[list[int], list[int]]:
    """Return the bounds of the outputs of a transform, whose domain is not empty."""
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


def _halves(
    part: IndexTransform, box: tuple[slice, ...], axes: Sequence[PlanAxis], layout: Layout
) -> list[tuple[IndexTransform, tuple[slice, ...]]]:
    """Return a request in two halves, cut along the dimension with the most cells."""
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
