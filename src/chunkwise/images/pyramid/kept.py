"""What a pyramid keeps of the image of its source: everything that its own format can hold.

Levels and axes are new.  Names, channels, colours of labels and other attributes are kept, and what the
format can't hold is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from chunkwise.copying.losses import fitting_attributes
from chunkwise.errors import ChunkwiseError
from chunkwise.extension import JSON
from chunkwise.extension.trees import tree_format
from chunkwise.images.multiscale.array_axes import ArrayImage, image_label_of
from chunkwise.images.multiscale.grey import contrast_level, contrast_of
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.metadata import Channel
from chunkwise.images.multiscale.ome_display import default_colors
from chunkwise.images.multiscale.ome_versions import ome_members

__all__ = ["NOTHING", "Kept", "kept_attributes", "omero_of", "with_windows"]

_OME = (
    "ome", "multiscales", "omero", "image-label", "labels", "plate", "well", "bioformats2raw.layout",
    "version", "series", "_creator",
)  # fmt: skip
_N5 = (
    "n5", "axes", "units", "unit", "resolution", "offset", "scales", "downsamplingFactors", "pixelResolution",
    "multiscales", "multiScale", "painteraData", "isLabelMultiset", "dataType", "name",
)  # fmt: skip


class Kept(NamedTuple):
    """Members of a group's attributes, and what could not be kept."""

    name: str = ""
    omero: Mapping[str, JSON] = {}
    image_label: Mapping[str, JSON] = {}
    attributes: Mapping[str, JSON] = {}
    left_out: tuple[str, ...] = ()


NOTHING: Kept = Kept()


def kept_attributes(found: ArrayImage, format: str, image: MultiscaleImage | None = None) -> Kept:
    """Return what is kept of an image in the groups of a format; `image` is what a view is as one."""
    image = found.image or image
    if image is None:
        return Kept(image_label=found.image_label, left_out=found.notes)
    document = image.metadata
    is_n5 = image.convention in ("n5-viewer", "cosem", "paintera", "bdv")
    # A container that was made of an OME-Zarr image has what N5 has no place for among its attributes.
    own: Mapping[str, Any] = ome_members(document, "")[0]
    reserved = (*_N5, *_OME) if is_n5 else _OME
    others = {name: value for name, value in document.items() if name not in reserved}
    if image.convention == "neuroglancer precomputed":
        others = {}
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


def with_windows(listed: list[JSON], image: MultiscaleImage, chosen: tuple[int, ...] | None) -> list[JSON]:
    """Return channels with colours and windows, which OME-Zarr demands, also of those that have none."""
    dim = next((dim for dim, axis in enumerate(image.axes) if axis.type == "channel"), None)
    out = []
    n = len(listed) if dim is None else image.levels[0].shape[dim]
    colors = default_colors(n, is_rgb=n == 3 and image.levels[0].dtype.name == "uint8")
    for number, channel in enumerate(listed):
        index = number if chosen is None else chosen[number]
        if isinstance(channel, dict) and not channel.get("color"):
            channel = {**channel, "color": colors[index % len(colors)]}
        fixed = {} if dim is None else {dim: index}
        if isinstance(channel, dict) and channel.get("window") is None:
            try:
                levels = [level.translate_to[(0,) * level.rank] for level in image.available().levels]
                known = contrast_of(contrast_level(levels, fixed), fixed)
            except ChunkwiseError:
                out.append(channel)
                continue
            (low, high), (start, end) = known["range"], known["window"]
            channel = {**channel, "window": {"min": low, "max": high, "start": start, "end": end}}
        out.append(channel)
    return out


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


def omero_of(channels: tuple[Channel, ...]) -> dict[str, JSON]:
    """Return the member ``omero`` of channels; empty if there are none."""
    out = []
    for channel in channels:
        entry: dict[str, JSON] = {"label": channel.label} if channel.label else {}
        if channel.color:
            entry["color"] = channel.color
        if channel.window is not None:
            entry["window"] = {k: v for k, v in vars(channel.window).items() if v is not None}
        if not channel.active:
            entry["active"] = False
        out.append(entry)
    return {"channels": out} if out else {}
