"""Layouts of images in N5, by viewer: attributes of groups and arrays, and the XML file of BigDataViewer.

All viewers show stacks of up to 3 axes, so each channel and each time has a group of its own:

* n5-viewer: ``c0/t0/s0``; ``c0`` and ``t0`` are there if the image has these axes.
* Paintera: the same with ``data`` between, as in ``c0/t0/data/s0``, beside ``painteraData``.
* BigDataViewer: ``setup0/timepoint0/s0`` always; an XML file beside has sizes and positions.

N5 lists are x first.  n5-viewer gives the voxel size of full resolution at every level and multiplies it by
``downsamplingFactors``; COSEM (CellMap) gives each level's own, in ``pixelResolution`` x first and in
``transform`` in C order, z first.  So ``resolution``, TensorStore's attribute, which is of the array itself,
is left out where readers would multiply it.  On the group there are the attributes that neuroglancer reads.

All but COSEM put the first voxel of a level in the middle of those of full resolution that it covers.  Where
levels lie elsewhere, n5-viewer has an affine transformation for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from chunkwise import Unit
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension import JSON
from chunkwise.images.multiscale.image_axes import ImageAxis, symbol_of, unit_in
from chunkwise.images.pyramid.geometry import Level

__all__ = [
    "LAYOUTS",
    "Layout",
    "Stack",
    "bdv_xml",
    "check_n5_viewer_axes",
    "cosem_group",
    "cosem_level",
    "in_one_unit",
    "n5_viewer_group",
    "n5_viewer_level",
]

_NEARLY = 1e-6  # of a voxel


def check_n5_viewer_axes(axes: Sequence[ImageAxis]) -> None:
    """Raise InvalidArgumentError unless there are up to 3 axes, all of space and of one unit."""
    if any(axis.kind != "space" for axis in axes) or not 1 <= len(axes) <= 3:
        raise InvalidArgumentError(
            "a pyramid for n5-viewer has up to 3 axes of space; write one for each channel and time "
            f"(these are {', '.join(axis.name for axis in axes)})"
        )
    _check_one_unit(axes, "n5-viewer")


def _check_one_unit(axes: Sequence[ImageAxis], viewer: str) -> None:
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
        # Round the product to 14 digits: 0.04 * 1000 is 40, not 40.00000000000001.
        out.append(axis._replace(scale=float(f"{axis.scale * factor:.14g}"), unit=unit))
        moved.append(float(f"{start * factor:.14g}"))
    return out, moved


def n5_viewer_level(
    axes: Sequence[ImageAxis], level: Level, start: Sequence[float] = (0.0, 0.0, 0.0)
) -> dict[str, JSON]:
    """Return the attributes of a dataset: the voxel size is that of full resolution.

    Where a level lies elsewhere than in the middle of the voxels it stands for, of an image at `start`, an
    affine transformation says so.
    """
    out: dict[str, JSON] = {"pixelResolution": _pixel_resolution(axes, [axis.scale for axis in axes])}
    if any(f > 1 for f in level.factors):
        out["downsamplingFactors"] = list(level.factors)
    offset = _level_offset(axes, level, start)
    if any(offset):
        ends = (*offset, 0.0, 0.0)[:3]
        out["affineTransform"] = [[*(float(i == j) for j in range(3)), ends[i]] for i in range(3)]
    return out


def _level_offset(axes: Sequence[ImageAxis], level: Level, start: Sequence[float]) -> tuple[float, ...]:
    """Return by how much a level lies elsewhere than viewers have it, of an image at `start`, by axis."""
    out = []
    for at, f, axis, begin in zip(level.translation, level.factors, axes, start, strict=False):
        distance = at - 0.5 * (f - 1) * axis.scale - begin
        out.append(0.0 if abs(distance) <= _NEARLY * axis.scale else distance)
    return tuple(out)


def n5_viewer_group(axes: Sequence[ImageAxis], levels: Sequence[tuple[str, Level]]) -> dict[str, JSON]:
    """Return the attributes of the group, which older versions and neuroglancer read."""
    return {
        "axes": [axis.name for axis in axes],
        "units": [axis.unit for axis in axes],
        "resolution": [axis.scale for axis in axes],
        "scales": [list(level.factors) for _, level in levels],
        "pixelResolution": _pixel_resolution(axes, [axis.scale for axis in axes]),
    }


def cosem_level(axes: Sequence[ImageAxis], level: Level) -> dict[str, JSON]:
    """Return the attributes of a dataset: the voxel size is its own."""
    return {"transform": _transform(axes, level), "pixelResolution": _pixel_resolution(axes, level.scale)}


def cosem_group(axes: Sequence[ImageAxis], levels: Sequence[tuple[str, Level]], name: str) -> dict[str, JSON]:
    """Return the attributes of the group."""
    return {
        "axes": [axis.name for axis in axes],
        "units": [axis.unit for axis in axes],
        "scales": [list(level.factors) for _, level in levels],
        "pixelResolution": _pixel_resolution(axes, [axis.scale for axis in axes]),
        "multiscales": [
            {
                "name": name,
                "datasets": [{"path": path, "transform": _transform(axes, level)} for path, level in levels],
            }
        ],
    }


def _pixel_resolution(axes: Sequence[ImageAxis], scale: Sequence[float]) -> dict[str, JSON]:
    space = [(axis, size) for axis, size in zip(axes, scale, strict=True) if axis.kind == "space"]
    unit = next((axis.unit for axis, _ in space if axis.unit), "pixel")
    return {"unit": unit, "dimensions": [size for _, size in space]}


def _transform(axes: Sequence[ImageAxis], level: Level) -> dict[str, JSON]:
    return {
        "axes": [axis.name for axis in reversed(axes)],
        "scale": list(reversed(level.scale)),
        "translate": list(reversed(level.translation)),
        "units": [axis.unit for axis in reversed(axes)],
    }


class Stack(NamedTuple):
    """One channel at one time, in a group of its own."""

    path: str  # of the group that its levels are in
    channel: int | None  # None if the image has no such axis
    time: int | None


class Layout(NamedTuple):
    """A layout, and the viewer that has it."""

    name: str
    viewer: str
    needs_z: bool  # stacks have 3 axes, so an image of x and y gets a third one

    def check(self, axes: Sequence[ImageAxis]) -> None:
        """Raise InvalidArgumentError unless there are 2 or 3 axes of space, of one unit."""
        if len(axes) not in (2, 3):
            raise InvalidArgumentError(
                f"{self.viewer} shows 2 or 3 axes of space, but the image has "
                f"{', '.join(axis.name for axis in axes) or 'none'}"
            )
        _check_one_unit(axes, self.viewer)

    def stacks(self, n_channels: int | None, n_times: int | None) -> Iterator[Stack]:
        """Yield all stacks of an image."""
        for channel in (None,) if n_channels is None else range(n_channels):
            for time in (None,) if n_times is None else range(n_times):
                if self.name == "bdv":
                    path = f"setup{channel or 0}/timepoint{time or 0}"
                else:
                    parts = ["" if channel is None else f"c{channel}", "" if time is None else f"t{time}"]
                    parts.append("data" if self.name == "paintera" else "")
                    path = "/".join(filter(None, parts))
                yield Stack(path, channel, time)

    def offset(self, first: Level, level: Level) -> tuple[float, ...]:
        """Return by how much a level lies elsewhere than the viewer has it, by axis."""
        start = (0.0, 0.0, 0.0) if self.name == "n5-viewer" else first.translation
        axes = [ImageAxis("", "space", size) for size in first.scale]
        return _level_offset(axes, level, start)

    def level_attributes(self, axes: Sequence[ImageAxis], first: Level, level: Level) -> dict[str, JSON]:
        """Return the attributes of the array of a level."""
        if self.name != "n5-viewer":
            return {"downsamplingFactors": list(level.factors)}
        return n5_viewer_level(axes, level)

    def group_attributes(
        self,
        stack: Stack,
        axes: Sequence[ImageAxis],
        levels: Sequence[tuple[str, Level]],
        *,
        data_type: str,
        labels: bool,
    ) -> dict[str, dict[str, JSON]]:
        """Return the attributes of the groups of a stack, by path."""
        first = levels[0][1]
        if self.name == "n5-viewer":
            return {stack.path: n5_viewer_group(axes, levels)}
        own: dict[str, JSON] = {"multiScale": True, "resolution": list(first.scale)}
        above = stack.path.rpartition("/")[0]
        if self.name == "bdv":
            factors = [list(level.factors) for _, level in levels]
            return {stack.path: own, above: {"downsamplingFactors": factors, "dataType": data_type}}
        own["offset"] = list(first.translation)
        if axes[0].unit:
            own["unit"] = axes[0].unit
        # A label source of Paintera has tables beside it, which are not made here.
        return {stack.path: own} if labels else {stack.path: own, above: {"painteraData": {"type": "raw"}}}


LAYOUTS = {
    layout.name: layout
    for layout in (
        Layout("n5-viewer", "n5-viewer", needs_z=False),
        Layout("paintera", "Paintera", needs_z=True),
        Layout("bdv", "BigDataViewer", needs_z=True),
    )
}


def bdv_xml(
    container: str, name: str, axes: Sequence[ImageAxis], first: Level, *, n_channels: int, n_times: int
) -> bytes:
    """Return the XML file of an image whose container is beside it; each channel is a setup."""
    root = Element("SpimData", version="0.2")
    _add(root, "BasePath", ".", type="relative")
    sequence = _add(root, "SequenceDescription")
    loader = _add(sequence, "ImageLoader", format="bdv.n5", version="1.0")
    _add(loader, "n5", container, type="relative")
    setups = _add(sequence, "ViewSetups")
    for channel in range(n_channels):
        setup = _add(setups, "ViewSetup")
        _add(setup, "id", str(channel))
        _add(setup, "name", f"{name} {channel}" if n_channels > 1 else name)
        _add(setup, "size", " ".join(map(str, first.shape)))
        voxel = _add(setup, "voxelSize")
        _add(voxel, "unit", axes[0].unit or "pixel")
        _add(voxel, "size", " ".join(map(repr, first.scale)))
        _add(_add(setup, "attributes"), "channel", str(channel))
    channels = _add(setups, "Attributes", name="channel")
    for channel in range(n_channels):
        entry = _add(channels, "Channel")
        _add(entry, "id", str(channel))
        _add(entry, "name", str(channel))
    times = _add(sequence, "Timepoints", type="range")
    _add(times, "first", "0")
    _add(times, "last", str(n_times - 1))
    registrations = _add(root, "ViewRegistrations")
    rows = [
        [*(size if i == j else 0.0 for j in range(3)), at]
        for i, (size, at) in enumerate(zip(first.scale, first.translation, strict=True))
    ]
    affine = " ".join(repr(float(number)) for row in rows for number in row)
    for channel in range(n_channels):
        for time in range(n_times):
            view = _add(registrations, "ViewRegistration", timepoint=str(time), setup=str(channel))
            transform = _add(view, "ViewTransform", type="affine")
            _add(transform, "Name", "calibration")
            _add(transform, "affine", affine)
    ElementTree.indent(root)
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _add(parent: Element, tag: str, text: str | None = None, **members: str) -> Element:
    child = ElementTree.SubElement(parent, tag, members)
    child.text = text
    return child
