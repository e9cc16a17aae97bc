"""What a pyramid keeps of the image of its source: everything that its own format can hold.

Levels and axes are new.  Names, channels, colours of labels and other attributes are kept, and what the
format can't hold is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chunkwise.copying.losses import fitting_attributes
from chunkwise.extension import JSON
from chunkwise.extension.trees import tree_format
from chunkwise.images.conventions.convention import Kept
from chunkwise.images.conventions.known import convention_of
from chunkwise.images.conventions.ome import OME_ZARR, omero_of, with_windows
from chunkwise.images.conventions.ome_metadata import ome_members
from chunkwise.images.multiscale.array_axes import ArrayImage, image_label_of
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.metadata import Channel

__all__ = ["kept_attributes"]


def kept_attributes(found: ArrayImage, format: str, image: MultiscaleImage | None = None) -> Kept:
    """Return what is kept of an image in the groups of a format; `image` is what a view is as one."""
    image = found.image or image
    if image is None:
        return Kept(image_label=found.image_label, left_out=found.notes)
    document = image.metadata
    # A container that was made of an OME-Zarr image has what N5 has no place for among its attributes.
    own: Mapping[str, Any] = ome_members(document, "")[0]
    others = (convention_of(image.convention) or OME_ZARR["0.5"]).others(document)
    notes = list(dict.fromkeys([*found.notes, *image._metadata.problems]))
    omero = _of_channels(own.get("omero"), image.channels, found.channels)
    image_label = found.image_label or image_label_of(document)
    if not tree_format(format).keeps_null:
        others, unfit = fitting_attributes(others, format)
        notes += unfit
        if omero:
            shown = ", ".join(channel.label or "-" for channel in image.channels)
            notes.append(f"names and colours of channels are left out: N5 has no place for them ({shown})")
        omero = {}
    elif omero:
        omero = {**omero, "channels": with_windows(omero.get("channels", []), image, found.channels)}
    return Kept(image._metadata.name, omero, image_label, others, tuple(notes))


def _of_channels(
    omero: object, channels: tuple[Channel, ...], chosen: tuple[int, ...] | None
) -> dict[str, JSON]:
    """Return a member ``omero`` with the channels that are chosen; empty if there is nothing in it."""
    own = dict(omero) if isinstance(omero, dict) else {}
    listed = own.get("channels")
    if not isinstance(listed, list) or (channels and len(listed) != len(channels)):
        listed = omero_of(channels).get("channels", [])
    if chosen is not None and listed:
        listed = [listed[n] for n in chosen if n < len(listed)]
    own.pop("version", None)
    return {**own, "channels": listed} if listed else own
