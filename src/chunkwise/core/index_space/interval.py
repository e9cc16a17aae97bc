"""Intervals of integers as pairs of bounds, with the two infinities of TensorStore's index space.

An interval is a pair ``(inclusive_min, exclusive_max)`` of Python ints.  The lower bound `-INF` means
that the interval has no lower end; the upper bound `UPPER`, which is ``INF + 1``, that it has no upper end.
Finite indices lie in ``[MIN_FINITE, MAX_FINITE]``.
"""

from __future__ import annotations

from chunkwise.errors import InvalidArgumentError

__all__ = [
    "INF",
    "MAX_FINITE",
    "MIN_FINITE",
    "UPPER",
    "check_int64",
    "closed",
    "format_bounds",
    "half_open",
    "intersect",
    "pull_back",
    "shift",
    "sized",
]

INF = 2**62 - 1
UPPER = INF + 1
MIN_FINITE = -INF + 1
MAX_FINITE = INF - 1


def _checked(lo: int, hi: int, kind: str, given: tuple[int, int]) -> tuple[int, int]:
    if not (-INF <= lo < INF and lo <= hi <= UPPER and hi > MIN_FINITE):
        raise InvalidArgumentError(f"({given[0]}, {given[1]}) do not specify a valid {kind} index interval")
    return lo, hi


def half_open(lo: int, hi: int) -> tuple[int, int]:
    """Return ``[lo, hi)``; raise if `lo` is above `hi` or one of them is beyond the infinities."""
    return _checked(lo, hi, "half-open", (lo, hi))


def closed(lo: int, hi: int) -> tuple[int, int]:
    """Return ``[lo, hi + 1)``; raises as `half_open` does."""
    return _checked(lo, hi + 1, "closed", (lo, hi))


def sized(lo: int, size: int) -> tuple[int, int]:
    """Return ``[lo, lo + size)``, where size `UPPER` from 0 has no upper end; raises as `half_open` does."""
    return _checked(lo, lo + size, "sized", (lo, size))


def check_int64(value: int, message: str) -> int:
    """Return `value` if it fits 64 bits, else raise InvalidArgumentError with `message`."""
    if not -(2**63) <= value < 2**63:
        raise InvalidArgumentError(message)
    return value


def format_bounds(lo: int, hi: int, implicit_lo: bool = False, implicit_hi: bool = False) -> str:
    """Return TensorStore's text of an interval: ``[2, 5*)``, with a star after an implicit bound."""
    lower = "(-inf" if lo == -INF else f"[{lo}"
    upper = "+inf" if hi == UPPER else str(hi)
    return f"{lower}{'*' if implicit_lo else ''}, {upper}{'*' if implicit_hi else ''})"


def intersect(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """Return the common part; for disjoint intervals, the empty one at the larger lower bound."""
    lo = max(a[0], b[0])
    return lo, max(lo, min(a[1], b[1]))


def _shifted(bound: int, offset: int) -> int:
    moved = bound + offset
    if not MIN_FINITE <= moved <= MAX_FINITE:
        raise InvalidArgumentError(
            f"{bound} + {offset} is outside valid range {format_bounds(MIN_FINITE, MAX_FINITE + 1)}"
        )
    return moved


def shift(lo: int, hi: int, offset: int) -> tuple[int, int]:
    """Return the interval moved up by `offset`; an infinite end stays where it is."""
    new_lo = lo if lo == -INF else _shifted(lo, offset)
    new_hi = hi if hi == UPPER else _shifted(hi - 1, offset) + 1
    return new_lo, new_hi


def pull_back(lo: int, hi: int, offset: int, stride: int) -> tuple[int, int]:
    """Return the interval of all ``x`` with ``lo <= offset + stride * x < hi``, for `stride` other than 0."""
    if stride > 0:
        new_lo = lo if lo == -INF else -((offset - lo) // stride)
        new_hi = hi if hi == UPPER else -((offset - hi) // stride)
    else:
        new_lo = -INF if hi == UPPER else (offset - hi) // -stride + 1
        new_hi = UPPER if lo == -INF else (offset - lo) // -stride + 1
    if lo == hi:
        # An empty interval lies at its lower bound, rounded up.
        new_lo = new_hi = -((offset - lo) // stride) if stride > 0 else -((lo - offset) // -stride)
    bad_lo = new_lo != -INF and not MIN_FINITE <= new_lo <= INF
    if bad_lo or (new_hi != UPPER and not MIN_FINITE <= new_hi <= INF) or stride == -(2**63):
        raise InvalidArgumentError(
            f"Integer overflow propagating range {format_bounds(lo, hi)} through inverse affine transform "
            f"with offset {offset} and multiplier {stride}"
        )
    return new_lo, new_hi
