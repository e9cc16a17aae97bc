"""Chunk layouts of views of an array through an index transform, and of the array from those.

From the array to the view, only dimensions are mapped that correspond one to one, by an output index map of a
single input dimension on which nothing else depends.  From the view to the array, a constraint on a dimension
of the view applies to every dimension of the array that depends only on it; without one, a hard constraint
can't be met.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from chunkwise.core.grid.rectilinear import Sizes
from chunkwise.core.index_space import IndexDomain, IndexTransform
from chunkwise.core.specs.chunk_grid_constraints import GridConstraints
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.constraint import Constrained, Vector
from chunkwise.core.specs.layout_constraints import GRID_USAGES
from chunkwise.errors import InvalidArgumentError, prefixed

__all__ = [
    "DimensionLink",
    "inverse_view_domain",
    "inverse_view_layout",
    "one_to_one",
    "single_inputs",
    "view_layout",
]


class DimensionLink(NamedTuple):
    """A dimension on the other side of a transform, and how ``output = offset + stride * input``."""

    dim: int
    offset: int
    stride: int


def one_to_one(transform: IndexTransform) -> list[DimensionLink | None]:
    """Return the only output dimension of each input dimension, or None."""
    found: list[list[DimensionLink | None]] = [[] for _ in range(transform.input_rank)]
    for o, m in enumerate(transform.output):
        if m.input_dimension is not None:
            assert m.stride is not None
            found[m.input_dimension].append(DimensionLink(o, m.offset, m.stride))
        elif m.index_array is not None:
            for dim, size in enumerate(m.index_array.shape):
                if size > 1:
                    found[dim].append(None)
    return [links[0] if len(links) == 1 else None for links in found]


def single_inputs(transform: IndexTransform) -> list[DimensionLink | None]:
    """Return the only input dimension of each output dimension, or None."""
    out: list[DimensionLink | None] = []
    for m in transform.output:
        if m.input_dimension is None:
            out.append(None)
        else:
            assert m.stride is not None
            out.append(DimensionLink(m.input_dimension, m.offset, m.stride))
    return out


def view_layout(layout: ChunkLayout, transform: IndexTransform) -> ChunkLayout:
    """Return the layout of the view by `transform` of an array with `layout`."""
    if layout.rank == -1:
        return layout.copy()
    links = one_to_one(transform)
    out = ChunkLayout(rank=transform.input_rank)
    if (order := layout._scalar("inner_order")) is not None:
        inputs = single_inputs(transform)
        first = [link.dim for o in order.value if (link := inputs[o]) is not None]
        out._set("inner_order", _completed(first, transform.input_rank), hard=order.hard)
    for hard, value in _converted(layout, "grid_origin", links, "view"):
        out._set("grid_origin", value, hard=hard)
    _set_chunk_shapes(out, layout.chunk_shapes, links)
    for usage in GRID_USAGES:
        _set_grid(out, usage, getattr(layout, usage), links, "view")
    return out


def inverse_view_layout(layout: ChunkLayout, transform: IndexTransform) -> ChunkLayout:
    """Return the layout that an array must have for its view by `transform` to have `layout`."""
    if layout.rank == -1:
        return layout.copy()
    links = single_inputs(transform)
    used = {link.dim for link in links if link is not None}
    out = ChunkLayout(rank=transform.output_rank)
    if (order := layout._scalar("inner_order")) is not None:
        first = [o for d in order.value for o, link in enumerate(links) if link and link.dim == d]
        out._set("inner_order", _completed(first, transform.output_rank), hard=order.hard)
    with prefixed("Error transforming grid_origin"):
        _check_used(layout._vector("grid_origin"), used)
        for hard, value in _converted(layout, "grid_origin", links, "inverse_view"):
            out._set("grid_origin", value, hard=hard)
    with prefixed("Error transforming chunk_shapes"):
        for dim, sizes in enumerate(layout.chunk_shapes or ()):
            if sizes is not None and not any(link and link.dim == dim and link.stride == 1 for link in links):
                raise InvalidArgumentError(f"No output dimension corresponds to input dimension {dim}")
        _set_chunk_shapes(out, layout.chunk_shapes, links)
    for usage in GRID_USAGES:
        grid: GridConstraints = getattr(layout, usage)
        with prefixed(f"Error transforming {usage}"):
            for name in ("shape", "aspect_ratio"):
                with prefixed(f"Error transforming {name}"):
                    _check_used(grid._vector(name), used)
            _set_grid(out, usage, grid, links, "inverse_view")
    return out


def _completed(first: Sequence[int], rank: int) -> list[int]:
    """Return the dimensions in `first`, each once, then the others in ascending order."""
    return list(dict.fromkeys([*first, *range(rank)]))


def _converted(
    source: Constrained,
    name: str,
    links: Sequence[DimensionLink | None],
    direction: Literal["view", "inverse_view"],
) -> Iterator[tuple[bool, Any]]:
    """Yield the hard and the soft values of linked dimensions, in the order of `links`."""
    if (one := source._scalar(name)) is not None:
        yield one.hard, one.value
    elif vector := source._vector(name):
        convert = getattr(source._ROWS[name], direction)
        for hard in (True, False):
            found = [(None if link is None else vector[link.dim], link) for link in links]
            yield hard, [convert(c.value, link) if c and c.hard == hard else None for c, link in found]


def _check_used(vector: Vector, used: set[int]) -> None:
    for dim, c in enumerate(vector):
        if c and c.hard and dim not in used:
            raise InvalidArgumentError(f"No output dimension corresponds to input dimension {dim}")


def _set_chunk_shapes(
    layout: ChunkLayout, shapes: Sequence[Sizes | None] | None, links: Sequence[DimensionLink | None]
) -> None:
    """Set the sizes of the cells of linked dimensions, except where elements are skipped."""
    if shapes is not None:
        values = [None if k is None or k.stride != 1 else shapes[k.dim] for k in links]
        layout._set("chunk_shapes", values, hard=True)


def _set_grid(
    layout: ChunkLayout,
    usage: str,
    grid: GridConstraints,
    links: Sequence[DimensionLink | None],
    direction: Literal["view", "inverse_view"],
) -> None:
    for name in grid._ROWS:
        for hard, value in _converted(grid, name, links, direction):
            layout._set_of_grid(usage, name, value, hard=hard)


def inverse_view_domain(domain: IndexDomain, transform: IndexTransform) -> IndexDomain:
    """Return the domain that an array must have for its view by `transform` to have `domain`."""
    # Labels are those of `domain`.
    labels = []
    for m in transform.output:
        kind = "a constant" if m.input_dimension is None else "non-unit-stride"
        if m.index_array is not None:
            kind = "an array"
        if m.input_dimension is None or m.stride not in (1, -1):
            finite = "finite " if m.input_dimension is not None else ""
            raise InvalidArgumentError(
                "Error transforming domain: "
                f"Cannot specify {finite}domain through a transform with {kind} "
                "output index map"
            )
        labels.append(domain.labels[m.input_dimension])
    inverse = transform.inverse()
    free = IndexDomain(rank=inverse.input_rank, labels=labels)
    back = IndexTransform(free, list(inverse.output))
    return IndexTransform.identity(domain).compose(back).domain
