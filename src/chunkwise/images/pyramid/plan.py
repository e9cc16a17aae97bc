"""Plans of pyramids: axes, levels and their arrays, before anything is written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from chunkwise import TensorStore, Unit
from chunkwise.copying.array_options import (
    Units,
    array_options,
    check_named,
    for_array,
    for_format,
    read_names,
    units_of_dimensions,
)
from chunkwise.copying.array_template import ArrayTemplate
from chunkwise.copying.codec_option import parse_compressor
from chunkwise.core.driver.adapters import METHODS
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.inside import as_integer, as_items, check_choice, check_flag
from chunkwise.extension.trees import tree_format
from chunkwise.images.conventions.convention import Level, PyramidConvention
from chunkwise.images.conventions.known import convention_of
from chunkwise.images.multiscale.array_axes import ArrayImage
from chunkwise.images.multiscale.metadata import ImageAxis, axis_names, image_axes, slowest_first, unit_in

__all__ = ["PyramidOptions", "PyramidPlan", "choose_factors", "first_level", "next_level", "plan_pyramid"]

_OTHERWISE = "; --axes, or axes=, names them"
_PLANES = ("q", "i")
"""tifffile's names of an axis along which planes follow each other."""

_CHUNKS = {1: 65536, 2: 512, 3: 64}  # by the number of axes of space

_MOST_LEVELS = 32


@dataclass(frozen=True, kw_only=True)
class PyramidOptions:
    """Options of a pyramid that copies don't have, from the command line and the function down to the plan.

    See `chunkwise.images.pyramid.downsample_pyramid.downsample_pyramid`; None is the default there.
    """

    convention: str | None = None
    method: str | None = None
    labels: bool | None = None
    factors: int | Sequence[int] | Sequence[Sequence[int]] | None = None
    levels: int | None = None
    axes: Sequence[str] | None = None
    units: Units | None = None
    name: str | None = None
    arrays: Mapping[str, Any] = field(default_factory=dict)  # as for new arrays

    def checked(self) -> PyramidOptions:
        """Return the options with names and those of arrays as they are used."""
        if not (self.name is None or isinstance(self.name, str)):
            raise InvalidArgumentError(f"name: expected text, not {self.name!r}")
        if self.labels is not None:
            check_flag(self.labels, "labels")
        return replace(
            self,
            axes=None if self.axes is None else [one or "" for one in read_names(self.axes, "axes")],
            arrays=array_options(self.arrays),
        )

    def of_image(self, is_labels: bool | None) -> PyramidOptions:
        """Return the options of an image that is one of labels, if that is known."""
        labels = is_labels is True if self.labels is None else self.labels
        return replace(self, labels=labels, method=self.method or ("mode" if labels else "mean"))


@dataclass(frozen=True)
class PyramidPlan:
    """A pyramid that is to be written."""

    convention: PyramidConvention
    method: str
    axes: tuple[ImageAxis, ...]  # in the order of the arrays
    source: TensorStore  # with its dimensions in this order and their names as labels, from 0 on
    levels: tuple[Level, ...]  # full resolution first
    names: tuple[str, ...]  # of the arrays
    templates: tuple[ArrayTemplate, ...]
    assumed: tuple[str, ...] = ()  # assumptions that no metadata confirms


def plan_pyramid(
    array: TensorStore,
    known: ArrayImage,
    convention: PyramidConvention,
    options: PyramidOptions,
    *,
    first_name: str | None = None,
) -> PyramidPlan:
    """Plan a pyramid of `array`, which is its first level itself if that has a name."""
    method, labels = options.method or "", options.labels is True
    check_choice(method, "method", METHODS)
    if labels and method not in ("mode", "stride"):
        raise InvalidArgumentError(
            f'labels can be downsampled by "mode" or "stride": "{method}" would make new ones'
        )
    found, starts = _axes(array, known, options)
    order = slowest_first(array, found)
    if not convention.slowest_first:
        order.reverse()
    if first_name is not None and order != list(range(array.rank)):
        names = ", ".join(found[dim].name for dim in order)
        raise InvalidArgumentError(
            f"an image of convention {convention.name} has its axes in the order {names}, but this array has "
            f"{', '.join(axis.name for axis in found)}; give a destination to have it copied"
        )
    ordered, starts = [found[dim] for dim in order], [starts[dim] for dim in order]
    ordered, starts = convention.in_its_units(ordered, starts)
    axes = tuple(ordered)
    convention.check(axes, labels=labels, kind=array.dtype.kind)
    origin = [array.origin[dim] for dim in order]
    source = array.transpose(order).translate_to[(0,) * array.rank] if array.rank else array
    source = source.label[tuple(axis.name for axis in axes)] if array.rank else source
    check_named(options.arrays, [axis.name for axis in axes], "the image")
    usual = _usual(source, axes)
    given = for_array(for_format(options.arrays, convention.format), usual)
    chunks: tuple[int, ...] = given.get("chunks") or usual.chunks or ()
    first = first_level(source.shape, origin, axes, starts)
    levels = [first]
    for step in choose_factors(first, axes, chunks, options.factors, options.levels):
        levels.append(next_level(first, levels[-1], step, centred=method != "stride"))
    # Attributes of a group that has the place of its image stay if levels are added.
    own = None if known.image is None else convention_of(known.image.convention)
    is_placed = own is not None and own.is_placed_at_its_group
    begin = first.translation if is_placed and first_name is not None else (0.0,) * len(axes)
    return PyramidPlan(
        convention,
        method,
        axes,
        source,
        tuple(levels),
        tuple(_names(convention, len(levels), first_name)),
        tuple(_template(usual, axes, convention, level, given, begin) for level in levels),
        () if options.axes else known.assumed(array, [axis.name for axis in found], _OTHERWISE),
    )


