"""Plates and wells as the page shows them: names at once, a small picture of a well when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise import TensorStore
from chunkwise.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from chunkwise.extension import JSON
from chunkwise.images.conventions.ome_plates import Plate, Well
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.server.image import ServedImage, image_of, multiscale_at, shown_dims
from chunkwise.images.server.sources import Sources
from chunkwise.images.server.tiles import Damage, Plane, read_plane

__all__ = ["Thumbnail", "describe_plate", "describe_well", "find_thumbnail", "well_of"]

MOST_PIXELS = 512
_MOST_CHANNELS = 8


def describe_plate(plate: Plate) -> dict[str, JSON]:
    """Return names of rows, columns and wells; nothing but the plate's own document is read for them."""
    count = plate.metadata.get("field_count")
    return {
        "name": plate.name,
        "rows": plate.rows,
        "columns": plate.columns,
        "wells": list(plate.wells),
        "fieldCount": count if isinstance(count, int) else None,
    }


def describe_well(sources: Sources, path: tuple[str, ...], well: Well) -> dict[str, JSON]:
    """Return the names of the fields of the well at a path, and where its plate is."""
    above = multiscale_at(sources.find(path[:-2])) if len(path) > 2 else None
    return {
        "path": "/".join(path),
        "fields": list(well.fields),
        "acquisitions": dict(well.acquisitions),
        "plate": "/".join(path[:-2]) if isinstance(above, Plate) else None,
    }


def well_of(sources: Sources, path: tuple[str, ...]) -> dict[str, JSON] | None:
    """Return the well that the image at a path is a field of, as the page shows it; None if there is none."""
    well = multiscale_at(sources.find(path[:-1])) if len(path) > 1 else None
    if not isinstance(well, Well) or path[-1] not in well.fields:
        return None
    return {**describe_well(sources, path[:-1], well), "field": path[-1]}


@dataclass(frozen=True)
class Thumbnail:
    """A small picture of an image, before it is read."""

    image: ServedImage
    view: TensorStore  # of the level that it is read from
    planes: tuple[Plane, ...]  # one for each channel
    path: tuple[str, ...]
    fields: tuple[str, ...]
    at: tuple[int, ...]  # where it is in full resolution
    place: tuple[float, float, float, float]  # top, left, bottom, right in parts of the field's own picture

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return sum(plane.nbytes(self.view) for plane in self.planes)

    def read(self) -> tuple[npt.NDArray[Any], list[Damage]]:
        """Return pixels (channel, row, column), and the chunks that can't be read."""
        parts = [read_plane(self.view, plane, is_labels=self.image.is_labels) for plane in self.planes]
        return np.stack([values for values, _ in parts]), [one for _, found in parts for one in found]

    def describe(self, values: npt.NDArray[Any]) -> dict[str, JSON]:
        """Return the properties by which the page draws pixels and asks for an element under the pointer."""
        colors = self.image.label_colors
        there = np.unique(values).tolist() if colors and self.image.is_labels else ()
        (across, down, _), channel, _ = shown_dims(self.image)
        full = self.image.levels[0].view.shape
        extents = [hi - lo for lo, hi in (_extent(self, down), _extent(self, across))]
        return {
            "path": "/".join(self.path),
            "fields": self.fields,
            "isLabels": self.image.is_labels,
            "labelColors": {n: colors[n][:3] for n in there if n in colors},
            "labelNames": self.image.labels,
            "place": self.place,
            "dims": [down, across],
            "channel": channel,
            "at": self.at,
            "full": full,
            "extent": [
                extent / (1.0 if dim is None else self.image.scales[0][dim])
                for extent, dim in zip(extents, (down, across), strict=True)
            ],
        }


def find_thumbnail(
    sources: Sources, path: tuple[str, ...], field: str, channels: Sequence[int], size: int, labels: str = ""
) -> Thumbnail:
    """Return how a field of the well at a path is drawn in about `size` pixels; the first field by default.

    With `labels` it is the image of labels of that name that belongs to the field.

    Raises
    ------
    NotFoundError
        If there is no such well, or it has no such field, or that has no such labels.
    """
    if not 1 <= size <= MOST_PIXELS:
        raise InvalidArgumentError(f"size: expected 1 to {MOST_PIXELS}, but received {size}")
    # By the documents of the plate, the well and the field: looking at each path would ask for many more.
    plate = multiscale_at(sources.find(path[:-2]))
    name = "/".join(path[-2:])
    if not isinstance(plate, Plate) or name not in plate.wells:
        raise NotFoundError(f"there is no well at {'/'.join(path)!r}")
    well = plate.wells[name]
    fields = tuple(well.fields)
    field = field or fields[0]
    if field not in fields:
        raise NotFoundError(f"{'/'.join(path)} has no field {field!r}; it has {', '.join(fields)}")
    path = (*path, *field.split("/"))
    image = well[field]
    found = _thumbnail(image, path, channels, size, fields)
    if not labels:
        return found
    if labels not in image.labels:
        names = ", ".join(image.labels) or "none"
        raise NotFoundError(f"{'/'.join(path)} has no labels {labels!r}; it has {names}")
    above = _thumbnail(image.labels[labels], (*path, "labels", *labels.split("/")), (), size, fields, found)
    (across, down, _), _, _ = shown_dims(found.image)
    (own_across, own_down, _), _, _ = shown_dims(above.image)
    edges = []
    for dim, own in ((down, own_down), (across, own_across)):
        (lo, hi), (own_lo, own_hi) = _extent(found, dim), _extent(above, own)
        edges.append(((own_lo - lo) / (hi - lo), (own_hi - lo) / (hi - lo)))
    (top, bottom), (left, right) = edges
    return replace(above, place=(top, left, bottom, right))


