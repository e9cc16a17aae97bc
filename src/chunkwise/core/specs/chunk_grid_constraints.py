"""Constraints on one chunk grid: chunk shape, aspect ratio and number of elements, each hard or soft."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Any, Final, TypedDict, Unpack

from chunkwise.core.base.binding import (
    JSON,
    MISSING,
    Members,
    expect_int,
    expect_number,
    parse_array,
    plain_json,
)
from chunkwise.core.specs.constraint import (
    MAX_INDEX,
    Constraint,
    Vector,
    check_rank,
    check_vector,
    float_items,
    hard_part,
    int_item,
    int_items,
    merge_scalar,
    merge_vector,
    put_vector,
    soft_part,
)
from chunkwise.errors import InvalidArgumentError, prefix

__all__ = ["GridConstraints", "GridKeywords", "take_grid_members"]


class GridKeywords(TypedDict, total=False):
    """Keywords of `GridConstraints` and `GridConstraints.update`; None means not given."""

    rank: int | None
    shape: Iterable[int | None] | None
    shape_soft_constraint: Iterable[int | None] | None
    aspect_ratio: Iterable[float | None] | None
    aspect_ratio_soft_constraint: Iterable[float | None] | None
    elements: int | None
    elements_soft_constraint: int | None
    grid: GridConstraints | None
    grid_soft_constraint: GridConstraints | None


_MEMBERS = ("_aspect_ratio", "_elements", "_rank", "_shape")


class GridConstraints:
    """Constraints on the chunks used for one purpose: reading, writing or coding.

    Parameters
    ----------
    json : JSON, optional
        The JSON form: an object whose members are the keywords other than `rank` and the grids.
    rank : int, optional
        Number of dimensions.
    shape, shape_soft_constraint : sequence of int or None, optional
        Chunk size per dimension, in elements.  None or 0: no constraint.  -1: the whole extent of
        the domain, always a soft constraint.
    aspect_ratio, aspect_ratio_soft_constraint : sequence of float or None, optional
        Relative chunk sizes in dimensions without a shape.  None or 0: no constraint.
    elements, elements_soft_constraint : int, optional
        Target number of elements in a chunk.
    grid, grid_soft_constraint : GridConstraints, optional
        Further constraints; each stays hard or soft, in both keywords.

    Raises
    ------
    ValueError
        For an invalid value, or one that contradicts a hard constraint.
    TypeError
        For an argument of a wrong type, or JSON given together with keywords.
    """

    __slots__ = ("__weakref__", *_MEMBERS)
    __hash__ = None  # type: ignore[assignment]

    _rank: int | None
    _shape: Vector
    _aspect_ratio: Vector
    _elements: Constraint | None

    def __init__(self, json: JSON = MISSING, **keywords: Unpack[GridKeywords]) -> None:
        self._rank = None
        self._shape = self._aspect_ratio = ()
        self._elements = None
        if json is MISSING:
            if keywords:
                self._apply(keywords)
        elif keywords:
            raise TypeError("Grid takes either JSON or keywords, not both")
        else:
            members = Members(plain_json(json))
            take_grid_members(members, dict.fromkeys(_PARTS, (self,)))
            members.finish()

    @property
    def rank(self) -> int | None:
        """Number of dimensions, or None if unknown."""
        return self._rank

    @property
    def ndim(self) -> int | None:
        """Same as `rank`."""
        return self._rank

    @property
    def shape(self) -> tuple[int | None, ...] | None:
        """Hard constraints on the chunk shape; None if the rank is unknown."""
        return None if self._rank is None else hard_part(self._shape, self._rank)

    @property
    def shape_soft_constraint(self) -> tuple[int | None, ...] | None:
        """Soft constraints on the chunk shape, in dimensions without a hard one."""
        return None if self._rank is None else soft_part(self._shape, self._rank)

    @property
    def aspect_ratio(self) -> tuple[float | None, ...] | None:
        """Hard constraints on the aspect ratio; None if the rank is unknown."""
        return None if self._rank is None else hard_part(self._aspect_ratio, self._rank)

    @property
    def aspect_ratio_soft_constraint(self) -> tuple[float | None, ...] | None:
        """Soft constraints on the aspect ratio, in dimensions without a hard one."""
        return None if self._rank is None else soft_part(self._aspect_ratio, self._rank)

    @property
    def elements(self) -> int | None:
        """Hard constraint on the number of elements in a chunk."""
        return self._elements.value if self._elements and self._elements.hard else None

    @property
    def elements_soft_constraint(self) -> int | None:
        """Soft constraint on the number of elements, if there is no hard one."""
        return self._elements.value if self._elements and not self._elements.hard else None

    @property
    def sizes(self) -> Vector:
        """Constraints on the shape, both hard and soft; empty if there are none."""
        return self._shape

    @property
    def ratios(self) -> Vector:
        """Constraints on the aspect ratio, both hard and soft; empty if there are none."""
        return self._aspect_ratio

    @property
    def target(self) -> Constraint | None:
        """Constraint on the number of elements, hard or soft."""
        return self._elements

    def update(self, **keywords: Unpack[GridKeywords]) -> None:
        """Add constraints; on error nothing is changed."""
        changed = self.copy()
        changed._apply(keywords)
        self._become(changed)

    def to_json(self, include_defaults: bool = False) -> dict[str, JSON]:
        """Return the JSON form, which doesn't include the rank itself; no member has a default."""
        json: dict[str, JSON] = {}
        for name, vector in (("aspect_ratio", self._aspect_ratio), ("shape", self._shape)):
            put_vector(json, name, vector)
        if self._elements:
            json["elements" if self._elements.hard else "elements_soft_constraint"] = self._elements.value
        return dict(sorted(json.items()))

    def copy(self) -> GridConstraints:
        """Return an independent copy."""
        other = GridConstraints.__new__(GridConstraints)
        other._become(self)
        return other

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GridConstraints):
            raise TypeError(
                f"Grid can only be compared with GridConstraints, not with {type(other).__name__}"
            )
        return all(getattr(self, name) == getattr(other, name) for name in _MEMBERS)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._rank, self._shape, self._aspect_ratio, self._elements)

    @property
    def is_empty(self) -> bool:
        """True if nothing is known, not even the rank."""
        return self._rank is None and self._elements is None and not self._shape and not self._aspect_ratio

    def set_rank(self, rank: int) -> None:
        """Fix the rank; it must equal an already known rank."""
        self._rank = check_rank(rank, self._rank)

    def set_shape(self, sizes: Sequence[int | None], *, hard: bool) -> None:
        """Constrain the chunk shape; 0 and None are no constraint, -1 is always soft."""
        self.set_rank(len(sizes))
        new = check_vector(sizes, lambda n: -1 <= n <= MAX_INDEX)
        vector = tuple(Constraint(n, hard and n != -1) if n else None for n in new)
        self._shape = merge_vector(self._shape, vector)

    def set_aspect_ratio(self, ratios: Sequence[float | None], *, hard: bool) -> None:
        """Constrain the aspect ratio; 0 and None are no constraint."""
        self.set_rank(len(ratios))
        new = check_vector(ratios, lambda r: isfinite(r) and r >= 0)
        self._aspect_ratio = merge_vector(
            self._aspect_ratio, tuple(Constraint(float(r), hard) if r else None for r in new)
        )

    def set_elements(self, elements: int, *, hard: bool) -> None:
        """Constrain the number of elements in a chunk."""
        if not 0 <= elements <= MAX_INDEX:
            raise InvalidArgumentError(f"Invalid value: {elements}")
        self._elements = merge_scalar(self._elements, Constraint(elements, hard))

    def merge_shape(self, other: GridConstraints) -> None:
        """Add the shape constraints of `other`."""
        if other._rank is not None:
            self.set_rank(other._rank)
        self._shape = merge_vector(self._shape, other._shape)

    def merge_aspect_ratio(self, other: GridConstraints) -> None:
        """Add the aspect ratio constraints of `other`."""
        if other._rank is not None:
            self.set_rank(other._rank)
        self._aspect_ratio = merge_vector(self._aspect_ratio, other._aspect_ratio)

    def merge_elements(self, other: GridConstraints) -> None:
        """Add the constraint of `other` on the number of elements."""
        if other._elements is not None:
            self._elements = merge_scalar(self._elements, other._elements)

    def merge(self, other: GridConstraints) -> None:
        """Add all constraints of `other`; each stays hard or soft."""
        self.merge_shape(other)
        self.merge_aspect_ratio(other)
        self.merge_elements(other)

    def _apply(self, keywords: GridKeywords) -> None:
        given = {name: value for name, value in keywords.items() if value is not None}
        for name, apply in _KEYWORDS.items():
            if name in given:
                value = given.pop(name)
                try:
                    apply(self, name, value)
                except InvalidArgumentError as e:
                    raise prefix(e, f"Invalid {name}") from None
        if given:
            raise TypeError(f"Grid has no keyword {next(iter(given))!r}")

    def _become(self, other: GridConstraints) -> None:
        self._rank, self._shape = other._rank, other._shape
        self._aspect_ratio, self._elements = other._aspect_ratio, other._elements


