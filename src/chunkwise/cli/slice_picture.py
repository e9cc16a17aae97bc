"""Views of arrays as PNG files: choosing dimensions, and reading no more than the picture shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from chunkwise.api.tensorstore import TensorStore
from chunkwise.cli.command import UsageError
from chunkwise.cli.picture import PictureAxis, draw_orthogonal, encode_png
from chunkwise.cli.quantities import format_shape
from chunkwise.multiscale.image_axes import memory_order
from chunkwise.server.grey import contrast_limits, round_levels, scale_levels, to_real

__all__ = ["orthogonal_picture", "plain_picture"]

_CHANNELS = ("c", "channel", "channels", "rgb")
_LARGEST = 1 << 28  # pixels of a plain picture
_LONGEST_READ = 2048  # elements along an axis that are read for an orthogonal picture


def plain_picture(view: TensorStore, title: str, percentiles: tuple[float, float], depth: int) -> bytes:
    """Return the PNG file of a region with two dimensions, or three of which one is three colours."""
    channel = _channel_dim(view)
    if view.rank - (channel is not None) != 2 or 0 in view.shape:
        raise UsageError(
            "a picture needs a region with two dimensions that aren't empty, or three of which one is RGB; "
            f"this one is {format_shape(view.shape)}: give --region with indices for the others, "
            "or --orthogonal"
        )
    if channel is not None and depth != 8:
        raise UsageError("pictures of three colours have a --depth of 8")
    if view.size > _LARGEST:
        raise UsageError(f"a picture of {format_shape(view.shape)} is too large; choose a smaller --region")
    across, down = _across_first(view, [dim for dim in range(view.rank) if dim != channel])
    order = [down, across] + ([] if channel is None else [channel])
    values = to_real(view.read().result().transpose(order))
    if channel is not None and values.dtype == np.uint8 and depth == 8:
        pixels = values  # colours as they are
    else:
        pixels = round_levels(scale_levels(values, contrast_limits([values], percentiles), depth), depth)
    return encode_png(Image.fromarray(pixels), title)


def orthogonal_picture(view: TensorStore, title: str, percentiles: tuple[float, float]) -> bytes:
    """Return the PNG file of three orthogonal slices through the middle of a view."""
    if view.rank < 3 or 0 in view.shape:
        raise UsageError(
            "--orthogonal needs three dimensions that aren't empty, "
            f"but the region is {format_shape(view.shape)}"
        )
    dims = _three_dims(view)
    middle = [lo + size // 2 for lo, size in zip(view.origin, view.shape, strict=True)]
    axes = _axes(view, dims, middle)
    x, y, z = dims
    slices = [
        _plane(view, middle, down=y, across=x),
        _plane(view, middle, down=y, across=z),
        _plane(view, middle, down=z, across=x),
    ]
    caption = [title, f"{view.dtype.name}  {format_shape(view.shape)}"]
    unit = axes[0].unit
    if unit:
        caption.append("spacing " + ", ".join(f"{axis.spacing:.4g}" for axis in axes) + f" {unit}")
    others = [dim for dim in range(view.rank) if dim not in dims]
    for dim in others:
        caption.append(f"{view.domain.labels[dim] or f'dim {dim}'} = {middle[dim]}")
    return encode_png(draw_orthogonal(slices, axes, caption, percentiles=percentiles), title)


def _plane(view: TensorStore, middle: list[int], *, down: int, across: int) -> npt.NDArray[Any]:
    """Read the plane through the middle; of very long axes not every element."""
    region: list[Any] = list(middle)
    for dim in (down, across):
        step = -(-view.shape[dim] // _LONGEST_READ)
        lo = view.origin[dim]
        region[dim] = slice(lo, lo + view.shape[dim], step) if step > 1 else slice(None)
    values = view[tuple(region)].read().result()
    return to_real(values if down < across else values.T)


def _axes(view: TensorStore, dims: tuple[int, int, int], middle: list[int]) -> list[PictureAxis]:
    units = [view.dimension_units[dim] for dim in dims]
    names = [view.domain.labels[dim] or f"d{dim}" for dim in dims]
    bases = {None if unit is None else unit.base_unit for unit in units}
    physical = len(bases) == 1 and all(unit is not None and unit.multiplier > 0 for unit in units)
    unit = (bases.pop() or "") if physical else ""
    return [
        PictureAxis(
            name,
            view.shape[dim],
            view.origin[dim],
            middle[dim],
            u.multiplier if physical and u is not None else 1.0,
            unit,
        )
        for dim, name, u in zip(dims, names, units, strict=True)
    ]


def _three_dims(view: TensorStore) -> tuple[int, int, int]:
    """Return x, y and z: by label, else the last three as they lie in memory, the fastest first."""
    labels = [label.lower() for label in view.domain.labels]
    if all(labels.count(name) == 1 for name in "xyz"):
        return labels.index("x"), labels.index("y"), labels.index("z")
    order = memory_order(view)[::-1]
    dims = [dim for dim in order if view.shape[dim] > 1 and labels[dim] not in (*_CHANNELS, "t", "time")]
    dims = (dims + [dim for dim in order if dim not in dims])[:3]
    return dims[0], dims[1], dims[2]


def _across_first(view: TensorStore, dims: list[int]) -> list[int]:
    labels = [view.domain.labels[dim].lower() for dim in dims]
    if "x" in labels:
        return sorted(dims, key=lambda dim: view.domain.labels[dim].lower() != "x")
    if "y" in labels:
        return sorted(dims, key=lambda dim: view.domain.labels[dim].lower() == "y")
    return [dim for dim in memory_order(view)[::-1] if dim in dims]


def _channel_dim(view: TensorStore) -> int | None:
    if view.rank != 3:
        return None
    for dim, label in enumerate(view.domain.labels):
        if label.lower() in _CHANNELS and view.shape[dim] == 3:
            return dim
    return 2 if view.shape[2] == 3 and not view.domain.labels[2] else None
