"""Images in N5 containers, in the layouts of n5-viewer, COSEM, Paintera and BigDataViewer.

* n5-viewer: ``s0``, ``s1``, … with ``pixelResolution``, the voxel size of full resolution, and
  ``downsamplingFactors`` at each, or ``scales`` for all of them at the group.
* COSEM: ``transform`` at each level, in C order, or in ``multiscales`` of the group.
* Paintera: ``painteraData``, and levels in ``data`` with ``multiScale``, ``resolution`` and ``offset``.
* BigDataViewer: ``setupN/timepointN/sN``; factors are at the setup, sizes and places in an XML file.

`chunkwise.images.multiscale.n5_image` has what their attributes say of axes and levels.

Sources: n5-ij wiki "N5 Metadata Dialects"; n5 README of BigDataViewer; Paintera README, "Data";
neuroglancer documentation, data source n5.
"""

from __future__ import annotations

import re

from chunkwise.errors import InvalidArgumentError
from chunkwise.groups.group import Group
from chunkwise.images.multiscale.bdv import bdv_images, bdv_setup, bdv_timepoint, read_bdv_file
from chunkwise.images.multiscale.bdv_file import NO_FILE
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.joined import joined
from chunkwise.images.multiscale.metadata import Axis
from chunkwise.images.multiscale.n5_image import attributes_if_there, n5_image, n5_stores, numbered, subgroup
from chunkwise.images.multiscale.ome_groups import ImageCollection

__all__ = ["find_n5_images"]

_PAINTERA = "data"
"""Name of the group with the levels in that of a dataset of Paintera, which says what they are."""

_LOOKED_AT = 20  # groups called c0, t1, ... for one with an image


def find_n5_images(group: Group) -> MultiscaleImage | ImageCollection | None:
    """Return the image, or images, that an N5 group holds; None if there is none."""
    attributes = group.attrs.asdict()
    if _below(group, "setup"):
        return bdv_images(group)
    if _below(group, "timepoint"):
        above = group.location.parent
        return bdv_setup(group, NO_FILE if above is None else read_bdv_file(above))
    if "painteraData" in attributes and isinstance(group.get(_PAINTERA), Group):
        name = group.location.name
        image = n5_image(subgroup(group, _PAINTERA), "paintera", name=name, beside=attributes)
        return image._seen_from(_PAINTERA, group.location.text)
    stores, _ = n5_stores(group) if "multiscales" not in attributes else ({}, [])
    if stores or "multiscales" in attributes:
        above = group.location.parent
        in_setup = above is not None and re.fullmatch(r"setup\d+", above.name) is not None
        if in_setup and re.fullmatch(r"timepoint\d+", group.location.name):
            return bdv_timepoint(group)
        if above is not None and group.location.name == _PAINTERA:
            whole = attributes_if_there(above)
            if "painteraData" in whole:
                return n5_image(group, "paintera", name=above.name, beside=whole)
        is_cosem = "multiscales" in attributes or any("transform" in s.attrs for s in stores.values())
        paintera = attributes.get("multiScale") is True
        return n5_image(group, "cosem" if is_cosem else "paintera" if paintera else "n5-viewer")
    for prefix in ("c", "t"):
        below = _below(group, prefix)
        if any(find_n5_images(subgroup(group, name)) is not None for name in below[:_LOOKED_AT]):
            return ImageCollection(
                lambda: below,  # noqa: B023
                lambda name: _only_image(subgroup(group, name)),
                convention="n5-viewer",
                location=group.location.text,
            )
    return None


def _below(group: Group, prefix: str) -> list[str]:
    """Return the groups called `prefix` and a number."""
    return [name for name in numbered(group, prefix) if isinstance(group.get(name), Group)]


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
