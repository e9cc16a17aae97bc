"""neuroglancer: served arrays and images as precomputed volumes, and as layers with windows, colours, places.

`chunkwise.core.driver.neuroglancer_precomputed` has the format.  Resolutions are in nanometres; an axis
without a unit of length has voxels of that many.

An image of x, y, z and channels is a precomputed volume. One with other dimensions, such as time, is Zarr v3;
each of its channels is a layer, because only precomputed volumes have all channels in a chunk.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import Any
from urllib.parse import quote

import numpy as np

from chunkwise import TensorStore, Unit
from chunkwise.core.driver.neuroglancer_precomputed.chunk_keys import parse_chunk_name
from chunkwise.core.driver.neuroglancer_precomputed.members import INFO_KEY, Encoding, Info, Scale, new_info
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, UnsupportedError
from chunkwise.extension.inside import dump_bytes
from chunkwise.images.conventions.precomputed import as_volume
from chunkwise.images.multiscale.image import corner
from chunkwise.images.multiscale.metadata import unit_in
from chunkwise.images.server.answer import Computed, Content, Document
from chunkwise.images.server.encoded import for_browsers, served_chunk_shape
from chunkwise.images.server.forms import TABLE, ShownChannel, channels_of, forms_of
from chunkwise.images.server.image import ServedImage, image_at, shown_dims
from chunkwise.images.server.sources import Sources, find_nodes

__all__ = ["KEY", "PrecomputedVolume", "neuroglancer_state"]

KEY = INFO_KEY

_MOST_NBYTES = 1 << 23  # of a chunk, which a browser holds in memory of its graphics card
_SCALE_KEY = re.compile(r"\.(\d{1,4})/(.+)")


class PrecomputedVolume:
    """The keys and values of an image."""

    def __init__(self, image: ServedImage) -> None:
        self._dims, self._channel, others = shown_dims(image)
        if others:
            view, axes = image.levels[0].view, image.axes
            raise UnsupportedError(
                "a precomputed volume has x, y, z and channels, but this array also has "
                + ", ".join(f"{axes[dim].name} of {view.shape[dim]}" for dim in others)
                + "; neuroglancer shows it as zarr3"
            )
        self._views = [
            as_volume(for_browsers(level.view), (*self._dims, self._channel)) for level in image.levels
        ]
        self._chunks = [self._chunk_shape(level.view) for level in image.levels]
        self._corners = [
            corner(scale, at, image.scales[0])
            for scale, at in zip(image.scales, image.translations, strict=True)
        ]
        self.document = dump_bytes(self._info(image).document)

    def _chunk_shape(self, view: TensorStore) -> tuple[int, int, int]:
        chunk = served_chunk_shape(view, _MOST_NBYTES)
        x, y, z = (1 if dim is None else chunk[dim] for dim in self._dims)
        return x, y, z

    def _info(self, image: ServedImage) -> Info:
        first = self._views[0]
        kind = "segmentation" if image.is_labels and _is_integer(first) else "image"
        info = new_info(kind, first.dtype, first.shape[3])
        for number, (view, chunk) in enumerate(zip(self._views, self._chunks, strict=True)):
            x, y, z = (
                1.0 if dim is None else _nanometres(image.scales[number][dim], image.axes[dim].unit)
                for dim in self._dims
            )
            offset = tuple(0 if dim is None else self._corners[number][dim] for dim in self._dims)
            scale = Scale(
                key=f".{number}",  # no member of a group has such a name
                size=view.shape[:3],
                voxel_offset=offset,
                resolution=(x, y, z),
                chunk_sizes=(chunk,),
                encoding=Encoding("raw"),
                block_size=None,
                sharding=None,
            )
            info = info.with_scale(scale)
        return info

    def content(self, key: str) -> Content | None:
        """Return the content of `key`."""
        if key == KEY:
            return Document(self.document)
        found = _SCALE_KEY.fullmatch(key)
        corners = None if found is None else parse_chunk_name(found[2])
        if found is None or corners is None or int(found[1]) >= len(self._views):
            return None
        view, chunk = self._views[int(found[1])], self._chunks[int(found[1])]
        at = [0 if dim is None else self._corners[int(found[1])][dim] for dim in self._dims]
        starts, stops = (tuple(n - first for n, first in zip(one, at, strict=True)) for one in corners)
        for start, stop, size, c in zip(starts, stops, view.shape, chunk, strict=False):
            if start % c or not 0 <= start < size or stop != min(start + c, size):
                return None  # not a chunk of the grid
        part = tuple(slice(lo, hi) for lo, hi in zip(starts, stops, strict=True))
        nbytes = prod(hi - lo for lo, hi in zip(starts, stops, strict=True)) * view.shape[3] * 8
        return Computed(lambda: _encode(view[part]), 2 * nbytes)


def _encode(view: TensorStore) -> bytes | None:
    values = view.read(order="F").result()
    if not values.any():
        return None
    return values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes(order="F")


def _nanometres(size: float, unit: str) -> float:
    """Return a size in nanometres; a size that isn't a length counts as that many."""
    try:
        return unit_in(Unit(size, unit), "nm")
    except InvalidArgumentError:  # it isn't a length
        return size


