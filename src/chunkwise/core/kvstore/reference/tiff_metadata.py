"""Metadata of images in TIFF files: OME-XML with its planes in several files, descriptions, resolution tags.

Specification
-------------
https://docs.openmicroscopy.org/ome-model/latest/ome-tiff/specification.html

File names are untrusted: only files in or below the directory of the first one are read.

An image's description has pixel sizes, units and origins by axis letter, and channels with names, colours and
windows, as far as the file has them.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from itertools import islice
from math import prod
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from chunkwise.core.base.binding import JSON, dump
from chunkwise.core.base.extras import load as load_package
from chunkwise.core.kvstore.reference.store import OpenTarget
from chunkwise.core.kvstore.reference.table import read_by
from chunkwise.core.kvstore.value import ValueFile
from chunkwise.errors import DataCorruptionError, PermissionDeniedError, TooLargeError, UnsupportedError

__all__ = [
    "ImageDescription",
    "Planes",
    "TiffFiles",
    "describe_images",
    "names_other_files",
    "ome_xml",
    "open_tiff",
    "planes_of",
    "tag_of",
]

_MOST_FILES = 4096  # each is read, by at least two requests
# Limits for a file, and for an image.  A small file can name the same page as the next one endlessly; a page
# takes 0.3 ms of processor time and 0.6 KB, so a million take five minutes.
_MOST_PAGES = 1_000_000
_DRIVE = re.compile(r"[A-Za-z]:")


class Planes(NamedTuple):
    """A level of an image in tifffile's form: pages in the order of the dimensions before those of a page."""

    keyframe: Any
    pages: list[Any]  # None for missing planes
    shape: tuple[int, ...]
    axes: str
    name: str
    levels: list[Planes]  # levels of the image, including this one
    dataoffset: None = None  # pages of several files are never contiguous


class TiffFiles:
    """A file and the files that it names, with their pages."""

    def __init__(self, tiff: Any, file: ValueFile, name: str, open_target: OpenTarget) -> None:
        self._first = tiff
        self._name = name.rpartition("/")[2].lower()
        self._open_target = open_target
        self._others: dict[str, Any] = {}
        self.sources: dict[int, tuple[str, ValueFile]] = {id(tiff): ("", file)}
        """URL and content, by the identity of tifffile's file."""

    def named(self, uuid: Any, root_uuid: str | None) -> Any:
        """Return the file for an element UUID."""
        if uuid is None or self.is_first(uuid, root_uuid):
            return self._first
        name = str(uuid.get("FileName") or "")
        found = self._others.get(name)
        if found is None:
            if len(self._others) >= _MOST_FILES:
                raise TooLargeError(f"OME-TIFF image in more than {_MOST_FILES} files")
            found = self._others[name] = self._open(name)
        return found

    def is_first(self, uuid: Any, root_uuid: str | None) -> bool:
        """Return True for the name of the opened file, which may have been renamed."""
        name = (uuid.get("FileName") or "").lower()
        return name == self._name or (not name and not uuid.text) or (uuid.text or "") == root_uuid

    def _open(self, name: str) -> Any:
        parts = name.split("/")
        if "\\" in name or "\0" in name or _DRIVE.match(name) or not {"", ".", ".."}.isdisjoint(parts):
            raise PermissionDeniedError(
                f"the file {dump(name[:200])} that an OME-TIFF image names is refused: expected a relative "
                'path below its directory, without ".."'
            )
        url = f"./{name}"
        store, key = self._open_target(url)
        file = ValueFile(store, key)
        tiff = read_by("tifffile", store.describe(key), lambda: open_tiff(file))
        file.forget()
        self.sources[id(tiff)] = url, file
        return tiff


def open_tiff(file: ValueFile) -> Any:
    """Return a file of tifffile; raise TooLargeError for too many pages."""
    tifffile = load_package("tifffile", "reading TIFF files")
    tiff = tifffile.TiffFile(io.BufferedReader(file), name="image.tif", _multifile=False)
    if len(tiff.pages) > _MOST_PAGES:
        raise TooLargeError(f"TIFF file of {len(tiff.pages)} pages, expected at most {_MOST_PAGES}")
    return tiff


def tag_of(element: Any) -> str:
    """Return the name of an XML element without its namespace."""
    return str(element.tag).rpartition("}")[2]


def _parts(element: Any, tag: str) -> list[Any]:
    return [one for one in element if tag_of(one) == tag]


def names_other_files(pixels: Any, files: TiffFiles, root_uuid: str | None) -> bool:
    """Return True if planes of an image are in other files."""
    uuids = (uuid for data in _parts(pixels, "TiffData") for uuid in _parts(data, "UUID")[:1])
    return any(not files.is_first(uuid, root_uuid) for uuid in uuids)


