"""Properties that are computed once, and copies of records that keep them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

__all__ = ["cached_property", "copied"]

T = TypeVar("T")


class cached_property(Generic[T]):  # noqa: N801  (the name that readers know)
    """The ``functools.cached_property`` of Python 3.12."""

    # Before, it has a lock for all instances, which a fork in the middle of a computation leaves
    # locked.

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


R = TypeVar("R")


def copied(record: R, **changes: object) -> R:
    """Return `record`, a dataclass without slots, with other values in some fields."""
    # Unlike dataclasses.replace it keeps what was derived from the other fields, and so is quick; nothing may
    # have been derived from those that change.
    out = object.__new__(type(record))
    out.__dict__.update(record.__dict__, **changes)
    return out
