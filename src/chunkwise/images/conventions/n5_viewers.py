"""Images in N5 by the conventions of n5-viewer, COSEM and Paintera; BigDataViewer's is in `bdv`.

* n5-viewer: ``c0/t0/s0``, where ``c0`` and ``t0`` are there if the image has these axes, with
  ``pixelResolution``, the voxel size of full resolution, and ``downsamplingFactors`` at each level, or
  ``scales`` for all of them at the group.
* COSEM (CellMap): each level's own size and place, in ``transform`` in C order, z first, and in
  ``pixelResolution`` x first; or ``multiscales`` of the group.
* Paintera: ``painteraData``, and levels in ``data``, as in ``c0/t0/data/s0``, with ``multiScale``,
  ``resolution`` and ``offset``.

n5-viewer multiplies the voxel size by ``downsamplingFactors``.  So ``resolution``, TensorStore's attribute,
which is of the array itself, is left out where readers would multiply it.  On the group there are the
attributes that neuroglancer reads.

Sources: n5-ij wiki "N5 Metadata Dialects"; n5 README of BigDataViewer; Paintera README, "Data";
neuroglancer documentation, data source n5.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from chunkwise.errors import InvalidArgumentError
from chunkwise.extension import JSON
from chunkwise.groups.group import Group
from chunkwise.images.conventions.bdv import BDV
from chunkwise.images.conventions.bdv_file import BdvSetup
from chunkwise.images.conventions.convention import LABEL, Change, Edit, Level, NewImage
from chunkwise.images.conventions.n5 import AxesAndLevels, N5Convention, Nodes, level_offset
from chunkwise.images.conventions.n5_group import (
    N5Group,
    attributes_if_there,
    check_one_unit,
    in_one_unit,
    parse_transform,
    pixel_resolution,
)
from chunkwise.images.conventions.ome_groups import ImageCollection
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.joined import joined
from chunkwise.images.multiscale.metadata import (
    Axis,
    ImageAxis,
    LevelMetadata,
    Transformation,
    expect_list,
    expect_members,
    expect_text,
    metadata_file,
)

__all__ = ["N5_CONVENTIONS", "find_n5_images"]

_LOOKED_AT = 20  # groups called c0, t1, ... for one with an image
_TRANSFORM = "transform"


class _N5Viewer(N5Convention):
    name = viewer = "n5-viewer"
    members = ("axes", "units", "resolution", "scales", "pixelResolution", LABEL)

    def find(self, at: N5Group) -> MultiscaleImage | ImageCollection | None:
        if at.has_levels:
            return self.read(at)
        for prefix in ("c", "t"):
            below = at.groups(prefix)
            if any(find_n5_images(at.child(name).group) is not None for name in below[:_LOOKED_AT]):
                return ImageCollection(
                    lambda: below,  # noqa: B023
                    lambda name: _only_image(at.child(name).group),
                    convention=self.name,
                    location=at.location.text,
                )
        return None

    def check(self, axes: Sequence[ImageAxis], *, labels: bool, kind: str) -> None:
        if any(axis.kind != "space" for axis in axes) or not 1 <= len(axes) <= 3:
            raise InvalidArgumentError(
                "a pyramid for n5-viewer has up to 3 axes of space; write one for each channel and time "
                f"(these are {', '.join(axis.name for axis in axes)})"
            )
        check_one_unit(axes, self.name)

    def in_its_units(self, axes: list[ImageAxis], starts: list[float]) -> tuple[list[ImageAxis], list[float]]:
        return in_one_unit(axes, starts)

    def has_own_units(self, level: Level) -> bool:
        # With the factors beside them, other software would take them for those of full resolution.
        return all(f == 1 for f in level.factors)

    def level_attributes(
        self, axes: Sequence[ImageAxis], level: Level, start: Sequence[float] = (0.0,) * 3
    ) -> dict[str, JSON]:
        out: dict[str, JSON] = {"pixelResolution": pixel_resolution(axes, [axis.scale for axis in axes])}
        if any(f > 1 for f in level.factors):
            out["downsamplingFactors"] = list(level.factors)
        offset = level_offset(axes, level, start)
        if any(offset):
            ends = (*offset, 0.0, 0.0)[:3]
            out["affineTransform"] = [[*(float(i == j) for j in range(3)), ends[i]] for i in range(3)]
        return out

    def offset(self, first: Level, level: Level) -> tuple[float, ...]:
        return (0.0,) * len(level.factors)  # an affine transformation says where it is

    def stack_attributes(self, path: str, image: NewImage) -> dict[str, dict[str, JSON]]:
        return {path: _described(image, {"resolution": [axis.scale for axis in image.axes]})}


class _Cosem(N5Convention):
    name = "cosem"
    viewer = "COSEM"
    members = ("axes", "units", "scales", "pixelResolution", "multiscales", LABEL)
    has_one_unit = False

    def find(self, at: N5Group) -> MultiscaleImage | None:
        return self.read(at) if at.has_levels and at.has_transforms else None

    def places(
        self, at: N5Group, attributes: Mapping[str, JSON], setup: BdvSetup | None
    ) -> tuple[AxesAndLevels, list[str]]:
        if "multiscales" in attributes:
            return _levels_of_group(attributes["multiscales"], f"{metadata_file(at.group)}: multiscales"), []
        stores, problems = at.stores()
        found = []
        for number, store in stores.items():
            where = f"{at.location.describe(f's{number}/attributes.json')}: {_TRANSFORM}"
            own, place = parse_transform(store.attrs.get(_TRANSFORM), where)
            found.append((own, LevelMetadata(f"s{number}", place, where)))
        return (next(own for own, _ in found), tuple(level for _, level in found)), problems

    def level_attributes(
        self, axes: Sequence[ImageAxis], level: Level, start: Sequence[float] = (0.0,) * 3
    ) -> dict[str, JSON]:
        return {_TRANSFORM: _made(axes, level), "pixelResolution": pixel_resolution(axes, level.scale)}

    def stack_attributes(self, path: str, image: NewImage) -> dict[str, dict[str, JSON]]:
        datasets = [{"path": own, _TRANSFORM: _made(image.axes, level)} for own, level in image.levels]
        return {path: {**_described(image, {}), "multiscales": [{"name": image.name, "datasets": datasets}]}}

    def place_edits(self, image: MultiscaleImage, change: Change, nodes: Nodes) -> list[Edit]:
        edits = []
        for at, place in zip(nodes.levels, change.places, strict=True):
            if _TRANSFORM in nodes.known[at.path]:
                edits.append(Edit(at, None, partial(_with_transform, place=place, units=change.units)))
        for at in nodes.groups:
            if "multiscales" in nodes.known[at.path]:
                edits.append(Edit(at, None, partial(_with_transforms, change=change)))
        return edits

    def missing(self, change: Change, found: set[str]) -> dict[str, JSON]:
        return {}


class _Paintera(N5Convention):
    name = "paintera"
    viewer = "Paintera"
    members = ()
    needs_z = is_described_above = is_placed_at_its_group = True

    data = "data"
    """Name of the group with the levels in that of a dataset, which says what they are."""

    def find(self, at: N5Group) -> MultiscaleImage | None:
        if "painteraData" in at.attributes and isinstance(at.group.get(self.data), Group):
            image = self.read(at.child(self.data), name=at.location.name, beside=at.attributes)
            return image._seen_from(self.data, at.location.text)
        if not at.has_levels:
            return None
        above = at.location.parent
        if above is not None and at.location.name == self.data:
            whole = attributes_if_there(above)
            if "painteraData" in whole:
                return self.read(at, name=above.name, beside=whole)
        is_one = at.attributes.get("multiScale") is True and not at.has_transforms
        return self.read(at) if is_one else None

    def stack_path(self, channel: int | None, time: int | None) -> str:
        return f"{super().stack_path(channel, time)}/{self.data}".lstrip("/")

    def stack_attributes(self, path: str, image: NewImage) -> dict[str, dict[str, JSON]]:
        first = image.levels[0][1]
        own: dict[str, JSON] = {
            "multiScale": True,
            "resolution": list(first.scale),
            "offset": list(first.translation),
        }
        if image.axes[0].unit:
            own["unit"] = image.axes[0].unit
        if image.labels:  # a label source has tables beside it, which are not made here
            return {path: own}
        return {path: own, path.rpartition("/")[0]: {"painteraData": {"type": "raw"}}}


def _described(image: NewImage, more: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the attributes of a group that neuroglancer and older versions of n5-viewer read."""
    return {
        "axes": [axis.name for axis in image.axes],
        "units": [axis.unit for axis in image.axes],
        **more,
        "scales": [list(level.factors) for _, level in image.levels],
        "pixelResolution": pixel_resolution(image.axes, [axis.scale for axis in image.axes]),
    }


