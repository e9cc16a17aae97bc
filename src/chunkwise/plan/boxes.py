"""Boxes cut into smaller ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

__all__ = ["boxes"]


def boxes(
    lower: Sequence[int], upper: Sequence[int], unit: Sequence[int], n_elements: int
) -> Iterator[tuple[slice, ...]]:
    """Yield slices of ``[lower, upper)`` that make it up, in C order, cut at multiples of `unit`."""
    # A dimension is cut only if those before it are cut into single units, so with units of 1 the boxes are
    # runs of the C order.  A box has at most `n_elements`, unless a unit has more.
    sizes = [hi - lo for lo, hi in zip(lower, upper, strict=True)]
    if 0 in sizes:
        return iter(())
    lengths = [min(u, max(1, n)) for u, n in zip(unit, sizes, strict=True)]
    total = 1
    for n in lengths:
        total *= n
    for d in reversed(range(len(sizes))):
        n = min(max(1, n_elements // total), -(-sizes[d] // lengths[d]))
        lengths[d] *= n
        total *= n
    return product(*[_cuts(lo, hi, n) for lo, hi, n in zip(lower, upper, lengths, strict=True)])


def _cuts(lower: int, upper: int, length: int) -> Iterator[slice]:
    if lower < upper <= lower + length:  # not even at a multiple: a dimension before it may be cut already
        yield slice(lower, upper)
        return
    while lower < upper:
        stop = min((lower // length + 1) * length, upper)
        yield slice(lower, stop)
        lower = stop