def _apply_rank(grid: GridConstraints, name: str, value: Any) -> None:
    rank = int_item(value, name)
    if rank != -1:
        grid.set_rank(rank)


def _apply_shape(grid: GridConstraints, name: str, value: Any) -> None:
    if sizes := int_items(value, name):
        grid.set_shape(sizes, hard=not name.endswith("soft_constraint"))


def _apply_aspect_ratio(grid: GridConstraints, name: str, value: Any) -> None:
    if ratios := float_items(value, name):
        grid.set_aspect_ratio(ratios, hard=not name.endswith("soft_constraint"))


def _apply_elements(grid: GridConstraints, name: str, value: Any) -> None:
    grid.set_elements(int_item(value, name), hard=not name.endswith("soft_constraint"))


def _apply_grid(grid: GridConstraints, name: str, value: Any) -> None:
    if not isinstance(value, GridConstraints):
        raise TypeError(f"Invalid {name}")
    grid.merge(value)


_KEYWORDS: Final[dict[str, Callable[[GridConstraints, str, Any], None]]] = {
    "rank": _apply_rank,
    "shape": _apply_shape,
    "shape_soft_constraint": _apply_shape,
    "aspect_ratio": _apply_aspect_ratio,
    "aspect_ratio_soft_constraint": _apply_aspect_ratio,
    "elements": _apply_elements,
    "elements_soft_constraint": _apply_elements,
    "grid": _apply_grid,
    "grid_soft_constraint": _apply_grid,
}


