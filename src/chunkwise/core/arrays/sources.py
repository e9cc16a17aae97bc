"""The arrays that a virtual array is made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from chunkwise.core.arrays.protocol import OpenArray
from chunkwise.core.index_space import IndexTransform

__all__ = ["array_sources", "base_of"]


def base_of(array: Any, transform: IndexTransform) -> tuple[Any, IndexTransform]:
    """Return the array that casts and the like adapt, and the request that a view is to it."""
    while not hasattr(array, "stored") and hasattr(array, "base"):
        array, transform = array.base(transform)
    return array, transform


def array_sources(
    array: Any, transform: IndexTransform, *, holes: bool = False
) -> Iterator[tuple[OpenArray, IndexTransform]]:
    """Yield the arrays with values of their own below a view, each with the request that the view is to it.

    The layers of a stack are opened, which reads their metadata; nothing else is read.  Elements in no layer
    are an error unless `holes` are allowed.
    """
    array, transform = base_of(array, transform)
    if not hasattr(array, "requests"):
        yield array, transform
        return
    for layer, request in array.requests(array.bounded(transform), holes=holes):
        yield from array_sources(layer, request, holes=holes)