N5_CONVENTIONS = {one.name: one for one in (BDV, _Paintera(), _Cosem(), _N5Viewer())}
"""The conventions, in the order in which they are asked for an image."""


def find_n5_images(group: Group) -> MultiscaleImage | ImageCollection | None:
    """Return the image, or images, that an N5 group holds; None if there is none."""
    at = N5Group(group)
    return next((found for one in N5_CONVENTIONS.values() if (found := one.find(at)) is not None), None)


def _only_image(group: Group) -> MultiscaleImage:
    found = find_n5_images(group)
    if isinstance(found, ImageCollection) and all(re.fullmatch(r"t\d+", name) for name in found):
        times = {int(name[1:]): image for name, image in found.items()}
        bounds = min(times), max(times)
        name = group.location.name
        where = group.location.text
        return joined(times, Axis("t", "time"), bounds, location=where, name=name, members=list(found))
    if not isinstance(found, MultiscaleImage):
        raise InvalidArgumentError(f"{group.location.text}: there is no image with levels s0, s1, …")
    return found


# -- transformations of COSEM


def _levels_of_group(value: object, where: str) -> AxesAndLevels:
    """Return axes and levels of the first image in ``multiscales`` of a group."""
    image = expect_members(expect_list(value, where, "images")[0], f"{where}[0]")
    axes: tuple[Axis, ...] = ()
    levels = []
    for i, entry in enumerate(expect_list(image.get("datasets"), f"{where}[0]: datasets", "levels")):
        at = f"{where}[0]: datasets[{i}]"
        dataset = expect_members(entry, at)
        own, place = parse_transform(dataset.get("transform"), f"{at}: transform")
        axes = axes or own
        if own != axes:
            raise InvalidArgumentError(f"{at}: transform: axes and units must be those of the first level")
        path = expect_text(dataset.get("path"), f"{at}: path", "the path of an array")
        levels.append(LevelMetadata(path.strip("/"), place, f"{at}: path"))
    return axes, tuple(levels)


def _made(axes: Sequence[ImageAxis], level: Level) -> dict[str, JSON]:
    """Return the transformation of a level, in C order."""
    place = Transformation(level.scale, level.translation)
    return _placed({"axes": [axis.name for axis in reversed(axes)]}, place, [axis.unit for axis in axes])


def _placed(value: Mapping[str, Any], place: Transformation, units: Sequence[str]) -> dict[str, JSON]:
    scale, at = (list(part[::-1]) for part in place)
    return {**value, "scale": scale, "translate": at, "units": list(units[::-1])}


def _with_transform(stored: dict[str, JSON], place: Transformation, units: Sequence[str]) -> dict[str, JSON]:
    return {**stored, _TRANSFORM: _placed(stored[_TRANSFORM], place, units)}


def _with_transforms(stored: dict[str, JSON], change: Change) -> dict[str, JSON]:
    first, *others = stored["multiscales"]
    datasets = [
        _with_transform(dataset, place, change.units)
        for dataset, place in zip(first["datasets"], change.places, strict=True)
    ]
    return {**stored, "multiscales": [{**first, "datasets": datasets}, *others]}
