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
    """Cut a product of sets into about `n_parts` products of about the same size.

    The slowest set is cut first, so that a part is a run of neighbours in the order of the plan.

    Parameters
    ----------
    axes : tuple of axes
        The product.
    n_parts : int
        How many parts there should be.
    n_small, smaller : int
        Each of the last `n_small` parts is cut into about `smaller` ones: workers that take the parts in
        their order end at about the same time.

    Returns
    -------
    list of tuple of axes
        At least one part unless the product is empty, and less than twice as many as `n_parts` for each
        set that is cut; not counting the small ones.
    """
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
