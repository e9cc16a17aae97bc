"""A plate as one image: the first field of each well in its row and column, read on demand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise import ChunkLayout, IndexDomain, TensorStore, virtual_chunked
from chunkwise.errors import ChunkwiseError, NotFoundError
from chunkwise.images.multiscale.image import MultiscaleImage, placed
from chunkwise.images.multiscale.metadata import Transformation
from chunkwise.images.multiscale.ome_plates import Plate

__all__ = ["plate_image"]


def plate_image(plate: Plate) -> MultiscaleImage:
    """Return an image of all wells, each with the size of the first one; missing ones are zeros.

    Raises
    ------
    NotFoundError
        If there is no field in any well.
    """
    first = next(_fields(plate), None)
    if first is None:
        raise NotFoundError(f"{plate.location}: there is no field in any well")
    axes = first.axes
    space = [dim for dim, axis in enumerate(axes) if axis.type == "space"]
    down, across = space[-2:]
    levels = tuple(
        level._replace(place=Transformation(level.place.scale, (0.0,) * len(axes)))
        for level in first._metadata.levels
    )
    metadata = replace(first._metadata, name=plate.name, levels=levels, problems=())

    def open_level(number: int) -> TensorStore:
        tile = first.levels[number]
        shape = list(tile.shape)
        shape[down] *= len(plate.rows)
        shape[across] *= len(plate.columns)
        chunk = [n if dim in (down, across) else 1 for dim, n in enumerate(tile.shape)]

        def read(domain: IndexDomain, out: npt.NDArray[Any], _: Any) -> None:
            row, column = (domain.origin[dim] // tile.shape[dim] for dim in (down, across))
            path = f"{plate.rows[row]}/{plate.columns[column]}"
            found = _tile(plate, path, number, domain, tile.shape)
            out[...] = 0
            if found is not None:
                out[tuple(map(slice, found.shape))] = found

        whole = virtual_chunked(
            read, dtype=tile.dtype, shape=shape, chunk_layout=ChunkLayout(chunk_shape=chunk)
        )
        return placed(whole, axes, levels[number].place, levels[0].place)

    return MultiscaleImage(metadata, open_level, location=plate.location)


def _fields(plate: Plate) -> Iterator[MultiscaleImage]:
    """Yield the first field of each well that can be opened."""
    for path in plate.wells:
        found = _first_field(plate, path)
        if found is not None:
            yield found


def _first_field(plate: Plate, path: str) -> MultiscaleImage | None:
    """Return the first field of a well that can be opened; None if there is none."""
    if path not in plate.wells:
        return None
    try:
        fields = plate.wells[path].fields
    except ChunkwiseError:
        return None
    for name in fields:
        try:
            return fields[name].available()
        except ChunkwiseError:
            continue
    return None


def _tile(
    plate: Plate, path: str, number: int, domain: IndexDomain, shape: tuple[int, ...]
) -> npt.NDArray[Any] | None:
    """Return a part of a level of the first field of a well; None if there is no such well."""
    image = _first_field(plate, path)
    if image is None or number >= len(image.levels) or image.levels[number].rank != len(shape):
        return None
    level = image.levels[number]
    level = level.translate_to[(0,) * level.rank]
    starts = [at % n for at, n in zip(domain.origin, shape, strict=True)]
    ends = [min(start + n, size) for start, n, size in zip(starts, domain.shape, level.shape, strict=True)]
    if any(end <= start for start, end in zip(starts, ends, strict=True)):
        return None
    index = tuple(slice(start, end) for start, end in zip(starts, ends, strict=True))
    return np.asarray(level[index].read().result())
