"""Pulling the bounds of a domain back through output index maps, and checking them.

Each output of the inner mapping is an index into the outer domain.  The bounds of the outer domain are
carried to the inner input dimensions in three steps.

1. A constant output must lie in the outer interval, where an implicit end does not count.
2. A strided output allows the inputs that it maps into the outer interval.  The ends keep their implicit
   flags and change places if the stride is negative.  Outputs of one input intersect.
3. An implicit end of the inner domain is replaced by the allowed one; an explicit end stays and must be
   allowed, unless the allowed end is implicit or the interval is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chunkwise.core.index_space.dim import Bounds
from chunkwise.core.index_space.interval import INF, MAX_FINITE, MIN_FINITE, UPPER, format_bounds, pull_back
from chunkwise.errors import InvalidArgumentError, OutOfRangeError, prefix

if TYPE_CHECKING:
    from chunkwise.core.index_space.box import Box
    from chunkwise.core.index_space.output_map import OutputIndexMap

__all__ = ["explicit_bounds", "propagate"]


def explicit_bounds(bounds: Bounds) -> tuple[int, int]:
    """Return the interval in which an implicit end counts as infinite."""
    lo, hi, implicit_lo, implicit_hi = bounds
    return -INF if implicit_lo else lo, UPPER if implicit_hi else hi


def check_constant(value: int, bounds: Bounds, output_dim: int) -> None:
    """Raise OutOfRangeError if a constant output is not a finite index within the explicit `bounds`."""
    lo, hi = explicit_bounds(bounds)
    if not (lo <= value < hi and MIN_FINITE <= value <= MAX_FINITE):
        raise OutOfRangeError(
            f"Checking bounds of constant output index map for dimension {output_dim}: "
            f"Index {value} is outside valid range {format_bounds(lo, hi)}"
        )


def constrain(a: Bounds, b: Bounds) -> Bounds:
    """Return the bounds that two outputs allow together; an explicit end wins over an implicit one."""
    lo, implicit_lo = (a[0], a[2]) if not a[2] and b[2] else (b[0], b[2])
    hi, implicit_hi = (a[1], a[3]) if not a[3] and b[3] else (b[1], b[3])
    if a[2] == b[2]:
        lo = max(a[0], b[0])
    if a[3] == b[3]:
        hi = min(a[1], b[1])
    return lo, max(lo, hi), implicit_lo, implicit_hi


def propagate(outer: Sequence[Bounds], inner: Box, output: Sequence[OutputIndexMap]) -> Box:
    """Return `inner` with its bounds resolved against those of `outer`, which `output` maps it into."""
    # Array maps take no part: their values are checked where they are used.
    # An empty domain can't be out of bounds.
    checked = not inner._is_empty()
    allowed: dict[int, Bounds] = {}
    for i, m in enumerate(output):
        if m._array is not None:
            continue
        if m._dim is None:
            if checked:
                check_constant(m._offset, outer[i], i)
            continue
        lo, hi, implicit_lo, implicit_hi = outer[i]
        if m._offset or m._stride != 1:
            try:
                lo, hi = pull_back(lo, hi, m._offset, m._stride)
            except InvalidArgumentError as e:
                raise prefix(
                    e, f"Propagating bounds from dimension {i} to input dimension {m._dim}"
                ) from None
            if m._stride < 0:
                implicit_lo, implicit_hi = implicit_hi, implicit_lo
        bounds = (lo, hi, implicit_lo, implicit_hi)
        allowed[m._dim] = constrain(allowed[m._dim], bounds) if m._dim in allowed else bounds
    if not allowed:
        return inner
    new = inner._bounds()
    for dim, bounds in sorted(allowed.items()):
        new[dim] = _resolve(new[dim], bounds, dim, checked)
    return inner._from_bounds(new, inner._labels)


def _resolve(own: Bounds, allowed: Bounds, dim: int, checked: bool) -> Bounds:
    lo, hi, implicit_lo, implicit_hi = own
    limit_lo, limit_hi = explicit_bounds(allowed)
    bad = (not implicit_lo and lo < limit_lo) or (not implicit_hi and hi > limit_hi)
    if implicit_lo:
        lo, implicit_lo = allowed[0], allowed[2]
    if implicit_hi:
        hi, implicit_hi = allowed[1], allowed[3]
    if bad and checked:
        raise OutOfRangeError(
            f"Propagated bounds {_describe(allowed)}, for dimension {dim} are incompatible with "
            f"existing bounds {_describe((lo, max(lo, hi), False, False))}."
        )
    return lo, max(lo, hi), implicit_lo, implicit_hi


def _describe(bounds: Bounds) -> str:
    text = format_bounds(*bounds)
    unbounded = bounds[0] == -INF and bounds[1] == UPPER
    return text if unbounded else f"{text}, with size={bounds[1] - bounds[0]}"
