"""Metadata of images in a TIFF file: OME-XML, ImageJ's or Aperio's description, or the resolution tags.

An image's description has pixel sizes, units and origins by axis letter, and channels with names, colours and
windows, as far as the file has them.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import numpy as np

from chunkwise.core.base.binding import JSON
from chunkwise.core.kvstore.reference.tiff_planes import tag_of

__all__ = ["ImageDescription", "describe_images", "ome_xml"]

_LONGEST_XML = 1 << 26  # characters; parsed, they take many times their size in memory
_PREFIXES = {
    "y": "yocto", "z": "zepto", "a": "atto", "f": "femto", "p": "pico", "n": "nano", "u": "micro",
    "µ": "micro", "μ": "micro", "\\u00B5": "micro", "m": "milli", "c": "centi", "d": "deci", "": "",
    "da": "deca", "h": "hecto", "k": "kilo", "M": "mega", "G": "giga", "T": "tera", "P": "peta",
    "E": "exa", "Z": "zetta", "Y": "yotta",
}  # fmt: skip
_UNITS = {
    **{
        form: name + unit
        for prefix, name in _PREFIXES.items()
        for unit, symbol in (("meter", "m"), ("second", "s"))
        for form in (prefix + symbol, name + unit)
    },
    "micron": "micrometer", "microns": "micrometer", "Å": "angstrom", "A": "angstrom",
    "angstrom": "angstrom", "inch": "inch", "in": "inch", "ft": "foot", "yd": "yard", "mi": "mile",
    "pc": "parsec", "thou": "thou", "li": "line", "ua": "astronomical_unit", "ly": "light_year",
    "pt": "point", "sec": "second", "seconds": "second", "msec": "millisecond", "min": "minute",
    "h": "hour", "d": "day",
}  # fmt: skip
_RGB = (("red", "FF0000"), ("green", "00FF00"), ("blue", "0000FF"))
_PER_UNIT = {2: 25400.0, 3: 10000.0}  # micrometers in the unit of the resolution tags


class ImageDescription:
    """The known metadata of an image."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.sizes: dict[str, float] = {}  # size of a pixel, by letter
        self.units: dict[str, str] = {}
        self.origins: dict[str, float] = {}  # centre of the first pixel
        self.channels: list[dict[str, JSON]] = []  # as in OME-Zarr's "omero"

    def add_size(self, letter: str, size: object, unit: object = None) -> None:
        """Add the size of a pixel along an axis, if it is valid."""
        try:
            number = float(size)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return
        if 0 < number < float("inf"):
            self.sizes[letter] = number
            known = _UNITS.get(str(unit).strip())
            if known is not None:
                self.units[letter] = known


def describe_images(tiff: Any, root: Any) -> list[ImageDescription]:
    """Return descriptions of the images of a file in order; there may be fewer than images."""
    if root is not None:
        page = tiff.pages.first
        return [_of_ome(element, page) for element in root.iter() if tag_of(element) == "Image"]
    if tiff.is_imagej and isinstance(tiff.imagej_metadata, dict):
        return [_of_imagej(tiff, tiff.imagej_metadata)]
    return [_of_tags(series) for series in tiff.series]


def ome_xml(tiff: Any) -> Any:
    """Return the root of OME-XML, None if there is none."""
    if not tiff.is_ome:
        return None
    text = tiff.pages.first.description or ""
    # XML entities could make a short text long; OME-XML has none of its own.
    if len(text) > _LONGEST_XML or "<!DOCTYPE" in text or "<!ENTITY" in text:
        return None
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError:
        return None


def _of_ome(image: Any, page: Any) -> ImageDescription:
    out = ImageDescription(str(image.get("Name") or ""))
    pixels = next((e for e in image if tag_of(e) == "Pixels"), None)
    if pixels is None:
        return out
    for letter in "XYZ":
        unit = pixels.get(f"PhysicalSize{letter}Unit", "µm")
        out.add_size(letter, pixels.get(f"PhysicalSize{letter}"), unit)
    out.add_size("T", pixels.get("TimeIncrement"), pixels.get("TimeIncrementUnit", "s"))
    channels = [element for element in pixels if tag_of(element) == "Channel"]
    if all(element.get("SamplesPerPixel", "1") == "1" for element in channels):
        out.channels = [_ome_channel(element) for element in channels]
    elif len(channels) == 1 and channels[0].get("SamplesPerPixel") == str(page.samplesperpixel):
        out.channels = _colors(page)
    return out


def _ome_channel(element: Any) -> dict[str, JSON]:
    channel: dict[str, JSON] = {}
    if label := element.get("Name") or element.get("Fluor"):
        channel["label"] = str(label)
    color = str(element.get("Color") or "")
    if re.fullmatch(r"-?\d{1,10}", color):  # red, green, blue and opacity as one signed number
        channel["color"] = f"{int(color) & 0xFFFFFFFF:08X}"[:6]
    return channel


