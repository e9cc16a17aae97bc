"""Images of arrays without metadata of an image: their own labels and units are all that is known."""

from __future__ import annotations

import re

from chunkwise.api.tensorstore import TensorStore
from chunkwise.errors import InvalidArgumentError
from chunkwise.groups.group import Group
from chunkwise.multiscale.image import MultiscaleImage
from chunkwise.multiscale.image_axes import axis_kind, ngff_unit, unit_symbol
from chunkwise.multiscale.metadata import Axis, ImageMetadata, LevelMetadata, Transformation

__all__ = ["raw_image", "single_array"]


def single_array(store: TensorStore) -> MultiscaleImage:
    """Return an array as an image of one level."""
    return _image({"": store}, store.path or "", store.url if store.kvstore is not None else "memory")


def raw_image(group: Group) -> MultiscaleImage:
    """Return the arrays in a group as the levels of an image, in the order of their numbers."""
    arrays = dict(sorted(group.arrays(), key=lambda item: _natural(item[0])))
    if not arrays:
        raise InvalidArgumentError(f"{group.location.text}: there is no array that could be a level")
    rank = next(iter(arrays.values())).rank
    levels = {name: store for name, store in arrays.items() if store.rank == rank}
    return _image(levels, group.basename, group.location.text)


def _image(arrays: dict[str, TensorStore], name: str, location: str) -> MultiscaleImage:
    stores = list(arrays.values())
    first = stores[0]
    labels = first.domain.labels
    named = [label or f"dim_{dim}" for dim, label in enumerate(labels)]
    axes = tuple(
        Axis(label, axis_kind(label), "" if unit is None else unit_symbol(ngff_unit(unit.base_unit)))
        for label, unit in zip(named, first.dimension_units, strict=True)
    )
    levels = []
    for path, store in arrays.items():
        scale = tuple(1.0 if unit is None else unit.multiplier for unit in store.dimension_units)
        start = tuple(at * size for at, size in zip(store.origin, scale, strict=True))
        levels.append(LevelMetadata(path, Transformation(scale, start), location))
    metadata = ImageMetadata("raw", axes, tuple(levels), name)
    return MultiscaleImage(metadata, lambda number: stores[number], location=location)


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key by which ``s10`` comes after ``s9``."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
