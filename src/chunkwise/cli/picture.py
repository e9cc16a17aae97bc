"""Three orthogonal slices of a volume in one labelled picture.

::

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

from chunkwise.server.grey import PERCENTILES, contrast_limits, round_levels, scale_levels

__all__ = ["PictureAxis", "draw_orthogonal", "encode_png"]

_BACKGROUND = (24, 26, 30)
_TEXT = (225, 228, 232)
_FAINT = (150, 156, 164)
_COLORS = ((235, 95, 85), (90, 200, 110), (90, 150, 250))  # of what belongs to x, y, z
_GAP = 12
_FONT_SIZE = 16
_LINE = 20
_NOT_IN_FONT = str.maketrans("µμ×", "uux")  # Pillow's own font has no letters beyond ASCII


class PictureAxis(NamedTuple):
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


def draw_orthogonal(
    slices: Sequence[npt.NDArray[Any]],
    axes: Sequence[PictureAxis],
    caption: Sequence[str],
    *,
    percentiles: tuple[float, float] = PERCENTILES,
    longest: int = 420,
) -> Image.Image:
    """Return an RGB picture of slices ``(y, x)``, ``(y, z)`` and ``(z, x)``, with `caption` in the legend."""
    x, y, z = axes
    font = ImageFont.load_default(_FONT_SIZE)
    limits = contrast_limits(list(slices), percentiles)
    scale = longest / max(axis.extent for axis in axes)
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


def _title(across: PictureAxis, down: PictureAxis, through: PictureAxis) -> str:
    between = "" if len(across.name) == len(down.name) == 1 else "/"
    return f"{across.name}{between}{down.name} at {through.position}"


def _pixel(axis: PictureAxis, n_pixels: int) -> int:
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


def _scale_bar(axis: PictureAxis, scale: float) -> tuple[int, str] | None:
    """Return pixels and label of a bar of a round length, about a fifth of the panel."""
    wanted = axis.extent / 4
    if not axis.unit or not wanted > 0:
        return None
    power = 10 ** np.floor(np.log10(wanted))
    length = power * max(step for step in (1, 2, 5) if step * power <= wanted * 1.0000001)
    return max(1, round(length * scale)), f"{length:.4g} {axis.unit}"
