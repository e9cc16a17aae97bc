"""A shortcut for the commonest expressions: integers, slices and an ellipsis, in one pass.

The result equals that of `numpy_indexing.index_all`, which handles all other cases, errors included.
"""

from __future__ import annotations

from types import EllipsisType
from typing import TYPE_CHECKING, Any

from chunkwise.core.index_space.interval import MAX_FINITE, MIN_FINITE
from chunkwise.core.index_space.numpy_indexing import slice_bounds
from chunkwise.core.index_space.numpy_terms import SliceTerm
from chunkwise.core.index_space.output_map import OutputIndexMap, constant_map, single_map
from chunkwise.errors import ChunkwiseError

if TYPE_CHECKING:
    from chunkwise.core.index_space.box import Box

__all__ = ["fast_index"]


def fast_index(
    domain: Box, output: tuple[OutputIndexMap, ...], key: Any, *, expanded: bool = False
) -> tuple[Box, tuple[OutputIndexMap, ...]] | None:
    """Return domain and output of the indexed mapping, or None if the general function has to decide."""
    if type(key) is not tuple:
        key = (key,)
    old_lo, old_hi = domain._lo, domain._hi
    rank = len(old_lo)
    if len(key) > rank + (not expanded):
        return None
    old_implicit_lo, old_implicit_hi, old_labels = domain._implicit_lo, domain._implicit_hi, domain._labels
    lo, hi, implicit_lo, implicit_hi, labels = [], [], [], [], []
    # For each old dimension: the new one, or None and the constant index; the offset if the step is not 1.
    place: list[int | None] = []
    constants: list[int] = []
    strides: dict[int, int] | None = None
    n = 0
    for d, term in enumerate(key):
        kind = type(term)
        if kind is EllipsisType and not expanded:
            filled = (*key[:d], *[slice(None)] * (rank - len(key) + 1), *key[d + 1 :])
            return fast_index(domain, output, filled, expanded=True)
        if d == rank:
            return None
        first, end = old_lo[d], old_hi[d]
        if kind is int:
            if (
                not MIN_FINITE <= term <= MAX_FINITE
                or (term < first and not old_implicit_lo[d])
                or (term >= end and not old_implicit_hi[d])
            ):
                return None
            place.append(None)
            constants.append(term)
            continue
        if kind is not slice:
            return None
        start, stop, step = term.start, term.stop, term.step
        keep_lo, keep_hi = old_implicit_lo[d], old_implicit_hi[d]
        if step is not None and step != 1:
            # With implicit bounds, the result would depend on composition.
            if (
                keep_lo
                or keep_hi
                or type(step) is not int
                or not (start is None or type(start) is int)
                or not (stop is None or type(stop) is int)
            ):
                return None
            try:
                bounds, offset, _ = slice_bounds((first, end, False, False), SliceTerm(start, stop, step))
            except ChunkwiseError:
                return None
            lo.append(bounds[0])
            hi.append(bounds[1])
            implicit_lo.append(False)
            implicit_hi.append(False)
            labels.append(old_labels[d])
            place.append(n)
            constants.append(offset)
            if strides is None:
                strides = {}
            strides[d] = step
            n += 1
            continue
        if start is not None:
            if (
                type(start) is not int
                or not MIN_FINITE <= start <= MAX_FINITE
                or (start < first and not keep_lo)
            ):
                return None
            first, keep_lo = start, False
        if stop is not None:
            if type(stop) is not int or stop > MAX_FINITE or (stop > end and not keep_hi):
                return None
            end, keep_hi = stop, False
        if first > end:
            return None
        lo.append(first)
        hi.append(end)
        implicit_lo.append(keep_lo)
        implicit_hi.append(keep_hi)
        labels.append(old_labels[d])
        place.append(n)
        constants.append(0)
        n += 1
    used = len(place)
    if used < rank:
        lo += old_lo[used:]
        hi += old_hi[used:]
        implicit_lo += old_implicit_lo[used:]
        implicit_hi += old_implicit_hi[used:]
        labels += old_labels[used:]
        shift = n - used
    else:
        shift = 0
    maps = []
    for m in output:
        dim = m._dim
        if dim is None:
            if m._array is not None:
                return None
            maps.append(m)
            continue
        new = place[dim] if dim < used else dim + shift
        if new is None:
            offset = m._offset + m._stride * constants[dim]
            if not -(2**63) <= offset < 2**63:
                return None
            maps.append(constant_map(offset))
        elif strides is not None and dim in strides:
            offset, stride = m._offset + m._stride * constants[dim], m._stride * strides[dim]
            if not (-(2**63) <= offset < 2**63 and -(2**63) <= stride < 2**63):
                return None
            maps.append(single_map(offset, stride, new))
        elif new == dim:
            maps.append(m)
        else:
            maps.append(single_map(m._offset, m._stride, new))
    new_domain = domain._make(tuple(lo), tuple(hi), tuple(implicit_lo), tuple(implicit_hi), tuple(labels))
    return new_domain, tuple(maps)
