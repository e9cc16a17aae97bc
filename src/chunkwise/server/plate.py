"""Plates and wells as the page shows them: names at once, a small picture of a well when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.api.tensorstore import TensorStore
from chunkwise.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from chunkwise.multiscale.ome_groups import Plate, Well
from chunkwise.server.image import ServedImage, image_at, multiscale_at, shown_dims
from chunkwise.server.sources import Sources
from chunkwise.server.tiles import Damage, Plane, read_plane

__all__ = ["Thumbnail", "describe_plate", "describe_well", "find_thumbnail", "well_of"]

MOST_PIXELS = 512
_MOST_CHANNELS = 8


def describe_plate(plate: Plate) -> dict[str, Any]:
    """Return names of rows, columns and wells; nothing but the plate's own document is read for them."""
    count = plate.metadata.get("field_count")
    return {
        "name": plate.name,
        "rows": plate.rows,
        "columns": plate.columns,
        "wells": list(plate.wells),
        "fieldCount": count if isinstance(count, int) else None,
    }


def describe_well(sources: Sources, path: tuple[str, ...], well: Well) -> dict[str, Any]:
    """Return the names of the fields of the well at a path, and where its plate is."""
    above = multiscale_at(sources.find(path[:-2])) if len(path) > 2 else None
    return {
        "path": "/".join(path),
        "fields": list(well.fields),
        "acquisitions": dict(well.acquisitions),
        "plate": "/".join(path[:-2]) if isinstance(above, Plate) else None,
    }


def well_of(sources: Sources, path: tuple[str, ...]) -> dict[str, Any] | None:
    """Return what is known of the well that the image at a path is a field of; None if there is none."""
    well = multiscale_at(sources.find(path[:-1])) if len(path) > 1 else None
    if not isinstance(well, Well) or path[-1] not in well.fields:
        return None
    return {**describe_well(sources, path[:-1], well), "field": path[-1]}


@dataclass(frozen=True)
class Thumbnail:
    """A small picture of a field, before it is read."""

    image: ServedImage
    view: TensorStore  # of the level that it is read from
    planes: tuple[Plane, ...]  # one for each channel
    path: tuple[str, ...]
    fields: tuple[str, ...]

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        itemsize = max(8, self.view.dtype.memory_dtype.itemsize)
        return sum(plane.n_elements for plane in self.planes) * 3 * itemsize

    def read(self) -> tuple[npt.NDArray[Any], list[Damage]]:
        """Return pixels (channel, row, column), and the chunks that can't be read."""
        parts = [read_plane(self.view, plane, is_labels=self.image.is_labels) for plane in self.planes]
        return np.stack([values for values, _ in parts]), [one for _, found in parts for one in found]


def find_thumbnail(
    sources: Sources, path: tuple[str, ...], field: str, channels: Sequence[int], size: int
) -> Thumbnail:
    """Return how a field of the well at a path is drawn in about `size` pixels; the first field by default.

    Raises
    ------
    NotFoundError
        If there is no such well, or it has no such field.
    """
    if not 1 <= size <= MOST_PIXELS:
        raise InvalidArgumentError(f"size: expected 1 to {MOST_PIXELS}, but received {size}")
    well = multiscale_at(sources.find(path))
    if not isinstance(well, Well):
        raise NotFoundError(f"there is no well at {'/'.join(path)!r}")
    fields = tuple(well.fields)
    field = field or fields[0]
    if field not in fields:
        raise NotFoundError(f"{'/'.join(path)} has no field {field!r}; it has {', '.join(fields)}")
    path = (*path, *field.split("/"))
    found = sources.find(path)
    image = None if found is None else image_at(sources, path, found)
    if image is None:
        raise NotFoundError(f"there is no image at {'/'.join(path)!r}, which the well names")
    (across, down, _), channel, _ = shown_dims(image)

    def side(view: TensorStore) -> int:
        return max(1 if dim is None else view.shape[dim] for dim in (across, down))

    level = next((one for one in reversed(image.levels) if side(one.view) >= size), image.levels[0])
    view = level.view
    if not prod(view.shape):
        raise UnsupportedError(f"{'/'.join(path)} is empty: {view.shape}")
    wanted = [0] if channel is None else channels or range(min(view.shape[channel], _MOST_CHANNELS))
    step = max(1, side(view) // size)
    rows, columns = ((0, 1 if dim is None else view.shape[dim]) for dim in (down, across))
    planes = []
    for number in wanted:
        at = [0 if dim in (down, across) else n // 2 for dim, n in enumerate(view.shape)]
        if channel is not None:
            at[channel] = number
        planes.append(Plane(down, across, tuple(at), rows, columns, step))
    return Thumbnail(image, view, tuple(planes), path, fields)
