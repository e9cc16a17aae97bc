"""Axes of an array that is not a level of an image: its labels, attributes, and coordinates beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise import TensorStore
from chunkwise.copying.array_template import NAMES
from chunkwise.errors import ChunkwiseError, InvalidArgumentError
from chunkwise.extension import JSON
from chunkwise.extension.trees import Location, tree_format
from chunkwise.groups.open_group import open_group
from chunkwise.images.conventions.n5_group import axes_of_array
from chunkwise.images.multiscale.image_axes import AxisKind, axis_kind, image_axes, symbol_of

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
    named = attributes.get(NAMES)
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
    """Return axes with the sizes that the attributes of an array give them."""
    rules = tree_format(format)
    file = location.describe(rules.array_key if rules.attributes_are_members else "attributes")
    labelled = whole.label[tuple(axis.name for axis in axes)] if axes else whole
    names = [axis.name for axis in image_axes(labelled)]
    found = axes_of_array(names, attributes, file, reversed_axes=rules.reversed_axes)
    if found is None:
        return axes
    return [
        ArrayAxis(name or axis.name, None, size, unit, start)
        for axis, (name, size, unit, start) in zip(axes, found, strict=True)
    ]


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
