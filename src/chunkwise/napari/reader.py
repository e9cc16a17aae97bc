"""Layers of napari: multiscale images of OME-Zarr and N5, their labels, and plain arrays; read lazily.

napari shows the last axes, so axes are put into the order t, c, z, y, x.  Positions are those of the
metadata, so layers that belong together lie over each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise import TensorStore
from chunkwise.copying.resolve import resolve
from chunkwise.dask.convert import Indexable
from chunkwise.errors import ChunkwiseError
from chunkwise.extension.inside import warn_caller
from chunkwise.groups.group import Group
from chunkwise.groups.open_group import open_group
from chunkwise.images.conventions.convention import label_properties
from chunkwise.images.conventions.ome_plates import Plate, Well, plate_image
from chunkwise.images.multiscale.image import MultiscaleImage, most_voted
from chunkwise.images.multiscale.metadata import Window, ngff_unit
from chunkwise.images.multiscale.open import Multiscale, open_multiscale, single_array
from chunkwise.images.multiscale.sampling import contrast_level, contrast_of

__all__ = ["LayerData", "get_reader", "layers_of"]

LayerData: TypeAlias = "tuple[Any, dict[str, Any], str]"

_ORDER = {"time": 0, "channel": 1, "space": 3}


class _LevelData(Indexable):
    """A level with the members that napari needs: the length, and the whole array."""

    __slots__ = ()

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape))

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(self.view.read().result(), dtype)


def get_reader(path: str | Sequence[str]) -> Callable[[Any], list[LayerData]] | None:
    """Return a function that reads `path` as napari's layers; None if it can't be read.

    Parameters
    ----------
    path : str or list of str
        Files, directories or URLs.
    """
    paths = [path] if isinstance(path, str) else list(path)
    found = [_find(one) for one in paths]
    if not paths or any(images is None for images in found):
        return None

    def read(_: object) -> list[LayerData]:
        return [layer for images in found for layer in layers_of(images or [])]

    return read


def layers_of(images: Multiscale | Sequence[Multiscale]) -> list[LayerData]:
    """Return the layers of images: one for each channel, and one for each image of labels.

    A plate shows the first field of each well, in rows and columns.
    """
    if isinstance(images, MultiscaleImage):
        return _layers(images, images.name)
    if isinstance(images, Plate):
        return _layers(plate_image(images), images.name)
    if isinstance(images, Well):
        well = images.location.rstrip("/").rpartition("/")[2]
        return _layers_each(images.fields, lambda path: f"{well}/{path}")
    if isinstance(images, Sequence):
        return [layer for image in images for layer in layers_of(image)]
    return _layers_each(images, lambda name: images[name].name)


def _layers_each(images: Mapping[str, MultiscaleImage], name_of: Callable[[str], str]) -> list[LayerData]:
    """Return the layers of the images that can be opened; warn of others, and raise if none can."""
    layers: list[LayerData] = []
    failed: list[ChunkwiseError] = []
    for path in images:
        try:
            layers += _layers(images[path], name_of(path))
        except ChunkwiseError as e:
            failed.append(e)
    if failed and not layers:
        raise failed[0]
    for error in failed:
        warn_caller(f"{error.message}; the other images are shown")
    return layers


def _find(path: str) -> list[Multiscale] | None:
    """Return the images at a path, or else each array of a group as one; None if there are none."""
    try:
        found = resolve(path)
        try:
            return [open_multiscale(found, strict=False, drafts=True)]
        except ChunkwiseError:
            group = open_group(found)
            return [single_array(array) for _, array in group.arrays() if _is_shown(array)] or None
    except (ChunkwiseError, TypeError):
        return None


def _is_shown(member: Group | TensorStore) -> bool:
    return isinstance(member, TensorStore) and member.dtype.memory_dtype.kind in "biufc" and member.rank > 0


def _layers(image: MultiscaleImage, name: str) -> list[LayerData]:
    layers, labels = [_layer(image, name)], {} if image.is_labels else image.labels
    for note in image.assumed:
        warn_caller(note)
    for label in labels:
        try:
            layers.append(_layer(labels[label], label))
        except ChunkwiseError as e:
            warn_caller(f"{e.message}; the other images are shown")
    return layers


def _layer(image: MultiscaleImage, name: str) -> LayerData:
    image = image.available()
    axes = image.axes
    # Spatial axes are put in order only if all are called x, y or z.
    space = [dim for dim, axis in enumerate(axes) if axis.type == "space"]
    if {axes[dim].name for dim in space} <= set("xyz"):
        space.sort(key=lambda dim: axes[dim].name, reverse=True)
    others = [dim for dim in range(len(axes)) if dim not in space]
    others.sort(key=lambda dim: _ORDER.get(axes[dim].type, 2))
    order = [*others, *space]
    data = [_LevelData(most_voted(level).transpose(order)) for level in image.levels]
    channel = [at for at, dim in enumerate(order) if axes[dim].type == "channel"]
    options: dict[str, Any] = {}
    is_labels = image.is_labels and data[0].dtype.kind in "biu"
    split = bool(channel) and not is_labels
    if split:
        options |= _channel_options(image, name, data[0].shape[channel[0]])
        options["channel_axis"] = channel[0]
    else:
        options["name"] = name
    if not is_labels:
        dim = order[channel[0]] if split else None
        limits = _contrast_limits(image, dim)
        if limits:
            options["contrast_limits"] = limits if split else limits[0]
    kept = [dim for at, dim in enumerate(order) if not (split and at == channel[0])]
    options |= {
        "scale": [image.scales[0][dim] for dim in kept],
        "translate": [image.translations[0][dim] for dim in kept],
        "axis_labels": [axes[dim].name for dim in kept],
        "units": [_unit(axes[dim].unit) for dim in kept],
        "metadata": {"chunkwise": {"location": image.location, "convention": image.convention}},
    }
    if is_labels and image.label_colors:
        colors = {label: [n / 255 for n in rgba] for label, rgba in image.label_colors.items()}
        options["colormap"] = {None: [0.5, 0.5, 0.5, 1.0], 0: [0.0, 0.0, 0.0, 0.0], **colors}
    if is_labels and (features := _features(image)):
        options["features"] = features
    if len(data) > 1:
        return data, {**options, "multiscale": True}, "labels" if is_labels else "image"
    return data[0], {**options, "multiscale": False}, "labels" if is_labels else "image"


def _features(image: MultiscaleImage) -> dict[str, list[Any]]:
    """Return the properties of labels in the metadata as napari's columns; ``index`` is the label."""
    rows = list(label_properties(image.metadata))
    names = dict.fromkeys(name for _, row in rows for name in row if name != "index")
    columns = {name: [row.get(name) for _, row in rows] for name in names}
    return {"index": [label for label, _ in rows], **columns} if columns else {}


