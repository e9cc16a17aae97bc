"""Versions of OME-Zarr: where the members are, and images of old versions in the terms of later ones.

* 0.1 and 0.2 have five axes that need not be named, and no sizes of voxels.
* 0.3 has names of axes, and no sizes of voxels.
* 0.4 and 0.5 are read as they are, with what SpatialData adds to the number, as in 0.4-dev-spatialdata.

Source: OME-Zarr specification, sections "multiscales" of 0.1 to 0.5; SpatialData design document.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from chunkwise.errors import UnsupportedError
from chunkwise.extension import JSON
from chunkwise.extension.inside import dump
from chunkwise.images.multiscale.image_axes import axis_kind
from chunkwise.images.multiscale.metadata import expect_members

__all__ = ["WITHOUT_AXES", "WITHOUT_SIZES", "check_version", "image_version", "named_axes", "ome_members"]

WITHOUT_AXES = ("0.1", "0.2")
"""Versions that have five axes, without names."""

WITHOUT_SIZES = ("0.1", "0.2", "0.3")
"""Versions that have no sizes of voxels."""

_KNOWN = re.compile(r"(0\.[1-5])(?:[.-].*)?")
_DRAFTS = re.compile(r"0\.6(?:[.-]?(?:dev|rc).*)?")


def ome_members(attributes: Mapping[str, JSON], where: str) -> tuple[Mapping[str, JSON], str]:
    """Return the members of OME-Zarr, and the file and member that they are in."""
    if "ome" in attributes:
        return expect_members(attributes["ome"], f'{where}: "ome"'), f"{where}: ome/"
    return attributes, f"{where}: "


def image_version(
    attributes: Mapping[str, JSON], image: Mapping[str, JSON], at: str, here: str, *, drafts: bool
) -> str:
    """Return the version of an image; without a number it is what the place of the metadata says."""
    own = attributes.get("ome", {})
    if own.get("version") is not None:
        return check_version(own["version"], at, drafts=drafts)
    return check_version(
        image.get("version") or ("0.5" if "ome" in attributes else "0.4"), here, drafts=drafts
    )


def check_version(version: object, where: str, *, drafts: bool = False) -> str:
    """Return a version of OME-Zarr that can be read; raise UnsupportedError for others."""
    text = str(version) if isinstance(version, str | float) else ""
    known = _KNOWN.fullmatch(text)
    if known is not None:
        return known[1]
    if _DRAFTS.fullmatch(text):
        if drafts:
            return "0.6"
        raise UnsupportedError(
            f"{where}version: {dump(version)} is a draft, which is read only with `drafts=True`"
        )
    raise UnsupportedError(f"{where}version: expected 0.1 to 0.5, but received {dump(version)}")


def named_axes(value: Any, version: str) -> Any:
    """Return axes as 0.4 has them: of older versions only the names are known."""
    if value is None and version in WITHOUT_AXES:
        value = list("tczyx")
    if not isinstance(value, list):
        return value
    return [
        {"name": axis, "type": axis_kind(axis)} if isinstance(axis, str) and axis else axis for axis in value
    ]
