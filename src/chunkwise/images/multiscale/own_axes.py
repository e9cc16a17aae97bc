"""Axes of an array that is not a level of an image: its labels, attributes, and coordinates beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise import TensorStore
from chunkwise.errors import ChunkwiseError, InvalidArgumentError
from chunkwise.extension import JSON
from chunkwise.extension.trees import Location, tree_format
from chunkwise.groups.open_group import open_group
from chunkwise.images.conventions.n5_group import axes_and_sizes, parse_transform
from chunkwise.images.multiscale.image_axes import AxisKind, axis_kind, image_axes, symbol_of
from chunkwise.images.multiscale.metadata import expect_numbers

__all__ = ["ArrayAxis", "channel_names", "coordinate_axes", "own_axes"]

_MOST_COORDINATES = 1_000_000
_REGULAR = 1e-3  # of a step, how far coordinates may be from regular ones


@dataclass(frozen=True)
class ArrayAxis:
    """A dimension; unknown properties are empty or None."""

    name: str = ""
    kind: AxisKind | None = None
    size: float | None = None  # of a voxel, in `unit`
    unit: str = ""
    start: float | None = None  # position of index 0


def own_axes(whole: TensorStore, location: Location, format: str) -> tuple[list[ArrayAxis], tuple[str, ...]]:
    """Return the axes by an array's attributes and the coordinates beside it, and problems."""
    attributes: Mapping[str, JSON] = whole.attrs
    named = attributes.get("_ARRAY_DIMENSIONS")
    names = list(named) if isinstance(named, list) and len(named) == whole.rank else whole.domain.labels
    notes: list[str] = []
    try:
        axes = [ArrayAxis(name) for name in map(str, names)]
        axes = _with_sizes(whole, axes, attributes, format, location)
    except InvalidArgumentError as e:
        notes.append(f"{e.message}; sizes of voxels in its attributes are not used")
    axes = [_with_coordinates(axis, n, location, notes) for axis, n in zip(axes, whole.shape, strict=True)]
    return axes, tuple(notes)


def _with_sizes(
    whole: TensorStore,
    axes: list[ArrayAxis],
    attributes: Mapping[str, JSON],
    format: str,
    location: Location,
) -> list[ArrayAxis]:
    """Return axes with the sizes that ``transform``, ``pixelResolution`` and ``resolution`` give them."""
    if isinstance(attributes.get("transform"), dict):
        where = f"{location.describe('attributes')}: transform"
        return _placed(axes, attributes["transform"], where, tree_format(format).reversed_axes)
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


def _placed(axes: list[ArrayAxis], value: JSON, where: str, is_reversed: bool) -> list[ArrayAxis]:
    """Return axes as COSEM's ``transform`` of an array has them."""
    known, place = parse_transform(value, where)
    if len(known) != len(axes):
        raise InvalidArgumentError(f"{where}: expected {len(axes)} axes, but received {len(known)}")
    found = [
        ArrayAxis(one.name, None, size, one.unit, start)
        for one, size, start in zip(known, *place, strict=True)
    ]
    by_name = {axis.name: axis for axis in found}
    if by_name.keys() == {axis.name for axis in axes}:
        return [by_name[axis.name] for axis in axes]
    return found if is_reversed else found[::-1]


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
        return _with_steps(axis, store.read().result(), store.attrs, notes)
    except ChunkwiseError:
        return axis


def coordinate_axes(data: Any) -> tuple[list[ArrayAxis], tuple[str, ...]]:
    """Return the axes by the coordinates of an array of xarray, and problems."""
    notes: list[str] = []
    axes = []
    for name in data.dims:
        axis = ArrayAxis(str(name))
        if name in data.coords:
            axis = _with_steps(axis, data.coords[name].values, data.coords[name].attrs, notes)
        axes.append(axis)
    return axes, tuple(notes)


def channel_names(data: Any) -> tuple[str, ...]:
    """Return the names of channels that the coordinates of an array of xarray give; none if they don't."""
    dims = [name for name in data.dims if axis_kind(str(name)) == "channel" and name in data.coords]
    values = [value for name in dims for value in data.coords[name].values.tolist()]
    return tuple(values) if len(dims) == 1 and all(isinstance(value, str) for value in values) else ()


def _with_steps(
    axis: ArrayAxis, values: npt.NDArray[Any], attributes: Mapping[str, Any], notes: list[str]
) -> ArrayAxis:
    """Return an axis with the size and start of its coordinates, which have to rise in regular steps."""
    n = len(values)
    if axis_kind(axis.name) != "channel" and values.dtype.kind not in "iuf":
        notes.append(f"coordinates of {axis.name} are left out: they are no numbers")
    if n < 2 or values.dtype.kind not in "iuf" or not np.all(np.isfinite(values)):
        return axis
    values = values.astype(np.float64)
    unit = attributes.get("units") or attributes.get("unit") or ""
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
