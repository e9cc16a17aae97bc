"""Common properties of images in N5: levels ``s0``, ``s1``, … of a group, whichever of them are there.

Readers of N5 put the first voxel of a level in the middle of those of full resolution that it covers; COSEM
says where it is.  Names of axes are those in ``axes``, x first, or else x, y, z.  A group holds a stack of up
to 3 axes, so each channel and each time has a group of its own.  Where levels lie elsewhere, n5-viewer has an
affine transformation for that.

Sources: those of `chunkwise.images.conventions.n5_viewers`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from chunkwise import TensorStore
from chunkwise.errors import InvalidArgumentError, UnsupportedError
from chunkwise.extension import JSON
from chunkwise.extension.inside import dump
from chunkwise.extension.trees import FormatName, Location, find_node, read_attributes
from chunkwise.groups.group import Group
from chunkwise.images.conventions.bdv_file import BdvSetup
from chunkwise.images.conventions.convention import (
    LABEL,
    OME_MEMBERS,
    Change,
    Edit,
    Level,
    NewImage,
    PyramidConvention,
    plain,
)
from chunkwise.images.conventions.n5_group import (
    LEVEL_MEMBERS,
    N5_MEMBERS,
    N5Group,
    axes_and_sizes,
    axis_names,
    check_one_unit,
    described,
    with_sizes,
)
from chunkwise.images.conventions.ome_groups import ImageCollection, image_in
from chunkwise.images.conventions.ome_metadata import label_colors_of
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.metadata import (
    Axis,
    ImageAxis,
    ImageMetadata,
    LevelMetadata,
    Transformation,
    axis_kind,
    cells,
    expect_list,
    expect_numbers,
    level_factor,
    metadata_file,
)
from chunkwise.n5.label_multisets import open_label_multisets

__all__ = ["AxesAndLevels", "N5Convention", "Nodes", "Stack", "expect_one_unit", "level_offset"]

_NEARLY = 1e-6  # of a voxel
_AFFINE, _OFFSET = "affineTransform", "offset"

AxesAndLevels = tuple[tuple[Axis, ...], tuple[LevelMetadata, ...]]


class Stack(NamedTuple):
    """One channel at one time, in a group of its own."""

    path: str  # of the group that its levels are in
    channel: int | None  # None if the image has no such axis
    time: int | None


class Nodes(NamedTuple):
    """The nodes that describe an image."""

    groups: Sequence[Location]  # the innermost first, up to that of the image
    levels: Sequence[Location]
    known: Mapping[str, Mapping[str, JSON]]  # their attributes, by path


class N5Convention(PyramidConvention):
    """A convention of images in N5, by which a viewer finds them."""

    format: FormatName = "n5"
    prefix = "s"
    reserved = frozenset((*N5_MEMBERS, *OME_MEMBERS))  # a container that was made of OME-Zarr has its members
    level_members = frozenset(LEVEL_MEMBERS)
    viewer: str
    needs_z = False  # stacks have 3 axes, so an image of x and y gets a third one
    has_one_unit = True
    is_described_above = False  # a group of levels, opened alone, has attributes in the group above

    # -- reading

    @abstractmethod
    def find(self, at: N5Group) -> MultiscaleImage | ImageCollection | None:
        """Return the image, or images, that a group holds by this convention; None if there is none."""

    def read(
        self,
        at: N5Group,
        *,
        name: str = "",
        beside: Mapping[str, JSON] | None = None,
        setup: BdvSetup | None = None,
    ) -> MultiscaleImage:
        """Return the image whose levels are in a group; `beside` has more of its attributes."""
        attributes = {**(beside or {}), **at.attributes}
        group, colors = at.group, list[str]()
        shown = attributes.get(LABEL) or {}
        (axes, levels), problems = self.places(at, attributes, setup)
        metadata = ImageMetadata(
            self.name,
            axes,
            levels,
            name or str(attributes.get("name") or ""),
            is_labels=at.is_labels(levels[0].path, attributes),
            label_colors=label_colors_of(shown, f"{metadata_file(group)}: {LABEL}", colors),
            document=attributes,
            problems=(*problems, *colors, *(() if setup is None else setup.problems)),
            lacks="" if levels[0].path == f"{self.prefix}0" else next(iter(problems), ""),
        )

        def values_of(store: TensorStore, number: int) -> TensorStore:
            is_multiset = store.attrs.get("isLabelMultiset") is True
            return open_label_multisets(group.location.child(levels[number].path)) if is_multiset else store

        return image_in(group, metadata, values_of)

    def places(
        self, at: N5Group, attributes: Mapping[str, JSON], setup: BdvSetup | None
    ) -> tuple[AxesAndLevels, list[str]]:
        """Return axes and levels, of one voxel size and factors, and problems with them."""
        stores, problems = at.stores()
        return _factor_levels(at.group, stores, attributes, setup), problems

    # -- writing

    def check(self, axes: Sequence[ImageAxis], *, labels: bool, kind: str) -> None:
        """Do nothing: N5 has any axes."""

    def check_stack(self, axes: Sequence[ImageAxis]) -> None:
        """Raise InvalidArgumentError unless there are 2 or 3 axes of space, of one unit."""
        if len(axes) not in (2, 3):
            raise InvalidArgumentError(
                f"{self.viewer} shows 2 or 3 axes of space, but the image has "
                f"{', '.join(axis.name for axis in axes) or 'none'}"
            )
        check_one_unit(axes, self.viewer)

    def stacks(self, n_channels: int | None, n_times: int | None) -> Iterator[Stack]:
        """Yield all stacks of an image."""
        for channel in (None,) if n_channels is None else range(n_channels):
            for time in (None,) if n_times is None else range(n_times):
                yield Stack(self.stack_path(channel, time), channel, time)

    def stack_path(self, channel: int | None, time: int | None) -> str:
        """Return the path of the group of a stack: ``c0/t0``, of those that the image has."""
        parts = ["" if channel is None else f"c{channel}", "" if time is None else f"t{time}"]
        return "/".join(filter(None, parts))

    def offset(self, first: Level, level: Level) -> tuple[float, ...]:
        """Return by how much a level lies elsewhere than the viewer has it, by axis."""
        return level_offset([ImageAxis("", "space", size) for size in first.scale], level, first.translation)

    def level_attributes(
        self, axes: Sequence[ImageAxis], level: Level, start: Sequence[float] = (0.0,) * 3
    ) -> dict[str, JSON]:
        """Return the attributes of the array of a level."""
        return {"downsamplingFactors": list(level.factors)}

    @abstractmethod
    def stack_attributes(self, path: str, image: NewImage) -> dict[str, dict[str, JSON]]:
        """Return the attributes of the groups of a stack at `path`, by path."""

    def group_attributes(self, image: NewImage) -> dict[str, JSON]:
        """Return the attributes of the group of a pyramid.

        Viewers of N5 have no word for labels: that of OME-NGFF keeps them from being averaged.
        """
        label = {LABEL: dict(image.kept.image_label)} if image.labels else {}
        return {**image.kept.attributes, **label, **self.stack_attributes("", image)[""]}

    # -- editing

    def edits(self, image: MultiscaleImage, location: Location, change: Change) -> list[Edit]:
        """Return the edits of groups and levels: sizes change by the same factors wherever they are."""
        space = [dim for dim, axis in enumerate(image.axes) if axis.type == "space"]
        if self.has_one_unit:
            expect_one_unit([change.units[dim] for dim in space], self.name)
        levels = [location.child(path) for path in image.paths]
        if any(_kind(at) != "array" for at in levels):
            raise InvalidArgumentError(
                f"{location.text} is put together of images in several groups; edit each of them"
            )
        groups = self._groups(image, location)
        known = {at.path: read_attributes(at) for at in (*groups, *levels)}
        edits = self.place_edits(image, change, Nodes(groups, levels, known))
        for at in (*groups, *levels):
            if any(name in known[at.path] for name in ("resolution", "pixelResolution", "units", "unit")):
                edits.append(Edit(at, None, partial(with_sizes, change=change, space=space)))
        found = {name for at in (*groups, levels[0]) for name in described(known[at.path])}
        return [*edits, Edit(groups[0], None, lambda stored: {**stored, **self.missing(change, found)})]

    def _groups(self, image: MultiscaleImage, location: Location) -> list[Location]:
        """Return the groups that the levels are in, the innermost first, up to that of the image."""
        found = []
        names = image.paths[0].split("/")[:-1]
        for n in range(len(names), -1, -1):
            found.append(location.child("/".join(names[:n])) if n else location)
        if self.is_described_above and location.parent is not None and not names:
            found.append(location.parent)
        return [at for at in found if _kind(at) == "group"]

    def place_edits(self, image: MultiscaleImage, change: Change, nodes: Nodes) -> list[Edit]:
        """Return the edits of positions: of offsets and affine transformations."""
        groups, levels, known = nodes
        old = [level.place for level in image._metadata.levels]
        if change.places == tuple(old):
            return []
        affines = [_affine(known[at.path].get(_AFFINE), len(image.axes)) for at in levels]
        owner = next((at for at in groups if _OFFSET in known[at.path]), None)
        if owner is None and self.is_placed_at_its_group:
            owner = groups[0]
        start = np.array(known[owner.path].get(_OFFSET, [0.0] * len(image.axes)) if owner else 0.0, float)
        edits = []
        moved = (np.array(change.places[0].translation) - affines[0][1]) / affines[0][0]
        inwards = [  # by how much a level lies inwards, by its factor alone
            ((np.array(was.translation) - at) / by - start) * change.factors
            for was, (by, at) in zip(old, affines, strict=True)
        ]
        if owner is not None:
            start = moved - inwards[0]
            values = [plain(value) for value in start]
            edits.append(Edit(owner, None, lambda stored: {**stored, _OFFSET: values}))
        for number, at in enumerate(levels):
            place, (by, _) = change.places[number], affines[number]
            shift = np.array(place.translation) - (inwards[number] + start) * by
            shift[abs(shift) <= _NEARLY * np.array(place.scale)] = 0.0
            if _AFFINE in known[at.path] or shift.any():
                self.check_affine()
                edits.append(Edit(at, None, partial(_with_affine, by=by, shift=shift)))
        return edits

    def check_affine(self) -> None:
        """Raise UnsupportedError unless a level can have an affine transformation."""

    def missing(self, change: Change, found: set[str]) -> dict[str, JSON]:
        """Return the attributes of the group of the levels that are in none so far; `found` are."""
        out: dict[str, JSON] = {}
        if change.resizes() and "resolution" not in found:
            out["resolution"] = list(change.places[0].scale)
        if any(change.units) and "units" not in found:
            out["units"] = list(change.units)
        return out


def expect_one_unit(units: Sequence[str], name: str) -> None:
    """Raise UnsupportedError unless all axes of space are to have one unit."""
    if len(set(units)) > 1:
        shown = ", ".join(unit or "none" for unit in units)
        raise UnsupportedError(f"units: {name} has one unit for all axes of space, not {shown}")


def _kind(location: Location) -> str:
    node = find_node(location)
    return "" if node is None else node.kind


def _factor_levels(
    group: Group, stores: Mapping[int, TensorStore], attributes: Mapping[str, JSON], setup: BdvSetup | None
) -> AxesAndLevels:
    """Return axes and levels of an image with one voxel size, and factors for its levels."""
    first = next(iter(stores.values()))
    where, rank = metadata_file(group), first.rank
    names = axis_names(first, attributes, where)
    if setup is None:
        axes, size = axes_and_sizes(names, [attributes, first.attrs.asdict()], where)
        start = expect_numbers(attributes.get("offset", [0.0] * rank), rank, f"{where}: offset")
    else:
        ones = (1.0,) * (rank - 3)
        size, start = (*setup.size, *ones)[:rank], (*setup.start, *(0.0 for _ in ones))[:rank]
        axes = tuple(Axis(n, axis_kind(n), setup.unit if axis_kind(n) == "space" else "") for n in names)
    listed = next((n for n in ("scales", "downsamplingFactors") if isinstance(attributes.get(n), list)), "")
    levels = []
    for number, store in stores.items():
        at = group.location.describe(f"s{number}/attributes.json")
        factors = store.attrs.get("downsamplingFactors")
        if factors is None and listed and number < len(attributes[listed]):
            factors, at = attributes[listed][number], f"{where}: {listed}[{number}]"
        if factors is None:
            factors = [level_factor(n, m) for n, m in zip(first.shape, store.shape, strict=True)]
        elif isinstance(factors, list) and len(factors) == 3 < rank:
            factors = [*factors, *[1] * (rank - 3)]
        cell = cells(expect_numbers(factors, rank, f"{at}: downsamplingFactors", positive=True))
        place = cell.then(Transformation(size, start))
        affine = store.attrs.get(_AFFINE)
        if affine is not None:
            place = place.then(_diagonal(affine, rank, f"{at}: {_AFFINE}"))
        levels.append(LevelMetadata(f"s{number}", place, at))
    return axes, tuple(levels)


def _diagonal(value: object, rank: int, where: str) -> Transformation:
    """Return an affine transformation that neither turns nor shears; raise UnsupportedError for others."""
    rows = expect_list(value, where, "rows")
    if all(not isinstance(row, list) for row in rows):
        rows = [rows[at : at + 4] for at in range(0, len(rows), 4)]
    matrix = [expect_numbers(row, len(rows) + 1, f"{where}[{i}]") for i, row in enumerate(rows)]
    if any(n for i, row in enumerate(matrix) for j, n in enumerate(row[:-1]) if i != j):
        raise UnsupportedError(f"{where}: expected scale and translation, not {dump(value)[:200]}")
    scale = [row[i] for i, row in enumerate(matrix)][:rank]
    if any(size <= 0 for size in scale):
        raise UnsupportedError(f"{where}: expected positive scales, not {dump(value)[:200]}")
    at = [row[-1] for row in matrix][:rank]
    n_more = rank - len(scale)
    return Transformation((*scale, *(1.0,) * n_more), (*at, *(0.0,) * n_more))


def _affine(value: JSON, rank: int) -> tuple[Any, Any]:
    """Return scale and shift of an affine transformation; none is there if it is None."""
    place = Transformation((1.0,) * rank, (0.0,) * rank) if value is None else _diagonal(value, rank, _AFFINE)
    return np.array(place.scale), np.array(place.translation)


def _with_affine(stored: dict[str, JSON], by: Any, shift: Any) -> dict[str, JSON]:
    n = max(3, len(by))
    rows = np.zeros((n, n + 1))
    rows[range(n), range(n)] = 1.0
    rows[range(len(by)), range(len(by))] = by
    rows[: len(shift), -1] = [plain(value) for value in shift]
    flat = isinstance(stored.get(_AFFINE), list) and not isinstance(stored[_AFFINE][0], list)
    return {**stored, _AFFINE: rows.ravel().tolist() if flat else rows.tolist()}


def level_offset(axes: Sequence[ImageAxis], level: Level, start: Sequence[float]) -> tuple[float, ...]:
    """Return by how much a level lies elsewhere than viewers have it, of an image at `start`, by axis."""
    out = []
    for at, f, axis, begin in zip(level.translation, level.factors, axes, start, strict=False):
        distance = at - 0.5 * (f - 1) * axis.scale - begin
        out.append(0.0 if abs(distance) <= _NEARLY * axis.scale else distance)
    return tuple(out)
