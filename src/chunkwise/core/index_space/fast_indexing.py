"""Shortcuts for the commonest expressions: integers and slices in one pass; index arrays of one shape.

The results equal those of `numpy_indexing.index_all`, which handles all other cases, errors included.
Without the shortcut for index arrays, indexing by three arrays of 1000 points takes 79 us instead of 10, and
reading 8 points from a cached chunk 0.42 ms instead of 0.27.
"""

from __future__ import annotations

from types import EllipsisType
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkwise.core.index_space.dim import MAX_RANK
from chunkwise.core.index_space.interval import INF, MAX_FINITE, MIN_FINITE, UPPER
from chunkwise.core.index_space.numpy_indexing import Mode, slice_bounds
from chunkwise.core.index_space.numpy_terms import SliceTerm
from chunkwise.core.index_space.output_map import (
    IndexArray,
    OutputIndexMap,
    array_map,
    constant_map,
    single_map,
)
from chunkwise.errors import ChunkwiseError

if TYPE_CHECKING:
    from chunkwise.core.index_space.box import Box

__all__ = ["fast_arrays", "fast_index"]

_WHOLE = slice(None)


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


def fast_arrays(
    domain: Box, output: tuple[OutputIndexMap, ...], key: Any, mode: Mode
) -> tuple[Box, tuple[OutputIndexMap, ...]] | None:
    """Return domain and output of the indexed mapping, or None if the general way has to decide."""
    terms = _terms(key, len(domain._lo))
    if terms is None:
        return None
    arrays: dict[int, IndexArray] = {}  # for each old dimension that one replaces
    for d, term in enumerate(terms):
        if type(term) is not slice and type(term) is not int:
            array = _index_array(term)
            if array is None:
                return None
            arrays[d], terms[d] = array, _WHOLE
    # The rest is indexed as if there were no arrays.
    rest = fast_index(domain, output, tuple(terms), expanded=True) if arrays else None
    if rest is None:
        return None
    box, rest_output = rest
    dims: list[tuple[int, int, bool, bool, str]] = []
    place: list[int] = []  # for each dimension of the rest: the first new one
    joint_shape: tuple[int, ...] | None = None
    joint_at = 0  # where the dimensions that all arrays share go
    apart = False  # whether a slice followed the first array
    kept = zip(box._lo, box._hi, box._implicit_lo, box._implicit_hi, box._labels, strict=True)
    for d, term in enumerate(terms):
        if type(term) is not slice:
            continue
        own = next(kept)
        place.append(len(dims))
        if d not in arrays:
            if own[0] >= own[1]:
                return None
            dims.append(own)
            apart = joint_shape is not None
            continue
        shape = arrays[d].shape
        if mode == "oindex":
            dims += [(0, n, False, False, "") for n in shape]
        elif joint_shape is None:
            joint_shape, joint_at = shape, len(dims) if mode == "default" else 0
        elif shape != joint_shape:
            return None
        elif apart:
            joint_at = 0
    if joint_shape is not None:
        dims[joint_at:joint_at] = [(0, n, False, False, "") for n in joint_shape]
        place = [i + len(joint_shape) if i >= joint_at else i for i in place]
    rank = len(dims)
    if rank > MAX_RANK:
        return None
    maps = []
    for m, rest_map in zip(output, rest_output, strict=True):
        dim, new = m._dim, rest_map._dim
        if dim is None or new is None:
            maps.append(rest_map)
        elif dim in arrays:
            array = arrays[dim]
            at = joint_at if joint_shape is not None else place[new]
            if rank != array.ndim:
                array = array.reshape((1,) * at + array.shape + (1,) * (rank - at - array.ndim))
            limits = (
                -INF if domain._implicit_lo[dim] else domain._lo[dim],
                UPPER if domain._implicit_hi[dim] else domain._hi[dim],
            )
            maps.append(array_map(m._offset, m._stride, array, limits))
        else:
            maps.append(single_map(rest_map._offset, rest_map._stride, place[new]))
    lo, hi, implicit_lo, implicit_hi, labels = zip(*dims, strict=True)
    return domain._make(lo, hi, implicit_lo, implicit_hi, labels), tuple(maps)


def _terms(key: Any, rank: int) -> list[Any] | None:
    """Return one term for each dimension; an ellipsis is replaced, missing terms are added."""
    terms = list(key) if type(key) is tuple else [key]
    for i, term in enumerate(terms):
        if type(term) is EllipsisType:
            terms[i : i + 1] = [_WHOLE] * (rank - len(terms) + 1)
            break
    if len(terms) > rank:
        return None
    return terms + [_WHOLE] * (rank - len(terms))


def _index_array(term: Any) -> IndexArray | None:
    """Return a copy of `term` if it is an int64 array of at least two indices; None for anything else."""
    if type(term) is list:
        array = np.array(term) if term and type(term[0]) is int else None
    elif type(term) is np.ndarray and term.dtype.kind in "iu" and term.dtype != np.uint64:
        array = np.array(term, np.int64)
    elif type(term) is np.ndarray and term.dtype == np.bool_ and term.ndim == 1:
        array = np.flatnonzero(term)
    else:
        return None
    # A single element becomes a constant.
    return None if array is None or array.size < 2 or array.dtype != np.int64 else array
