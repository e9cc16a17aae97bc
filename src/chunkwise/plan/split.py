"""Dividing a plan among workers: neighbours stay together."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any, Protocol, Self, TypeVar

__all__ = ["split"]


class _Axis(Protocol):
    @property
    def n_entries(self) -> int: ...
    def take(self, entries: slice) -> Self: ...


A = TypeVar("A", bound=_Axis)


def split(axes: tuple[A, ...], n_parts: int, n_small: int = 0, smaller: int = 1) -> list[tuple[A, ...]]:
    """Cut a product of sets into about `n_parts` products of about the same size."""
    # The slowest set is cut first, so that a part is a run of neighbours in the order of the plan.  Each of
    # the last `n_small` parts is cut into about `smaller` ones: workers that take the parts in their order
    # end together.
    if n_small and smaller > 1:
        parts = split(axes, n_parts)
        small = [piece for part in parts[-n_small:] for piece in split(part, smaller)]
        return parts[:-n_small] + small
    if prod(axis.n_entries for axis in axes) == 0:
        return []
    if n_parts <= 1 or not axes:
        return [axes]
    head, tail = axes[0], axes[1:]
    n = head.n_entries
    if n == 1:
        return [(head, *rest) for rest in split(tail, n_parts)]
    if n >= n_parts:
        n_parts = -(-n // (n // n_parts))  # rather more than some of twice the size
        cuts = [n * i // n_parts for i in range(n_parts + 1)]
        return [(head.take(slice(a, b)), *tail) for a, b in pairwise(cuts)]
    inner: list[Any] = split(tail, -(-n_parts // n))
    return [(head.take(slice(i, i + 1)), *rest) for i in range(n) for rest in inner]
