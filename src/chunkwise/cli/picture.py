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
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.cli.font import LINE_HEIGHT, render_text
from chunkwise.cli.grey import PERCENTILES, contrast_limits, to_grey

__all__ = ["PictureAxis", "draw_orthogonal"]

_BACKGROUND = (24, 26, 30)
_TEXT = (225, 228, 232)
_FAINT = (150, 156, 164)
_COLORS = ((235, 95, 85), (90, 200, 110), (90, 150, 250))  # of what belongs to x, y, z
_GAP = 12
_SCALE = 2
_LINE = LINE_HEIGHT * _SCALE + 2


class PictureAxis(NamedTuple):
    """One of the three axes, horizontal first.

    Attributes
    ----------
    name : str
    size : int
        Elements that the axis has.
    start : int
        Index of the first one.
    at : int
        Index at which the slice across this axis is.
    spacing : float
        Distance of two elements, in the same unit for all axes.
    unit : str
        Its name; empty if there is none.
    """

    name: str
    size: int
    start: int
    at: int
    spacing: float
    unit: str

    @property
    def extent(self) -> float:
        """Physical size."""
        return self.size * self.spacing

    @property
    def position(self) -> str:
        """Where the slice across this axis is, in words."""
        text = f"{self.name} = {self.at}"
        return f"{text} ({self.at * self.spacing:.4g} {self.unit})" if self.unit else text


def draw_orthogonal(
    slices: Sequence[npt.NDArray[Any]],
    axes: Sequence[PictureAxis],
    caption: Sequence[str],
    *,
    percentiles: tuple[float, float] = PERCENTILES,
    longest: int = 420,
) -> npt.NDArray[np.uint8]:
    """Return an RGB picture, shape ``(height, width, 3)``.

    Parameters
    ----------
    slices : sequence of ndarray
        Real numbers of shapes ``(y, x)``, ``(y, z)`` and ``(z, x)``.
    axes : sequence of PictureAxis
        x, y and z.
    caption : sequence of str
        Lines for the legend.
    percentiles : pair of float
        Contrast of all three together.
    longest : int
        Pixels of the longest axis.
    """
    x, y, z = axes
    limits = contrast_limits(list(slices), percentiles)
    scale = longest / max(axis.extent for axis in axes)
    width, height, depth = (max(24, round(axis.extent * scale)) for axis in axes)
    legend = [*caption, f"grey: {limits[0]:.4g} .. {limits[1]:.4g}"]
    left = max(width, _text_width(_title(x, y, z)))
    right = max(depth, _text_width(_title(z, y, x)), *(_text_width(line) for line in legend))
    below = max(depth, _LINE * (len(legend) + 3))
    canvas = np.empty((3 * _GAP + 2 * _LINE + height + below, 3 * _GAP + left + right, 3), np.uint8)
    canvas[...] = _BACKGROUND

    top, second = _GAP + _LINE, 2 * _GAP + 2 * _LINE + height
    column = 2 * _GAP + left
    panels = (
        (slices[0], (x, y, z), _GAP, top, (width, height)),
        (slices[1], (z, y, x), column, top, (depth, height)),
        (slices[2], (x, z, y), _GAP, second, (width, depth)),
    )
    order = {axis.name: number for number, axis in enumerate(axes)}
    for values, (across, down, through), at_x, at_y, (w, h) in panels:
        grey = to_grey(_resized(values, h, w), limits)
        panel = canvas[at_y : at_y + h, at_x : at_x + w]
        panel[...] = grey[..., None]
        color = _COLORS[order[across.name]]
        _tint(panel[:, _pixel(across, w)], color)
        _tint(panel[_pixel(down, h), :], _COLORS[order[down.name]])
        _write(canvas, at_x, at_y - _LINE, _title(across, down, through), _COLORS[order[through.name]])
    _scale_bar(canvas, x, scale, _GAP, top, width, height)
    for number, line in enumerate(legend):
        _write(canvas, column, second + number * _LINE, line, _TEXT if number == 0 else _FAINT)
    return canvas


def _title(across: PictureAxis, down: PictureAxis, through: PictureAxis) -> str:
    between = "" if len(across.name) == len(down.name) == 1 else "/"
    return f"{across.name}{between}{down.name} at {through.position}"


def _pixel(axis: PictureAxis, n_pixels: int) -> int:
    return min(n_pixels - 1, int((axis.at - axis.start + 0.5) / axis.size * n_pixels))


def _tint(line: npt.NDArray[np.uint8], color: tuple[int, int, int]) -> None:
    line[...] = (line * 0.6 + np.array(color) * 0.4).astype(np.uint8)


def _resized(values: npt.NDArray[Any], height: int, width: int) -> npt.NDArray[np.float64]:
    """Return `values` with another number of rows and columns: means where there are fewer, else linear."""
    return _resized_rows(_resized_rows(values.astype(np.float64), height).T, width).T


def _resized_rows(values: npt.NDArray[np.float64], n: int) -> npt.NDArray[np.float64]:
    size = len(values)
    if n < size:
        edges = np.arange(n) * size // n
        sums = np.add.reduceat(values, edges, axis=0)
        counts = np.diff(np.append(edges, size))
        return np.asarray(sums / counts[:, None])
    at = ((np.arange(n) + 0.5) * size / n - 0.5).clip(0, size - 1)
    first = at.astype(int)
    share = (at - first)[:, None]
    after = values[np.minimum(first + 1, size - 1)]
    # Where one of the two is not finite there is nothing to mix.
    return np.asarray(np.where(share > 0, values[first] * (1 - share) + after * share, values[first]))


def _text_width(text: str) -> int:
    return 6 * _SCALE * len(text)


def _write(
    canvas: npt.NDArray[np.uint8], left: int, top: int, text: str, color: tuple[int, int, int]
) -> None:
    mask = render_text(text, _SCALE)
    room = canvas[top : top + mask.shape[0], left : left + mask.shape[1]]
    room[mask[: room.shape[0], : room.shape[1]]] = color


def _scale_bar(
    canvas: npt.NDArray[np.uint8],
    axis: PictureAxis,
    scale: float,
    left: int,
    top: int,
    width: int,
    height: int,
) -> None:
    """Draw a bar of a round length, about a fifth of the panel, into its lower right corner."""
    wanted = axis.extent / 4
    if not axis.unit or not wanted > 0 or width < 120 or height < 60:
        return
    power = 10 ** np.floor(np.log10(wanted))
    length = power * max(step for step in (1, 2, 5) if step * power <= wanted * 1.0000001)
    n = max(1, round(length * scale))
    label = f"{length:.4g} {axis.unit}"
    right, bottom = left + width - 8, top + height - 8
    label_width = _text_width(label)
    above = bottom - 6 - 7 * _SCALE
    box = canvas[above - 4 : bottom + 4, right - max(n, label_width) - 4 : right + 4]
    box[...] = box // 4  # legible on white, too
    canvas[bottom - 4 : bottom, right - n : right] = _TEXT
    _write(canvas, right - label_width, above, label, _TEXT)
