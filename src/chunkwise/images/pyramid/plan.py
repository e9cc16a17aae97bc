"""Plans of pyramids: axes, levels and their arrays, before anything is written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chunkwise import TensorStore, Unit
from chunkwise.copying.array_template import ArrayTemplate
from chunkwise.copying.compressor import parse_compressor
from chunkwise.copying.named_sizes import check_named
from chunkwise.core.driver.downsample.spec import check_method
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.trees import tree_format
from chunkwise.images.multiscale.array_axes import ArrayImage
from chunkwise.images.multiscale.image_axes import ImageAxis, image_axes, slowest_first
from chunkwise.images.pyramid.convention import Convention
from chunkwise.images.pyramid.geometry import Level, choose_factors, first_level, next_level
from chunkwise.images.pyramid.n5_layouts import in_one_unit

__all__ = ["PyramidOptions", "PyramidPlan", "plan_pyramid"]

_PLANES = ("q", "i")
"""What tifffile calls an axis along which planes follow each other."""

_CHUNKS = {1: 65536, 2: 512, 3: 64}  # by the number of axes of space


@dataclass(frozen=True)
class PyramidOptions:
    """Options of the caller; see `chunkwise.images.pyramid.downsample_pyramid.downsample_pyramid`."""

    method: str = "mean"
    labels: bool = False
    factors: Sequence[int] | Sequence[Sequence[int]] | None = None
    levels: int | None = None
    axes: Sequence[str] | None = None
    units: Sequence[Unit | None] | None = None
    chunks: Sequence[int] | Mapping[str, int] | None = None
    shards: Sequence[int] | Mapping[str, int] | None = None
    codec: Any = None


@dataclass(frozen=True)
class PyramidPlan:
    """A pyramid that is to be written."""

    convention: Convention
    method: str
    axes: tuple[ImageAxis, ...]  # in the order of the arrays
    source: TensorStore  # with its dimensions in this order and their names as labels, from 0 on
    levels: tuple[Level, ...]  # full resolution first
    names: tuple[str, ...]  # of the arrays
    templates: tuple[ArrayTemplate, ...]


def plan_pyramid(
    array: TensorStore,
    known: ArrayImage,
    convention: Convention,
    options: PyramidOptions,
    *,
    first_name: str | None = None,
) -> PyramidPlan:
    """Plan a pyramid of `array`, which is its first level itself if that has a name."""
    check_method(options.method)
    if options.labels and options.method not in ("mode", "stride"):
        raise InvalidArgumentError(
            f'labels can be downsampled by "mode" or "stride": "{options.method}" would make new ones'
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
    if convention.name == "n5-viewer":
        ordered, starts = in_one_unit(ordered, starts)
    axes = tuple(ordered)
    convention.check(axes, labels=options.labels, kind=array.dtype.kind)
    origin = [array.origin[dim] for dim in order]
    source = array.transpose(order).translate_to[(0,) * array.rank] if array.rank else array
    source = source.label[tuple(axis.name for axis in axes)] if array.rank else source
    sizes = {"chunks": options.chunks, "shards": options.shards}
    check_named(sizes, [axis.name for axis in axes], "the image")
    chunks = _chunks(source, axes, options.chunks)
    first = first_level(source.shape, origin, axes, starts)
    levels = [first]
    for step in choose_factors(first, axes, chunks, options.factors, options.levels):
        levels.append(next_level(first, levels[-1], step, centred=options.method != "stride"))
    # Paintera has the place of an image at its group, whose attributes stay if levels are added.
    is_placed = known.image is not None and known.image.convention == "paintera"
    begin = first.translation if is_placed and first_name is not None else (0.0,) * len(axes)
    return PyramidPlan(
        convention,
        options.method,
        axes,
        source,
        tuple(levels),
        tuple(_names(convention, len(levels), first_name)),
        tuple(_template(source, axes, convention, level, chunks, options, begin) for level in levels),
    )


def _axes(
    array: TensorStore, known: ArrayImage, options: PyramidOptions
) -> tuple[list[ImageAxis], list[float]]:
    """Return the axis of each dimension and the position of its index 0, as options or the image say."""
    labels = [axis.name or label for axis, label in zip(known.axes, array.domain.labels, strict=True)]
    if "z" not in labels and options.units is not None:  # planes of a TIFF file may be anything else
        labels = ["z" if name in _PLANES and labels.count(name) == 1 else name for name in labels]
    units = options.units
    if units is None:
        units = [
            unit if axis.size is None else Unit(axis.size, axis.unit)
            for axis, unit in zip(known.axes, array.dimension_units, strict=True)
        ]
    axes, starts = [], []
    for axis, own in zip(image_axes(array, options.axes or labels, units), known.axes, strict=True):
        axes.append(axis._replace(kind=own.kind) if own.kind and axis.name == own.name else axis)
        starts.append(own.start * axis.scale / own.size if own.start and own.size else 0.0)
    return axes, starts


def _chunks(
    source: TensorStore, axes: Sequence[ImageAxis], given: Sequence[int] | Mapping[str, int] | None
) -> tuple[int, ...]:
    """Return the chunks of all levels, as far as these are large enough: those of the source by default."""
    if given is not None and not isinstance(given, Mapping):
        if len(given) != source.rank or not all(isinstance(n, int) and n > 0 for n in given):
            raise InvalidArgumentError(
                f"chunks: expected {source.rank} positive integers for axes "
                f"{', '.join(axis.name for axis in axes)}, but received {list(given)}"
            )
        return tuple(given)
    own = source.chunk_layout.read_chunk.shape or (None,) * source.rank
    usual = _CHUNKS.get(sum(axis.kind == "space" for axis in axes), 16)
    sizes = (n or (usual if axis.kind == "space" else 1) for n, axis in zip(own, axes, strict=True))
    named = given or {}
    return tuple(named.get(axis.name, size) for size, axis in zip(sizes, axes, strict=True))


def _names(convention: Convention, n: int, first: str | None) -> list[str]:
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
    source: TensorStore,
    axes: Sequence[ImageAxis],
    convention: Convention,
    level: Level,
    chunks: tuple[int, ...],
    options: PyramidOptions,
    begin: Sequence[float],
) -> ArrayTemplate:
    shards: tuple[int, ...] | None = None
    if isinstance(options.shards, Mapping):
        shards = tuple(options.shards.get(axis.name, size) for axis, size in zip(axes, chunks, strict=True))
    elif options.shards is not None:
        shards = tuple(options.shards)
    if shards is not None and len(shards) != len(axes):
        raise InvalidArgumentError(f"shards: expected {len(axes)} numbers, but received {list(shards)}")
    if shards is None:
        chunks = tuple(min(c, max(1, n)) for c, n in zip(chunks, level.shape, strict=True))
    units: list[Unit | None] = [None] * len(axes)
    if convention.has_own_units(level):
        units = [
            Unit(size, axis.unit) if axis.unit or size != 1 else None
            for size, axis in zip(level.scale, axes, strict=True)
        ]
    usual = tree_format(convention.format).codecs.new_compressor or "zstd"  # what any software has
    codec = usual if options.codec is None else options.codec
    return ArrayTemplate(
        shape=level.shape,
        dtype=source.dtype,
        chunks=chunks,
        shards=shards,
        codec=parse_compressor(codec) if isinstance(codec, str) else codec,
        fill_value=source.fill_value if tree_format(convention.format).has_fill_value else None,
        names=tuple(axis.name for axis in axes),
        units=tuple(units),
        attributes=convention.level_attributes(axes, level, begin),
    )
