"""Properties that are computed once, copies of records that keep them, and bounded caches by JSON."""

from __future__ import annotations

import marshal
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

__all__ = ["cached_property", "copied", "json_key", "put_bounded"]

T = TypeVar("T")

_MAX_ENTRIES = 128
_TYPES_ONLY = 2  # format of marshal without references, so that equal values give equal bytes


class cached_property(Generic[T]):  # noqa: N801  (the name that readers know)
    """The ``functools.cached_property`` of Python 3.12."""

    # Before 3.12 it has one lock for all instances, which stays locked if a process forks during a
    # computation.

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
    """Return a copy of `record`, a dataclass without slots, with other values in some fields."""
    # Faster than dataclasses.replace, since cached properties are kept; none may depend on a field that
    # changes.
    out = object.__new__(type(record))
    out.__dict__.update(record.__dict__, **changes)
    return out


def json_key(value: Any, max_nbytes: int) -> bytes | None:
    """Return bytes that are equal for equal JSON; None if there would be too many, or `value` isn't JSON."""
    try:
        key = marshal.dumps(value, _TYPES_ONLY)
    except ValueError:  # not JSON, or nested too deeply
        return None
    return key if len(key) <= max_nbytes else None


def put_bounded(cache: dict[Any, Any], key: Any, value: Any) -> None:
    """Put an entry into a cache, which is emptied when it is full."""
    if len(cache) >= _MAX_ENTRIES:
        cache.clear()
    cache[key] = value
