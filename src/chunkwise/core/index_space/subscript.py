"""Expressions in brackets: methods such as ``transform.translate_by[5]``, and the exceptions of indexing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

from chunkwise.errors import ChunkwiseError, InvalidArgumentError, OutOfBoundsError, OutOfRangeError

__all__ = ["Subscript", "WritableSubscript", "as_index_error", "as_value_error"]

P = ParamSpec("P")
R = TypeVar("R")


def as_index_error(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call `function`; an error about its arguments becomes an OutOfBoundsError with the same text."""
    try:
        return function(*args, **kwargs)
    except (InvalidArgumentError, OutOfRangeError) as e:
        raise OutOfBoundsError(str(e)) from None


def as_value_error(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call `function`; an OutOfBoundsError becomes an InvalidArgumentError with the same text."""
    try:
        return function(*args, **kwargs)
    except OutOfBoundsError as e:
        error: ChunkwiseError = InvalidArgumentError(str(e))
        raise error from None


class Subscript(Generic[R]):
    """A method that is called with an expression in brackets; `owner` and `name` are for its repr."""

    __slots__ = ("_apply", "_name", "_owner")

    def __init__(self, owner: object, name: str, apply: Callable[[Any], R]) -> None:
        self._owner = owner
        self._name = name
        self._apply = apply

    def __getitem__(self, key: Any) -> R:
        return self._apply(key)

    # Without this, iteration would call __getitem__ with 0, 1, 2, ...
    __iter__ = None

    def __repr__(self) -> str:
        return f"{self._owner!r}.{self._name}"


class WritableSubscript(Subscript[R]):
    """A subscript that can be assigned to as well."""

    __slots__ = ("_assign",)

    def __init__(
        self, owner: object, name: str, apply: Callable[[Any], R], assign: Callable[[Any, Any], None]
    ) -> None:
        super().__init__(owner, name, apply)
        self._assign = assign

    def __setitem__(self, key: Any, value: Any) -> None:
        self._assign(key, value)
