"""Bounds at the time of reading or writing, when the extent of the stored array is known."""

from __future__ import annotations

from chunkwise.index_space.compose import check_array_values
from chunkwise.index_space.domain import IndexDomain
from chunkwise.index_space.interval import intersect, pull_back
from chunkwise.index_space.propagate import propagate
from chunkwise.index_space.transform import IndexTransform

__all__ = ["resolve_bounds"]


def resolve_bounds(transform: IndexTransform, storage: IndexDomain) -> IndexTransform:
    """Return `transform` with implicit bounds resolved against `storage`; raise if it leads out."""
    if storage.rank == len(transform._output) and _is_within(transform, storage):
        return transform
    limits = [(lo, hi, False, False) for lo, hi in zip(storage._lo, storage._hi, strict=True)]
    domain = propagate(limits, transform._domain, transform._output)
    if not domain._is_empty():
        for (lo, hi, _, _), m in zip(limits, transform._output, strict=True):
            if m._array is not None:
                check_array_values(m._array, intersect(m._range, pull_back(lo, hi, m._offset, m._stride)))
    return IndexTransform._make(domain, transform._output)


def _is_within(transform: IndexTransform, storage: IndexDomain) -> bool:
    """Return True if nothing is left to resolve and nothing is out of bounds, as far as is evident."""
    # Implicit bounds count as unresolved unless they are those of the stored array.
    domain = transform._domain
    lower, upper = domain._lo, domain._hi
    for lo, hi, m in zip(storage._lo, storage._hi, transform._output, strict=True):
        dim = m._dim
        if dim is None:
            if m._array is not None or not lo <= m._offset < hi:
                return False
            continue
        first, last, stride = lower[dim], upper[dim] - 1, m._stride
        if first > last:
            return False
        if domain._implicit_lo[dim] or domain._implicit_hi[dim]:
            if m._offset or stride != 1 or lo != first or hi != last + 1:
                return False
        elif not (lo <= m._offset + stride * first < hi and lo <= m._offset + stride * last < hi):
            return False
    return True
