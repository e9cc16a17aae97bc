"""Axes of one array: those of the image of which it is a level, or else its own attributes and coordinates.

A view has the axes of its array: it may be cut, strided and transposed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from chunkwise import OutputIndexMethod, TensorStore
from chunkwise.errors import ChunkwiseError, InvalidArgumentError
from chunkwise.extension import JSON
from chunkwise.extension.trees import ChunkedArray, Location, is_declared, tree_format
from chunkwise.groups.group import Group
from chunkwise.groups.open_group import open_group
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.image_axes import AXIS_KINDS, AxisKind, axis_kind, image_axes, symbol_of
from chunkwise.images.multiscale.metadata import expect_numbers
from chunkwise.images.multiscale.n5_axes import axes_and_sizes
from chunkwise.images.multiscale.ome_groups import Options, image_of
from chunkwise.images.multiscale.open import find_images

__all__ = ["ArrayAxis", "ArrayImage", "image_of_array", "level_at"]

_ABOVE = 3  # groups that an array is looked for in as a level
_MOST_COORDINATES = 1_000_000
_REGULAR = 1e-3  # of a step, how far coordinates may be from regular ones


@dataclass(frozen=True)
class ArrayAxis:
    """A dimension; what is unknown is empty or None."""

    name: str = ""
    kind: AxisKind | None = None
    size: float | None = None  # of a voxel, in `unit`
    unit: str = ""
    start: float | None = None  # position of index 0


@dataclass(frozen=True)
class ArrayImage:
    """Image properties of an array, as far as known."""

    axes: tuple[ArrayAxis, ...]  # by dimension of the view
    image: MultiscaleImage | None = None  # that it is a level of
    level: int = 0
    channels: tuple[int, ...] | None = None  # which of those of the image the view has; None for all
    notes: tuple[str, ...] = ()  # what could not be understood
    error: ChunkwiseError | None = None  # of the image that it may be a level of


def image_of_array(store: TensorStore) -> ArrayImage:
    """Return the image properties of an array or view, beside its labels and dimension units."""
    array = store._array
    node = store._find_node().node if isinstance(array, ChunkedArray) else None
    if node is None:
        return ArrayImage((ArrayAxis(),) * store.rank)
    try:
        found = level_at(node.location)
    except ChunkwiseError as e:
        plain = _own_axes(store, node.location, str(node.format))
        return replace(plain, error=e, notes=(*plain.notes, f"the image can't be read: {e.message}"))
    if found is None:
        return _own_axes(store, node.location, str(node.format))
    image, number = found
    axes = [
        ArrayAxis(
            axis.name,
            axis.type if axis.type in AXIS_KINDS else "other",  # type: ignore[arg-type]
            size,
            axis.unit,
            start,
        )
        for axis, size, start in zip(
            image.axes, image.scales[number], image.translations[number], strict=True
        )
    ]
    return ArrayImage(_of_view(store, axes), image, number, _channels(store, axes))


def level_at(location: Location) -> tuple[MultiscaleImage, int] | None:
    """Return the image of which the array at a location is a level, and the number of the level, or None."""
    for above in islice(location.parents, _ABOVE):
        if not is_declared(above):
            continue
        try:
            group = open_group(above)
        except ChunkwiseError:
            continue
        path = location.path[len(above.path) :].strip("/")
        failed: ChunkwiseError | None = None
        for open_image in _images_of(group):
            try:
                image = open_image()
            except ChunkwiseError as e:
                failed = failed or e
                continue
            if isinstance(image, MultiscaleImage) and path in image.paths:
                return image, image.paths.index(path)
        if failed is not None:
            raise failed
    return None


def _images_of(group: Group) -> list[Callable[[], object]]:
    """Return functions that open the images that a group is, one for each."""
    options = Options(drafts=True)
    own: Any = group.attrs.get("ome", group.attrs) if tree_format(group.format).ngff_version else {}
    listed = own.get("multiscales") if isinstance(own, Mapping) else None
    if not isinstance(listed, list) or len(listed) < 2:
        return [partial(find_images, group, options)]
    return [partial(image_of, group, options, number=number) for number in range(len(listed))]


def _of_view(store: TensorStore, axes: Sequence[ArrayAxis]) -> tuple[ArrayAxis, ...]:
    """Return the axes of a view, given those of its array."""
    out = [ArrayAxis()] * store.rank
    for axis, output in zip(axes, store._transform.output, strict=True):
        dim, stride = output.input_dimension, output.stride
        if output.method != OutputIndexMethod.single_input_dimension or dim is None or stride is None:
            continue
        size, start = axis.size, axis.start
        if size is not None and start is not None:
            start += output.offset * size
            size *= abs(stride)
        if stride < 0:
            start = None
        out[dim] = replace(axis, size=size, start=start)
    return tuple(out)


def _channels(store: TensorStore, axes: Sequence[ArrayAxis]) -> tuple[int, ...] | None:
    """Return which channels of its array a view has; None if all, or if that is unknown."""
    for axis, output in zip(axes, store._transform.output, strict=True):
        if axis.kind != "channel":
            continue
        if output.method == OutputIndexMethod.constant:
            return (output.offset,)
        dim, stride = output.input_dimension, output.stride
        if output.method == OutputIndexMethod.single_input_dimension and dim is not None:
            low, high = store.domain.inclusive_min[dim], store.domain.exclusive_max[dim]
            return tuple(output.offset + (stride or 1) * i for i in range(low, high))
    return None


def _own_axes(store: TensorStore, location: Location, format: str) -> ArrayImage:
    """Return the axes given by the attributes of an array and the coordinates beside it."""
    whole = TensorStore._make(store._array, type(store._transform).identity(store._array.domain))
    attributes: Mapping[str, JSON] = store.attrs
    named = attributes.get("_ARRAY_DIMENSIONS")
    names = list(named) if isinstance(named, list) and len(named) == whole.rank else whole.domain.labels
    notes: list[str] = []
    try:
        axes = [ArrayAxis(name) for name in map(str, names)]
        axes = _with_sizes(whole, axes, attributes, format, location)
    except InvalidArgumentError as e:
        notes.append(f"{e.message}; sizes of voxels in its attributes are not used")
    axes = [_with_coordinates(axis, n, location, notes) for axis, n in zip(axes, whole.shape, strict=True)]
    return ArrayImage(_of_view(store, axes), notes=tuple(notes))


def _with_sizes(
    whole: TensorStore,
    axes: list[ArrayAxis],
    attributes: Mapping[str, JSON],
    format: str,
    location: Location,
) -> list[ArrayAxis]:
    """Return axes with the sizes that ``pixelResolution`` and ``resolution`` give them."""
    if not {"pixelResolution", "resolution"} & set(attributes):
        return axes
    rules = tree_format(format)
    file = location.describe(rules.array_key if rules.attributes_are_members else "attributes")
    labelled = whole.label[tuple(axis.name for axis in axes)] if axes else whole
    names = [axis.name for axis in image_axes(labelled)]
    record: dict[str, JSON] = dict(attributes)
    found = record.get("pixelResolution")
    if found is not None and not rules.reversed_axes:  # x comes first in it, wherever x is in the array
        record["pixelResolution"] = _by_name(found, names)
    known, sizes = axes_and_sizes(names, [record], file)
    factors = [1.0] * len(names)
    if attributes.get("downsamplingFactors") is not None and found is not None and rules.reversed_axes:
        where = f"{file}: downsamplingFactors"
        factors = list(expect_numbers(attributes["downsamplingFactors"], len(names), where, positive=True))
    return [
        ArrayAxis(axis.name, None, size * f, one.unit, 0.5 * (f - 1) * size)
        for axis, one, size, f in zip(axes, known, sizes, factors, strict=True)
    ]


def _by_name(value: JSON, names: Sequence[str]) -> JSON:
    """Return a ``pixelResolution``, x first, in the order of the dimensions."""
    sizes = value.get("dimensions") if isinstance(value, dict) else value
    space = [name for name in "xyz" if name in names]
    if isinstance(sizes, list) and len(sizes) == len(space):
        by_name = dict(zip(space, sizes, strict=True))
        sizes = [by_name.get(name, 1.0) for name in names]
    return {**value, "dimensions": sizes} if isinstance(value, dict) else sizes


def _with_coordinates(axis: ArrayAxis, n: int, location: Location, notes: list[str]) -> ArrayAxis:
    """Return an axis with size and start that the coordinates beside an array give it, if there are any."""
    above = location.parent
    if not axis.name or above is None or axis.name == location.name:
        return axis
    try:
        group = open_group(above)
        store = group.get(axis.name)
        if not isinstance(store, TensorStore) or store.shape != (n,) or n > _MOST_COORDINATES:
            return axis
        if store.dtype.memory_dtype.kind not in "iuf":
            return axis
        values = store.read().result().astype(np.float64)
        unit = store.attrs.get("units") or store.attrs.get("unit") or ""
    except ChunkwiseError:
        return axis
    if n < 2 or not np.all(np.isfinite(values)):
        return axis
    step = (values[-1] - values[0]) / (n - 1)
    if step <= 0 or np.abs(values - (values[0] + step * np.arange(n))).max() > _REGULAR * step:
        notes.append(f"coordinates of {axis.name} are left out: they don't rise in regular steps")
        return axis
    text = unit if isinstance(unit, str) and " since " not in unit else ""
    return replace(
        axis,
        size=float(f"{step:.12g}"),
        unit=symbol_of(text),
        start=float(values[0]),
        kind=axis_kind(axis.name),
    )
