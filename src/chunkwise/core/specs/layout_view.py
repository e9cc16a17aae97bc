"""Chunk layouts of views of an array through an index transform, and of the array from those.

From the array to the view, only dimensions are mapped that correspond one to one, by an output index map of a
single input dimension on which nothing else depends.  From the view to the array, a constraint on a dimension
of the view applies to every dimension of the array that depends only on it; without one, a hard constraint
can't be met.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import gcd
from typing import Any, NamedTuple

from chunkwise.core.grid.rectilinear import Sizes
from chunkwise.core.index_space import IndexDomain, IndexTransform
from chunkwise.core.specs.chunk_grid_constraints import GridConstraints
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.constraint import Constraint, Vector, prefixed
from chunkwise.core.specs.layout_constraints import GRID_USAGES
from chunkwise.errors import InvalidArgumentError

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
    if layout.order is not None:
        inputs = single_inputs(transform)
        first = [link.dim for o in layout.order.value if (link := inputs[o]) is not None]
        out.set_inner_order(_completed(first, transform.input_rank), hard=layout.order.hard)
    _set_origins(out, _converted(layout.origins, links, _view_origin))
    _set_chunk_shapes(out, layout.chunk_shapes, links)
    for usage in GRID_USAGES:
        grid: GridConstraints = getattr(layout, usage)
        _set_grid(
            out,
            usage,
            _converted(grid.sizes, links, _view_size),
            _converted(grid.ratios, links, lambda ratio, link: ratio / abs(link.stride)),
            grid.target,
        )
    return out


def inverse_view_layout(layout: ChunkLayout, transform: IndexTransform) -> ChunkLayout:
    """Return the layout that an array must have for its view by `transform` to have `layout`."""
    if layout.rank == -1:
        return layout.copy()
    links = single_inputs(transform)
    used = {link.dim for link in links if link is not None}
    out = ChunkLayout(rank=transform.output_rank)
    if layout.order is not None:
        first = [o for d in layout.order.value for o, link in enumerate(links) if link and link.dim == d]
        out.set_inner_order(_completed(first, transform.output_rank), hard=layout.order.hard)
    with prefixed("Error transforming grid_origin"):
        _check_used(layout.origins, used)
        _set_origins(out, _converted(layout.origins, links, _array_origin))
    with prefixed("Error transforming chunk_shapes"):
        for dim, sizes in enumerate(layout.chunk_shapes or ()):
            if sizes is not None and not any(link and link.dim == dim and link.stride == 1 for link in links):
                raise InvalidArgumentError(f"No output dimension corresponds to input dimension {dim}")
        _set_chunk_shapes(out, layout.chunk_shapes, links)
    for usage in GRID_USAGES:
        grid: GridConstraints = getattr(layout, usage)
        with prefixed(f"Error transforming {usage}"):
            with prefixed("Error transforming shape"):
                _check_used(grid.sizes, used)
            with prefixed("Error transforming aspect_ratio"):
                _check_used(grid.ratios, used)
            _set_grid(
                out,
                usage,
                _converted(grid.sizes, links, lambda n, link: n if n == -1 else n * abs(link.stride)),
                _converted(grid.ratios, links, lambda ratio, link: ratio * abs(link.stride)),
                grid.target,
            )
    return out


def _view_size(size: int, link: DimensionLink) -> int:
    return size if size == -1 else size // gcd(link.stride, size)


def _view_origin(origin: int, link: DimensionLink) -> int:
    """Return the first index of the view from which on all elements are at `origin` or beyond."""
    # With a negative stride, a chunk begins at its far end, which is one below the next origin.
    distance = origin - link.offset - (link.stride < 0)
    return -(-distance // link.stride)


def _array_origin(origin: int, link: DimensionLink) -> int:
    return link.offset + link.stride * (origin - (link.stride < 0))


def _completed(first: Sequence[int], rank: int) -> list[int]:
    """Return the dimensions in `first`, each once, then the others in ascending order."""
    return list(dict.fromkeys([*first, *range(rank)]))


def _converted(
    vector: Vector, links: Sequence[DimensionLink | None], convert: Callable[[Any, DimensionLink], Any]
) -> Vector:
    """Return the constraints of linked dimensions, converted, in the order of `links`."""
    out: list[Constraint | None] = []
    for link in links:
        c = vector[link.dim] if vector and link is not None else None
        out.append(None if c is None or link is None else Constraint(convert(c.value, link), c.hard))
    return tuple(out)


def _check_used(vector: Vector, used: set[int]) -> None:
    for dim, c in enumerate(vector):
        if c and c.hard and dim not in used:
            raise InvalidArgumentError(f"No output dimension corresponds to input dimension {dim}")


def _parts(vector: Vector) -> list[tuple[bool, list[Any]]]:
    """Return the hard and the soft values of `vector`, each with None in the other dimensions."""
    return [(hard, [c.value if c and c.hard == hard else None for c in vector]) for hard in (True, False)]


def _set_origins(layout: ChunkLayout, origins: Vector) -> None:
    for hard, values in _parts(origins):
        layout.set_grid_origin(values, hard=hard)


def _set_chunk_shapes(
    layout: ChunkLayout, shapes: Sequence[Sizes | None] | None, links: Sequence[DimensionLink | None]
) -> None:
    """Set the sizes of the cells of linked dimensions, except where elements are skipped."""
    if shapes is not None:
        layout.set_chunk_shapes([None if k is None or k.stride != 1 else shapes[k.dim] for k in links])


def _set_grid(
    layout: ChunkLayout, usage: str, sizes: Vector, ratios: Vector, elements: Constraint | None
) -> None:
    for hard, values in _parts(sizes):
        layout.set_grid(usage, "shape", partial(GridConstraints.set_shape, sizes=values, hard=hard))
    for hard, values in _parts(ratios):
        layout.set_grid(
            usage, "aspect_ratio", partial(GridConstraints.set_aspect_ratio, ratios=values, hard=hard)
        )
    if elements is not None:
        set_elements = partial(GridConstraints.set_elements, elements=elements.value, hard=elements.hard)
        layout.set_grid(usage, "elements", set_elements)


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
