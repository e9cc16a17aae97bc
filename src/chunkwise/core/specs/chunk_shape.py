"""Choosing chunk shapes that meet the constraints of a layout, as in TensorStore.

Given sizes are kept.  The others grow together, in the proportions of the aspect ratio, as long as the chunk
doesn't exceed the target number of elements:

1. A size of -1 becomes the extent of the domain.
2. The other sizes are ``ratio * f``, rounded down, at least 1 and at most the extent of the domain.
3. Bisection finds an ``f`` for which the product of the sizes is within the target, and a further step would
   exceed it.  It halves ratios first and then differences; the shape depends on where it stops, so these
   details are the same as in TensorStore.

A format whose chunks are read and written whole has a single grid.  With shards to write and inner chunks to
read there are two grids, and each write size must be a multiple of the read size.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import isqrt, prod, sqrt
from typing import Final

from chunkwise.core.base.binding import dump
from chunkwise.core.specs.chunk_grid_constraints import GridConstraints
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.errors import InvalidArgumentError, prefixed

__all__ = [
    "DEFAULT_ELEMENTS",
    "choose_chunk_shape",
    "choose_grid_origin",
    "choose_read_write_chunk_shapes",
    "complete_chunk_shape",
]

DEFAULT_ELEMENTS: Final = 1024 * 1024  # elements of a chunk, as in TensorStore
_NEAR: Final = 1_000_000  # TensorStore looks for divisors no further away


def choose_chunk_shape(layout: ChunkLayout, extents: Sequence[int | None]) -> tuple[int, ...]:
    """Return the chunk shape of an array that is read and written by whole chunks."""
    _check_regular(layout)
    merged = layout.copy()
    with prefixed("write_chunk constraints not compatible with existing read_chunk constraints"):
        merged._merge_grid("read_chunk", layout.write_chunk)
    grid = merged.read_chunk
    return complete_chunk_shape(_sizes(grid, extents), _ratios(grid, extents), _target(grid), extents)


def _check_regular(layout: ChunkLayout) -> None:
    if layout.chunk_shapes is not None:
        raise InvalidArgumentError(
            f"chunk_shapes {dump(layout.to_json()['chunk_shapes'])} are those of a rectilinear grid, "
            "which only arrays of zarr3 have"
        )


def choose_read_write_chunk_shapes(
    layout: ChunkLayout, extents: Sequence[int | None]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of read and write chunks; read chunks divide write chunks."""
    _check_regular(layout)
    read_grid, write_grid = layout.read_chunk, layout.write_chunk
    read, write = _sizes(read_grid, extents), _sizes(write_grid, extents)
    for dim in range(len(extents)):
        hard = [bool((v := g._vector("shape")) and (c := v[dim]) and c.hard) for g in (read_grid, write_grid)]
        read[dim], write[dim] = _reconcile(dim, read[dim], write[dim], *hard)
    read_shape = complete_chunk_shape(
        read,
        _ratios(read_grid, extents),
        _target(read_grid),
        extents,
        lambda dim, size: nearest_divisor(write[dim], size) if write[dim] else size,
    )
    write_shape = complete_chunk_shape(
        write,
        _ratios(write_grid, extents),
        _target(write_grid),
        extents,
        lambda dim, size: nearest_multiple(read_shape[dim], size),
    )
    return read_shape, write_shape


def choose_grid_origin(
    layout: ChunkLayout, inclusive_min: Sequence[int | None], chunk_shape: Sequence[int]
) -> tuple[int, ...]:
    """Return an origin of the chunk grid: the constrained one, or one at which the domain starts a chunk."""
    constraints = layout._vector("grid_origin") or (None,) * len(chunk_shape)
    return tuple(
        c.value if c else 0 if lo is None else lo % size
        for c, lo, size in zip(constraints, inclusive_min, chunk_shape, strict=True)
    )


def complete_chunk_shape(
    sizes: Sequence[int],
    ratios: Sequence[float],
    target: int,
    extents: Sequence[int | None],
    adjust: Callable[[int, int], int] = lambda dim, size: size,
) -> tuple[int, ...]:
    """Return `sizes` with each 0 replaced, so that the product is close to `target` but not above it."""
    free = [dim for dim, size in enumerate(sizes) if not size]
    if not free:
        return tuple(sizes)
    caps = [min(target, target if n is None else max(1, n)) for n in extents]

    def shape(factor: float) -> tuple[int, ...]:
        out = list(sizes)
        for dim in free:
            out[dim] = adjust(dim, max(1, int(min(ratios[dim] * factor, caps[dim]))))
        return tuple(out)

    low = step = min(1 / ratios[dim] for dim in free) / 2
    high = 2 * max(caps[dim] / ratios[dim] for dim in free)
    while low + step < high:
        middle = sqrt(low * high) if high > 4 * low else low + (high - low) / 2
        elements = prod(shape(middle))
        if elements >= target:
            high = middle
        if elements <= target:
            low = middle
    largest = shape(high)
    return largest if prod(largest) == target else shape(low)


def nearest_divisor(number: int, size: int) -> int:
    """Return the divisor of `number` nearest to `size`, the smaller one of two; `number` if none is near."""
    if size >= number:
        return number
    if isqrt(number) < size:
        divisors = _divisors(number)
        above = bisect_left(divisors, size)
        nearest = min(divisors[max(0, above - 1) : above + 1], key=lambda d: abs(d - size))
        return nearest if abs(nearest - size) < _NEAR else number
    for distance in range(min(size, _NEAR)):
        for candidate in (size - distance, size + distance):
            if number % candidate == 0:
                return candidate
    return number


@lru_cache(maxsize=64)
def _divisors(number: int) -> list[int]:
    """Return the divisors of `number` in ascending order, in time proportional to its square root."""
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    return small + [number // d for d in reversed(small) if d * d != number]


def nearest_multiple(number: int, size: int) -> int:
    """Return the positive multiple of `number` nearest to `size`; the smaller one of two equally near."""
    below = size // number * number
    if below == 0:
        return number
    return below if size - below <= below + number - size else below + number


def _reconcile(dim: int, read: int, write: int, read_hard: bool, write_hard: bool) -> tuple[int, int]:
    """Return sizes of one dimension; if both are set, the second is a multiple of the first."""
    if not read or not write or write % read == 0:
        return read, write
    if read_hard and write_hard:
        raise InvalidArgumentError(
            f"Incompatible chunk size constraints for dimension {dim}: read size of {read}, "
            f"write size of {write}"
        )
    if read_hard:
        return read, nearest_multiple(read, write)
    return nearest_divisor(write, read), write


def _sizes(grid: GridConstraints, extents: Sequence[int | None]) -> list[int]:
    """Return the sizes set in `grid`, with 0 for unset ones, and the extent in place of -1."""
    out = []
    for dim, constraint in enumerate(grid._vector("shape") or (None,) * len(extents)):
        size = constraint.value if constraint else 0
        if size == -1:
            extent = extents[dim]
            if extent is None:
                raise InvalidArgumentError(f"Cannot match chunk size for dimension {dim} to unbounded domain")
            size = max(1, extent)
        out.append(size)
    return out


def _ratios(grid: GridConstraints, extents: Sequence[int | None]) -> list[float]:
    return [c.value if c else 1.0 for c in grid._vector("aspect_ratio") or (None,) * len(extents)]


def _target(grid: GridConstraints) -> int:
    target = grid._scalar("elements")
    return target.value if target else DEFAULT_ELEMENTS