def take_grid_members(members: Members, grids: Mapping[str, Iterable[GridConstraints]]) -> None:
    """Take the members of a grid object from `members`, and set each on its `grids`."""
    for part in _PARTS:
        for name, hard in ((part, True), (f"{part}_soft_constraint", False)):
            members.take(name, partial(_set_from_json, grids[part], part, hard), None)


def _set_from_json(grids: Iterable[GridConstraints], part: str, hard: bool, value: JSON) -> None:
    parse, apply = _PARTS[part]
    parsed = parse(value)
    for grid in grids:
        apply(grid, parsed, hard=hard)


def _restore(
    rank: int | None, shape: Vector, aspect_ratio: Vector, elements: Constraint | None
) -> GridConstraints:
    """Return the GridConstraints with these attributes, for unpickling."""
    grid = GridConstraints()
    grid._rank, grid._shape, grid._aspect_ratio, grid._elements = rank, shape, aspect_ratio, elements
    return grid


def _expect_int_or_null(value: JSON) -> int | None:
    return None if value is None else expect_int(value)


def _expect_number_or_null(value: JSON) -> float | None:
    return None if value is None else expect_number(value)


_PARTS: Final[dict[str, tuple[Callable[[JSON], Any], Callable[..., None]]]] = {
    "shape": (lambda v: parse_array(v, _expect_int_or_null), GridConstraints.set_shape),
    "aspect_ratio": (lambda v: parse_array(v, _expect_number_or_null), GridConstraints.set_aspect_ratio),
    "elements": (expect_int, GridConstraints.set_elements),
}
