"""The array that a group stands for if it is an image: its full resolution."""

from __future__ import annotations

from chunkwise import Context, TensorStore
from chunkwise.errors import ChunkwiseError, InvalidArgumentError
from chunkwise.extension.trees import Location, Node
from chunkwise.groups.open_group import open_group
from chunkwise.images.multiscale.find_images import Multiscale, find_images
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.ome_groups import ImageCollection, Options
from chunkwise.images.multiscale.ome_plates import Plate, Well

__all__ = ["array_of_image"]

_SHOWN = 10


def array_of_image(location: Location, node: Node, context: Context | None) -> TensorStore | None:
    """Return the full resolution of the image in a group; None if there is none.

    Raises
    ------
    InvalidArgumentError
        If there are several images; the message names them.
    """
    try:
        found = find_images(open_group(location, format=node.format, context=context), Options(drafts=True))
    except ChunkwiseError as e:
        raise InvalidArgumentError(
            f"{location.text} is a group whose image can't be read: {e.message}"
        ) from e
    return None if found is None else _only_image(found, location.text)


def _only_image(found: Multiscale, text: str) -> TensorStore:
    if isinstance(found, MultiscaleImage):
        return found._full_resolution()
    if isinstance(found, ImageCollection):
        names = list(found)
        if len(names) == 1:
            return found[names[0]]._full_resolution()
    elif isinstance(found, Plate):
        names = [f"{well}/{field}" for well in list(found.wells)[:1] for field in found.wells[well].fields]
    else:
        assert isinstance(found, Well)
        names = list(found.fields)
    shown = ", ".join(f"{text.rstrip('/')}/{name}" for name in names[:_SHOWN])
    more = ", …" if len(names) > _SHOWN or isinstance(found, Plate) else ""
    raise InvalidArgumentError(
        f"{text} holds several images, not one; name one of them: {shown or 'there are none'}{more}"
    )
