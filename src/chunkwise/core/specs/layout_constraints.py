"""The constraints of a chunk layout: a table, their keywords and their JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Self, TypeAlias, TypedDict

from chunkwise.core.base.binding import JSON, Members, expect_int, parse_array
from chunkwise.core.grid import RectilinearGrid, Sizes, parse_sizes, sizes_to_json
from chunkwise.core.specs.chunk_grid_constraints import GridConstraints
from chunkwise.core.specs.constraint import (
    MAX_INDEX,
    MAX_RANK,
    Constrained,
    Constraint,
    Row,
    Vector,
    braces,
    check_vector,
    hard_part,
    int_items,
)
from chunkwise.errors import InvalidArgumentError, prefixed

__all__ = ["GRID_USAGES", "ChunkLayoutKeywords", "LayoutConstraints"]

GRID_USAGES: Final = ("write_chunk", "read_chunk", "codec_chunk")
"""Usages of grids, in the order in which constraints are set."""

Ints: TypeAlias = Iterable[int | None] | None
Floats: TypeAlias = Iterable[float | None] | None


class ChunkLayoutKeywords(TypedDict, total=False):
    """Keywords of `ChunkLayout` and `ChunkLayout.update`; None means not given."""

    rank: int | None
    inner_order: Iterable[int] | None
    inner_order_soft_constraint: Iterable[int] | None
    grid_origin: Ints
    grid_origin_soft_constraint: Ints
    chunk: GridConstraints | None
    write_chunk: GridConstraints | None
    read_chunk: GridConstraints | None
    codec_chunk: GridConstraints | None
    chunk_shape: Ints
    chunk_shape_soft_constraint: Ints
    write_chunk_shape: Ints
    write_chunk_shape_soft_constraint: Ints
    read_chunk_shape: Ints
    read_chunk_shape_soft_constraint: Ints
    codec_chunk_shape: Ints
    codec_chunk_shape_soft_constraint: Ints
    chunk_aspect_ratio: Floats
    chunk_aspect_ratio_soft_constraint: Floats
    write_chunk_aspect_ratio: Floats
    write_chunk_aspect_ratio_soft_constraint: Floats
    read_chunk_aspect_ratio: Floats
    read_chunk_aspect_ratio_soft_constraint: Floats
    codec_chunk_aspect_ratio: Floats
    codec_chunk_aspect_ratio_soft_constraint: Floats
    chunk_elements: int | None
    chunk_elements_soft_constraint: int | None
    write_chunk_elements: int | None
    write_chunk_elements_soft_constraint: int | None
    read_chunk_elements: int | None
    read_chunk_elements_soft_constraint: int | None
    codec_chunk_elements: int | None
    codec_chunk_elements_soft_constraint: int | None
    finalize: bool | None


def _parse_inner_order(value: JSON) -> list[int] | None:
    return None if value is None else parse_array(value, lambda v: expect_int(v, 0, MAX_RANK - 1))


def _order_items(value: Any, name: str) -> list[int | None]:
    order = int_items(value, name)
    if None in order:
        raise TypeError(f"Invalid {name}")
    return order


def _check_inner_order(layout: Constrained, order: Sequence[int], hard: bool) -> Constraint | Vector:
    if sorted(order) != list(range(len(order))):
        raise InvalidArgumentError(f"Invalid permutation: {braces(order)}")
    layout.set_rank(len(order))
    return Constraint(tuple(order), hard) if order else ()


def _check_grid_origin(layout: Constrained, origin: Sequence[int | None], hard: bool) -> Vector:
    layout.set_rank(len(origin))
    check_vector(origin, lambda o: -MAX_INDEX <= o <= MAX_INDEX, missing="null")
    return tuple(None if o is None else Constraint(o, hard) for o in origin)


def _check_chunk_shapes(layout: Constrained, shapes: Sequence[Sizes | None], hard: bool) -> Vector:
    layout.set_rank(len(shapes))
    known = [1 if sizes is None else sizes for sizes in shapes]
    pairs = zip(shapes, RectilinearGrid.of(known).canonical_shapes, strict=True)
    return tuple(None if given is None else Constraint(sizes, hard) for given, sizes in pairs)


def _view_origin(origin: int, link: Any) -> int:
    """Return the first index of the view from which on all elements are at `origin` or beyond."""
    # With a negative stride, a chunk begins at its far end, which is one below the next origin.
    distance = origin - link.offset - (link.stride < 0)
    return int(-(-distance // link.stride))


_ROWS: Final = {
    "inner_order": Row(_parse_inner_order, _order_items, _check_inner_order, to_json=list),
    "grid_origin": Row(
        lambda value: parse_array(value, lambda v: v if v is None else expect_int(v)),
        int_items,
        _check_grid_origin,
        view=_view_origin,
        inverse_view=lambda origin, link: link.offset + link.stride * (origin - (link.stride < 0)),
    ),
    "chunk_shapes": Row(
        lambda value: parse_array(value, lambda v: v if v is None else parse_sizes(v)),
        int_items,  # there is no keyword
        _check_chunk_shapes,
        to_json=sizes_to_json,
        has_soft_form=False,
    ),
}


def _targets(usage: str, name: str) -> tuple[str, ...]:
    """Return the grids that constraint `name` of `usage` applies to."""
    if usage != "chunk":
        return (usage,)
    return GRID_USAGES if name == "aspect_ratio" else GRID_USAGES[:2]


class LayoutConstraints(Constrained):
    """The constraints of a `ChunkLayout`, which are its own and those of three grids."""

    __slots__ = ("_grids",)

    _ROWS = _ROWS
    _KEYWORDS = tuple(ChunkLayoutKeywords.__annotations__)
    _NAME = "ChunkLayout"

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
        origin = hard_part(self._vector("grid_origin"), self._rank)
        if None in origin:
            raise InvalidArgumentError(f"No grid_origin hard constraint for dimension {origin.index(None)}")
        out = type(self)()
        out.set_rank(self._rank)
        out._constraints = self._constraints.copy()
        sizes = [self._grids[usage]._vector("shape") for usage in GRID_USAGES]
        write, read, codec = (hard_part(vector, self._rank) for vector in sizes)
        read = tuple(w if r is None else r for r, w in zip(read, write, strict=True))
        for usage, shape in zip(GRID_USAGES, (write, read, codec), strict=True):
            if not all(_fits(o, n or 0) for o, n in zip(origin, shape, strict=True)):
                raise InvalidArgumentError(
                    f"Invalid {usage.replace('_', ' ')} grid: Invalid origin/shape: "
                    f"origin={braces(origin)}, shape={braces(shape)}"
                )
            out._grids[usage]._set("shape", shape, hard=True)
        if any(w and w % r for w, r in zip(write, read, strict=True)):
            raise InvalidArgumentError(
                f"write chunk shape {braces(write)} is not a multiple of read chunk shape {braces(read)}"
            )
        return out

    def set_rank(self, rank: int) -> None:
        """Fix the rank, also of the grids; it must equal an already known rank.

        Parameters
        ----------
        rank : int
            Number of dimensions.

        Raises
        ------
        ValueError
            If another rank is known.
        """
        super().set_rank(rank)
        for grid in self._grids.values():
            grid.set_rank(rank)

    def _set(self, name: str, value: Any, *, hard: bool) -> None:
        """Add a constraint; an error leaves the layout partly changed."""
        if name != "chunk_shapes":
            super()._set(name, value, hard=hard)
            return
        checked = _check_chunk_shapes(self, value, hard)
        with prefixed("Error setting chunk_shapes"):
            self._add(name, checked)
        self._check_chunk_shapes()

    def _check_chunk_shapes(self) -> None:
        sizes = self._grids["write_chunk"]._vector("shape")
        for dim, (cells, size) in enumerate(zip(self._vector("chunk_shapes"), sizes, strict=False)):
            if cells and size and size.hard:
                raise InvalidArgumentError(
                    f"chunk_shapes {sizes_to_json(cells.value)} of dimension {dim} contradict write chunks "
                    f"that all have the size {size.value}"
                )

    def _set_of_grid(self, usage: str, name: str, value: Any, *, hard: bool) -> None:
        """Add constraint `name` to the grid of `usage`."""
        with prefixed(f"Error setting {usage} {name}"):
            self._grids[usage]._set(name, value, hard=hard)
            self._take_rank(usage)

    def _merge_grid(self, usage: str, grid: GridConstraints) -> None:
        """Add the constraints of `grid` to those of the grid, or for "chunk" of the grids, of `usage`."""
        for target in GRID_USAGES:
            for name in GridConstraints._ROWS:
                if target in _targets(usage, name):
                    with prefixed(f"Error setting {target} {name}"):
                        self._grids[target].merge(grid, [name])
                        self._take_rank(target)

    def _merge(self, other: Self) -> None:
        """Add the constraints of `other`."""
        if other._rank is not None:
            first = "inner_order" if other._scalar("inner_order") else "grid_origin"
            with prefixed(f"Error setting {first}"):
                self.set_rank(other._rank)
        for name in _ROWS:
            with prefixed(f"Error setting {name}"):
                self._add(name, other._constraints.get(name))
        for usage in GRID_USAGES:
            self._merge_grid(usage, other._grids[usage])
        self._check_chunk_shapes()

    def become(self, other: Self) -> None:
        """Replace all constraints by those of `other`.

        Parameters
        ----------
        other : ChunkLayout
            Stays as it is.
        """
        super().become(other)
        self._grids = {usage: grid.copy() for usage, grid in other._grids.items()}

    def _parse(self, json: JSON) -> None:
        """Add the constraints in plain JSON."""
        members = Members(json)
        members.take("rank", lambda v: self.set_rank(expect_int(v, 0, MAX_RANK)), None)
        for name in _ROWS:
            self._take_member(members, name)
        for usage in ("chunk", *GRID_USAGES):
            members.take(usage, lambda v, usage=usage: self._parse_grid(usage, v), None)  # type: ignore[misc]
        members.finish()

    def _parse_grid(self, usage: str, value: JSON) -> None:
        members = Members(value)
        for name in GridConstraints._ROWS:
            first, *others = [self._grids[target] for target in _targets(usage, name)]
            first._take_member(members, name, *others)
        members.finish()
        for each in GRID_USAGES:
            self._take_rank(each)

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON form, with the rank only if no other member implies it."""
        json = self._constraints_to_json()
        rank_is_known = bool(json)
        for usage, grid in self._grids.items():
            if members := grid.to_json():
                json[usage] = members
                rank_is_known |= bool(grid._vector("shape") or grid._vector("aspect_ratio"))
        if self._rank is not None and not rank_is_known:
            json["rank"] = self._rank
        return dict(sorted(json.items()))

    def _apply_one(self, base: str, name: str, value: Any) -> None:
        if base == "finalize":
            if isinstance(value, str | bytes):
                raise TypeError(f"Invalid {name}")
            if value:
                self.become(self.finalized())
        elif base == "rank":
            super()._apply_one(base, name, value)
        elif base in _ROWS:
            with prefixed(f"Error setting {base}"):
                super()._apply_one(base, name, value)
        elif base.endswith("chunk"):
            if not isinstance(value, GridConstraints):
                raise TypeError(f"Invalid {name}")
            self._merge_grid(base, value)
        else:
            usage, _, part = base.rpartition("chunk_")
            parsed = GridConstraints._ROWS[part].from_keyword(value, name)
            for target in _targets(f"{usage}chunk", part):
                if parsed != []:
                    self._set_of_grid(target, part, parsed, hard=base == name)

    def _take_rank(self, usage: str) -> None:
        rank = self._grids[usage].rank
        if rank is not None:
            self.set_rank(rank)


def _fits(origin: int, size: int) -> bool:
    """Return True if the chunk of `size` at `origin` is inside index space; 0 means an unknown size."""
    return origin + size <= MAX_INDEX and (size > 0 or origin > -MAX_INDEX)
