"""Arrays without metadata of an image of their own, as images."""

from __future__ import annotations

from collections.abc import Mapping

from chunkwise import TensorStore
from chunkwise.images.conventions.ome_metadata import label_colors_of
from chunkwise.images.multiscale.array_axes import ArrayAxis, image_of_array
from chunkwise.images.multiscale.image import MultiscaleImage, placed
from chunkwise.images.multiscale.image_axes import axis_kind, axis_names, symbol_of
from chunkwise.images.multiscale.metadata import Axis, ImageMetadata, LevelMetadata, Transformation

__all__ = ["image_of_arrays", "single_array"]


def single_array(
    store: TensorStore, place: str = "", assumed: str = "", image: object = None
) -> MultiscaleImage:
    """Return an array as an image of one level, with what an image says of which it is a level.

    `place` names an array that isn't a node, such as a folder of pictures, about which something is
    `assumed`; `image` is as for `image_of_array`.
    """
    kvstore = store.kvstore
    if kvstore is None:
        name, location = place.rstrip("/").rpartition("/")[2], place or "memory"
    else:
        name = kvstore.path.rstrip("/").rpartition("/")[2]
        try:
            location = store.url
        except NotImplementedError:  # a store of another library
            location = kvstore.path
    known = image_of_array(store, image)
    axes, level = _placed_axes(store, known.axes, "", location)
    problems: list[str] = []
    metadata = ImageMetadata(
        "raw",
        axes,
        (level,),
        name,
        known.shown,
        is_labels=known.is_labels is True,
        label_colors=label_colors_of(known.image_label, f"{location}: image-label", problems),
        problems=(*known.notes, *problems),
        assumed=(*filter(None, [assumed]), *known.assumed(store, [axis.name for axis in axes])),
    )
    if known.image is not None:
        store = placed(store, axes, level.place, level.place)
    return MultiscaleImage(metadata, lambda _: store, location=location)


def image_of_arrays(
    arrays: Mapping[str, TensorStore], name: str, location: str, *, is_labels: bool
) -> MultiscaleImage:
    """Return arrays, by path, as the levels of an image of which only labels and units are known."""
    stores = list(arrays.values())
    found = [
        _placed_axes(store, [ArrayAxis()] * store.rank, path, location) for path, store in arrays.items()
    ]
    levels = tuple(level for _, level in found)
    metadata = ImageMetadata("raw", found[0][0], levels, name, is_labels=is_labels)
    return MultiscaleImage(metadata, lambda number: stores[number], location=location)


def _placed_axes(
    store: TensorStore, known: list[ArrayAxis] | tuple[ArrayAxis, ...], path: str, location: str
) -> tuple[tuple[Axis, ...], LevelMetadata]:
    """Return the axes of an array and its place; unknown properties are those of the array itself."""
    names = axis_names(store, [a.name or label for a, label in zip(known, store.domain.labels, strict=True)])
    axes, scale, start = [], [], []
    for dim, (name, axis, unit) in enumerate(zip(names, known, store.dimension_units, strict=True)):
        size, base = (1.0, "") if unit is None else (unit.multiplier, unit.base_unit)
        if axis.size is not None:
            size, base = axis.size, axis.unit
        name = name or f"dim_{dim}"
        axes.append(Axis(name, axis.kind or axis_kind(name), symbol_of(base)))
        scale.append(size)
        start.append((axis.start or 0.0) + store.origin[dim] * size)
    place = Transformation(tuple(scale), tuple(start))
    return tuple(axes), LevelMetadata(path, place, location)
