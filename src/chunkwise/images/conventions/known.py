"""The conventions that are written and edited, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chunkwise.errors import InvalidArgumentError
from chunkwise.extension import JSON
from chunkwise.extension.inside import check_choice
from chunkwise.extension.trees import FormatName, Node, tree_format
from chunkwise.images.conventions.convention import (
    N5_NAMES,
    PRECOMPUTED_NAME,
    Convention,
    PyramidConvention,
)
from chunkwise.images.conventions.ome import OME_ZARR

__all__ = ["PYRAMIDS", "convention_of", "find_convention", "may_be_left_out"]

PYRAMIDS: dict[str, FormatName] = {
    "ome-ngff-0.5": "zarr3",
    "ome-ngff-0.4": "zarr2",
    "n5-viewer": "n5",
    "cosem": "n5",
}
"""Formats of the conventions in which pyramids are written; the first of a format is the usual one."""

_OF_OME = {"multiscales", "plate", "well", "image-label", "bioformats2raw.layout"}
_OF_N5 = {"multiscales", "multiScale", "scales", "downsamplingFactors", "pixelResolution", "painteraData"}
"""Attributes of groups that hardly mean anything but an image."""


def find_convention(name: str | None, format: str) -> PyramidConvention:
    """Return the convention of pyramids called `name`, or else the usual one of a format."""
    if name is None:
        name = next((name for name, one in PYRAMIDS.items() if one == format), None)
        if name is None:
            raise InvalidArgumentError(f"there is no convention for pyramids in {format}")
    check_choice(name, "convention", PYRAMIDS)
    found = convention_of(name)
    assert isinstance(found, PyramidConvention)
    return found


def convention_of(name: str) -> Convention | None:
    """Return the convention that an image says it has; None if it is one that isn't edited."""
    if name.startswith("ome-ngff-"):
        return OME_ZARR.get(name.removeprefix("ome-ngff-"), OME_ZARR["0.4"])
    if name in N5_NAMES:
        from chunkwise.images.conventions.n5_viewers import N5_CONVENTIONS  # many modules, for N5 alone

        return N5_CONVENTIONS[name]
    if name == PRECOMPUTED_NAME:
        from chunkwise.images.conventions.precomputed import PRECOMPUTED  # with the driver, which few need

        return PRECOMPUTED
    return None


def may_be_left_out(
    node: Node, attributes: Mapping[str, JSON], children: Sequence[str], format: FormatName
) -> bool:
    """Return True if a group may be an image, of which a copy with these attributes in a format is none."""
    names, version = set(attributes), tree_format(format).ngff_version
    if node.format == format:
        return False
    if node.rules.has_containers:  # where a single level may be any array
        return {"s0", "s1"} <= set(children) or bool(names & _OF_N5)
    return bool(names & {"0.4": {"ome"}, "0.5": _OF_OME}.get(version, {"ome", *_OF_OME}))
