"""Constraints on how an array is divided into chunks, and on the order of elements inside them."""

from __future__ import annotations

from typing import Any, TypeAlias, Unpack

from chunkwise.core.base.binding import JSON, MISSING, plain_json
from chunkwise.core.grid.rectilinear import Sizes
from chunkwise.core.index_space import Dim, IndexDomain
from chunkwise.core.index_space.interval import sized
from chunkwise.core.specs.chunk_grid_constraints import GridConstraints
from chunkwise.core.specs.constraint import hard_part
from chunkwise.core.specs.layout_constraints import GRID_USAGES, ChunkLayoutKeywords, LayoutConstraints
from chunkwise.core.specs.pretty import pretty_repr
from chunkwise.errors import InvalidArgumentError, prefixed

__all__ = ["ChunkLayout", "ChunkLayoutKeywords"]


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
