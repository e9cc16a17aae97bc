"""Indexing by a domain: the mapping is limited to it, and keeps its coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chunkwise.core.index_space.box import M
from chunkwise.core.index_space.compose import explicit_bounds
from chunkwise.core.index_space.dim import Bounds, Dim
from chunkwise.core.index_space.label import find_dimension
from chunkwise.core.index_space.output_map import OutputIndexMap, array_map, constant_map
from chunkwise.errors import InvalidArgumentError, OutOfRangeError

if TYPE_CHECKING:
    from chunkwise.core.index_space.box import Box

__all__ = ["restrict"]


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
                f"Cannot slice target dimension {d} {_describe(bounds[d], labels[d])} "
                f"with index domain dimension {i} {_describe(domain._bounds()[i], domain._labels[i])}"
            )
        bounds[d] = (lo, hi, False, False)
    new = target._from_bounds(bounds, labels)
    return m._make(new, tuple([_sliced(x, target, new) for x in m._output]))


def _describe(bounds: Bounds, label: str) -> str:
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
