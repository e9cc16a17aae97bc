"""Domains made from two domains: hull, intersection, and merging of what two sources specify."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from chunkwise.core.index_space.box import Box
from chunkwise.core.index_space.dim import Bounds
from chunkwise.core.index_space.interval import INF, UPPER, half_open
from chunkwise.core.index_space.label import check_unique, merge_labels
from chunkwise.errors import InvalidArgumentError, prefix

__all__ = ["combine_domains", "merge_bounds", "merge_domains"]

B = TypeVar("B", bound=Box)


def combine_domains(a: B, b: B, verb: str, combine: Callable[[Bounds, Bounds], Bounds]) -> B:
    """Return the domain of the dimensions of `a` and `b` combined one by one; raise ``Cannot <verb> ...``."""
    if not isinstance(b, type(a)):
        raise TypeError(f"{verb} takes an IndexDomain, not {b!r}")
    context = f"Cannot {verb} index domain {a} with index domain {b}"
    if a.rank != b.rank:
        raise InvalidArgumentError(f"{context}: Ranks do not match")
    bounds, labels = [], []
    for i, (x, y) in enumerate(zip(a._bounds(), b._bounds(), strict=True)):
        try:
            labels.append(merge_labels(a._labels[i], b._labels[i]))
            bounds.append(combine(x, y))
        except InvalidArgumentError as e:
            raise prefix(e, f"{context}: Mismatch in dimension {i}") from None
    check_unique(labels)
    return a._from_bounds(bounds, labels)


def merge_bounds(a: Bounds, b: Bounds) -> Bounds:
    """Return the bounds that two sources specify together, or raise."""
    # An implicit infinite end specifies nothing; others must be equal, and are implicit only if both are.
    lo, implicit_lo = _merge_end(a[0], a[2], b[0], b[2], -INF, "Lower")
    hi, implicit_hi = _merge_end(a[1], a[3], b[1], b[3], UPPER, "Upper")
    # Ends from different sources may be in the wrong order.
    half_open(lo, hi)
    return lo, hi, implicit_lo, implicit_hi


def _merge_end(
    a: int, implicit_a: bool, b: int, implicit_b: bool, infinity: int, side: str
) -> tuple[int, bool]:
    if a == infinity and implicit_a:
        return b, implicit_b
    if b == infinity and implicit_b:
        return a, implicit_a
    if a != b:
        raise InvalidArgumentError(f"{side} bounds do not match")
    return a, implicit_a and implicit_b


def merge_domains(a: B, b: B) -> B:
    """Return the domain that two sources specify together; raise if ranks, labels or bounds differ."""
    return combine_domains(a, b, "merge", merge_bounds)