def planes_of(pixels: Any, name: str, files: TiffFiles, root_uuid: str | None) -> Planes:
    """Return an image from its element Pixels."""
    axes = "".join(reversed(str(pixels.get("DimensionOrder"))))
    if sorted(axes) != sorted("XYZCT") or axes[-2:] != "YX":
        raise DataCorruptionError(f"OME-XML has the dimension order {dump(axes[::-1][:20])}")
    sizes = {letter: _plane_number(pixels, f"Size{letter}", 1, least=1) for letter in axes}
    samples = {_plane_number(one, "SamplesPerPixel", 1, least=1) for one in _parts(pixels, "Channel")} or {1}
    if len(samples) > 1:
        raise UnsupportedError(f"OME-TIFF image with channels of {sorted(samples)} samples per pixel")
    (n_samples,) = samples
    sizes["C"] = max(1, sizes["C"] // n_samples)
    lead = axes[:-2]
    n_planes = prod(sizes[letter] for letter in lead)
    if n_planes > _MOST_PAGES:
        raise TooLargeError(f"OME-TIFF image of {n_planes} planes, expected at most {_MOST_PAGES}")
    pages = _listed(pixels, lead, sizes, files, root_uuid)
    keyframe = next((page for page in pages if page is not None), None)
    if keyframe is None:
        raise DataCorruptionError("OME-TIFF image without planes")
    shape = [sizes[letter] for letter in axes]
    if n_samples > 1:
        at = len(axes) if keyframe.planarconfig == 1 else len(axes) - 2
        shape.insert(at, n_samples)
        axes = axes[:at] + "S" + axes[at:]
    levels = [
        _level(pages, axes, shape, name),
        *(
            _level([page if page is None else page.pages[n] for page in pages], axes, shape, name)
            for n in range(len(keyframe.subifds or ()))
        ),
    ]
    return levels[0]._replace(levels=levels)


def _plane_number(element: Any, name: str, default: int, *, least: int = 0) -> int:
    text = element.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < least:
        raise DataCorruptionError(f"OME-XML has {name}={dump(text[:40])}, expected a number from {least} on")
    return int(text)


def _listed(
    pixels: Any, lead: str, sizes: dict[str, int], files: TiffFiles, root_uuid: str | None
) -> list[Any]:
    """Return the page of each plane."""
    n_planes = prod(sizes[letter] for letter in lead)
    pages: list[Any] = [None] * n_planes
    for data in _parts(pixels, "TiffData"):
        first = 0
        for letter in lead:
            i = _plane_number(data, f"First{letter}", 0)
            if i >= sizes[letter]:
                raise DataCorruptionError(f"OME-XML has First{letter}={i}, but Size{letter}={sizes[letter]}")
            first = first * sizes[letter] + i
        file = files.named(next(iter(_parts(data, "UUID")), None), root_uuid)
        ifd = _plane_number(data, "IFD", 0)
        n = _plane_number(
            data, "PlaneCount", _plane_number(data, "NumPlanes", 1 if data.get("IFD") else len(file.pages))
        )
        if first + n > n_planes or ifd + n > len(file.pages):
            raise DataCorruptionError(
                f"OME-XML has planes {first} to {first + n} of {n_planes} in pages {ifd} to {ifd + n} of "
                f"{len(file.pages)} in a file"
            )
        pages[first : first + n] = islice(_whole_pages(file), ifd, ifd + n)
    return pages


def _whole_pages(tiff: Any) -> Any:
    """Return pages with all their tags, since only pages of one file must be alike."""
    pages = tiff.pages
    pages.cache, pages.useframes = True, False
    return pages


def _level(pages: list[Any], axes: str, shape: list[int], name: str) -> Planes:
    keyframe = next(page for page in pages if page is not None)
    known: Callable[[Any], Any] = lambda page: (page.hash, page.jpegtables, page.parent.byteorder)  # noqa: E731
    expected = known(keyframe)
    for page in pages:
        if page is not None and known(page) != expected:
            raise UnsupportedError(
                "OME-TIFF image in several files with pages of different shapes, data types or compressions"
            )
    extents = dict(zip(axes, shape, strict=True))
    extents.update(Y=keyframe.imagelength, X=keyframe.imagewidth)
    kept = [letter for letter in axes if extents[letter] != 1 or letter in "YX"]
    return Planes(keyframe, pages, tuple(extents[letter] for letter in kept), "".join(kept), name, [])


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
