"""Conventions of pyramids that can be written: format, order of axes, attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from chunkwise.errors import InvalidArgumentError
from chunkwise.extension import JSON
from chunkwise.extension.inside import check_choice
from chunkwise.extension.trees import FormatName, tree_format
from chunkwise.images.multiscale.image_axes import ImageAxis
from chunkwise.images.pyramid.geometry import Level
from chunkwise.images.pyramid.kept import NOTHING, Kept
from chunkwise.images.pyramid.n5_layouts import (
    check_n5_viewer_axes,
    cosem_group,
    cosem_level,
    n5_viewer_group,
    n5_viewer_level,
)
from chunkwise.images.pyramid.ngff import check_ngff_axes, ngff_attributes

__all__ = ["CONVENTIONS", "Convention", "find_convention"]


class Convention(NamedTuple):
    """A convention."""

    name: str
    format: FormatName
    version: str | None  # of OME-NGFF
    prefix: str  # of the names of arrays; the number of the level follows

    @property
    def slowest_first(self) -> bool:
        """True if x is the last axis; of N5 it is the first."""
        return not tree_format(self.format).reversed_axes

    def check(self, axes: Sequence[ImageAxis], *, labels: bool, kind: str) -> None:
        """Raise InvalidArgumentError unless the convention can have these axes, in its own order."""
        if self.version is not None:
            check_ngff_axes(axes)
            if labels and kind != "int":
                raise InvalidArgumentError("labels of an OME-NGFF image must be integers")
        elif self.name == "n5-viewer":
            check_n5_viewer_axes(axes)

    def has_own_units(self, level: Level) -> bool:
        """Return True if a level has its units in its array, where TensorStore reads them."""
        # With n5-viewer's factors beside them, other software would take them for those of full resolution.
        return self.name != "n5-viewer" or all(f == 1 for f in level.factors)

    def level_attributes(
        self, axes: Sequence[ImageAxis], level: Level, start: Sequence[float] = (0.0,) * 3
    ) -> dict[str, JSON]:
        """Return the attributes of a level's array; `start` is where the group says that the image is."""
        if self.name == "n5-viewer":
            return n5_viewer_level(axes, level, start)
        return cosem_level(axes, level) if self.name == "cosem" else {}

    def group_attributes(
        self,
        axes: Sequence[ImageAxis],
        levels: Sequence[tuple[str, Level]],
        *,
        name: str,
        method: str,
        source_image: str | None,
        labels: bool,
        kept: Kept = NOTHING,
    ) -> dict[str, JSON]:
        """Return the attributes of the group; see `chunkwise.images.pyramid.ngff.ngff_attributes`."""
        if self.version is not None:
            return ngff_attributes(
                self.version,
                axes,
                levels,
                name=name,
                method=method,
                source_image=source_image,
                labels=labels,
                kept=kept,
            )
        # Viewers of N5 have no word for labels: that of OME-NGFF keeps them from being averaged.
        others = {**kept.attributes, **({"image-label": dict(kept.image_label)} if labels else {})}
        if self.name == "cosem":
            return {**others, **cosem_group(axes, levels, name)}
        return {**others, **n5_viewer_group(axes, levels)}


CONVENTIONS = {
    convention.name: convention
    for convention in (
        Convention("ome-ngff-0.5", "zarr3", "0.5", ""),
        Convention("ome-ngff-0.4", "zarr2", "0.4", ""),
        Convention("n5-viewer", "n5", None, "s"),
        Convention("cosem", "n5", None, "s"),
    )
}


def find_convention(name: str | None, format: str) -> Convention:
    """Return the convention called `name`, or else the usual one of a format."""
    if name is None:
        usual = next((one for one in CONVENTIONS.values() if one.format == format), None)
        if usual is None:
            raise InvalidArgumentError(f"there is no convention for pyramids in {format}")
        return usual
    check_choice(name, "convention", CONVENTIONS)
    return CONVENTIONS[name]
