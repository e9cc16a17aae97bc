"""Properties of an image in an N5 group and its arrays: attributes, members, axes, sizes, units, both ways.

``axes``, ``units`` and ``resolution`` are lists with an entry for each dimension, x first as a rule;
``pixelResolution`` has one unit, and sizes along the axes of space; ``unit`` is Paintera's.  Values of the
group take precedence over those of an array, and a size goes with the unit beside it.

Sources: n5-ij wiki "N5 Metadata Dialects"; n5 README of TensorStore; documentation of WEBKNOSSOS, "N5".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chunkwise import TensorStore, Unit
from chunkwise.errors import (
    ChunkwiseError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    StorageError,
    UnsupportedError,
)
from chunkwise.extension import JSON
from chunkwise.extension.inside import cached_property, dump
from chunkwise.extension.trees import Location, read_attributes
from chunkwise.groups.group import Group
from chunkwise.images.conventions.convention import LABEL, Change, plain
from chunkwise.images.multiscale.metadata import (
    Axis,
    ImageAxis,
    Transformation,
    axis_kind,
    expect_list,
    expect_members,
    expect_numbers,
    expect_text,
    metadata_file,
    symbol_of,
    unit_in,
)

__all__ = [
    "LEVEL_MEMBERS",
    "N5_MEMBERS",
    "N5Group",
    "attributes_if_there",
    "axes_and_sizes",
    "axes_of_array",
    "axis_names",
    "check_one_unit",
    "in_one_unit",
    "parse_transform",
    "pixel_resolution",
    "unit_of",
    "with_sizes",
]

LEVEL_MEMBERS = (
    "pixelResolution", "downsamplingFactors", "transform", "affineTransform", "axes", "units", "resolution",
    "isLabelMultiset", "multiScale", "offset",
)  # fmt: skip
"""Attributes that describe a level."""

N5_MEMBERS = (
    "n5", "axes", "units", "unit", "resolution", "offset", "scales", "downsamplingFactors", "pixelResolution",
    "multiscales", "multiScale", "painteraData", "isLabelMultiset", "dataType", "name",
)  # fmt: skip
"""Attributes that describe a group."""

_USUAL = ("x", "y", "z", "c", "t")
_PIXELS = ("", "pixel", "pixels", "px", "voxel")


class N5Group:
    """A group in N5; everything is read once."""

    def __init__(self, group: Group) -> None:
        self.group, self.location = group, group.location

    @cached_property
    def attributes(self) -> dict[str, JSON]:
        """Its attributes."""
        return self.group.attrs.asdict()

    def numbered(self, prefix: str) -> list[str]:
        """Return the members called `prefix` and a number, in order; without a gap if none are listed."""
        try:
            names = list(self.group)
        except UnsupportedError:
            names = []
            while self.group.get(f"{prefix}{len(names)}") is not None:
                names.append(f"{prefix}{len(names)}")
        found = [name for name in names if name.startswith(prefix) and _is_number(name.removeprefix(prefix))]
        return sorted(found, key=lambda name: int(name.removeprefix(prefix)))

    def groups(self, prefix: str) -> list[str]:
        """Return the groups called `prefix` and a number."""
        return [name for name in self.numbered(prefix) if isinstance(self.group.get(name), Group)]

    def child(self, name: str) -> N5Group:
        """Return a group in it; raise NotFoundError if there is none."""
        found = self.group.get(name)
        if not isinstance(found, Group):
            raise NotFoundError(f"there is no group at {self.location.child(name).text}")
        return N5Group(found)

    @cached_property
    def has_levels(self) -> bool:
        """True if it has levels, or says so."""
        return "multiscales" in self.attributes or bool(self._stores[0])

    @cached_property
    def has_transforms(self) -> bool:
        """True if each level has its own place, as in COSEM."""
        stores = {} if "multiscales" in self.attributes else self._stores[0]
        return "multiscales" in self.attributes or any("transform" in s.attrs for s in stores.values())

    def stores(self) -> tuple[dict[int, TensorStore], list[str]]:
        """Return the arrays s0, s1, … by number, and which of them are missing or can't be read.

        Raises
        ------
        InvalidArgumentError
            If there is none.
        """
        if not self._stores[0]:
            raise InvalidArgumentError(f"{metadata_file(self.group)}: there is no array s0 below it")
        return self._stores

    @cached_property
    def _stores(self) -> tuple[dict[int, TensorStore], list[str]]:
        group = self.group
        stores, problems = {}, []
        there = {int(name[1:]): name for name in self.numbered("s")}
        for number in range(max(there, default=-1) + 1):
            at = group.location.describe(f"s{number}/attributes.json")
            try:
                store = group.get(there.get(number, f"s{number}"))
            except ChunkwiseError as e:
                if isinstance(e, StorageError) and not isinstance(e, PermissionDeniedError):
                    raise  # it would be there at another time
                problems.append(f"level s{number} can't be read: {e.message}")
                continue
            if isinstance(store, TensorStore):
                stores[number] = store
            else:
                problems.append(f"level s{number} is missing: there is no dataset at {at}")
        if not stores:
            return {}, problems
        rank = next(iter(stores.values())).rank
        for number, store in list(stores.items()):
            if store.rank != rank:
                problems.append(f"level s{number} has {store.rank} dimensions, but the first has {rank}")
                del stores[number]
        return stores, problems

    def is_labels(self, path: str, attributes: Mapping[str, JSON]) -> bool:
        """Return True if an image is one of labels: Paintera says so, or what was copied from labels."""
        data = attributes.get("painteraData")
        if isinstance(data, dict) and data.get("type") == "label":
            return True
        first = self.group.get(path)
        each = [attributes, first.attrs] if isinstance(first, TensorStore) else [attributes]
        return any(LABEL in own or own.get("isLabelMultiset") is True for own in each)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def attributes_if_there(location: Location) -> dict[str, JSON]:
    """Return the attributes of a group; none if there is no group."""
    try:
        return read_attributes(location)
    except NotFoundError:
        return {}


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
    """Return the symbol of a unit; empty for pixels and for values that aren't text."""
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
    """Return attributes with new sizes and units of voxels."""
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