def _is_integer(view: TensorStore) -> bool:
    return np.issubdtype(view.dtype.memory_dtype, np.integer)


_MOST_IMAGES = 8


def neuroglancer_state(url: str, sources: Sources, *, windows: bool = False) -> dict[str, Any]:
    """Return the state of a viewer of the first images; with `windows` values are read for the contrast.

    Raises
    ------
    UnsupportedError
        If there is no image that neuroglancer can show; the message says why.
    """
    layers: list[dict[str, Any]] = []
    shown: list[ServedImage] = []
    inside: tuple[str, ...] | None = None
    failed: ChunkwiseError | None = None
    for path, node in find_nodes(sources):
        if inside is not None and path[: len(inside)] == inside:
            continue  # a level of an image that is a layer, or its labels
        try:
            image = image_at(path, node)
            if image is None or all(one.form == TABLE for one in forms_of(image)):
                continue
            layers += _layers(url, path, image, windows, path[-1], {})
        except ChunkwiseError as e:
            failed = failed or e
            continue
        inside = path
        shown.append(image)
        first = {axis.name: size for axis, size in zip(image.axes, image.scales[0], strict=True)}
        for label in image.labels:
            below = (*path, "labels", *label.split("/"))
            try:
                found = sources.find(below)
                labels = None if found is None else image_at(below, found)
                if labels is not None:
                    layers += _layers(url, below, labels, windows, f"{path[-1]} {label}", first)
            except ChunkwiseError:
                continue  # the page shows its error
        if len(shown) == _MOST_IMAGES:
            break
    if not layers:
        why = "" if failed is None else f": {failed.message}"
        raise UnsupportedError(f"there is no image here that neuroglancer can show{why}")
    return {"layers": layers} | _layout(shown)


def _layout(shown: list[ServedImage]) -> dict[str, Any]:
    """Return which panes there are, and which dimensions they show of images with others than x, y and z."""
    state: dict[str, Any] = {"layout": "4panel"}
    if all(z is None or one.levels[0].view.shape[z] == 1 for one in shown for z in [shown_dims(one)[0][2]]):
        state["layout"] = "xy"
    dims, _, others = shown_dims(shown[0])
    if others and shown[0].paths[0] != "":
        known = _dimensions(shown[0])
        names = [shown[0].axes[dim].name for dim in dims if dim is not None]
        rest = [name for name in known if name not in names and not name.endswith("'")]
        state["dimensions"] = {name: known[name] for name in (*names, *rest)}
        state["displayDimensions"] = names
    return state