def _channel_options(image: MultiscaleImage, name: str, n: int) -> dict[str, Any]:
    """Return names, colours and visibility of `n` channels, as far as the metadata say."""
    channels = image.channels
    if len(channels) != n:
        return {"name": [f"{name} {number}" for number in range(n)] if n > 1 else [name]}
    options: dict[str, Any] = {
        "name": [channel.label or f"{name} {number}" for number, channel in enumerate(channels)],
        "visible": [channel.active for channel in channels],
    }
    if all(channel.color for channel in channels):
        options["colormap"] = [f"#{channel.color}" for channel in channels]
    return options


def _contrast_limits(image: MultiscaleImage, dim: int | None) -> list[tuple[float, float]]:
    """Return black and white levels of each channel, from metadata or values; nothing if values can't be
    read."""
    numbers = [0] if dim is None else range(image.levels[0].shape[dim])
    view = contrast_level(image.levels, {} if dim is None else {dim: 0})
    view = view.translate_to[(0,) * view.rank]
    known = image.channels if len(image.channels) == len(numbers) else [None] * len(numbers)
    limits = []
    for number, channel in zip(numbers, known, strict=True):
        found = None if channel is None or channel.window is None else _shown_range(channel.window)
        if found is None:
            try:
                low, high = contrast_of(view, {} if dim is None else {dim: number})["window"]
            except ChunkwiseError:
                return []
            found = (low, high)
        limits.append(found)
    return limits


def _shown_range(window: Window) -> tuple[float, float] | None:
    start = window.min if window.start is None else window.start
    end = window.max if window.end is None else window.end
    return None if start is None or end is None or start >= end else (start, end)


def _unit(symbol: str) -> str:
    """Return the name of a unit as pint, which napari has, knows it; "pixel" for others."""
    name = ngff_unit(symbol)
    return (
        name if name.endswith(("meter", "second", "angstrom", "inch", "foot", "minute", "hour")) else "pixel"
    )
