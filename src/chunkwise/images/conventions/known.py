"""The conventions that are written and edited, by name."""

from __future__ import annotations

from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.inside import check_choice
from chunkwise.images.conventions.convention import Convention, PyramidConvention
from chunkwise.images.conventions.n5_viewers import N5_CONVENTIONS
from chunkwise.images.conventions.ome import OME_ZARR

__all__ = ["PYRAMIDS", "convention_of", "find_convention"]

PYRAMIDS: dict[str, PyramidConvention] = {
    one.name: one for one in (*OME_ZARR.values(), N5_CONVENTIONS["n5-viewer"], N5_CONVENTIONS["cosem"])
}
"""Conventions in which pyramids are written; the first of a format is the usual one."""


def find_convention(name: str | None, format: str) -> PyramidConvention:
    """Return the convention of pyramids called `name`, or else the usual one of a format."""
    if name is None:
        usual = next((one for one in PYRAMIDS.values() if one.format == format), None)
        if usual is None:
            raise InvalidArgumentError(f"there is no convention for pyramids in {format}")
        return usual
    check_choice(name, "convention", PYRAMIDS)
    return PYRAMIDS[name]


def convention_of(name: str) -> Convention | None:
    """Return the convention that an image says it has; None if it is one that isn't edited."""
    if name.startswith("ome-ngff-"):
        return OME_ZARR.get(name.removeprefix("ome-ngff-"), OME_ZARR["0.4"])
    if name in N5_CONVENTIONS:
        return N5_CONVENTIONS[name]
    from chunkwise.images.conventions.precomputed import PRECOMPUTED  # with the driver, which few need

    return PRECOMPUTED if name == PRECOMPUTED.name else None
