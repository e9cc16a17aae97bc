"""Chunk layouts: constraints on how an array is divided and ordered; of views of the array too.

From the array to the view, only dimensions are mapped that correspond one to one, by an output index map of a
single input dimension on which nothing else depends.  From the view to the array, a constraint on a dimension
of the view applies to every dimension of the array that depends only on it; without one, a hard constraint
can't be met.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, Unpack

from chunkwise.core.base.binding import JSON, MISSING, plain_json
from chunkwise.core.grid import Sizes
from chunkwise.core.index_space import Dim, IndexDomain, IndexTransform
from chunkwise.core.index_space.interval import sized
from chunkwise.core.specs.chunk_grid_constraints import GridConstraints
from chunkwise.core.specs.constraint import Constrained, Vector, hard_part
from chunkwise.core.specs.layout_constraints import GRID_USAGES, ChunkLayoutKeywords, LayoutConstraints
from chunkwise.core.specs.pretty import pretty_repr
from chunkwise.errors import InvalidArgumentError, prefixed

__all__ = [
    "ChunkLayout",
    "ChunkLayoutKeywords",
    "DimensionLink",
    "inverse_view_domain",
    "inverse_view_layout",
    "one_to_one",
    "single_inputs",
    "view_layout",
]


class ChunkLayout(LayoutConstraints):
    """Constraints on chunk shapes, the origin of the chunk grid and the order of elements in a chunk.

    There are three grids: *write chunks* are the units that are best written whole (shards, if there are
    any), *read chunks* are the units that are best read whole, and *codec chunks* are the blocks in which a
    codec works.  Each constraint is hard or soft; see `chunkwise.core.specs.constraint`.  Constraints are
    applied in the order listed here, whatever the order of the arguments: `chunk` before `write_chunk`.

    Parameters
    ----------
    json : JSON, optional
        The JSON form: an object with members ``rank``, ``inner_order``, ``grid_origin``, ``chunk``,
        ``write_chunk``, ``read_chunk`` and ``codec_chunk``.  ``chunk_shapes`` is an extension: the sizes of
        the write chunks of a rectilinear grid for each dimension, in the form of Zarr v3.
    rank : int, optional
        Number of dimensions; -1 means unknown.
    inner_order, inner_order_soft_constraint : sequence of int, optional
        Order of the dimensions inside a chunk, outermost first; ``[0, 1]`` is row-major.
    grid_origin, grid_origin_soft_constraint : sequence of int or None, optional
        An index at which a chunk starts, per dimension.
    chunk, write_chunk, read_chunk, codec_chunk : ChunkLayout.Grid, optional
        Constraints on one grid; `chunk` applies to read and write chunks, and its aspect ratio also to codec
        chunks.
    <grid>_shape, <grid>_aspect_ratio, <grid>_elements : optional
        The members of a `Grid`, each also with ``_soft_constraint``, where ``<grid>`` is one of
        ``chunk``, ``write_chunk``, ``read_chunk`` and ``codec_chunk``.
    finalize : bool, optional
        Finally, check the layout and make it precise.  Every dimension needs a hard grid origin.  Soft
        shapes, aspect ratios and element counts are dropped.  Unknown sizes of read chunks become those of
        write chunks; read chunks must divide write chunks.

    Raises
    ------
    ValueError
        For an invalid value, or one that contradicts a hard constraint.
    TypeError
        For an argument of a wrong type, or JSON given together with keywords.

    Examples
    --------
    >>> import chunkwise
    >>> layout = chunkwise.ChunkLayout(read_chunk_shape=[32, 32], write_chunk_shape=[128, 128])
    >>> layout.read_chunk.shape, layout.write_chunk.shape
    ((32, 32), (128, 128))
    """

    Grid: TypeAlias = GridConstraints

    __slots__ = ()

    def __init__(self, json: JSON = MISSING, **keywords: Unpack[ChunkLayoutKeywords]) -> None:
        self._rank = None
        self._constraints = {}
        self._grids = {usage: GridConstraints() for usage in GRID_USAGES}
        if json is MISSING:
            if keywords:
                self._apply(keywords)
        elif keywords:
            raise TypeError("ChunkLayout takes either JSON or keywords, not both")
        else:
            self._parse(plain_json(json))

    @property
    def rank(self) -> int:
        """Number of dimensions; -1 if unknown."""
        return -1 if self._rank is None else self._rank

    @property
    def ndim(self) -> int:
        """Same as `rank`."""
        return self.rank

    @property
    def inner_order(self) -> tuple[int, ...] | None:
        """Hard constraint on the order of dimensions inside a chunk."""
        return self._value("inner_order", hard=True)  # type: ignore[no-any-return]

    @property
    def inner_order_soft_constraint(self) -> tuple[int, ...] | None:
        """Soft constraint on the order of dimensions, if there is no hard one."""
        return self._value("inner_order", hard=False)  # type: ignore[no-any-return]

    @property
    def grid_origin(self) -> tuple[int | None, ...] | None:
        """Hard constraints on the origin of the grids; None if the rank is unknown."""
        return self._values("grid_origin", hard=True)

    @property
    def grid_origin_soft_constraint(self) -> tuple[int | None, ...] | None:
        """Soft constraints on the origin of the grids, in dimensions without a hard one."""
        return self._values("grid_origin", hard=False)

    @property
    def chunk_shapes(self) -> tuple[Sizes | None, ...] | None:
        """Sizes of the write chunks of a rectilinear grid along each dimension; None for other grids."""
        return hard_part(self._vector("chunk_shapes"), 0) or None

    @property
    def write_chunk(self) -> GridConstraints:
        """A copy of the constraints on write chunks."""
        return self._grids["write_chunk"].copy()

    @property
    def read_chunk(self) -> GridConstraints:
        """A copy of the constraints on read chunks."""
        return self._grids["read_chunk"].copy()

    @property
    def codec_chunk(self) -> GridConstraints:
        """A copy of the constraints on codec chunks."""
        return self._grids["codec_chunk"].copy()

    @property
    def write_chunk_template(self) -> IndexDomain:
        """The write chunk at the origin of the grid; unbounded if origin or size isn't a hard constraint.

        Raises InvalidArgumentError if the rank is unknown.
        """
        return self._template("write_chunk")

    @property
    def read_chunk_template(self) -> IndexDomain:
        """The read chunk at the origin of the grid; unbounded if origin or size isn't a hard constraint.

        Raises InvalidArgumentError if the rank is unknown.
        """
        return self._template("read_chunk")

    def update(self, **keywords: Unpack[ChunkLayoutKeywords]) -> None:
        """Add constraints; on error nothing is changed.

        Parameters
        ----------
        **keywords
            Those of the constructor: shapes in elements, orders as numbers of dimensions.

        Raises
        ------
        ValueError
            If a constraint contradicts one that is there.
        """
        changed = self.copy()
        changed._apply(keywords)
        self.become(changed)

    def merged(self, other: ChunkLayout) -> ChunkLayout:
        """Return the constraints of both, still hard or soft; those of this layout come first.

        Parameters
        ----------
        other : ChunkLayout
            With the same rank, or without one.

        Raises
        ------
        InvalidArgumentError
            If hard constraints contradict each other.
        """
        if other.is_empty:
            return self.copy()
        if self.is_empty:
            return other.copy()
        out = self.copy()
        out._merge(other)
        return out

    @property
    def is_empty(self) -> bool:
        """True if nothing is known, not even the rank."""
        return super().is_empty and all(grid.is_empty for grid in self._grids.values())

    def __copy__(self) -> ChunkLayout:
        return self.copy()

    def _repr_html_(self) -> str:
        from chunkwise.core.base.html import json_html  # only notebooks ask

        return json_html(self)

    def __repr__(self) -> str:
        return pretty_repr("ChunkLayout", self.to_json())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ChunkLayout):
            raise TypeError(f"ChunkLayout can only be compared with ChunkLayout, not {type(other).__name__}")
        mine, theirs = ((x._rank, x._constraints, x._grids) for x in (self, other))
        return mine == theirs

    def __reduce__(self) -> tuple[Any, ...]:
        return ChunkLayout, (self.to_json(),)

    def _template(self, usage: str) -> IndexDomain:
        if self._rank is None:
            raise InvalidArgumentError("Rank of chunk layout is unspecified")
        sizes = hard_part(self._grids[usage]._vector("shape"), self._rank)
        origins = hard_part(self._vector("grid_origin"), self._rank)
        return IndexDomain(
            [_extent(dim, o, n) for dim, (o, n) in enumerate(zip(origins, sizes, strict=True))]
        )


def _extent(dim: int, origin: int | None, size: int | None) -> Dim:
    """Return the extent of a chunk along a dimension, unbounded if unknown."""
    if origin is None or size is None:
        return Dim(implicit_lower=False, implicit_upper=False)
    with prefixed(f"Incompatible grid origin/chunk shape for dimension {dim}"):
        return Dim(*sized(origin, size))


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
