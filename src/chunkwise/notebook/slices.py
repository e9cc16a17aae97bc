"""Slices of arrays and images as PNG files: the visible part of a plane, from the level that fits."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from chunkwise import TensorStore
from chunkwise.cli.picture import encode_png
from chunkwise.errors import ChunkwiseError, InvalidArgumentError
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.sampling import (
    NAN_COLOR,
    contrast_level,
    contrast_limits,
    contrast_of,
    round_levels,
    scale_levels,
    to_real,
)
from chunkwise.images.server.forms import label_pixels
from chunkwise.images.server.image import image_of, level_with, shown_dims
from chunkwise.images.server.tiles import MOST_PIXELS, Damage, Plane, read_plane

__all__ = ["Drawn", "Shown", "Slice", "Slicer"]

_LONGEST = 512  # pixels of a side, at least, if there are as many elements
_MOST_STRETCHED = 8.0  # one side to the other
_MOST_CHANNELS = 16
_HUES = ("ff00ff", "00ff00", "00a0ff", "ffa000", "ff3030", "ffff00")  # those of the page


class Slider(NamedTuple):
    """A dimension in which a slice has one position."""

    name: str
    start: int
    stop: int  # after the last position


class Shown(NamedTuple):
    """A channel of a slice, in a colour; without a window it has that of the metadata, or of percentiles."""

    number: int  # 0 where there are no channels
    color: str = "ffffff"
    low: float | None = None
    high: float | None = None


class Slice(NamedTuple):
    """The current view of a slice: position, center and zoom."""

    position: tuple[int, ...]  # of each slider
    center: tuple[float, float] = (0.5, 0.5)  # down and across, in parts of the plane
    zoom: float = 1.0  # 1 for all of the plane
    channels: tuple[Shown, ...] = ()  # none for the one at the position, in grey


class Drawn(NamedTuple):
    """A picture of a slice."""

    png: bytes
    seen: Slice  # within its bounds
    box: tuple[float, float, float, float]  # top, left, bottom, right of the picture, in parts of the plane
    level: int
    problem: str  # what could not be read
    windows: tuple[tuple[int, float, float], ...]  # of the channels that are drawn: number, black, white


class Slicer:
    """Planes of an image or of one array.

    Parameters
    ----------
    source : MultiscaleImage or TensorStore
    """

    def __init__(self, source: MultiscaleImage | TensorStore) -> None:
        first = source if isinstance(source, TensorStore) else source.levels[0]
        if first.rank < 2 or 0 in first.shape or not first.readable:
            raise InvalidArgumentError(f"a view needs two dimensions that aren't empty, not {first.shape}")
        self._image = image = image_of(source)
        self._is_labels = image.is_labels
        (across, down, _), channel, _ = shown_dims(image)
        dims = [dim for dim in range(first.rank) if dim not in (down, across)]
        # If there are too few axes of space, others are shown.
        self._across = dims.pop() if across is None else across
        self._down = dims.pop() if down is None else down
        self._channel = channel if channel in dims else None
        self._dims = dims
        self._limits: dict[int | None, tuple[float, float] | None] = {}
        self.sliders = tuple(
            Slider(image.axes[dim].name, first.origin[dim], first.origin[dim] + first.shape[dim])
            for dim in dims
        )

    @property
    def channels(self) -> list[dict[str, str]]:
        """Names and colours of the channels; one without a name if there are none, nothing for labels."""
        if self._is_labels:
            return []
        n = 1 if self._channel is None else self._image.levels[0].view.shape[self._channel]
        known = self._image.channels
        return [
            {
                "label": (known[i].label if i < len(known) else None) or (f"channel {i}" if n > 1 else ""),
                "color": (known[i].color if i < len(known) else None)
                or (_HUES[i % len(_HUES)] if n > 1 else "ffffff"),
            }
            for i in range(min(n, _MOST_CHANNELS))
        ]

    @property
    def n_levels(self) -> int:
        """Number of levels."""
        return len(self._image.levels)

    @property
    def aspect(self) -> float:
        """Width of the plane for each height, as long as neither is too small to be seen."""
        axes, shape, scale = self._image.axes, self._image.levels[0].view.shape, self._image.scales[0]
        sizes = [float(shape[dim]) for dim in (self._across, self._down)]
        if axes[self._across].unit == axes[self._down].unit:
            sizes = [n * scale[dim] for n, dim in zip(sizes, (self._across, self._down), strict=True)]
        return min(max(sizes[0] / sizes[1], 1 / _MOST_STRETCHED), _MOST_STRETCHED)

    @property
    def most_zoom(self) -> float:
        """Zoom at which four elements of the longer side are in sight."""
        shape = self._image.levels[0].view.shape
        return max(1.0, max(shape[self._down], shape[self._across]) / 4)

    def first(self) -> Slice:
        """Return the slice through the middle, as much of it as can be drawn at once."""
        seen = Slice(tuple((one.start + one.stop) // 2 for one in self.sliders))
        while self._plane(seen)[1].n_elements > MOST_PIXELS:
            seen = seen._replace(zoom=seen.zoom * 2)
        return seen

    def draw(self, wanted: Slice) -> Drawn:
        """Return the picture of a slice, with position and extent limited to the array."""
        seen = self._limited(wanted)
        level, plane = self._plane(seen)
        view = self._image.levels[level].view
        drawn: list[_Part] = []
        damages: list[Damage] = []
        number = 0 if self._channel is None else plane.at[self._channel]
        for one in seen.channels or (Shown(number),):
            at = tuple(one.number if dim == self._channel else i for dim, i in enumerate(plane.at))
            values, found = read_plane(view, plane._replace(at=at), is_labels=self._is_labels)
            damages += found
            if self._is_labels and values.dtype.kind in "iu":
                picture = label_pixels(values, self._image.label_colors)
                break
            real = to_real(values)
            own = self._contrast(None if self._channel is None else one.number) or contrast_limits([real])
            low, high = own[0] if one.low is None else one.low, own[1] if one.high is None else one.high
            drawn.append((one, (low, high if high > low else low + 1), real))
        else:
            picture = _sum(drawn) if seen.channels else _grey(real, drawn[0][1])
        n_rows, n_columns = view.shape[self._down], view.shape[self._across]
        (top, bottom), (left, right) = plane.rows, plane.columns
        box = (top / n_rows, left / n_columns, bottom / n_rows, right / n_columns)
        png = encode_png(Image.fromarray(picture), "chunkwise")
        windows = tuple((one.number, float(low), float(high)) for one, (low, high), _ in drawn)
        problem = "; ".join(dict.fromkeys(one.message for one in damages))
        return Drawn(png, seen, box, level, problem, windows)

    def _limited(self, wanted: Slice) -> Slice:
        zoom = min(max(wanted.zoom, 1.0), self.most_zoom)
        half = 0.5 / zoom
        down, across = (min(max(at, half), 1 - half) for at in wanted.center)
        position = tuple(
            min(max(at, one.start), one.stop - 1)
            for at, one in zip(wanted.position, self.sliders, strict=True)
        )
        n = len(self.channels)
        return Slice(position, (down, across), zoom, tuple(c for c in wanted.channels if 0 <= c.number < n))

    def _plane(self, seen: Slice) -> tuple[int, Plane]:
        """Return the level that has pixels enough for a slice, and the part of it that is read."""
        tall, wide = min(1.0, 1 / self.aspect), min(1.0, self.aspect)
        n = _LONGEST * seen.zoom
        level = level_with(self._image, {self._down: n * tall, self._across: n * wide})
        shape = self._image.levels[level].view.shape
        half = 0.5 / seen.zoom
        bounds = []
        for dim, at in zip((self._down, self._across), seen.center, strict=True):
            start, stop = floor((at - half) * shape[dim] + 1e-6), ceil((at + half) * shape[dim] - 1e-6)
            bounds.append((max(0, start), min(shape[dim], max(stop, start + 1))))
        step = max(1, max(stop - start for start, stop in bounds) // _LONGEST)
        return level, Plane(self._down, self._across, self._at(level, seen), bounds[0], bounds[1], step)

    def _at(self, level: int, seen: Slice) -> tuple[int, ...]:
        """Return the indices in a level of the element that is nearest to a position in full resolution."""
        image, at = self._image, [0] * len(self._image.axes)
        for dim, position, slider in zip(self._dims, seen.position, self.sliders, strict=True):
            place = image.translations[0][dim] + (position - slider.start) * image.scales[0][dim]
            index = round((place - image.translations[level][dim]) / image.scales[level][dim])
            at[dim] = min(max(index, 0), image.levels[level].view.shape[dim] - 1)
        return tuple(at)

    def _contrast(self, channel: int | None) -> tuple[float, float] | None:
        """Return black and white levels for all slices of a channel; None if they can't be read."""
        if channel not in self._limits:
            self._limits[channel] = self._find_contrast(channel)
        return self._limits[channel]

    def _find_contrast(self, channel: int | None) -> tuple[float, float] | None:
        image = self._image
        known: Sequence[Any] = image.channels
        window = known[channel or 0].window if (channel or 0) < len(known) else None
        if window is not None and window.start is not None and window.end is not None:
            return (window.start, window.end) if window.start < window.end else None
        fixed = {} if channel is None or self._channel is None else {self._channel: channel}
        try:
            low, high = contrast_of(contrast_level(image.views, fixed), fixed)["window"]
        except ChunkwiseError:
            return None
        return (low, high) if np.isfinite(low) and np.isfinite(high) else None


