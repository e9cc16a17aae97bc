"""Regions of arrays as PNG files: as they are, or three orthogonal slices in one labelled picture::

    xy at z   | zy at x
    ----------+--------
    xz at y   | legend

Panels that share an axis are drawn to one scale, in physical units where all three axes have the same
one.  Coloured lines show where the other two slices are.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont, PngImagePlugin

from chunkwise import TensorStore
from chunkwise.cli.command import UsageError
from chunkwise.copying.quantities import format_shape
from chunkwise.images.multiscale.metadata import memory_order
from chunkwise.images.multiscale.sampling import contrast_limits, round_levels, scale_levels, to_real

__all__ = ["encode_png", "orthogonal_picture", "plain_picture"]

_BACKGROUND = (24, 26, 30)
_TEXT = (225, 228, 232)
_FAINT = (150, 156, 164)
_COLORS = ((235, 95, 85), (90, 200, 110), (90, 150, 250))  # of what belongs to x, y, z
_GAP = 12
_FONT_SIZE = 16
_LINE = 20
_CHANNELS = ("c", "channel", "channels", "rgb")
_LARGEST = 1 << 28  # pixels of a plain picture
_LONGEST_READ = 2048  # elements along an axis that are read for an orthogonal picture
_LONGEST = 420  # pixels of the longest axis of an orthogonal picture
_NOT_IN_FONT = str.maketrans("µμ×", "uux")  # Pillow's own font has no letters beyond ASCII


class _PictureAxis(NamedTuple):
    """One of the three axes, horizontal first."""

    name: str
    size: int  # elements that the axis has
    start: int  # index of the first one
    at: int  # index at which the slice across this axis is
    spacing: float  # of elements, in the same unit for all axes
    unit: str

    @property
    def extent(self) -> float:
        """Physical size."""
        return self.size * self.spacing

    @property
    def position(self) -> str:
        """Position of the slice across this axis, in words."""
        text = f"{self.name} = {self.at}"
        return f"{text} ({self.at * self.spacing:.4g} {self.unit})" if self.unit else text


def plain_picture(view: TensorStore, title: str, percentiles: tuple[float, float], depth: int) -> bytes:
    """Return the PNG file of a region with two dimensions, or with a third one of three colours."""
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
    return encode_png(_draw_orthogonal(slices, axes, caption, percentiles), title)


def _plane(view: TensorStore, middle: list[int], *, down: int, across: int) -> npt.NDArray[Any]:
    """Read the plane through the middle; of very long axes not every element."""
    region: list[Any] = list(middle)
    for dim in (down, across):
        step = -(-view.shape[dim] // _LONGEST_READ)
        lo = view.origin[dim]
        region[dim] = slice(lo, lo + view.shape[dim], step) if step > 1 else slice(None)
    values = view[tuple(region)].read().result()
    return to_real(values if down < across else values.T)


def _axes(view: TensorStore, dims: tuple[int, int, int], middle: list[int]) -> list[_PictureAxis]:
    units = [view.dimension_units[dim] for dim in dims]
    names = [view.domain.labels[dim] or f"d{dim}" for dim in dims]
    bases = {None if unit is None else unit.base_unit for unit in units}
    physical = len(bases) == 1 and all(unit is not None and unit.multiplier > 0 for unit in units)
    unit = (bases.pop() or "") if physical else ""
    return [
        _PictureAxis(
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


def _draw_orthogonal(
    slices: Sequence[npt.NDArray[Any]],
    axes: Sequence[_PictureAxis],
    caption: Sequence[str],
    percentiles: tuple[float, float],
) -> Image.Image:
    """Return an RGB picture of slices ``(y, x)``, ``(y, z)`` and ``(z, x)``, with `caption` in the legend."""
    x, y, z = axes
    font = ImageFont.load_default(_FONT_SIZE)
    limits = contrast_limits(list(slices), percentiles)
    scale = _LONGEST / max(axis.extent for axis in axes)
    width, height, depth = (max(24, round(axis.extent * scale)) for axis in axes)
    legend = [*caption, f"grey: {limits[0]:.4g} .. {limits[1]:.4g}"]
    left = max(width, _text_width(_title(x, y, z), font))
    right = max(depth, *(_text_width(line, font) for line in (_title(z, y, x), *legend)))
    below = max(depth, _LINE * (len(legend) + 3))
    picture = Image.new("RGB", (3 * _GAP + left + right, 3 * _GAP + 2 * _LINE + height + below), _BACKGROUND)
    draw = ImageDraw.Draw(picture, "RGBA")

    def write(at_x: int, at_y: int, text: str, color: tuple[int, int, int]) -> None:
        draw.text((at_x, at_y), text.translate(_NOT_IN_FONT), color, font)

    top, second = _GAP + _LINE, 2 * _GAP + 2 * _LINE + height
    column = 2 * _GAP + left
    panels = (
        (slices[0], (x, y, z), _GAP, top, (width, height)),
        (slices[1], (z, y, x), column, top, (depth, height)),
        (slices[2], (x, z, y), _GAP, second, (width, depth)),
    )
    color_of = {axis.name: color for axis, color in zip(axes, _COLORS, strict=True)}
    for values, (across, down, through), at_x, at_y, (w, h) in panels:
        picture.paste(_panel(values, limits, w, h), (at_x, at_y))
        line_x, line_y = at_x + _pixel(across, w), at_y + _pixel(down, h)
        draw.line((line_x, at_y, line_x, at_y + h - 1), (*color_of[across.name], 102))
        draw.line((at_x, line_y, at_x + w - 1, line_y), (*color_of[down.name], 102))
        write(at_x, at_y - _LINE, _title(across, down, through), color_of[through.name])
    bar = _scale_bar(x, scale)
    if bar is not None and width >= 120 and height >= 60:
        n, label = bar
        right, bottom = _GAP + width - 8, top + height - 8
        n_label = _text_width(label, font)
        box = (right - max(n, n_label) - 4, bottom - _LINE - 8, right + 3, bottom + 3)
        draw.rectangle(box, (0, 0, 0, 191))  # legible on white, too
        draw.rectangle((right - n, bottom - 4, right - 1, bottom - 1), _TEXT)
        write(right - n_label, bottom - _LINE - 6, label, _TEXT)
    for number, line in enumerate(legend):
        write(column, second + number * _LINE, line, _TEXT if number == 0 else _FAINT)
    return picture


def encode_png(picture: Image.Image, title: str) -> bytes:
    """Return the PNG file of a picture, with its title stored as text."""
    text = PngImagePlugin.PngInfo()
    text.add_itxt("Title", title)
    text.add_itxt("Software", "chunkwise")
    out = BytesIO()
    picture.save(out, "PNG", pnginfo=text)
    return out.getvalue()


def _title(across: _PictureAxis, down: _PictureAxis, through: _PictureAxis) -> str:
    between = "" if len(across.name) == len(down.name) == 1 else "/"
    return f"{across.name}{between}{down.name} at {through.position}"


def _pixel(axis: _PictureAxis, n_pixels: int) -> int:
    return min(n_pixels - 1, int((axis.at - axis.start + 0.5) / axis.size * n_pixels))


def _panel(values: npt.NDArray[Any], limits: tuple[float, float], width: int, height: int) -> Image.Image:
    """Return a slice as grey levels: means where there are fewer pixels than elements, else linear."""
    with np.errstate(over="ignore"):  # infinity is as white
        levels = Image.fromarray(scale_levels(values, limits).astype(np.float32))
    for size in ((width, levels.height), (width, height)):
        fewer = size[0] < levels.width or size[1] < levels.height
        levels = levels.resize(size, Image.Resampling.BOX if fewer else Image.Resampling.BILINEAR)
    return Image.fromarray(round_levels(np.asarray(levels)))


def _text_width(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont) -> int:
    return round(font.getlength(text.translate(_NOT_IN_FONT)))


def _scale_bar(axis: _PictureAxis, scale: float) -> tuple[int, str] | None:
    """Return pixels and label of a bar of a round length, about a fifth of the panel."""
    wanted = axis.extent / 4
    if not axis.unit or not wanted > 0:
        return None
    power = 10 ** np.floor(np.log10(wanted))
    length = power * max(step for step in (1, 2, 5) if step * power <= wanted * 1.0000001)
    return max(1, round(length * scale)), f"{length:.4g} {axis.unit}"
