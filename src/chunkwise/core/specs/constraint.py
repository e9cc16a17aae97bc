"""Hard and soft constraints on one value, or on one value per dimension, and how they are merged.

A *hard* constraint must hold; a *soft* one is a preference.  Setting follows one rule everywhere: a
hard value replaces a soft one and must equal a hard one; a soft value is recorded only if nothing is set yet,
so the first one wins.

`Constrained` is an object with such constraints.  A table says of each how it is read from JSON and from a
keyword, checked, printed, and converted for a view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import index
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeAlias, TypeVar

from chunkwise.core.base.binding import JSON, Members
from chunkwise.errors import InvalidArgumentError, prefixed

__all__ = [
    "MAX_INDEX",
    "MAX_RANK",
    "Constrained",
    "Constraint",
    "Row",
    "Vector",
    "braces",
    "check_rank",
    "check_vector",
    "float_items",
    "hard_part",
    "int_item",
    "int_items",
]

MAX_RANK: Final = 32
MAX_INDEX: Final = 2**62 - 2

SOFT: Final = "_soft_constraint"

T = TypeVar("T", int, float)


class Constraint(NamedTuple):
    """A value, as a requirement or as a preference."""

    value: Any
    hard: bool


Vector: TypeAlias = tuple[Constraint | None, ...]
"""One constraint, or None, for each dimension; empty if there is none at all."""


def check_rank(rank: int, existing: int | None) -> int:
    """Return `rank`, which must be a valid rank and equal to an `existing` one."""
    if not 0 <= rank <= MAX_RANK:
        raise InvalidArgumentError(f"Rank {rank} is outside valid range [0, {MAX_RANK}]")
    if existing is not None and rank != existing:
        raise InvalidArgumentError(f"Rank {rank} does not match existing rank {existing}")
    return rank


def check_vector(
    values: Sequence[T | None], valid: Callable[[T], bool], missing: str = "0"
) -> Sequence[T | None]:
    """Return `values` if each is None or `valid`; the error shows all values and names the dimension."""
    for dim, value in enumerate(values):
        if value is not None and not valid(value):
            raise InvalidArgumentError(f"Invalid value for dimension {dim}: {braces(values, missing)}")
    return values


def hard_part(vector: Vector, rank: int) -> tuple[Any, ...]:
    """Return the hard values, None in the other dimensions."""
    return tuple(c.value if c and c.hard else None for c in vector or (None,) * rank)


class Row(NamedTuple):
    """A constraint of a `Constrained`, by its name in a table."""

    from_json: Callable[[JSON], Any]  # None: no constraint
    from_keyword: Callable[[Any, str], Any]
    check: Callable[[Any, Any, bool], Constraint | Vector]  # (object, value, hard); sets its rank
    to_json: Callable[[Any], JSON] = lambda value: value  # of one dimension
    has_soft_form: bool = True
    # (value, dimension link) -> value, of a view and of the array that has a view
    view: Callable[[Any, Any], Any] = lambda value, link: value
    inverse_view: Callable[[Any, Any], Any] = lambda value, link: value


class Constrained:
    """A rank, and the constraints that are rows of a table."""

    __slots__ = ("__weakref__", "_constraints", "_rank")
    __hash__ = None  # type: ignore[assignment]

    _ROWS: ClassVar[Mapping[str, Row]]
    _KEYWORDS: ClassVar[Sequence[str]]  # in the order in which they are applied
    _NAME: ClassVar[str]

    _rank: int | None
    _constraints: dict[str, Constraint | Vector]  # no vectors without a constraint

    def set_rank(self, rank: int) -> None:
        """Fix the rank; it must equal an already known rank."""
        self._rank = check_rank(rank, self._rank)

    def _vector(self, name: str) -> Vector:
        """Return a constraint for each dimension, hard or soft; empty if there is none at all."""
        found = self._constraints.get(name, ())
        return () if isinstance(found, Constraint) else found

    def _scalar(self, name: str) -> Constraint | None:
        """Return a constraint on a single value, hard or soft."""
        found = self._constraints.get(name)
        return found if isinstance(found, Constraint) else None

    def _set(self, name: str, value: Any, *, hard: bool) -> None:
        """Add a constraint; an error leaves the object partly changed."""
        self._add(name, self._ROWS[name].check(self, value, hard))

    def _add(self, name: str, constraint: Constraint | Vector | None) -> None:
        """Add a constraint, if it is one, that has been checked."""
        if isinstance(constraint, Constraint) or (constraint and any(constraint)):
            old = self._constraints.get(name)
            self._constraints[name] = _merged(old, constraint) if old else constraint

    def _take_member(self, members: Members, name: str, *others: Self) -> None:
        """Take both forms of member `name`, for this object and `others`."""
        row = self._ROWS[name]

        def take(value: JSON) -> None:
            parsed = row.from_json(value)
            for each in (self, *others) if parsed is not None else ():
                each._set(name, parsed, hard=hard)

        for hard in (True, False)[: 1 + row.has_soft_form]:
            members.take(name if hard else name + SOFT, take, None)

    def _apply(self, keywords: Mapping[str, Any]) -> None:
        """Add the constraints in keywords."""
        given = {name: value for name, value in keywords.items() if value is not None}
        if unknown := given.keys() - set(self._KEYWORDS):
            raise TypeError(f"{self._NAME} has no keyword {min(unknown)!r}")
        for name in self._KEYWORDS:
            if name in given:
                with prefixed(f"Invalid {name}"):
                    self._apply_one(name.removesuffix(SOFT), name, given[name])

    def _apply_one(self, base: str, name: str, value: Any) -> None:
        if base == "rank":
            if (rank := int_item(value, name)) != -1:
                self.set_rank(rank)
        else:
            parsed = self._ROWS[base].from_keyword(value, name)
            if parsed != []:
                self._set(base, parsed, hard=base == name)

    def _constraints_to_json(self) -> dict[str, JSON]:
        """Return the constraints as members of JSON, in the order of the table."""
        json: dict[str, JSON] = {}
        for name, row in self._ROWS.items():
            if found := self._scalar(name):
                json[name if found.hard else name + SOFT] = row.to_json(found.value)
                continue
            for hard in (True, False):
                values = _part(self._vector(name), 0, hard)
                if any(v is not None for v in values):
                    json[name if hard else name + SOFT] = [
                        None if v is None else row.to_json(v) for v in values
                    ]
        return json

    @property
    def is_empty(self) -> bool:
        """True if nothing is known, not even the rank."""
        return self._rank is None and not self._constraints

    def copy(self) -> Self:
        """Return an independent copy."""
        other = type(self).__new__(type(self))
        other.become(self)
        return other

    def become(self, other: Self) -> None:
        """Replace all constraints by those of `other`."""
        self._rank, self._constraints = other._rank, other._constraints.copy()

    def _values(self, name: str, hard: bool) -> tuple[Any, ...] | None:
        """Return the hard or the soft values of a vector; None if the rank is unknown."""
        return None if self._rank is None else _part(self._vector(name), self._rank, hard)

    def _value(self, name: str, hard: bool) -> Any:
        """Return the value of a scalar constraint if it is `hard`, or if it is not."""
        found = self._scalar(name)
        return found.value if found and found.hard == hard else None


def _part(vector: Vector, rank: int, hard: bool) -> tuple[Any, ...]:
    return tuple(c.value if c and c.hard == hard else None for c in vector or (None,) * rank)


def _merged(old: Constraint | Vector, new: Constraint | Vector) -> Constraint | Vector:
    """Return `old` with `new` set on top, dimension by dimension."""
    if isinstance(old, Constraint) and isinstance(new, Constraint):
        _check_hard(old, new, "")
        return new if new.hard and not old.hard else old
    out = []
    for dim, (was, now) in enumerate(zip(old, new, strict=True)):
        if was and now:
            _check_hard(was, now, f"for dimension {dim} ")
        out.append(now if was is None or (now and now.hard and not was.hard) else was)
    return tuple(out)


def _check_hard(old: Constraint, new: Constraint, where: str) -> None:
    if old.hard and new.hard and old.value != new.value:
        raise InvalidArgumentError(
            f"New hard constraint ({_text(new.value)}) {where}does not match existing hard constraint "
            f"({_text(old.value)})"
        )


def int_item(value: Any, name: str) -> int:
    """Return `value` as int; keyword `name` accepts nothing else."""
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"Invalid {name}") from None
    if not -(2**63) <= number < 2**63:
        raise TypeError(f"Invalid {name}")
    return number


def int_items(value: Any, name: str) -> list[int | None]:
    """Return `value`, a sequence of int or None given as keyword `name`, as a list."""
    return [None if item is None else int_item(item, name) for item in _items(value, name)]


def float_items(value: Any, name: str) -> list[float | None]:
    """Return `value`, a sequence of numbers or None given as keyword `name`, as a list."""
    out: list[float | None] = []
    for item in _items(value, name):
        if item is not None and not (hasattr(item, "__float__") or hasattr(item, "__index__")):
            raise TypeError(f"Invalid {name}")
        out.append(None if item is None else float(item))
    return out


def braces(values: Iterable[Any], missing: str = "0") -> str:
    """Return `values` as messages show them: ``{1, 2.5, 0}``, with `missing` for None."""
    return "{" + ", ".join(missing if v is None else _text(v) for v in values) + "}"


def _items(value: Any, name: str) -> list[Any]:
    if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__len__"):
        raise TypeError(f"Invalid {name}")
    return list(value)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return braces(value) if isinstance(value, tuple) else str(value)