def described(attributes: Mapping[str, JSON]) -> set[str]:
    """Return which of ``resolution`` and ``units`` attributes have, in any of the forms of these."""
    pixels = attributes.get("pixelResolution")
    both = isinstance(pixels, dict) and pixels.get("dimensions") is not None
    sizes = both or isinstance(pixels, list) or attributes.get("resolution") is not None
    units = both or "unit" in attributes or isinstance(attributes.get("units"), list)
    return {name for name, has in (("resolution", sizes), ("units", units)) if has}


def _times(sizes: list[Any], change: Change, space: Sequence[int]) -> list[float]:
    dims = range(len(change.factors)) if len(sizes) == len(change.factors) else space
    return [plain(n * change.factors[dim]) for n, dim in zip(sizes, dims, strict=True)]


def axes_of_array(
    names: Sequence[str], attributes: Mapping[str, JSON], file: str, *, reversed_axes: bool
) -> list[tuple[str, float, str, float]] | None:
    """Return name, size, unit and start of each dimension of an array in any format; None if unknown."""
    if isinstance(attributes.get("transform"), dict):
        known, place = parse_transform(attributes["transform"], f"{file}: transform")
        if len(known) != len(names):
            raise InvalidArgumentError(
                f"{file}: transform: expected {len(names)} axes, but received {len(known)}"
            )
        found = [(one.name, size, one.unit, start) for one, size, start in zip(known, *place, strict=True)]
        by_name = {one[0]: one for one in found}
        if by_name.keys() == set(names):
            return [by_name[name] for name in names]
        return found if reversed_axes else found[::-1]
    if not {"pixelResolution", "resolution"} & set(attributes):
        return None
    record = dict(attributes)
    if record.get("pixelResolution") is not None and not reversed_axes:  # x comes first in it
        record["pixelResolution"] = _by_name(record["pixelResolution"], names)
    axes, sizes = axes_and_sizes(names, [record], file)
    factors, given = [1.0] * len(names), record.get("downsamplingFactors")
    if given is not None and record.get("pixelResolution") is not None and reversed_axes:
        factors = list(expect_numbers(given, len(names), f"{file}: downsamplingFactors", positive=True))
    return [
        ("", size * f, axis.unit, 0.5 * (f - 1) * size)
        for axis, size, f in zip(axes, sizes, factors, strict=True)
    ]


def _by_name(value: JSON, names: Sequence[str]) -> JSON:
    """Return a ``pixelResolution``, x first, in the order of the dimensions."""
    sizes = value.get("dimensions") if isinstance(value, dict) else value
    space = [name for name in "xyz" if name in names]
    if isinstance(sizes, list) and len(sizes) == len(space):
        by_name = dict(zip(space, sizes, strict=True))
        sizes = [by_name.get(name, 1.0) for name in names]
    return {**value, "dimensions": sizes} if isinstance(value, dict) else sizes


def parse_transform(value: object, where: str) -> tuple[tuple[Axis, ...], Transformation]:
    """Return axes and transformation, x first, of COSEM's ``transform``, which is in C order."""
    transform = expect_members(value, where)
    names = expect_list(transform.get("axes"), f"{where}: axes", "names")
    rank = len(names)
    units = expect_list(transform.get("units", [""] * rank), f"{where}: units", "units")
    if len(units) != rank:
        raise InvalidArgumentError(f"{where}: units: expected {rank} units, but received {dump(units)}")
    axes = [_axis(name, unit, f"{where}: axes") for name, unit in zip(names, units, strict=True)]
    scale = expect_numbers(transform.get("scale"), rank, f"{where}: scale", positive=True)
    at = expect_numbers(transform.get("translate", [0.0] * rank), rank, f"{where}: translate")
    return tuple(axes[::-1]), Transformation(scale[::-1], at[::-1])


def _axis(name: object, unit: object, where: str) -> Axis:
    text = expect_text(name, where, "the name of an axis")
    return Axis(text, axis_kind(text), unit_of(unit))
