"""Composition, inversion and restriction of index mappings: ``compose(a, b)`` maps ``x`` to ``a(b(x))``.

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
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkwise.core.index_space.box import IndexMapping, M
from chunkwise.core.index_space.dim import Bounds, Dim, find_dimension
from chunkwise.core.index_space.interval import (
    INF,
    MAX_FINITE,
    MIN_FINITE,
    UPPER,
    check_int64,
    format_bounds,
    intersect,
    pull_back,
)
from chunkwise.core.index_space.output_map import (
    IndexArray,
    OutputIndexMap,
    array_map,
    constant_map,
    single_map,
)
from chunkwise.errors import InvalidArgumentError, OutOfRangeError, prefix

if TYPE_CHECKING:
    from chunkwise.core.index_space.box import Box

__all__ = [
    "check_array_values",
    "compose",
    "explicit_bounds",
    "invert",
    "propagate",
    "restrict",
    "substitute",
]


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


def compose(a: M, b: IndexMapping) -> M:
    """Return the mapping ``x -> a(b(x))`` over the domain of `b`, whose implicit bounds are resolved."""
    outer = a._domain
    if outer.rank != len(b._output):
        raise InvalidArgumentError(
            f"Rank {outer.rank} -> {len(a._output)} transform cannot be composed with "
            f"rank {b._domain.rank} -> {len(b._output)} transform."
        )
    domain = propagate(outer._bounds(), b._domain, b._output)
    empty = domain._is_empty()
    return a._make(
        domain, tuple([_compose_map(m, i, outer, b._output, domain, empty) for i, m in enumerate(a._output)])
    )


def substitute(m: M, domain: Box, inner: tuple[OutputIndexMap, ...]) -> M:
    """Return ``x -> m(inner(x))`` over `domain`, which is known to fit; `inner` has no index arrays."""
    # Unlike `compose`, this keeps index arrays with a single element as they are.
    empty = domain._is_empty()
    output = []
    for i, x in enumerate(m._output):
        if x._array is None or empty:
            output.append(_compose_map(x, i, m._domain, inner, domain, empty))
        else:
            array = _compose_array(x._array, m._domain, inner, domain)
            output.append(array_map(x._offset, x._stride, array, x._range))
    return m._make(domain, tuple(output))


def _compose_map(
    m: OutputIndexMap,
    i: int,
    outer: Box,
    inner: tuple[OutputIndexMap, ...],
    domain: Box,
    empty: bool,
) -> OutputIndexMap:
    if m._array is not None:
        if empty:
            return constant_map(0)
        array = _compose_array(m._array, outer, inner, domain)
        return _resolve_array(m._offset, m._stride, array, m._range)
    if m._dim is None:
        return m
    n = inner[m._dim]
    if n._array is not None and empty:
        return constant_map(0)
    offset, stride = m._offset, m._stride
    if offset == 0 and stride == 1 and n._array is None:
        return n
    offset = check_int64(
        offset + stride * n._offset, f"Integer overflow computing output offset for output dimension {i}."
    )
    if n._dim is None and n._array is None:
        return constant_map(offset)
    stride = check_int64(
        stride * n._stride, f"Integer overflow computing output_strides[{i}] for output dimension {i}."
    )
    if n._array is None:
        assert n._dim is not None
        return single_map(offset, stride, n._dim)
    allowed = explicit_bounds(outer._bounds()[m._dim])
    index_range = intersect(n._range, pull_back(*allowed, n._offset, n._stride))
    return _resolve_array(offset, stride, n._array, index_range)


def _resolve_array(
    offset: int, stride: int, array: IndexArray, index_range: tuple[int, int]
) -> OutputIndexMap:
    """Return the array map, or a constant for a single element; raise if that is outside `index_range`."""
    if array.size != 1:
        return array_map(offset, stride, array, index_range)
    value = int(array.flat[0])
    check_array_values(array, index_range)
    message = "Integer overflow computing output offset"
    return constant_map(check_int64(offset + stride * value, message))


def check_array_values(array: IndexArray, index_range: tuple[int, int]) -> None:
    """Raise OutOfRangeError, naming the first culprit, if an element is outside `index_range`."""
    lo, hi = index_range
    bad = (array < lo) | (array >= hi)
    if bad.any():
        value = int(array[bad][0])
        raise OutOfRangeError(f"Index {value} is outside valid range {format_bounds(lo, hi)}")


def _compose_array(
    array: IndexArray, outer: Box, inner: tuple[OutputIndexMap, ...], domain: Box
) -> IndexArray:
    """Return the array over `domain` whose element at ``x`` is that of `array` at ``inner(x)``."""
    shape = domain.shape
    dims = [n._dim for d, n in enumerate(inner) if array.shape[d] != 1 and n._dim is not None]
    gather = len(set(dims)) != len(dims) or any(n._array is not None for n in inner)
    selection = _gather_selection if gather else _strided_selection
    result: IndexArray = array[selection(array, outer, inner, domain)]
    if not gather:
        # The remaining axes are in the order of the outer dimensions; put them where the inner ones are.
        order = sorted(range(len(dims)), key=dims.__getitem__)
        full = [shape[d] if d in dims else 1 for d in range(len(shape))]
        result = result.transpose(order).reshape(full)
    return result


def _strided_selection(
    array: IndexArray, outer: Box, inner: tuple[OutputIndexMap, ...], domain: Box
) -> tuple[Any, ...]:
    """Return a basic NumPy index of `array` for inner maps that read different dimensions, or none."""
    out: list[Any] = []
    for extent, origin, n in zip(array.shape, outer._lo, inner, strict=True):
        if extent == 1:
            out.append(0)
        elif n._dim is None:
            out.append(n._offset - origin)
        else:
            lo, hi = domain._lo[n._dim], domain._hi[n._dim]
            start = n._offset + n._stride * lo - origin
            stop = start + n._stride * (hi - lo)
            out.append(slice(start, stop if stop >= 0 else None, n._stride))
    # The ellipsis makes the result an array even if no axis is left.
    return (*out, ...)


def _gather_selection(
    array: IndexArray, outer: Box, inner: tuple[OutputIndexMap, ...], domain: Box
) -> tuple[Any, ...]:
    """Return index arrays of the inner rank, one per axis of `array`, that broadcast to the result."""
    rank = domain.rank
    out: list[Any] = []
    for d, (extent, n) in enumerate(zip(array.shape, inner, strict=True)):
        if extent == 1:
            out.append(np.zeros((1,) * rank, np.int64))
        elif n._array is not None:
            allowed = intersect(
                n._range, pull_back(*explicit_bounds(outer._bounds()[d]), n._offset, n._stride)
            )
            try:
                check_array_values(n._array, allowed)
            except OutOfRangeError as e:
                raise prefix(e, f"In index array map for output dimension {d}") from None
            out.append(n._offset + n._stride * n._array - outer._lo[d])
        elif n._dim is None:
            out.append(np.full((1,) * rank, n._offset - outer._lo[d]))
        else:
            x = np.arange(domain._lo[n._dim], domain._hi[n._dim])
            shape = [1] * rank
            shape[n._dim] = len(x)
            out.append((n._offset + n._stride * x - outer._lo[d]).reshape(shape))
    return tuple(out)


def invert(m: M) -> M:
    """Return the mapping from the outputs of `m` back to its inputs, or raise."""
    # A constant output becomes a dimension with one index; an unused input with one index becomes a constant.
    domain = m._domain
    own = domain._bounds()
    bounds: list[Bounds] = []
    labels: list[str] = []
    inverse: list[OutputIndexMap | None] = [None] * domain.rank
    for i, x in enumerate(m._output):
        if x._array is not None:
            raise InvalidArgumentError(f"Transform is not invertible: output dimension {i} is an index array")
        if x._dim is None:
            bounds.append((x._offset, x._offset + 1, False, False))
            labels.append("")
            continue
        if x._stride not in (1, -1):
            raise InvalidArgumentError(
                f"Transform is not invertible: output dimension {i} has stride {x._stride}, not 1 or -1"
            )
        if inverse[x._dim] is not None:
            raise InvalidArgumentError(
                f"Transform is not invertible: input dimension {x._dim} determines more than one output"
            )
        # x = -offset / stride + output / stride, and 1 / stride == stride since it is 1 or -1.
        offset = check_int64(-x._offset * x._stride, f"Integer overflow inverting output dimension {i}")
        lo, hi, implicit_lo, implicit_hi = own[x._dim]
        lo, hi = pull_back(lo, hi, offset, x._stride)
        if x._stride < 0:
            implicit_lo, implicit_hi = implicit_hi, implicit_lo
        bounds.append((lo, hi, implicit_lo, implicit_hi))
        labels.append(domain._labels[x._dim])
        inverse[x._dim] = single_map(offset, x._stride, i)
    for d, (lo, hi, _, _) in enumerate(own):
        if inverse[d] is None:
            if hi - lo != 1:
                raise InvalidArgumentError(
                    f"Transform is not invertible: unused input dimension {d} does not have a size of 1"
                )
            inverse[d] = constant_map(lo)
    output = tuple([x for x in inverse if x is not None])
    return m._make(domain._from_bounds(bounds, labels), output)


def restrict(m: M, domain: Box) -> M:
    """Return `m` limited to the bounds of `domain`, which become explicit."""
    # Dimensions match by label if both sides have labels, otherwise by position; unlabeled dimensions of a
    # labeled `domain` match in order with the unlabeled ones of `m`.
    target = m._domain
    positions = _match(target, domain)
    bounds = target._bounds()
    labels = target._labels if any(target._labels) else domain._labels
    for i, d in enumerate(positions):
        limits = explicit_bounds(bounds[d])
        lo, hi = domain._lo[i], domain._hi[i]
        if lo != hi and not (limits[0] <= lo and hi <= limits[1]):
            raise OutOfRangeError(
                f"Cannot slice target dimension {d} {_shown_bounds(bounds[d], labels[d])} "
                f"with index domain dimension {i} {_shown_bounds(domain._bounds()[i], domain._labels[i])}"
            )
        bounds[d] = (lo, hi, False, False)
    new = target._from_bounds(bounds, labels)
    return m._make(new, tuple([_sliced(x, target, new) for x in m._output]))


def _shown_bounds(bounds: Bounds, label: str) -> str:
    return f"{{{Dim._make(bounds, label)}}}"


def _match(target: Box, domain: Box) -> list[int]:
    """Return the target dimension for each dimension of `domain`."""
    if not any(target._labels) or not any(domain._labels):
        if target.rank != domain.rank:
            raise InvalidArgumentError(
                f"Rank of index domain ({domain.rank}) must match rank of slice target ({target.rank}) "
                "when the index domain or slice target is unlabeled"
            )
        return list(range(target.rank))
    free = [d for d, label in enumerate(target._labels) if not label]
    n_unlabeled = domain._labels.count("")
    named = {label: find_dimension(label, target._labels) for label in domain._labels if label}
    if n_unlabeled > len(free):
        raise InvalidArgumentError(
            "Number of unlabeled dimensions in index domain exceeds "
            "number of unlabeled dimensions in slice target"
        )
    if n_unlabeled and target.rank != domain.rank:
        raise InvalidArgumentError(
            f"Rank ({domain.rank}) of index domain containing unlabeled dimensions "
            f"must equal slice target rank ({target.rank})"
        )
    unlabeled = iter(free)
    return [named[label] if label else next(unlabeled) for label in domain._labels]


def _sliced(m: OutputIndexMap, old: Box, new: Box) -> OutputIndexMap:
    """Return `m` with the part of its array that covers `new`; the whole array covers `old`."""
    if m._array is None:
        return m
    if new._is_empty():
        return constant_map(0)
    key = tuple(
        [
            slice(None) if n == 1 else slice(lo - origin, hi - origin)
            for n, origin, lo, hi in zip(m._array.shape, old._lo, new._lo, new._hi, strict=True)
        ]
    )
    return array_map(m._offset, m._stride, m._array[key], m._range)
