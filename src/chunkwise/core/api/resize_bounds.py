"""New bounds of a view as new bounds of its array."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import TypeAlias

import numpy as np

from chunkwise.core.arrays.protocol import ResizeRequest
from chunkwise.core.index_space import IndexDomain, IndexTransform
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError

__all__ = ["as_bounds", "resize_request"]

Bounds: TypeAlias = Sequence[int | None]


def as_bounds(values: Iterable[int | None] | None) -> list[int | None] | None:
    """Return a user's bounds as a list; raise TypeError for anything but integers and None."""
    if isinstance(values, int | np.integer):
        raise TypeError(
            f"expected a bound for each dimension, such as exclusive_max=[{values}], not {values}"
        )
    return None if values is None else [None if v is None else index(v) for v in values]


def resize_request(
    transform: IndexTransform,
    domain: IndexDomain,
    inclusive_min: Bounds | None,
    exclusive_max: Bounds | None,
    *,
    metadata_only: bool,
    tied: bool,
    expand_only: bool,
    shrink_only: bool,
) -> ResizeRequest:
    """Map new bounds of a view to bounds of the array; None leaves a bound unchanged."""
    rank = transform.input_rank
    lows = inclusive_min if inclusive_min is not None else [None] * rank
    highs = exclusive_max if exclusive_max is not None else [None] * rank
    out_low: list[int | None] = [None] * transform.output_rank
    out_high: list[int | None] = [None] * transform.output_rank
    for d, (low, high) in enumerate(zip(lows, highs, strict=True)):
        _check_requested(transform, d, low, high)
        if low is None and high is None:
            continue
        for o, m in enumerate(transform.output):
            if m.input_dimension != d:
                continue
            if m.stride not in (1, -1):
                raise InvalidArgumentError(
                    f"Output dimension {o} depends on resized input dimension {d} "
                    f"with non-unit stride of {m.stride}"
                )
            start = None if low is None else m.offset + m.stride * low
            stop = None if high is None else m.offset + m.stride * high
            if m.stride < 0:
                start, stop = (None if stop is None else stop + 1), (None if start is None else start + 1)
            out_low[o], out_high[o] = start, stop
    if not tied and any(bound is not None for bound in (*out_low, *out_high)):
        _check_covers(transform, domain)
    return ResizeRequest(out_low, out_high, metadata_only, expand_only, shrink_only, tied)


def _check_requested(transform: IndexTransform, d: int, low: int | None, high: int | None) -> None:
    problem = f"Invalid resize request for input dimension {d}"
    if low is not None and high is not None and low > high:
        raise InvalidArgumentError(f"{problem}: Invalid requested bounds [{low}, {high})")
    if low is not None and not transform.implicit_lower_bounds[d]:
        raise InvalidArgumentError(f"{problem}: Cannot change explicit lower bound")
    if high is not None and not transform.implicit_upper_bounds[d]:
        raise InvalidArgumentError(f"{problem}: Cannot change explicit upper bound")
    # The other bound is unchanged.
    first, last = transform.input_inclusive_min[d], transform.input_exclusive_max[d]
    if high is not None and low is None and not transform.implicit_lower_bounds[d] and high < first:
        raise InvalidArgumentError(f"{problem}: Invalid requested bounds [{first}, {high})")
    if low is not None and high is None and not transform.implicit_upper_bounds[d] and low > last:
        raise InvalidArgumentError(f"{problem}: Invalid requested bounds [{low}, {last})")


def _check_covers(transform: IndexTransform, domain: IndexDomain) -> None:
    """Raise unless the view covers the whole array, apart from open implicit bounds."""
    unless = "but `resize_tied_bounds` was not specified"
    used: set[int] = set()
    for o, m in enumerate(transform.output):
        if m.index_array is not None:
            raise InvalidArgumentError(f"Output dimension {o} has index array map {unless}")
        d = m.input_dimension
        low, high = m.offset, m.offset + 1
        if d is not None:
            if d in used:
                raise InvalidArgumentError(f"Input dimension {d} corresponds to a diagonal {unless}")
            used.add(d)
            if m.stride not in (1, -1):
                raise InvalidArgumentError(
                    f"Output dimension {o} depends on input dimension {d} "
                    f"with non-unit stride of {m.stride} {unless}"
                )
            low, high = _covered(transform, domain, o)
        for start, stop in ((domain.inclusive_min[o], low), (high, domain.exclusive_max[o])):
            if start < stop:
                raise FailedPreconditionError(
                    f"Resize operation would also affect output dimension {o} "
                    f"over the interval [{start}, {stop}) {unless}"
                )


def _covered(transform: IndexTransform, domain: IndexDomain, o: int) -> tuple[int, int]:
    """Return the interval of output dimension `o` that the view covers; an implicit end covers everything."""
    m = transform.output[o]
    d = m.input_dimension
    assert d is not None and m.stride is not None
    ends = (m.offset + m.stride * transform.input_inclusive_min[d], transform.implicit_lower_bounds[d])
    other = (m.offset + m.stride * transform.input_exclusive_max[d], transform.implicit_upper_bounds[d])
    if m.stride < 0:
        ends, other = (other[0] + 1, other[1]), (ends[0] + 1, ends[1])
    low = domain.inclusive_min[o] if ends[1] else ends[0]
    return low, domain.exclusive_max[o] if other[1] else other[0]
