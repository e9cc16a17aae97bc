"""Attributes by which copies say that they hold labels, where only what lies above the original says so.

A level of an image says nothing of labels, and a group may leave it to the one above: OME-Zarr has a list in
the group ``labels``, Paintera the attributes of a dataset around its group ``data``.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from chunkwise import TensorStore
from chunkwise.copying.new_array import open_array
from chunkwise.dask.in_place import reads_of
from chunkwise.errors import ChunkwiseError
from chunkwise.extension import JSON
from chunkwise.extension.inside import array_sources
from chunkwise.extension.trees import Node, find_node, looking_above, node_attributes
from chunkwise.images.conventions.convention import LABEL, image_label_of, marked_as_labels
from chunkwise.images.conventions.ome_groups import listed_labels
from chunkwise.images.multiscale.array_axes import N_ABOVE, Known, images_at, of_level
from chunkwise.images.multiscale.image import MultiscaleImage

__all__ = ["label_mark", "label_marks"]


_MOVES = (
    "original-chunkwise-read-", "chunkwise-read-", "getitem-", "rechunk-", "concatenate-", "stack-",
    "transpose-",
)  # fmt: skip
"""Names of dask's layers that give elements as they are."""


def label_mark(data: Any) -> dict[str, JSON]:
    """Return the attribute by which a copy of an array says that it holds labels; none for others.

    It may be an array of dask that gives the elements of others as they are.
    """
    stores = [data]
    if not isinstance(data, TensorStore):
        layers = getattr(getattr(data, "dask", None), "layers", ())
        stores = reads_of(data).operands if layers and all(one.startswith(_MOVES) for one in layers) else []
    known: Known = {}
    try:
        sources = {
            id(one[0]): one
            for store in stores
            if store.dtype.memory_dtype.kind in "iub"
            for one in array_sources(store._array, store._transform, holes=True)
        }
    except ChunkwiseError:  # of a layer, which the copy tells of
        return {}
    for source in sources.values():
        found = of_level(TensorStore._make(*source), known)
        if found.is_labels:
            return {LABEL: dict(found.image_label)}
    return {}


def label_marks(node: Node, name: str) -> dict[str, dict[str, JSON]]:
    """Return such attributes for a node and those below it, by path, of a copy that is called `name`."""
    try:
        if node.kind == "array":
            mark = label_mark(open_array(node.location, found=node, read=True))
            return {"": mark} if mark else {}
        return _listed(node, name) or _levels(node)
    except ChunkwiseError:  # which the copy tells of
        return {}


def _listed(node: Node, name: str) -> dict[str, dict[str, JSON]]:
    """Return the marks of the images, at or below a group, that a list called ``labels`` makes labels."""
    here = node.location
    for above in (here, *here.parents):
        if above.name != "labels":
            continue
        found: dict[str, dict[str, JSON]] = {}
        for path in listed_labels(above) if above.path != here.path or name != above.name else ():
            at = above.child(path)
            image = node if at.path == here.path else find_node(at) if at.path.startswith(here.path) else None
            if image is not None and (mark := marked_as_labels(node_attributes(image))):
                found[at.path[len(here.path) :].rstrip("/")] = mark
        return found
    return {}


def _levels(node: Node) -> dict[str, dict[str, JSON]]:
    """Return the marks of a group or its arrays, of which a group above says that they are labels."""
    here = node.location
    if here.name == "data" and any(
        isinstance(image, MultiscaleImage) and image.is_labels for image in images_at(here)
    ):
        mark = marked_as_labels(node_attributes(node))  # in Paintera
        return {"": mark} if mark else {}
    with looking_above(here, N_ABOVE - 1) as seen:
        for above in islice(seen.parents, N_ABOVE - 1):
            inside = here.path[len(above.path) :]
            for image in images_at(above):
                if not isinstance(image, MultiscaleImage) or not image.is_labels:
                    continue
                levels = [path for path in image.paths if path.startswith(inside)]
                if levels:
                    return {path[len(inside) :]: {LABEL: image_label_of(image.metadata)} for path in levels}
    return {}
