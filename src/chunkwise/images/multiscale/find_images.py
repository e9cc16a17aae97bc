"""The images that a group is, by its attributes, or by those of the viewers of N5."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from chunkwise.extension import JSON
from chunkwise.extension.trees import tree_format
from chunkwise.groups.group import Group
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.ome_groups import (
    ImageCollection,
    Options,
    image_of,
    labels_of_group,
    series_of,
)
from chunkwise.images.multiscale.ome_plates import Plate, Well

__all__ = ["Multiscale", "find_images"]

Multiscale: TypeAlias = MultiscaleImage | Plate | Well | ImageCollection


def find_images(group: Group, options: Options, name: str | None = None) -> Multiscale | None:
    """Return the images in a group; None if it is of no known kind."""
    ome = group.attrs.get("ome")
    own: Mapping[str, JSON] = ome if isinstance(ome, dict) else group.attrs
    if tree_format(group.format).has_containers:
        from chunkwise.images.multiscale.n5_groups import find_n5_images  # many modules, for N5 alone

        return find_n5_images(group)
    if "plate" in own:
        return Plate(group, options)
    if "well" in own:
        return Well(group, options)
    if "multiscales" in own:
        return image_of(group, options, name)
    if "bioformats2raw.layout" in own:
        return series_of(group, options)
    if "labels" in own:
        return labels_of_group(group, options)
    return None
