"""Images at several resolutions, as the page and neuroglancer show them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from chunkwise import TensorStore
from chunkwise.copying.new_array import open_array
from chunkwise.errors import ChunkwiseError, InvalidArgumentError
from chunkwise.images.multiscale.image import MultiscaleImage, most_voted
from chunkwise.images.multiscale.metadata import (
    AXIS_KINDS,
    Axis,
    Channel,
    memory_order,
    sized_axes,
    slowest_first,
)
from chunkwise.images.multiscale.open import Multiscale, open_multiscale, single_array
from chunkwise.images.server.trees import FIELDS, KNOWN_FOR, Served, ServedArray, ServedGroup, at_zero

__all__ = [
    "ServedImage",
    "arranged",
    "image_at",
    "image_of",
    "image_of_group",
    "level_with",
    "multiscale_at",
    "shown_dims",
]

T = TypeVar("T")


@dataclass(frozen=True)
class ServedImage:
    """An image; a single array is one of one level."""

    name: str
    axes: tuple[Axis, ...]
    levels: tuple[ServedArray, ...]  # the first has the highest resolution
    paths: tuple[str, ...]  # of the levels, below the image; empty for an array itself
    scales: tuple[tuple[float, ...], ...]  # distance of neighbours in each level, in the units of the axes
    translations: tuple[tuple[float, ...], ...]  # of the first element of each level
    channels: tuple[Channel, ...] = ()
    is_labels: bool = False
    labels: tuple[str, ...] = ()  # names of images of labels that belong to it, below its group ``labels``
    label_colors: Mapping[int, tuple[int, int, int, int]] = field(default_factory=dict)

    assumed: tuple[str, ...] = ()  # about the axes, since nothing says so

    @property
    def views(self) -> tuple[TensorStore, ...]:
        """The arrays of the levels."""
        return tuple(level.view for level in self.levels)


def arranged(image: MultiscaleImage) -> MultiscaleImage:
    """Return an image with its axes in the order of OME-NGFF: time, channel, space."""
    kinds = [axis.type for axis in image.axes]
    if not set(kinds) <= set(AXIS_KINDS) or kinds == sorted(kinds, key=AXIS_KINDS.index):
        return image
    return image._arranged(slowest_first(image.levels[0], sized_axes(image.axes, image.scales[0])))


def image_at(path: tuple[str, ...], found: Served) -> ServedImage | None:
    """Return the image at a path, None if a group there is none."""
    if isinstance(found, ServedArray):
        return replace(_of_array(found), name=path[-1])
    return image_of_group(found)


def image_of(source: MultiscaleImage | TensorStore, served: ServedGroup | None = None) -> ServedImage:
    """Return an image, or an array as one, that a program has; `served` is the group of its levels."""
    if isinstance(source, MultiscaleImage) and served is not None:
        return _image(served.name, source, tuple(served.members))
    if isinstance(source, MultiscaleImage):
        return _image(source.name, source)
    return _of_array(ServedArray(at_zero(source), source.name or "array"))


def image_of_group(found: ServedGroup) -> ServedImage | None:
    """Return the image that a group is, None if it is none."""
    if found.image is not None:
        return _image(found.name, found.image, tuple(found.members))
    if found.members:
        return None if found.name == FIELDS else _of_levels(found)
    return _of_group(found.name, found)


def multiscale_at(found: Served | None) -> Multiscale | None:
    """Return the image, plate or well that a group holds, or None; recent results are kept."""
    if not isinstance(found, ServedGroup) or found.node is None or found.node.format is None:
        return None
    node, context = found.node, found.context

    def look() -> Multiscale | None:
        try:
            known = open_multiscale(node.location, drafts=True, format=node.format, context=context)
            if found.outside is not None and isinstance(known, MultiscaleImage):
                whole = open_multiscale(found.outside, drafts=True, format=node.format)
                known = known._described_as(whole) if isinstance(whole, MultiscaleImage) else known
        except (InvalidArgumentError, KeyError):
            return None  # a group of something else, or with metadata that are wrong
        return known

    return _kept(found, "multiscale", look)


def _kept(found: Served, what: str, look: Callable[[], T]) -> T:
    """Return the result of `look`; recent results are kept."""
    kept: tuple[float, T] | None = found.made.get(what)
    now = time.monotonic()
    if kept is None or now - kept[0] >= KNOWN_FOR:
        kept = found.made[what] = now, look()
    return kept[1]


def _of_group(name: str, found: ServedGroup) -> ServedImage | None:
    image = multiscale_at(found)
    if not isinstance(image, MultiscaleImage):
        return None
    return _image(name, image)


def _of_array(found: ServedArray) -> ServedImage:
    """Return an array as an image: the level that it is, or as `open_multiscale` opens it."""

    def look() -> MultiscaleImage:
        if found.outside is None:
            return single_array(found.view, assumed=found.assumed)
        return single_array(open_array(found.outside, read=True))

    return _shown(found.name, _kept(found, "array", look), {"": found})


def _of_levels(found: ServedGroup) -> ServedImage:
    """Return the image of arrays, the first of which has the highest resolution."""
    levels = tuple(found.members.values())
    first = _of_array(levels[0])
    scales, translations = [], []
    for level in levels:
        factors = [
            max(1.0, float(round(n / m))) if m else 1.0
            for n, m in zip(levels[0].view.shape, level.view.shape, strict=True)
        ]
        scale = tuple(size * f for size, f in zip(first.scales[0], factors, strict=True))
        scales.append(scale)
        start = zip(first.translations[0], scale, scales[0], strict=True)
        translations.append(tuple(at + (size - one) / 2 for at, size, one in start))
    return replace(
        first,
        name=found.name,
        levels=levels,
        paths=tuple(found.members),
        scales=tuple(scales),
        translations=tuple(translations),
    )


def _image(name: str, image: MultiscaleImage, paths: tuple[str, ...] = ()) -> ServedImage:
    """Return an image as it is shown; its levels are at `paths` if these are not its own."""
    image = image.available()
    paths = paths or image.paths
    levels = {
        path: ServedArray(at_zero(most_voted(level)), path)
        for path, level in zip(paths, image.levels, strict=True)
    }
    return _shown(name, image, levels)


def _shown(name: str, image: MultiscaleImage, levels: Mapping[str, ServedArray]) -> ServedImage:
    """Return what is shown of an image with these levels, by path."""
    try:
        labels = tuple(image.labels)
    except ChunkwiseError:
        labels = ()
    return ServedImage(
        name=name,
        axes=image.axes,
        levels=tuple(levels.values()),
        paths=tuple(levels),
        scales=image.scales,
        translations=image.translations,
        channels=image.channels,
        is_labels=image.is_labels,
        labels=labels,
        label_colors=image.label_colors,
        assumed=image.assumed,
    )


def shown_dims(image: ServedImage) -> tuple[list[int | None], int | None, list[int]]:
    """Return the dimensions that are x, y and z, None for one that is missing; that of channels; others."""
    names = [axis.name.lower() for axis in image.axes]
    view = image.levels[0].view
    space = [dim for dim in reversed(memory_order(view)) if image.axes[dim].type == "space"]
    if set("xyz") & {names[dim] for dim in space}:
        space.sort(key=lambda dim: names[dim] if names[dim] in ("x", "y", "z") else "~")
    # Dimensions of one element are shown only if there are too few others.
    dims = [dim for dim in space if view.shape[dim] > 1]
    dims += [dim for dim in space if dim not in dims]
    dims = sorted(dims[:3], key=space.index)
    kinds = [axis.type for axis in image.axes]
    channel = kinds.index("channel") if "channel" in kinds else None
    others = [dim for dim in range(view.rank) if dim not in (*dims, channel) and view.shape[dim] > 1]
    return [*dims, *[None] * (3 - len(dims))], channel, others


def level_with(image: ServedImage, sides: Mapping[int, float]) -> int:
    """Return the coarsest level with so many elements along dimensions, or as many as full resolution has."""
    shape = image.levels[0].view.shape
    return next(
        number
        for number in range(len(image.levels) - 1, -1, -1)
        if all(image.levels[number].view.shape[dim] >= min(n, shape[dim]) for dim, n in sides.items())
    )
