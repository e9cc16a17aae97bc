"""Bounds of a read or write: those of the stored array, and the alignment of a source with its target."""

from __future__ import annotations

from collections.abc import Sequence

from chunkwise.core.index_space.compose import check_array_values, propagate
from chunkwise.core.index_space.domain import IndexDomain
from chunkwise.core.index_space.interval import intersect, pull_back
from chunkwise.core.index_space.output_map import constant_map, single_map
from chunkwise.core.index_space.transform import IndexTransform
from chunkwise.errors import InvalidArgumentError, OutOfRangeError

__all__ = ["align", "align_by_position", "check_unread", "marked_like", "resolve_bounds"]


def resolve_bounds(transform: IndexTransform, storage: IndexDomain) -> IndexTransform:
    """Return `transform` with implicit bounds resolved against `storage`; raise if it leads outside."""
    if storage.rank == len(transform._output) and _is_within(transform, storage):
        return transform
    limits = [(lo, hi, False, False) for lo, hi in zip(storage._lo, storage._hi, strict=True)]
    domain = propagate(limits, transform._domain, transform._output)
    if not domain._is_empty():
        for (lo, hi, _, _), m in zip(limits, transform._output, strict=True):
            if m._array is not None:
                check_array_values(m._array, intersect(m._range, pull_back(lo, hi, m._offset, m._stride)))
    return IndexTransform._make(domain, transform._output)


def check_unread(
    transform: IndexTransform, storage: IndexDomain, slices_of: Sequence[int] | None = None
) -> None:
    """Raise OutOfRangeError if a view without elements has an index outside the stored domain.

    Empty dimensions are never outside, and index arrays are not checked.  With `slices_of`, only those
    dimensions are checked, and only slices without a stride.
    """
    domain = transform._domain
    for d, (lo, hi, m) in enumerate(zip(storage._lo, storage._hi, transform._output, strict=True)):
        if m._array is not None:
            continue
        if slices_of is not None and (d not in slices_of or m._dim is None or abs(m._stride) != 1):
            continue
        ends = [m._offset]
        if m._dim is not None:
            first, last = domain._lo[m._dim], domain._hi[m._dim] - 1
            ends = [m._offset + m._stride * at for at in (first, last)] if first <= last else []
        for at in ends:
            if not lo <= at < hi:
                raise OutOfRangeError(f"Index {at} is outside valid range [{lo}, {hi})")


def marked_like(transform: IndexTransform, other: IndexTransform) -> IndexTransform:
    """Return `transform` with the same bounds implicit as in `other`, which has the same rank."""
    own, seen = transform._domain, other._domain
    domain = IndexDomain._make(own._lo, own._hi, seen._implicit_lo, seen._implicit_hi, own._labels)
    return IndexTransform._make(domain, transform._output)


def _is_within(transform: IndexTransform, storage: IndexDomain) -> bool:
    """Return True if evidently nothing is left to resolve and nothing is out of bounds."""
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


def align(source: IndexDomain, target: IndexDomain) -> IndexTransform:
    """Return the transform from `target` to `source` that broadcasts a source to a target."""
    # Without labels on one side, dimensions match from the last one backwards.  Otherwise equal labels match
    # first, then the unlabeled dimensions from the last one backwards.
    return _aligned(source, target, _match(source, target))


def align_by_position(source: IndexDomain, target: IndexDomain) -> IndexTransform:
    """Return the transform of `align` for dimensions in order, whatever their labels."""
    return _aligned(source, target, _in_order(source, target))


def _aligned(source: IndexDomain, target: IndexDomain, matches: list[int | None]) -> IndexTransform:
    output, problems = [], []
    for i, lo in enumerate(source._lo):
        size = source._hi[i] - lo
        match = matches[i]
        if match is not None and target._hi[match] - target._lo[match] == size:
            output.append(single_map(lo - target._lo[match], 1, match))
            continue
        output.append(constant_map(lo))
        if size == 1:
            continue
        if match is None:
            problems.append(f"unmatched source dimension {i} {_shown(source, i)} does not have a size of 1")
        else:
            problems.append(
                f"source dimension {i} {_shown(source, i)} mismatch "
                f"with target dimension {match} {_shown(target, match)}"
            )
    if problems:
        raise InvalidArgumentError(f"Error aligning dimensions: {', '.join(problems)}")
    return IndexTransform._make(target, tuple(output))


def _shown(domain: IndexDomain, dim: int) -> str:
    return str(domain._dim(dim)).replace("*", "")


def _match(source: IndexDomain, target: IndexDomain) -> list[int | None]:
    """Return for each source dimension the target dimension that it belongs to, or None."""
    if any(source._labels) and any(target._labels):
        free = [d for d, label in enumerate(target._labels) if not label]
        mine = [d for d, label in enumerate(source._labels) if not label]
        named = {label: d for d, label in enumerate(target._labels) if label}
        matches = [named.get(label) for label in source._labels]
        for d, t in zip(reversed(mine), reversed(free), strict=False):
            matches[d] = t
        return matches
    return _in_order(source, target)


def _in_order(source: IndexDomain, target: IndexDomain) -> list[int | None]:
    """Return the target dimension of each source dimension, from the last one backwards."""
    return [t if t >= 0 else None for t in range(target.rank - source.rank, target.rank)]
