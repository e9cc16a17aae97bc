"""The image in an OME-NGFF group that is to be copied: its levels as sources of copies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast, get_args

from chunkwise.copying.copy_source import CopySource, stored_source
from chunkwise.errors import InvalidArgumentError, UnsupportedError
from chunkwise.extension import JSON
from chunkwise.extension.trees import Location, find_node, node_attributes, require_node
from chunkwise.images.multiscale.image_axes import AxisKind, ImageAxis
from chunkwise.images.multiscale.metadata import LevelMetadata
from chunkwise.images.multiscale.ome_versions import ome_members
from chunkwise.images.multiscale.ome_zarr import parse_ome_image

__all__ = ["ImageLevel", "NgffImage", "image_label_of", "read_ngff_image"]

_OF_IMAGE = ("multiscales", "image-label")


class ImageLevel(NamedTuple):
    """One resolution; scale and translation are by dimension of the array."""

    path: str  # of the array, from the group on
    source: CopySource
    scale: tuple[float, ...]  # size of a voxel
    translation: tuple[float, ...]  # centre of the first voxel


class NgffImage(NamedTuple):
    """An image."""

    name: str
    axes: tuple[ImageAxis, ...]  # by dimension; scales are those of the first level, units are symbols
    levels: tuple[ImageLevel, ...]  # full resolution first
    labels: bool
    image_label: Mapping[str, JSON]  # colours and properties of the labels
    attributes: Mapping[str, JSON]  # all others of the group


def read_ngff_image(location: Location) -> NgffImage:
    """Return the image at `location`, of OME-NGFF 0.4 or 0.5; raise if there is none that is understood."""
    node = require_node(location)
    attributes = node_attributes(node)
    where = location.describe(node.rules.attributes_key or node.key)
    image = parse_ome_image(attributes, where)
    own, at = ome_members(attributes, where)
    if len(own["multiscales"]) > 1:
        n = len(own["multiscales"])
        raise UnsupportedError(f"{at}multiscales: {n} images in one group can't be copied as one")
    for axis in image.axes:
        if axis.type not in get_args(AxisKind):
            raise UnsupportedError(
                f"{at}multiscales[0]: axes: type: expected space, time or channel of {axis.name}, but "
                f"received {axis.type!r}"
            )
    others: dict[str, JSON] = {name: value for name, value in own.items() if name not in _OF_IMAGE}
    if "ome" in attributes:
        beside = {name: value for name, value in attributes.items() if name != "ome"}
        others = {**beside, "ome": others} if set(others) - {"version"} else beside
    return NgffImage(
        image.name,
        tuple(
            ImageAxis(axis.name, cast(AxisKind, axis.type), size, axis.unit)
            for axis, size in zip(image.axes, image.levels[0].place.scale, strict=True)
        ),
        tuple(_level(location, level, len(image.axes)) for level in image.levels),
        image.is_labels,
        image_label_of(own),
        others,
    )


def image_label_of(own: Mapping[str, Any]) -> dict[str, JSON]:
    """Return what a group says of its labels, without what holds for that group only."""
    label = own.get("image-label")
    label = label if isinstance(label, dict) else {}
    return {name: value for name, value in label.items() if name not in ("version", "source")}


def _level(location: Location, level: LevelMetadata, rank: int) -> ImageLevel:
    place = location.child(level.path)
    node = find_node(place)
    if node is None or node.kind != "array":
        raise InvalidArgumentError(f"{level.where}: there is no array at {place.text}")
    source = stored_source(place)
    if source.store.rank != rank:
        raise InvalidArgumentError(
            f"{level.where}: {source.store.rank} dimensions, but there are {rank} axes"
        )
    return ImageLevel(level.path, source, *level.place)
