"""Constraints on one chunk grid: chunk shape, aspect ratio and number of elements, each hard or soft."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd, isfinite
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
    Constrained,
    Constraint,
    Row,
    Vector,
    check_vector,
    float_items,
    int_item,
    int_items,
)
from chunkwise.errors import InvalidArgumentError

__all__ = ["GridConstraints", "GridKeywords"]


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


def _check_shape(grid: Constrained, sizes: Sequence[int | None], hard: bool) -> Vector:
    grid.set_rank(len(sizes))
    check_vector(sizes, lambda n: -1 <= n <= MAX_INDEX)
    return tuple(Constraint(n, hard and n != -1) if n else None for n in sizes)


def _check_aspect_ratio(grid: Constrained, ratios: Sequence[float | None], hard: bool) -> Vector:
    grid.set_rank(len(ratios))
    check_vector(ratios, lambda r: isfinite(r) and r >= 0)
    return tuple(Constraint(float(r), hard) if r else None for r in ratios)


def _check_elements(grid: Constrained, elements: int, hard: bool) -> Constraint:
    if not 0 <= elements <= MAX_INDEX:
        raise InvalidArgumentError(f"Invalid value: {elements}")
    return Constraint(elements, hard)


_ROWS: Final = {
    "shape": Row(
        lambda value: parse_array(value, lambda v: None if v is None else expect_int(v)),
        int_items,
        _check_shape,
        view=lambda n, link: n if n == -1 else n // gcd(link.stride, n),
        inverse_view=lambda n, link: n if n == -1 else n * abs(link.stride),
    ),
    "aspect_ratio": Row(
        lambda value: parse_array(value, lambda v: None if v is None else expect_number(v)),
        float_items,
        _check_aspect_ratio,
        view=lambda ratio, link: ratio / abs(link.stride),
        inverse_view=lambda ratio, link: ratio * abs(link.stride),
    ),
    "elements": Row(expect_int, int_item, _check_elements),
}


class GridConstraints(Constrained):
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

    __slots__ = ()

    _ROWS = _ROWS
    _KEYWORDS = tuple(GridKeywords.__annotations__)
    _NAME = "Grid"

    def __init__(self, json: JSON = MISSING, **keywords: Unpack[GridKeywords]) -> None:
        self._rank = None
        self._constraints = {}
        if json is MISSING:
            if keywords:
                self._apply(keywords)
        elif keywords:
            raise TypeError("Grid takes either JSON or keywords, not both")
        else:
            members = Members(plain_json(json))
            for name in _ROWS:
                self._take_member(members, name)
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
        return self._values("shape", hard=True)

    @property
    def shape_soft_constraint(self) -> tuple[int | None, ...] | None:
        """Soft constraints on the chunk shape, in dimensions without a hard one."""
        return self._values("shape", hard=False)

    @property
    def aspect_ratio(self) -> tuple[float | None, ...] | None:
        """Hard constraints on the aspect ratio; None if the rank is unknown."""
        return self._values("aspect_ratio", hard=True)

    @property
    def aspect_ratio_soft_constraint(self) -> tuple[float | None, ...] | None:
        """Soft constraints on the aspect ratio, in dimensions without a hard one."""
        return self._values("aspect_ratio", hard=False)

    @property
    def elements(self) -> int | None:
        """Hard constraint on the number of elements in a chunk."""
        return self._value("elements", hard=True)  # type: ignore[no-any-return]

    @property
    def elements_soft_constraint(self) -> int | None:
        """Soft constraint on the number of elements, if there is no hard one."""
        return self._value("elements", hard=False)  # type: ignore[no-any-return]

    def update(self, **keywords: Unpack[GridKeywords]) -> None:
        """Add constraints; on error nothing is changed."""
        changed = self.copy()
        changed._apply(keywords)
        self.become(changed)

    def merge(self, other: GridConstraints, names: Iterable[str] = tuple(_ROWS)) -> None:
        """Add all constraints of `other`, or those with these names; each stays hard or soft."""
        for name in names:
            if other._rank is not None and name != "elements":
                self.set_rank(other._rank)
            self._add(name, other._constraints.get(name))

    def to_json(self, include_defaults: bool = False) -> dict[str, JSON]:
        """Return the JSON form, which doesn't include the rank itself; no member has a default."""
        return dict(sorted(self._constraints_to_json().items()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GridConstraints):
            raise TypeError(
                f"Grid can only be compared with GridConstraints, not with {type(other).__name__}"
            )
        return self._rank == other._rank and self._constraints == other._constraints

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._rank, self._constraints)

    def _apply_one(self, base: str, name: str, value: Any) -> None:
        if base != "grid":
            super()._apply_one(base, name, value)
        elif isinstance(value, GridConstraints):
            self.merge(value)
        else:
            raise TypeError(f"Invalid {name}")


def _restore(rank: int | None, constraints: dict[str, Constraint | Vector]) -> GridConstraints:
    """Return the GridConstraints with these attributes, for unpickling."""
    grid = GridConstraints()
    grid._rank, grid._constraints = rank, constraints
    return grid