def _of_imagej(tiff: Any, found: dict[str, Any]) -> ImageDescription:
    out = ImageDescription()
    unit = str(found.get("unit", ""))
    page = tiff.pages.first
    for letter, tag, origin in (("X", "XResolution", "xorigin"), ("Y", "YResolution", "yorigin")):
        resolution = _resolution(page, tag)
        # ImageJ writes pixels of size 1 without a unit for an image without a scale.
        if resolution and (unit in _UNITS or resolution != 1):
            out.add_size(letter, 1 / resolution, found.get("yunit", unit) if letter == "Y" else unit)
        _add_origin(out, letter, found.get(origin))
    if "spacing" in found:
        out.add_size("Z", abs(_number(found["spacing"])), found.get("zunit", unit))
    _add_origin(out, "Z", found.get("zorigin"))
    interval = found.get("finterval") or (1 / _number(found["fps"]) if _number(found.get("fps")) else None)
    out.add_size("T", interval, found.get("tunit", "s"))
    out.channels = _colors(page) or _imagej_channels(page, found)
    return out


def _add_origin(out: ImageDescription, letter: str, origin: object) -> None:
    if _number(origin):
        out.origins[letter] = -_number(origin) * out.sizes.get(letter, 1.0)


def _number(value: object) -> float:
    """Return a finite number, or 0."""
    number = float(value) if isinstance(value, int | float) else 0.0
    return number if abs(number) < float("inf") else 0.0


def _imagej_channels(page: Any, found: dict[str, Any]) -> list[dict[str, JSON]]:
    n = int(_number(found.get("channels", 1))) or 1
    ranges, tables = found.get("Ranges"), found.get("LUTs")
    if not (isinstance(ranges, tuple | list) and len(ranges) >= 2 * n):
        ranges = (found.get("min"), found.get("max")) * n
    tables = tables if isinstance(tables, list) and len(tables) == n else [None] * n
    channels = []
    for number in range(n if n <= _MOST_CHANNELS else 0):
        channel: dict[str, JSON] = {}
        color = _ramp_color(tables[number])
        if color is not None:
            channel["color"] = color
        start, end = ranges[2 * number : 2 * number + 2]
        if isinstance(start, int | float) and isinstance(end, int | float) and start < end:
            low, high = float(start), float(end)
            if page.dtype is not None and page.dtype.kind in "iu":
                info = np.iinfo(page.dtype)
                low, high = float(info.min), float(info.max)
            channel["window"] = {"min": low, "max": high, "start": float(start), "end": float(end)}
        channels.append(channel)
    return channels if any(channels) else []


_MOST_CHANNELS = 1000


def _ramp_color(table: Any) -> str | None:
    """Return the last colour of a table that is a ramp from black; None for other tables."""
    if table is None or np.shape(table) != (3, 256) or np.any(np.asarray(table)[:, 0]):
        return None
    values = np.asarray(table).astype(np.float64)
    last = values[:, -1:]
    if not last.any() or np.abs(values - last * np.arange(256) / 255).max() > 2:
        return None
    return "".join(f"{int(n):02X}" for n in last[:, 0])


def _of_tags(series: Any) -> ImageDescription:
    """Return the metadata of the first level from tags, or from the description of an Aperio scanner."""
    out = ImageDescription()
    page = series.keyframe
    found = re.search(r"\|\s*MPP\s*=\s*([0-9.]+)", str(page.description or "")[:10_000])
    if found is not None:
        for letter in "XY":
            out.add_size(letter, found[1], "µm")
    else:
        unit = page.tags.get("ResolutionUnit")
        per = _PER_UNIT.get(int(unit.value) if unit is not None else 2)
        for letter in "XY":
            resolution = _resolution(page, f"{letter}Resolution")
            if per is not None and resolution:
                out.add_size(letter, per / resolution, "µm")
    if "S" in str(series.axes):
        out.channels = _colors(page)
    return out


def _colors(page: Any) -> list[dict[str, JSON]]:
    """Return the samples of a page in colour as channels; none if it has no red, green and blue."""
    if int(page.photometric) not in (2, 6) or page.samplesperpixel < len(_RGB):
        return []
    channels: list[dict[str, JSON]] = [{"label": label, "color": color} for label, color in _RGB]
    if page.dtype is not None and page.dtype.kind == "u":
        top = float(np.iinfo(page.dtype).max)
        for channel in channels:
            channel["window"] = {"min": 0.0, "max": top, "start": 0.0, "end": top}
    return channels + [{"label": "alpha", "active": False}] * (page.samplesperpixel - len(_RGB))


def _resolution(page: Any, tag: str) -> float:
    """Return pixels per unit; 0 if the tag is missing or meaningless."""
    found = page.tags.get(tag)
    value = None if found is None else found.value
    if not (isinstance(value, tuple) and len(value) == 2 and all(isinstance(n, int) for n in value)):
        return 0.0
    return value[0] / value[1] if value[1] > 0 and value[0] > 0 else 0.0
