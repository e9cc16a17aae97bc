"""Hard and soft constraints on one value, or on one value per dimension, and how they are merged.

A *hard* constraint must hold; a *soft* one is a preference.  Setting follows one rule everywhere: a
hard value replaces a soft one and must equal a hard one; a soft value is recorded only if nothing is set yet,
so the first one wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import index
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from chunkwise.core.base.binding import JSON
from chunkwise.errors import InvalidArgumentError, prefix

__all__ = [
    "MAX_INDEX",
    "MAX_RANK",
    "Constraint",
    "Vector",
    "braces",
    "check_rank",
    "check_vector",
    "float_items",
    "hard_part",
    "int_item",
    "int_items",
    "merge_scalar",
    "merge_vector",
    "prefixed",
    "put_vector",
    "soft_part",
]

MAX_RANK: Final = 32
MAX_INDEX: Final = 2**62 - 2

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


def merge_vector(old: Vector, new: Vector) -> Vector:
    """Return the constraints of `old` with those of `new` set on top, dimension by dimension."""
    if not any(new):
        return old
    if not old:
        return new
    out = []
    for dim, (was, now) in enumerate(zip(old, new, strict=True)):
        if was and now and was.hard and now.hard and was.value != now.value:
            raise InvalidArgumentError(
                f"New hard constraint ({_text(now.value)}) for dimension {dim} "
                f"does not match existing hard constraint ({_text(was.value)})"
            )
        out.append(_stronger(was, now))
    return tuple(out)


def merge_scalar(old: Constraint | None, new: Constraint) -> Constraint:
    """Return the constraint that results from setting `new` on top of `old`."""
    if old and old.hard and new.hard and old.value != new.value:
        raise InvalidArgumentError(
            f"New hard constraint ({_text(new.value)}) does not match existing hard constraint "
            f"({_text(old.value)})"
        )
    return _stronger(old, new) or new


def hard_part(vector: Vector, rank: int) -> tuple[Any, ...]:
    """Return the hard values, None in the other dimensions."""
    return tuple(c.value if c and c.hard else None for c in vector or (None,) * rank)


def soft_part(vector: Vector, rank: int) -> tuple[Any, ...]:
    """Return the soft values, None in the other dimensions."""
    return tuple(c.value if c and not c.hard else None for c in vector or (None,) * rank)


def put_vector(json: dict[str, JSON], name: str, vector: Vector) -> None:
    """Set member `name` of `json` to the hard values and ``<name>_soft_constraint`` to the soft ones."""
    for key, values in (
        (name, hard_part(vector, 0)),
        (f"{name}_soft_constraint", soft_part(vector, 0)),
    ):
        if any(v is not None for v in values):
            json[key] = list(values)


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


@contextmanager
def prefixed(context: str) -> Iterator[None]:
    """Prepend `context` to the text of an error raised inside the block."""
    try:
        yield
    except InvalidArgumentError as e:
        raise prefix(e, context) from None


def _items(value: Any, name: str) -> list[Any]:
    if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__len__"):
        raise TypeError(f"Invalid {name}")
    return list(value)


def _stronger(was: Constraint | None, now: Constraint | None) -> Constraint | None:
    if was is None or (now is not None and now.hard and not was.hard):
        return now
    return was


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return braces(value) if isinstance(value, tuple) else str(value)