_Part: TypeAlias = tuple[Shown, tuple[float, float], npt.NDArray[Any]]
"""A channel, its black and white levels, and its values."""


def _sum(channels: Sequence[_Part]) -> npt.NDArray[Any]:
    """Return the sum of channels in their colours; where one has no number, a special colour."""
    total: npt.NDArray[Any] = np.zeros((*channels[0][2].shape, 3))
    no_number = np.zeros(channels[0][2].shape, bool)
    for one, limits, values in channels:
        grey = round_levels(scale_levels(values, limits))
        total += grey[..., None] / 255 * [int(one.color[at : at + 2], 16) for at in (0, 2, 4)]
        if values.dtype.kind == "f":
            no_number |= np.isnan(values)
    total[no_number] = NAN_COLOR
    return np.asarray(np.rint(total.clip(0, 255)), "u1")


def _grey(values: npt.NDArray[Any], limits: tuple[float, float]) -> npt.NDArray[Any]:
    """Return grey levels, or colours if some elements aren't numbers."""
    levels = round_levels(scale_levels(values, limits))
    no_number = np.isnan(values) if values.dtype.kind == "f" else np.zeros(())
    return (
        np.where(no_number[..., None], NAN_COLOR, levels[..., None]).astype("u1")
        if no_number.any()
        else levels
    )