def _layers(
    url: str, path: tuple[str, ...], image: ServedImage, windows: bool, name: str, first: Mapping[str, float]
) -> list[dict[str, Any]]:
    """Return the layers of an image: one, or one for each channel of an image with other dimensions.

    `first` has the sizes of voxels of the image whose labels these are, by axis.
    """
    dims, channel, others = shown_dims(image)
    address = "/".join(map(quote, path))
    is_split = bool(others) and image.paths[0] != "" and channel is not None and not image.is_labels
    if others:
        for_browsers(image.levels[0].view)  # which can fail
        source: dict[str, Any] = {"url": f"zarr3://{url}viewer/{address}"}
        if is_split:
            source["transform"] = {"outputDimensions": _dimensions(image)}
    else:
        PrecomputedVolume(image)  # which can fail
        source = {"url": f"precomputed://{url}precomputed/{address}"} | _moved(image, dims, channel, first)
    layer = {"name": name, "type": "segmentation" if image.is_labels else "image", "source": source}
    if image.is_labels:
        colors = {str(n): "#{:02x}{:02x}{:02x}".format(*rgba[:3]) for n, rgba in image.label_colors.items()}
        return [{**layer, "segmentColors": colors} if colors else layer]
    form = forms_of(image)[0]._replace(channel=None if others and not is_split else channel)
    chosen = channels_of(image, form, windows=windows) or [ShownChannel(0, "", "ffffff", None)]
    if channel is None or not is_split:
        return [{**layer, "shader": _shader(chosen, len(chosen) > 1)}]
    return [
        {
            **layer,
            "name": f"{name} {label}",
            "shader": _shader([ShownChannel(0, label, color, window)], True),
            "localDimensions": {f"{image.axes[channel].name}'": [1, ""]},
            "localPosition": [number],
            "blend": "additive",
            "opacity": 1,
        }
        for number, label, color, window in chosen
    ]


def _moved(
    image: ServedImage, dims: list[int | None], channel: int | None, first: Mapping[str, float]
) -> dict[str, Any]:
    """Return the transform of a precomputed volume that begins between whole voxels, if it does."""
    scale, at = image.scales[0], image.translations[0]
    begins = corner(scale, at, scale)
    dimensions: dict[str, list[Any]] = {}
    offsets = []
    for name, dim in zip("xyz", dims, strict=True):
        size, axis = (1.0, "") if dim is None else (scale[dim], image.axes[dim].name)
        dimensions[name] = [1e-9 * _nanometres(size, "" if dim is None else image.axes[dim].unit), "m"]
        edge = 0.0 if dim is None else at[dim] - size / 2 + first.get(axis, size) / 2
        offsets.append(0.0 if dim is None else edge / size - begins[dim])
    if max(map(abs, offsets)) < 1e-6:
        return {}
    if channel is not None and image.levels[0].view.shape[channel] > 1:
        dimensions["c^"], offsets = [1, ""], [*offsets, 0.0]
    n = len(offsets)
    matrix = [[float(column == row) for column in range(n)] + [moved] for row, moved in enumerate(offsets)]
    return {"transform": {"outputDimensions": dimensions, "matrix": matrix}}


def _dimensions(image: ServedImage) -> dict[str, list[Any]]:
    """Return sizes and units of the dimensions of OME-Zarr; that of channels belongs to a layer alone."""
    out: dict[str, list[Any]] = {}
    for axis, size in zip(image.axes, image.scales[0], strict=True):
        local = axis.type == "channel"
        out[f"{axis.name}'" if local else axis.name] = [1, ""] if local else _in_si(size, axis.unit)
    return out


def _in_si(size: float, unit: str) -> list[Any]:
    for base in ("m", "s"):
        try:
            return [unit_in(Unit(size, unit), base), base]
        except InvalidArgumentError:
            continue
    return [size, ""]


def _shader(channels: list[ShownChannel], colored: bool) -> str:
    """Return a shader with a window for each channel, and a colour if there are several."""
    controls, sums = [], []
    for number, _, color, window in channels:
        bounds = "" if window is None else f"range=[{window[0]:.9g}, {window[1]:.9g}]"
        where = f"channel={number}" if len(channels) > 1 else ""
        controls.append(f"#uicontrol invlerp window{number}({', '.join(filter(None, (bounds, where)))})")
        if colored:
            controls.append(f'#uicontrol vec3 color{number} color(default="#{color}")')
        sums.append(f"window{number}()" + (f" * color{number}" if colored else ""))
    emit = "emitRGB" if colored else "emitGrayscale"
    return "\n".join([*controls, f"void main() {{ {emit}({' + '.join(sums)}); }}"])