def _with_few_levels(image: MultiscaleImage, size: int) -> ServedImage:
    """Return an image with its first level, and the smallest with enough pixels; no larger one is opened."""
    try:
        first = image_of(image._with_levels((0,)))
    except InvalidArgumentError:
        return image_of(image)  # with the levels that can be opened
    (across, down, _), _, _ = shown_dims(first)
    shown = [dim for dim in (across, down) if dim is not None]
    shape, scales = first.levels[0].view.shape, image.scales
    for number in range(len(scales) - 1, 0, -1):
        # The document of a level that is too small by its scale needn't be read.
        likely = [shape[dim] * scales[0][dim] / scales[number][dim] for dim in shown]
        if max(likely, default=1) > size - 1:
            found = image_of(image._with_levels((0, number)))
            if len(found.levels) == 2 and _side(found, 1) >= size:
                return found
    return first


def _side(image: ServedImage, level: int) -> int:
    (across, down, _), _, _ = shown_dims(image)
    shape = image.levels[level].view.shape
    return max(1 if dim is None else shape[dim] for dim in (across, down))


def _thumbnail(
    source: MultiscaleImage,
    path: tuple[str, ...],
    channels: Sequence[int],
    size: int,
    fields: tuple[str, ...],
    below: Thumbnail | None = None,
) -> Thumbnail:
    """Return how the image at a path is drawn: through its middle, or that of the one `below` it."""
    image = _with_few_levels(source, size)
    (across, down, _), channel, _ = shown_dims(image)
    last = len(image.levels) - 1
    level = next((n for n in range(last, -1, -1) if _side(image, n) >= size), 0)
    view = image.levels[level].view
    if not prod(view.shape):
        raise UnsupportedError(f"{'/'.join(path)} is empty: {view.shape}")
    full = list(_middle(image))
    if below is not None:
        known = {axis.name: dim for dim, axis in enumerate(below.image.axes)}
        for dim, axis in enumerate(image.axes):
            if axis.name in known:
                there = known[axis.name]
                full[dim] = _nearest(image, 0, dim, _position(below.image, there, below.at[there]))
    wanted = [0] if channel is None else channels or range(min(view.shape[channel], _MOST_CHANNELS))
    step = max(1, _side(image, level) // size)
    rows, columns = ((0, 1 if dim is None else view.shape[dim]) for dim in (down, across))
    planes = []
    for number in wanted:
        at = [_nearest(image, level, dim, _position(image, dim, n)) for dim, n in enumerate(full)]
        if channel is not None:
            at[channel] = number
        planes.append(Plane(down, across, tuple(at), rows, columns, step))
    return Thumbnail(image, view, tuple(planes), path, fields, tuple(full), (0.0, 0.0, 1.0, 1.0))


def _middle(image: ServedImage) -> Sequence[int]:
    return [n // 2 for n in image.levels[0].view.shape]


def _position(image: ServedImage, dim: int, index: int) -> float:
    return index * image.scales[0][dim] + image.translations[0][dim]


def _nearest(image: ServedImage, level: int, dim: int, position: float) -> int:
    """Return the element of a level that is nearest to a position."""
    index = round((position - image.translations[level][dim]) / image.scales[level][dim])
    return min(max(index, 0), image.levels[level].view.shape[dim] - 1)


def _extent(found: Thumbnail, dim: int | None) -> tuple[float, float]:
    """Return where the picture begins and ends; its last pixel is whole, whatever it stands for."""
    if dim is None:
        return 0.0, 1.0
    image, step = found.image, found.planes[0].step
    level = next(n for n, one in enumerate(image.levels) if one.view is found.view)
    scale = image.scales[level][dim]
    start = image.translations[level][dim] - scale / 2
    return start, start + -(-found.view.shape[dim] // step) * step * scale
