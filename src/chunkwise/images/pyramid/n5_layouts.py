"""Layouts of images in N5 containers, by viewer: the groups and their attributes.

All of them show stacks of up to 3 axes, so each channel and each time has a group of its own:

* n5-viewer: ``c0/t0/s0``; ``c0`` and ``t0`` are there if the image has these axes.
* Paintera: the same with ``data`` between, as in ``c0/t0/data/s0``, beside ``painteraData``.
* BigDataViewer: ``setup0/timepoint0/s0`` always, and voxel sizes in an XML file
  (`chunkwise.images.pyramid.bdv_xml`).

All put the first voxel of a level in the middle of those of full resolution that it covers.  Where levels
lie elsewhere, n5-viewer has an affine transformation for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chunkwise.errors import InvalidArgumentError
from chunkwise.extension import JSON
from chunkwise.images.multiscale.image_axes import ImageAxis
from chunkwise.images.pyramid.geometry import Level
from chunkwise.images.pyramid.n5_styles import check_one_unit, level_offset, n5_viewer_group, n5_viewer_level

__all__ = ["LAYOUTS", "Layout", "Stack"]


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
        check_one_unit(axes, self.viewer)

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
        return level_offset(axes, level, start)

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
