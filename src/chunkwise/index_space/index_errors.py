"""The built-in exception of a failure: IndexError in an indexing expression, ValueError in a method."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from chunkwise.errors import ChunkwiseError, InvalidArgumentError, OutOfBoundsError, OutOfRangeError

__all__ = ["as_index_error", "as_value_error"]

P = ParamSpec("P")
R = TypeVar("R")


def as_index_error(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call `function`; what it raises about its arguments becomes an OutOfBoundsError of the same text."""
    try:
        return function(*args, **kwargs)
    except (InvalidArgumentError, OutOfRangeError) as e:
        raise OutOfBoundsError(str(e)) from None


def as_value_error(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call `function`; an OutOfBoundsError of it becomes an InvalidArgumentError of the same text."""
    try:
        return function(*args, **kwargs)
    except OutOfBoundsError as e:
        error: ChunkwiseError = InvalidArgumentError(str(e))
        raise error from None
