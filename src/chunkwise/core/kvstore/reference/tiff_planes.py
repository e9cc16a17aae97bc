"""Images of OME-TIFF with planes in several files, by the table of planes in OME-XML.

Specification
-------------
https://docs.openmicroscopy.org/ome-model/latest/ome-tiff/specification.html

File names are untrusted: only files in or below the directory of the first one are read.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from itertools import islice
from math import prod
from typing import Any, NamedTuple

from chunkwise.core.base.binding import dump
from chunkwise.core.base.extras import load as load_package
from chunkwise.core.kvstore.reference.store import OpenTarget
from chunkwise.core.kvstore.reference.table import read_by
from chunkwise.core.kvstore.value_file import ValueFile
from chunkwise.errors import DataCorruptionError, PermissionDeniedError, TooLargeError, UnsupportedError

__all__ = ["Planes", "TiffFiles", "names_other_files", "open_tiff", "planes_of", "tag_of"]

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
    sizes = {letter: _number(pixels, f"Size{letter}", 1, least=1) for letter in axes}
    samples = {_number(one, "SamplesPerPixel", 1, least=1) for one in _parts(pixels, "Channel")} or {1}
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


def _number(element: Any, name: str, default: int, *, least: int = 0) -> int:
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
            i = _number(data, f"First{letter}", 0)
            if i >= sizes[letter]:
                raise DataCorruptionError(f"OME-XML has First{letter}={i}, but Size{letter}={sizes[letter]}")
            first = first * sizes[letter] + i
        file = files.named(next(iter(_parts(data, "UUID")), None), root_uuid)
        ifd = _number(data, "IFD", 0)
        n = _number(data, "PlaneCount", _number(data, "NumPlanes", 1 if data.get("IFD") else len(file.pages)))
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
