"""Geometry of pyramids: sizes of levels, and positions of their voxels.

Element i of a level stands for elements ``[i * f, (i + 1) * f)`` of the first level, so it has
``ceil(n / f)`` of them.  The mean of a whole cell lies in its middle: half a voxel of the level, less half a
voxel of the first level, from the origin.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from chunkwise import Unit
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.inside import as_integer, as_items
from chunkwise.images.conventions.convention import Level
from chunkwise.images.multiscale.image_axes import ImageAxis, unit_in

__all__ = ["choose_factors", "first_level", "next_level"]

_MOST_LEVELS = 32


def first_level(
    shape: Sequence[int],
    origin: Sequence[int],
    axes: Sequence[ImageAxis],
    start: Sequence[float] | None = None,
) -> Level:
    """Return the level of full resolution, of an array from `origin` on whose index 0 is at `start`."""
    ones = (1,) * len(axes)
    scale = tuple(axis.scale for axis in axes)
    at = tuple(o * s + begin for o, s, begin in zip(origin, scale, start or [0.0] * len(axes), strict=True))
    return Level(tuple(shape), ones, ones, scale, at)


def next_level(first: Level, before: Level, step: Sequence[int], *, centred: bool) -> Level:
    """Return `before` downsampled by `step`; `centred` if an element stands for its whole cell."""
    factors = tuple(a * b for a, b in zip(before.factors, step, strict=True))
    translation = tuple(
        at + (0.5 * (f - 1) * size if centred else 0.0)
        for at, f, size in zip(first.translation, factors, first.scale, strict=True)
    )
    return Level(
        shape=tuple(-(-n // s) for n, s in zip(before.shape, step, strict=True)),
        step=tuple(step),
        factors=factors,
        scale=tuple(f * size for f, size in zip(factors, first.scale, strict=True)),
        translation=translation,
    )


def choose_factors(
    first: Level,
    axes: Sequence[ImageAxis],
    chunk: Sequence[int],
    factors: int | Sequence[int] | Sequence[Sequence[int]] | None,
    n_levels: int | None,
) -> list[tuple[int, ...]]:
    """Return the factors of each level relative to the one before; `factors` are for all, or for each."""
    given = as_items(factors)
    if given and as_items(given[0]) is not None:
        each = [_checked(step, axes) for step in given]
        if n_levels is not None and n_levels != len(each):
            raise InvalidArgumentError(f"factors are given for {len(each)} levels, not for {n_levels}")
        return each
    fixed = None if factors is None else _checked(factors, axes)
    n_levels = None if n_levels is None else as_integer(n_levels, -1)
    if n_levels is not None and not 0 <= n_levels <= _MOST_LEVELS:
        raise InvalidArgumentError(f"levels: expected 0 to {_MOST_LEVELS}, but received {n_levels}")
    # By default there are levels until one has no more elements than a chunk, and voxels become cubes.
    steps: list[tuple[int, ...]] = []
    level = first
    while len(steps) < (_MOST_LEVELS if n_levels is None else n_levels):
        if n_levels is None and _fits(level, axes, chunk, fixed):
            break
        step = fixed or _halved(level, axes)
        if n_levels is None and all(f == 1 for f in step):
            break
        steps.append(step)
        level = next_level(first, level, step, centred=True)
    return steps


def _checked(step: object, axes: Sequence[ImageAxis]) -> tuple[int, ...]:
    one = as_integer(step)
    items = as_items(step) if one is None else [one if axis.kind == "space" else 1 for axis in axes]
    if items is None or len(items) != len(axes):
        raise InvalidArgumentError(
            f"factors: expected {len(axes)} numbers for each level, or one for all axes of space, but "
            f"received {step!r}"
        )
    out = tuple(as_integer(f, 0) or 0 for f in items)
    if not all(f > 0 for f in out):
        raise InvalidArgumentError(f"factors: expected positive integers, but received {step!r}")
    return out


def _fits(
    level: Level, axes: Sequence[ImageAxis], chunk: Sequence[int], fixed: tuple[int, ...] | None
) -> bool:
    """Return True if a level has no more elements than a chunk, along the axes that get shorter."""
    shrinks = [axis.kind == "space" for axis in axes] if fixed is None else [f > 1 for f in fixed]
    sizes = [(n, c) for n, c, wanted in zip(level.shape, chunk, shrinks, strict=True) if wanted]
    return prod(n for n, _ in sizes) <= prod(c for _, c in sizes)


def _halved(level: Level, axes: Sequence[ImageAxis]) -> tuple[int, ...]:
    """Return 2 for each axis of space that can be halved and whose voxels aren't too large already."""
    space = [i for i, axis in enumerate(axes) if axis.kind == "space" and level.shape[i] > 1]
    sizes = {i: _in_unit(axes, i, axes[space[0]].unit, level.scale[i]) for i in space}
    comparable = None not in sizes.values()
    smallest = min((size for size in sizes.values() if size is not None), default=1.0)
    return tuple(
        2 if i in space and (not comparable or (sizes[i] or 0.0) < 2 * smallest) else 1
        for i in range(len(axes))
    )


def _in_unit(axes: Sequence[ImageAxis], i: int, unit: str, size: float) -> float | None:
    """Return a size along an axis in the unit of another one; None if it can't be given in it."""
    if axes[i].unit == unit:
        return size
    try:
        return unit_in(Unit(size, axes[i].unit), unit)
    except InvalidArgumentError:
        return None
