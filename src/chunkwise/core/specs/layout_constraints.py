"""The constraints of a chunk layout, and how each is added; an error leaves it partly changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Self

from chunkwise.core.specs.chunk_grid_constraints import GridConstraints
from chunkwise.core.specs.constraint import (
    MAX_INDEX,
    Constraint,
    Vector,
    braces,
    check_rank,
    check_vector,
    hard_part,
    merge_scalar,
    merge_vector,
    prefixed,
)
from chunkwise.errors import InvalidArgumentError

if TYPE_CHECKING:
    from chunkwise.core.grid.rectilinear import Sizes

__all__ = ["GRID_USAGES", "MEMBERS", "LayoutConstraints"]

MEMBERS = ("_chunk_shapes", "_grid_origin", "_grids", "_inner_order", "_rank")

GRID_USAGES: Final = ("write_chunk", "read_chunk", "codec_chunk")
"""Usages of grids, in the order in which constraints are set."""


class LayoutConstraints:
    """The constraints of a `ChunkLayout`."""

    __slots__ = ("__weakref__", *MEMBERS)

    _rank: int | None
    _inner_order: Constraint | None
    _grid_origin: Vector
    _chunk_shapes: Vector
    _grids: dict[str, GridConstraints]

    def finalized(self) -> Self:
        """Return the precise layout of ``finalize=True``.

        Raises
        ------
        InvalidArgumentError
            If a dimension has no hard grid origin, or the shapes of the grids are incompatible.
        """
        if self._rank is None:
            raise InvalidArgumentError("rank must be specified")
        origin = hard_part(self._grid_origin, self._rank)
        if None in origin:
            raise InvalidArgumentError(f"No grid_origin hard constraint for dimension {origin.index(None)}")
        out = type(self)()
        out.set_rank(self._rank)
        out._inner_order, out._grid_origin = self._inner_order, self._grid_origin
        out._chunk_shapes = self._chunk_shapes
        write, read, codec = (hard_part(self._grids[usage].sizes, self._rank) for usage in GRID_USAGES)
        read = tuple(w if r is None else r for r, w in zip(read, write, strict=True))
        for usage, shape in zip(GRID_USAGES, (write, read, codec), strict=True):
            if not all(_fits(o, n or 0) for o, n in zip(origin, shape, strict=True)):
                raise InvalidArgumentError(
                    f"Invalid {usage.replace('_', ' ')} grid: Invalid origin/shape: "
                    f"origin={braces(origin)}, shape={braces(shape)}"
                )
            out._grids[usage].set_shape(shape, hard=True)
        if any(w and w % r for w, r in zip(write, read, strict=True)):
            raise InvalidArgumentError(
                f"write chunk shape {braces(write)} is not a multiple of read chunk shape {braces(read)}"
            )
        return out

    def set_rank(self, rank: int) -> None:
        """Fix the rank; it must equal an already known rank."""
        self._rank = check_rank(rank, self._rank)
        for grid in self._grids.values():
            grid.set_rank(rank)

    def set_inner_order(self, order: Sequence[int], *, hard: bool) -> None:
        """Constrain the order of dimensions inside a chunk, outermost first."""
        if sorted(order) != list(range(len(order))):
            raise InvalidArgumentError(f"Invalid permutation: {braces(order)}")
        self.set_rank(len(order))
        if order:
            self._inner_order = merge_scalar(self._inner_order, Constraint(tuple(order), hard))

    def set_grid_origin(self, origin: Sequence[int | None], *, hard: bool) -> None:
        """Constrain the origin of the grids; None is no constraint."""
        self.set_rank(len(origin))
        check_vector(origin, lambda o: -MAX_INDEX <= o <= MAX_INDEX, missing="null")
        vector = tuple(None if o is None else Constraint(o, hard) for o in origin)
        self._grid_origin = merge_vector(self._grid_origin, vector)

    def set_chunk_shapes(self, shapes: Sequence[Sizes | None]) -> None:
        """Constrain the sizes of the write chunks of a rectilinear grid; None is no constraint."""
        from chunkwise.core.grid.rectilinear import RectilinearGrid

        self.set_rank(len(shapes))
        known = [1 if sizes is None else sizes for sizes in shapes]
        canonical = RectilinearGrid.of(known).canonical_shapes
        vector = tuple(
            None if given is None else Constraint(sizes, hard=True)
            for given, sizes in zip(shapes, canonical, strict=True)
        )
        with prefixed("Error setting chunk_shapes"):
            self._chunk_shapes = merge_vector(self._chunk_shapes, vector)
        self._check_chunk_shapes()

    def _check_chunk_shapes(self) -> None:
        for dim, (cells, size) in enumerate(
            zip(self._chunk_shapes, self._grids["write_chunk"].sizes, strict=False)
        ):
            if cells and size and size.hard:
                from chunkwise.core.grid.rectilinear import sizes_to_json

                raise InvalidArgumentError(
                    f"chunk_shapes {sizes_to_json(cells.value)} of dimension {dim} contradict write chunks "
                    f"that all have the size {size.value}"
                )

    def set_grid(self, usage: str, part: str, apply: Callable[[GridConstraints], None]) -> None:
        """Let `apply` change the grid of `usage`; an error names `part` of it."""
        with prefixed(f"Error setting {usage} {part}"):
            apply(self._grids[usage])
            rank = self._grids[usage].rank
            if rank is not None:
                self.set_rank(rank)

    def become(self, other: LayoutConstraints) -> None:
        """Replace all constraints by those of `other`."""
        self._rank, self._inner_order, self._grid_origin = other._rank, other._inner_order, other._grid_origin
        self._chunk_shapes = other._chunk_shapes
        self._grids = {usage: grid.copy() for usage, grid in other._grids.items()}


def _fits(origin: int, size: int) -> bool:
    """Return True if the chunk of `size` at `origin` is inside index space; 0 means an unknown size."""
    return origin + size <= MAX_INDEX and (size > 0 or origin > -MAX_INDEX)
