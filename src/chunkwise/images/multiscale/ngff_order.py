"""The order of axes that OME-NGFF demands: time, channel, space."""

from __future__ import annotations

from typing import cast

from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.image_axes import AXIS_KINDS, AxisKind, ImageAxis, slowest_first

__all__ = ["arranged"]


def arranged(image: MultiscaleImage) -> MultiscaleImage:
    """Return an image with its axes in an order that OME-NGFF has, if they are in none."""
    kinds = [axis.type for axis in image.axes]
    if not set(kinds) <= set(AXIS_KINDS) or kinds == sorted(kinds, key=AXIS_KINDS.index):
        return image
    axes = [ImageAxis(axis.name, cast(AxisKind, axis.type)) for axis in image.axes]
    return image._arranged(slowest_first(image.levels[0], axes))
