"""Forms in which an image can be shown: slices, a colour picture, a plot, a table of values."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from chunkwise.errors import ChunkwiseError, NotFoundError, UnsupportedError
from chunkwise.images.conventions.ome_metadata import HUES, default_colors
from chunkwise.images.conventions.ome_plates import Plate
from chunkwise.images.multiscale.metadata import PIXEL_CHANNELS
from chunkwise.images.multiscale.sampling import contrast_level, contrast_of, to_real
from chunkwise.images.server.image import ServedImage, image_at, multiscale_at, shown_dims
from chunkwise.images.server.sources import Sources, find_nodes

__all__ = [
    "HUES",
    "PLANES",
    "PLOT",
    "RGB",
    "TABLE",
    "Form",
    "ShownChannel",
    "channels_of",
    "first_shown",
    "forms_of",
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
