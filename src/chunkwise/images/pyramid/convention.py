"""Conventions of pyramids that can be written: format, order of axes, attributes, and the groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from chunkwise import Attributes, create_container
from chunkwise.errors import AlreadyExistsError, InvalidArgumentError
from chunkwise.extension import JSON
from chunkwise.extension.inside import MISSING_GENERATION, check_choice
from chunkwise.extension.trees import (
    JOURNAL,
    FormatName,
    Location,
    check_container,
    check_outside_arrays,
    container_root,
    create_parents,
    dump_like,
    find_node,
    parents_made,
    require_node,
    tree_format,
    update_consolidated,
)
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
from chunkwise.images.pyramid.ngff import (
    check_ngff_axes,
    first_level_only,
    merged_attributes,
    ngff_attributes,
    ngff_labels,
)

__all__ = ["CONVENTIONS", "Convention", "PyramidGroup", "find_convention"]

_ATTRIBUTES = {
    "ome-ngff-0.5": ("ome",),
    "ome-ngff-0.4": ("multiscales", "image-label"),
    "cosem": ("axes", "units", "scales", "pixelResolution", "multiscales", "image-label"),
    "n5-viewer": ("axes", "units", "resolution", "scales", "pixelResolution", "image-label"),
}
_LABELS = "labels"


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
                raise InvalidArgumentError(
                    'labels of an OME-NGFF image must be integers: chunkwise.cast(labels, "uint8")'
                )
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


class PyramidGroup:
    """A group that is, or will be, a pyramid."""

    def __init__(
        self,
        location: Location,
        convention: Convention,
        name: str,
        *,
        first: str | None = None,
        renamed: bool = False,
        kept: Kept = NOTHING,
    ) -> None:
        self._location, self._convention, self._name = location, convention, name
        self._first, self._renamed = first, renamed  # the first level, if it is there already
        self._kept = kept

    def check(self) -> None:
        """Raise AlreadyExistsError if an array, or a group of another format, is there, or an array above."""
        location, format = self._location, self._convention.format
        if tree_format(format).has_containers:
            check_container(location)
        check_outside_arrays(location)
        node = find_node(location)
        if node is None or node.key == JOURNAL:
            return
        if node.kind == "array":
            raise AlreadyExistsError(f"{location.text} is an array, not a group that could hold a pyramid")
        if not node.implicit and node.format != format:
            raise AlreadyExistsError(f"{location.text} is a {node.format} group, and the pyramid is {format}")

    def make(self) -> None:
        """Make the group, and those above it."""
        location, format = self._location, self._convention.format
        if tree_format(format).has_containers and container_root(location) is None:
            create_container(location)
        with parents_made(location, format):
            if _write_group(location, format):
                update_consolidated(location.store, location.path)

    def clear(self) -> None:
        """Remove the attributes of a pyramid; a level that stays remains an image."""
        node = find_node(self._location)
        if node is None or node.implicit:
            return
        first, version = self._first, self._convention.version
        if first is not None:
            if version is not None:
                Attributes(node).change(lambda stored: first_level_only(version, stored, first))
            return
        attributes, own = Attributes(node), _ATTRIBUTES[self._convention.name]
        if any(name in attributes for name in own):
            attributes.change(lambda stored: {key: stored[key] for key in stored if key not in own})

    def finish(
        self,
        axes: Sequence[ImageAxis],
        levels: Sequence[tuple[str, Level]],
        *,
        method: str,
        labels: bool,
    ) -> None:
        """Write the attributes; list labels in a group ``labels`` that they are in."""
        parent = self._location.parent
        among_labels = labels and parent is not None and parent.name == _LABELS
        attributes = self._convention.group_attributes(
            axes,
            levels,
            name=self._name,
            method=method,
            source_image="../../" if among_labels else None,
            labels=labels,
            kept=self._kept,
        )
        stored = Attributes(require_node(self._location))
        first, version = self._first, self._convention.version
        if first is not None and version is not None:
            stored.change(
                lambda before: merged_attributes(version, before, attributes, first, renamed=self._renamed)
            )
        else:
            stored.update(attributes)
        if among_labels and self._convention.version is not None:
            assert parent is not None
            self._list(parent, self._convention.version)

    def _list(self, parent: Location, version: str) -> None:
        format = self._convention.format
        create_parents(parent, format)
        _write_group(parent, format)
        attributes = Attributes(require_node(parent))
        attributes.change(lambda stored: {**stored, **ngff_labels(version, stored, self._location.name)})


def _write_group(location: Location, format: str) -> bool:
    """Write the document of a group; return True if there was none."""
    ((key, document),) = tree_format(format).group_documents({}).items()
    raw = dump_like(document, b"")
    return location.store.write(location.path + key, raw, if_equal=MISSING_GENERATION) is not None
