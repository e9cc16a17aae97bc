"""Axes of images in N5, both ways: names, sizes and units, of what group and array say of each axis.

``axes``, ``units`` and ``resolution`` are lists with an entry for each dimension, x first as a rule;
``pixelResolution`` has one unit, and sizes along the axes of space; ``unit`` is Paintera's.  What the group
says comes before what an array says, and a size goes with the unit beside it.

Sources: n5-ij wiki "N5 Metadata Dialects"; n5 README of TensorStore; documentation of WEBKNOSSOS, "N5".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chunkwise import TensorStore, Unit
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension import JSON
from chunkwise.extension.inside import dump
from chunkwise.images.conventions.convention import Change, plain
from chunkwise.images.multiscale.image_axes import ImageAxis, axis_kind, symbol_of, unit_in
from chunkwise.images.multiscale.metadata import Axis, expect_numbers, expect_text

__all__ = [
    "axes_and_sizes",
    "axis_names",
    "check_one_unit",
    "in_one_unit",
    "pixel_resolution",
    "unit_of",
    "with_sizes",
]

_USUAL = ("x", "y", "z", "c", "t")
_PIXELS = ("", "pixel", "pixels", "px", "voxel")


def axis_names(store: TensorStore, attributes: Mapping[str, JSON], where: str) -> list[str]:
    """Return the names of the dimensions: those of the group, of the array, or else x, y, z, c, t."""
    named = attributes.get("axes")
    if isinstance(named, list) and named:
        if len(named) != store.rank:
            raise InvalidArgumentError(
                f"{where}: axes: expected {store.rank} names, but received {dump(named)}"
            )
        names = [expect_text(name, f"{where}: axes[{i}]", "a name") for i, name in enumerate(named)]
        if len(set(names)) < len(names):
            raise InvalidArgumentError(f"{where}: axes: names must be unique, but received {dump(named)}")
        return names
    labels = store.domain.labels
    free = [name for name in _USUAL if name not in labels]
    return [label or (free.pop(0) if free else f"d{dim}") for dim, label in enumerate(labels)]


def axes_and_sizes(
    names: Sequence[str], records: Sequence[Mapping[str, JSON]], where: str
) -> tuple[tuple[Axis, ...], tuple[float, ...]]:
    """Return axes with their units, and the size of a voxel; `records` are attributes, the group's first."""
    rank, space = len(names), [dim for dim, name in enumerate(names) if axis_kind(name) == "space"]
    units = next((u for u in (_units(r, rank, where) for r in records) if u is not None), None)
    own, sizes = _sizes(records, rank, space, where)
    if not own:
        own = next((u for u in (unit_of(r.get("unit")) for r in records) if u), "")
        if units is not None and any(units):
            own = ""
    found = [(units or [""] * rank)[dim] for dim in range(rank)]
    for dim in space:
        found[dim] = own or found[dim]
    axes = (Axis(name, axis_kind(name), unit) for name, unit in zip(names, found, strict=True))
    return tuple(axes), sizes


def _sizes(
    records: Sequence[Mapping[str, JSON]], rank: int, space: Sequence[int], where: str
) -> tuple[str, tuple[float, ...]]:
    """Return the unit that all axes of space have, if one is beside the sizes, and the sizes."""
    for record in records:  # the units of each axis say more than one of all
        own = _units(record, rank, where)
        if own is not None and len(set(own)) > 1 and isinstance(record.get("resolution"), list):
            return "", _for_each(record["resolution"], rank, space, f"{where}: resolution")
    for record in records:
        found = record.get("pixelResolution")
        if isinstance(found, dict):
            sizes = found.get("dimensions")
            if sizes is not None:
                at = f"{where}: pixelResolution: dimensions"
                return unit_of(found.get("unit")), _for_each(sizes, rank, space, at)
        elif found is not None:
            return "", _for_each(found, rank, space, f"{where}: pixelResolution")
    for record in records:
        if record.get("resolution") is not None:
            return "", _for_each(record["resolution"], rank, space, f"{where}: resolution")
    return "", (1.0,) * rank


def _for_each(value: JSON, rank: int, space: Sequence[int], where: str) -> tuple[float, ...]:
    """Return a number for each dimension; those that are only of axes of space leave 1 for the others."""
    if isinstance(value, list) and len(value) == len(space) < rank:
        given = dict(zip(space, value, strict=True))
        value = [given.get(dim, 1.0) for dim in range(rank)]
    return expect_numbers(value, rank, where, positive=True)


def _units(record: Mapping[str, JSON], rank: int, where: str) -> list[str] | None:
    """Return the symbols in ``units``, None if there are none."""
    units = record.get("units")
    if not isinstance(units, list) or not units:
        return None
    if len(units) != rank:
        raise InvalidArgumentError(f"{where}: units: expected {rank} units, but received {dump(units)}")
    return [unit_of(unit) for unit in units]


def unit_of(value: JSON) -> str:
    """Return the symbol of a unit; nothing for pixels and what is no text."""
    return symbol_of(value) if isinstance(value, str) and value not in _PIXELS else ""


def pixel_resolution(axes: Sequence[ImageAxis], scale: Sequence[float]) -> dict[str, JSON]:
    """Return a ``pixelResolution``, which has one unit."""
    space = [(axis, size) for axis, size in zip(axes, scale, strict=True) if axis.kind == "space"]
    unit = next((axis.unit for axis, _ in space if axis.unit), "pixel")
    return {"unit": unit, "dimensions": [size for _, size in space]}


def check_one_unit(axes: Sequence[ImageAxis], viewer: str) -> None:
    """Raise InvalidArgumentError if axes have several units."""
    if len({axis.unit for axis in axes}) > 1:
        raise InvalidArgumentError(
            f"{viewer} has one unit for all axes, but these have "
            + ", ".join(axis.unit or "none" for axis in axes)
        )


def in_one_unit(axes: Sequence[ImageAxis], starts: Sequence[float]) -> tuple[list[ImageAxis], list[float]]:
    """Return axes, and positions along them, in the unit of the first axis, where they can be given in it."""
    out, moved = [], []
    for axis, start in zip(axes, starts, strict=True):
        unit = axes[0].unit
        try:
            factor = 1.0 if axis.unit == unit else unit_in(Unit(1.0, axis.unit), symbol_of(unit))
        except InvalidArgumentError:
            factor, unit = 1.0, axis.unit
        out.append(axis._replace(scale=plain(axis.scale * factor), unit=unit))
        moved.append(plain(start * factor))
    return out, moved


def with_sizes(stored: dict[str, JSON], change: Change, space: Sequence[int]) -> dict[str, JSON]:
    """Return attributes with sizes and units of voxels as they are to be."""
    out = dict(stored)
    unit = next((change.units[dim] for dim in space), "")
    if isinstance(out.get("resolution"), list):
        out["resolution"] = _times(out["resolution"], change, space)
    found = out.get("pixelResolution")
    if isinstance(found, dict):
        sizes = found.get("dimensions")
        out["pixelResolution"] = {
            **found,
            "unit": unit or "pixel",
            **({} if sizes is None else {"dimensions": _times(sizes, change, space)}),
        }
    elif isinstance(found, list):
        out["pixelResolution"] = _times(found, change, space)
    if isinstance(out.get("units"), list):
        out["units"] = list(change.units)
    if "unit" in out:
        out["unit"] = unit or "pixel"
    return out


def _times(sizes: list[Any], change: Change, space: Sequence[int]) -> list[float]:
    dims = range(len(change.factors)) if len(sizes) == len(change.factors) else space
    return [plain(n * change.factors[dim]) for n, dim in zip(sizes, dims, strict=True)]
