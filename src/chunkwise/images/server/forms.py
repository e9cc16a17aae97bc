"""Forms of an image: slices, a picture, a plot, a table; and the first view, drawn without a browser."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from chunkwise.errors import ChunkwiseError, NotFoundError, UnsupportedError
from chunkwise.images.conventions.ome_metadata import HUES, default_colors
from chunkwise.images.conventions.ome_plates import Plate
from chunkwise.images.multiscale.metadata import PIXEL_CHANNELS
from chunkwise.images.multiscale.sampling import (
    NAN_COLOR,
    contrast_level,
    contrast_of,
    read_extremes,
    to_real,
)
from chunkwise.images.server.image import ServedImage, image_at, level_with, multiscale_at, shown_dims
from chunkwise.images.server.sources import Sources, find_nodes
from chunkwise.images.server.tiles import Damage, Plane, find_series, read_plane

__all__ = [
    "TABLE",
    "ShownChannel",
    "channels_of",
    "draw_first_view",
    "first_shown",
    "forms_of",
    "label_color",
    "label_pixels",
]

PLANES, RGB, PLOT, TABLE = "planes", "rgb", "plot", "table"

_MOST_CHANNELS = 4
_MOST_LINES = 16
_THIN = 8  # how many times longer the rows of numbers are than they are wide, at least
_SERIES = {"conversion", "resolution", "unit"}  # attributes that NWB gives the data of a time series


class Form(NamedTuple):
    """The roles of dimensions in a form; None for a missing role."""

    form: str
    dims: tuple[int | None, int | None, int | None]  # across, down, through
    channel: int | None
    others: tuple[int, ...]  # which have sliders


def forms_of(image: ServedImage) -> list[Form]:
    """Return the forms in which an image can be shown, first the one that is shown at first."""
    view = image.levels[0].view
    shape = view.shape
    (x, y, z), channel, others = shown_dims(image)
    planes = Form(PLANES, (x, y, z), channel, tuple(others))
    long = [dim for dim, n in enumerate(shape) if n > 1] or list(range(view.rank))
    down = None if not long else long[max(0, len(long) - 2)]  # a list has rows
    across = long[-1] if len(long) > 1 else None
    table = Form(TABLE, (across, down, None), None, tuple(dim for dim in long if dim not in (across, down)))
    if not shape or 0 in shape or not _is_number(view.dtype.memory_dtype):
        return [table]
    if len(long) == 1:
        return [Form(PLOT, (long[0], None, None), None, ()), table]
    if len(long) > 2:
        if channel is not None and len(shape) == 3 and view.dtype.name == "uint8" and _is_bare(image):
            return [Form(RGB, (x, y, None), channel, ()), Form(PLANES, (2, 1, 0), None, ()), table]
        return [planes, table]
    is_series = image.levels[0].attributes.keys() >= _SERIES
    times = long[:1] if is_series else [dim for dim in long if image.axes[dim].type == "time"]
    time, line = sorted(long, key=lambda dim: (dim not in times, -shape[dim]))
    plot = Form(PLOT, (time, None, None), line, ())
    if is_series or (times and image.axes[line].type != "space"):
        return [plot, table, planes]
    if _is_bare(image) and shape[line] <= _MOST_LINES and shape[time] >= _THIN * shape[line]:
        return [table, plot, planes]
    return [planes, table]


def _is_number(dtype: np.dtype[np.generic]) -> bool:
    try:
        to_real(np.zeros(1, dtype))
    except UnsupportedError:
        return False
    return dtype.kind != "O"


def _is_bare(image: ServedImage) -> bool:
    """Return True if the kinds of the axes of an array are unknown."""
    view = image.levels[0].view
    places = image.scales[0], image.translations[0]
    return (
        len(image.levels) == 1
        and not image.is_labels
        and tuple(image.channels) == PIXEL_CHANNELS[: len(image.channels)]  # as its bytes are taken, or none
        and not any((*view.domain.labels, *(axis.unit for axis in image.axes)))
        and places == ((1.0,) * view.rank, (0.0,) * view.rank)
    )


class ShownChannel(NamedTuple):
    """A channel that is shown at first."""

    number: int
    label: str
    color: str  # six hexadecimal digits
    window: tuple[float, float] | None  # black and white, if they are known


def channels_of(image: ServedImage, form: Form, *, windows: bool) -> list[ShownChannel]:
    """Return the channels that are shown at first; with `windows` values are read for those without one.

    A window stays unknown if no value can be read.
    """
    if image.is_labels:
        return [ShownChannel(0, "", "ffffff", (0, 1))]
    is_rgb = form.form == RGB
    n = 1 if form.channel is None else image.levels[0].view.shape[form.channel]
    is_coloured = is_rgb or (n == 3 and image.levels[0].view.dtype.name == "uint8")
    names = ("red", "green", "blue", "alpha") if is_coloured else ()
    hues = [color.lower() for color in default_colors(n, is_rgb=is_coloured)]
    out = []
    for number in range(n):
        known = image.channels[number] if number < len(image.channels) else None
        if not (known.active if known is not None else number < (3 if is_rgb else _MOST_CHANNELS)):
            continue
        window: tuple[float, float] | None = (0, 255) if is_rgb else None
        if known is not None and known.window is not None:
            start, end = known.window.start, known.window.end
            window = None if start is None or end is None else (start, end)
        if window is None and windows:
            fixed = {} if form.channel is None else {form.channel: number}
            with suppress(ChunkwiseError):
                low, high = contrast_of(contrast_level(image.views, fixed), fixed)["window"]
                window = low, high
        label = (known.label if known is not None else None) or (
            names[number] if number < len(names) else f"channel {number}" if n > 1 else ""
        )
        color = (known.color if known is not None else None) or hues[number % len(hues)]
        out.append(ShownChannel(number, label, color.removeprefix("#").lower(), window))
    return out


def first_shown(sources: Sources, *, plates: bool = True) -> tuple[str, ServedImage | None]:
    """Return the path that is shown first, and its image; None for a plate.

    It is the first image, plot or plate, or else the first array of other things.

    Raises
    ------
    NotFoundError
        If there is none.
    """
    failed: ChunkwiseError | None = None
    other: tuple[str, ServedImage | None] | None = None
    for path, found in find_nodes(sources):
        image = None
        try:
            image = image_at(path, found)
        except ChunkwiseError as e:
            failed = failed or e
        if image is not None and forms_of(image)[0].form != TABLE:
            return "/".join(path), image
        if image is not None:
            other = other or ("/".join(path), image)
        if plates and isinstance(multiscale_at(found), Plate):
            return "/".join(path), None
    if other is not None:
        return other
    if failed is not None:
        raise failed
    for name in sources:
        sources.find((name,))  # which raises its error
    raise NotFoundError(f"there is no image in {', '.join(sources)}")


_PANEL = 420  # pixels of the longest side
_GAP, _TOP = 10, 22
_BACK, _TEXT = (20, 22, 26), (227, 230, 234)
_AXES = ((235, 95, 85), (90, 200, 110), (90, 150, 250))  # of what belongs to x, y, z
_DAMAGED = ((229, 83, 75), (90, 21, 18))


def draw_first_view(image: ServedImage) -> tuple[Image.Image, list[str]]:
    """Return the slices through the middle, and the chunks that can't be read, which are hatched.

    Channels are summed in their colours; each label has its own.
    """
    shown = [one for one in forms_of(image) if one.form != TABLE]
    if not shown:
        raise NotFoundError(f"there is no image in {image.name}: values of {image.levels[0].view.dtype.name}")
    form, (x, y, z), channel, _ = shown[0]
    if form == PLOT:
        return _plot(image, x, channel)
    first = image.levels[0].view
    panels = [(x, y, z)]
    if z is not None and first.shape[z] > 1:
        panels += [(z, y, x), (x, z, y)]
    scale = image.scales[0]
    drawn = [dim for dim in (x, y, z) if dim is not None]
    one_unit = len({image.axes[dim].unit for dim in drawn}) == 1
    size = {dim: first.shape[dim] * (scale[dim] if one_unit else 1.0) for dim in drawn}
    per = _PANEL / max(size.values(), default=1.0)

    def pixels(dim: int | None) -> int:
        return 24 if dim is None else max(24, round(size[dim] * per))

    channels = channels_of(image, shown[0], windows=True)
    width = _GAP + pixels(x) + (_GAP + pixels(z) if len(panels) > 1 else 0) + _GAP
    height = _TOP + pixels(y) + (_TOP + pixels(z) if len(panels) > 1 else 0) + _GAP
    picture = Image.new("RGB", (max(width, 240), height), _BACK)
    draw = ImageDraw.Draw(picture)
    font = ImageFont.load_default(13)
    places = [(_GAP, _TOP), (2 * _GAP + pixels(x), _TOP), (_GAP, 2 * _TOP + pixels(y))]
    problems: list[str] = []
    color_of = {dim: color for dim, color in zip((x, y, z), _AXES, strict=True) if dim is not None}
    for (across, down, through), (left, top) in zip(panels, places, strict=False):
        w, h = pixels(across), pixels(down)
        values, damages = _panel(image, across, down, w, h, channel, channels)
        problems += [one.message for one in damages]
        smooth = Image.Resampling.NEAREST if image.is_labels else Image.Resampling.BILINEAR
        picture.paste(Image.fromarray(values).resize((w, h), smooth), (left, top))
        if across is not None:
            draw.line((left + w // 2, top, left + w // 2, top + h - 1), color_of[across])
        if down is not None:
            draw.line((left, top + h // 2, left + w - 1, top + h // 2), color_of[down])
        names = "".join(image.axes[dim].name for dim in (across, down) if dim is not None)
        at = "" if through is None else f" at {image.axes[through].name} {first.shape[through] // 2}"
        draw.text((left, top - 18), f"{names}{at}", _TEXT, font)
    return picture, list(dict.fromkeys(problems))


def _plot(image: ServedImage, along: int | None, lines: int | None) -> tuple[Image.Image, list[str]]:
    """Return the lines of a series, from the least to the largest value for each pixel."""
    view = image.levels[0].view
    assert along is not None
    n = min(view.shape[along], 2 * _PANEL)
    part = find_series(view, along, lines, [0] * view.rank, (0, view.shape[along]), n)
    values, _, damaged = read_extremes(part, n)
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    picture = Image.new("RGB", (2 * _PANEL + 2 * _GAP, _PANEL // 2 + _TOP + _GAP), _BACK)
    draw = ImageDraw.Draw(picture)
    draw.text((_GAP, 4), f"{image.axes[along].name}: {low:g} to {high:g}", _TEXT, ImageFont.load_default(13))
    places = _TOP + (_PANEL // 2) * (1 - (values - low) / ((high - low) or 1))
    for line in range(values.shape[2]):
        color = _TEXT if values.shape[2] == 1 else f"#{HUES[line % len(HUES)]}"
        points = [
            (_GAP + i * 2 * _PANEL / n, y)
            for i, pair in enumerate(places[:, :, line].T.tolist())
            for y in pair
            if np.isfinite(y)
        ]
        draw.line(points, color)
    return picture, [one.message for one in damaged]


def _panel(
    image: ServedImage,
    across: int | None,
    down: int | None,
    width: int,
    height: int,
    channel: int | None,
    channels: list[ShownChannel],
) -> tuple[npt.NDArray[np.uint8], list[Damage]]:
    sides = {dim: n for dim, n in ((across, width), (down, height)) if dim is not None}
    level = level_with(image, sides)
    view = image.levels[level].view
    at = [n // 2 for n in view.shape]
    rows = (0, 1 if down is None else view.shape[down])
    columns = (0, 1 if across is None else view.shape[across])
    step = max(1, rows[1] // (2 * _PANEL), columns[1] // (2 * _PANEL))
    total: Any = np.zeros((1, 1, 3))
    no_number: Any = False
    damages: list[Damage] = []
    for number, _, color, window in channels:
        low, high = window or (0, 1)
        if channel is not None:
            at[channel] = number
        plane = Plane(down, across, tuple(at), rows, columns, step)
        values, found = read_plane(view, plane, is_labels=image.is_labels)
        damages += found
        if image.is_labels:
            return _hatched(label_pixels(values, image.label_colors), damages, step), damages
        numbers = values.astype(np.float64)
        no_number = no_number | np.isnan(numbers)
        levels = np.clip((np.nan_to_num(numbers, nan=0) - low) / ((high - low) or 1), 0, 1)
        rgb = [int(color[i : i + 2], 16) for i in (0, 2, 4)]
        total = total + levels[..., None] * rgb
    pixels = np.where(np.asarray(no_number)[..., None], NAN_COLOR, np.clip(np.rint(total), 0, 255))
    return _hatched(np.asarray(pixels, np.uint8), damages, step), damages


def _hatched(pixels: npt.NDArray[np.uint8], damages: list[Damage], step: int) -> npt.NDArray[np.uint8]:
    """Return pixels with stripes where a chunk can't be read."""
    stripes = np.add.outer(np.arange(pixels.shape[0]), np.arange(pixels.shape[1])) % 4 < 2
    for one in damages:
        (top, bottom), (left, right) = ((lo // step, -(-hi // step)) for lo, hi in (one.rows, one.columns))
        part = slice(top, bottom), slice(left, right)
        pixels[part] = np.where(stripes[part][..., None], *_DAMAGED)
    return pixels


def label_pixels(
    values: npt.NDArray[Any], colors: Mapping[int, tuple[int, int, int, int]]
) -> npt.NDArray[np.uint8]:
    """Return the colours of labels: those that they have in the metadata, or else their own; 0 is black."""
    labels, places = np.unique(values, return_inverse=True)
    table = [colors[n][:3] if n in colors else label_color(n) if n else (0, 0, 0) for n in labels.tolist()]
    return np.array(table, np.uint8)[places.reshape(values.shape)]


def label_color(label: float) -> tuple[int, int, int]:
    """Return the colour of a label, which is that of the page."""
    number = 2166136261
    for char in str(label):
        number = (number ^ ord(char)) * 16777619 & 0xFFFFFFFF
    number ^= number >> 15
    number = number * 0x2C1B3C6D & 0xFFFFFFFF
    number ^= number >> 12
    hue, saturation = number % 360, 0.55 + (number >> 9 & 63) / 160
    light = 0.45 + (number >> 16 & 63) / 256
    a = saturation * min(light, 1 - light)
    steps = [(n + hue / 30) % 12 for n in (0, 8, 4)]
    red, green, blue = (int(255 * (light - a * max(-1, min(k - 3, 9 - k, 1))) + 0.5) for k in steps)
    return red, green, blue
