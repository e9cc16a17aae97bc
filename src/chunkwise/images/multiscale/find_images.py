"""The images that a group is, by its attributes, or by those of the viewers of N5."""

from __future__ import annotations

from typing import TypeAlias

from chunkwise.copying.resolve import ResolvedPlace
from chunkwise.errors import ChunkwiseError, InvalidArgumentError
from chunkwise.extension.trees import tree_format
from chunkwise.groups.group import Group
from chunkwise.groups.open_group import open_group
from chunkwise.images.conventions.ome_groups import ImageCollection, Options
from chunkwise.images.conventions.ome_plates import Plate, Well, find_ome_images
from chunkwise.images.multiscale.image import MultiscaleImage

__all__ = ["Multiscale", "find_images", "images_of_place", "labels_alone", "only_image"]

_SHOWN = 10

Multiscale: TypeAlias = MultiscaleImage | Plate | Well | ImageCollection


def find_images(group: Group, options: Options, name: str | None = None) -> Multiscale | None:
    """Return the images in a group; None if it is of no known kind."""
    if tree_format(group.format).has_containers:
        from chunkwise.images.conventions.n5_viewers import find_n5_images  # many modules, for N5 alone

        return find_n5_images(group)
    return find_ome_images(group, options, name)


def images_of_place(place: ResolvedPlace) -> Multiscale | None:
    """Return the image, plate or others that a group is, or a file describes; None if it is none."""
    if place.images is not None:
        described: Multiscale = place.images()
        return described
    node = place.as_node(damaged=True)
    if node.kind != "group" or node.format is None:
        return None
    group = open_group(node.location, format=node.format, context=place.context)
    options = Options(drafts=True)
    return find_images(group, options) or labels_alone(group, options)


def labels_alone(group: Group, options: Options) -> Multiscale | None:
    """Return the labels of an image of which nothing else is stored; None for other groups."""
    labels = group.get("labels")
    alone = isinstance(labels, Group) and list(group) == ["labels"]
    return find_images(labels, options) if alone else None


def only_image(place: ResolvedPlace) -> MultiscaleImage | None:
    """Return the image that a group is, or that is the only one in it; None if there is none.

    Raises
    ------
    InvalidArgumentError
        If there are several images; the message names them.
    """
    text = place.as_node().location.text
    try:
        found: Multiscale | None = place.found_images
    except ChunkwiseError as e:
        raise InvalidArgumentError(f"{text} is a group whose image can't be read: {e.message}") from e
    if found is None or isinstance(found, MultiscaleImage):
        return found
    more, images = "", found if isinstance(found, ImageCollection) else found.fields
    if isinstance(found, Plate) and len(found.wells) > _SHOWN:  # each of which would be read
        first = next(iter(found.wells))
        names, more = [f"{first}/{field}" for field in found.wells[first].fields], ", …"
    else:
        names = found._present() if isinstance(found, Well) else list(images)
    if len(names) == 1 and not more:
        return images[names[0]]
    above = text if text.endswith(":") else f"{text.rstrip('/')}/"
    shown = ", ".join(f"{above}{name}" for name in names[:_SHOWN])
    more = ", …" if len(names) > _SHOWN else more
    raise InvalidArgumentError(
        f"{text} holds several images, not one; name one of them: {shown or 'there are none'}{more}"
    )