def _axes(
    array: TensorStore, known: ArrayImage, options: PyramidOptions
) -> tuple[list[ImageAxis], list[float]]:
    """Return the axis of each dimension and the position of its index 0, as options or the image say."""
    labels = known.names(array)
    if "z" not in labels and options.units is not None:  # planes of a TIFF file may be anything else
        labels = ["z" if name in _PLANES and labels.count(name) == 1 else name for name in labels]
    units: Sequence[Unit | None] = [
        unit if axis.size is None else Unit(axis.size, axis.unit)
        for axis, unit in zip(known.axes, array.dimension_units, strict=True)
    ]
    if options.units is not None:
        names = axis_names(array, options.axes or labels)
        check_named({"units": options.units}, names, "the image")
        units = units_of_dimensions(options.units, names, units)
    axes, starts = [], []
    for axis, own in zip(image_axes(array, options.axes or labels, units), known.axes, strict=True):
        axes.append(axis._replace(kind=own.kind) if own.kind and axis.name == own.name else axis)
        starts.append(own.start * axis.scale / own.size if own.start and own.size else 0.0)
    return axes, starts


def _usual(source: TensorStore, axes: Sequence[ImageAxis]) -> ArrayTemplate:
    """Return the template of all levels without options: with the chunks of the source, or usual ones."""
    own = source.chunk_layout.read_chunk.shape or (None,) * source.rank
    usual = _CHUNKS.get(sum(axis.kind == "space" for axis in axes), 16)
    sizes = (n or (usual if axis.kind == "space" else 1) for n, axis in zip(own, axes, strict=True))
    return ArrayTemplate(
        shape=source.shape,
        dtype=source.dtype,
        chunks=tuple(sizes),
        fill_value=source.fill_value,
        names=tuple(axis.name for axis in axes),
    )


def _names(convention: PyramidConvention, n: int, first: str | None) -> list[str]:
    """Return the names of the arrays: numbered from 0 on, also if the first has its name already."""
    if first is None:
        prefix = convention.prefix
    else:
        numbered = re.fullmatch(r"(.*?)0", first)
        expected = f'"{convention.prefix}0"'
        if numbered is None or (convention.prefix and numbered[1] != convention.prefix):
            raise InvalidArgumentError(
                f'the first level must be called {expected}, not "{first}"; '
                "give a destination to have it copied"
            )
        prefix = numbered[1]
    return [f"{prefix}{i}" for i in range(n)]


def _template(
    usual: ArrayTemplate,
    axes: Sequence[ImageAxis],
    convention: PyramidConvention,
    level: Level,
    given: Mapping[str, Any],
    begin: Sequence[float],
) -> ArrayTemplate:
    rules, made = tree_format(convention.format), usual.replaced(given)
    assert made.chunks is not None, "a level has some"
    if made.shards is None:
        cut = tuple(min(c, max(1, n)) for c, n in zip(made.chunks, level.shape, strict=True))
        made = made.replaced({"chunks": cut})
    units: list[Unit | None] = [None] * len(axes)
    if convention.has_own_units(level):
        units = [
            Unit(size, axis.unit) if axis.unit or size != 1 else None
            for size, axis in zip(level.scale, axes, strict=True)
        ]
    return made.replaced(
        {
            "shape": level.shape,
            "codec": given.get("codec", parse_compressor(rules.codecs.new_compressor or "zstd")),
            "fill_value": made.fill_value if rules.has_fill_value else None,
            "units": tuple(units),
            "attributes": convention.level_attributes(axes, level, begin),
        }
    )


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
