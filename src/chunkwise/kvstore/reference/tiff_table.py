"""A TIFF or OME-TIFF file as images of OME-Zarr 0.4: pyramids, axes, sizes of pixels, and where tiles are.

Needs the package tifffile, which reads the tables of the file.  The first image is at the root, its levels
are called 0, 1 and so on; other images are groups called ``image1``, ``image2``.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from chunkwise.binding import JSON, dump
from chunkwise.errors import DataCorruptionError, TooLargeError, UnsupportedError, prefix
from chunkwise.extras import load as load_package
from chunkwise.kvstore.key_range import KeyRange
from chunkwise.kvstore.protocol import Children, KvStoreDriver
from chunkwise.kvstore.reference.store import Loaded, OpenTarget
from chunkwise.kvstore.reference.table import Reference, SortedKeys, read_by
from chunkwise.kvstore.reference.tiff_array import TiffArray, describe_level
from chunkwise.kvstore.value_file import ValueFile

__all__ = ["TiffTable", "load_tiff"]

_CHUNK = re.compile(r"\d{1,18}(\.\d{1,18})*")
# A small file can name itself as its next page again and again, and XML takes many times its size in memory.
_MOST_PAGES = 1_000_000
_MOST_IMAGES = 1000
_LONGEST_XML = 1 << 26  # characters
_MOST_NAMES = 4  # of files, in an error
_ORDER = "TCZYX"
_KINDS = {"T": "time", "C": "channel", "S": "channel"}
_UNITS = {
    "nm": "nanometer", "µm": "micrometer", "um": "micrometer", "μm": "micrometer", "mm": "millimeter",
    "cm": "centimeter", "m": "meter", "Å": "angstrom", "s": "second", "ms": "millisecond",
    "µs": "microsecond", "min": "minute", "h": "hour",
}  # fmt: skip


def load_tiff(base: KvStoreDriver, key: str, open_target: OpenTarget) -> Loaded:
    """Read the tables of a TIFF file."""
    tifffile = load_package("tifffile", "reading TIFF files")
    file = ValueFile(base, key)
    where = base.describe(key)

    def read() -> TiffTable:
        with tifffile.TiffFile(io.BufferedReader(file), name="image.tif", _multifile=False) as tiff:
            return TiffTable(tiff, file)

    return Loaded(read_by("tifffile", where, read), key, file.generation)


class TiffTable:
    """The images of a file."""

    def __init__(self, tiff: Any, file: ValueFile) -> None:
        if len(tiff.pages) > _MOST_PAGES:
            raise TooLargeError(f"TIFF file of {len(tiff.pages)} pages, expected at most {_MOST_PAGES}")
        if len(tiff.series) > _MOST_IMAGES:
            raise TooLargeError(f"TIFF file of {len(tiff.series)} images, expected at most {_MOST_IMAGES}")
        self._documents: dict[str, bytes] = {}
        self._arrays: dict[str, TiffArray] = {}
        self._errors: dict[str, Exception] = {}
        metadata = _ome_metadata(tiff)
        for number, series in enumerate(tiff.series):
            front = "" if number == 0 else f"image{number}/"
            own = metadata[number] if number < len(metadata) else {}
            self._add_image(front, series, file, own)
        if not self._arrays:
            raise DataCorruptionError("TIFF file without images")
        self._keys = SortedKeys([*self._documents])

    def _add_image(self, front: str, series: Any, file: ValueFile, metadata: dict[str, Any]) -> None:
        axes = _ordered(str(series.axes))
        levels: list[TiffArray] = []
        files = metadata.get("files", [])
        if len(files) > 1:
            names = ", ".join(map(dump, files[:_MOST_NAMES])) + (", …" if len(files) > _MOST_NAMES else "")
            raise UnsupportedError(
                f"OME-TIFF image whose planes are in several files, {len(files)}: {names}; "
                "expected all of them in this one"
            )
        for number, level in enumerate(series.levels):
            array = describe_level(level, file.part, file.size, axes)
            name = f"{front}{number}"
            self._arrays[name] = array
            levels.append(array)
            self._documents[f"{name}/.zarray"] = _dump(array.document)
            self._documents[f"{name}/.zattrs"] = _dump({"_ARRAY_DIMENSIONS": [a.lower() for a in array.axes]})
        self._documents[f"{front}.zgroup"] = _dump({"zarr_format": 2})
        self._documents[f"{front}.zattrs"] = _dump(_multiscales(series, levels, metadata))

    def find(self, key: str) -> Reference | None:
        """Return a document, or where a tile or strip is."""
        if key in self._documents:
            return self._documents[key]
        path, _, name = key.rpartition("/")
        array = self._arrays.get(path)
        if array is None or _CHUNK.fullmatch(name) is None:
            return None
        cell = tuple(map(int, name.split(".")))
        if len(cell) != len(array.grid) or any(i >= n for i, n in zip(cell, array.grid, strict=True)):
            return None
        try:
            return array.find(cell)
        except DataCorruptionError as e:
            raise prefix(e, f"Error reading chunk {dump(key)}") from None

    def note(self, key: str) -> str:
        """Return why tifffile decodes the chunks of an array; empty if it doesn't."""
        array = self._arrays.get(key.rstrip("/"))
        return "" if array is None or not array.by_tifffile else f"decoded by tifffile: {array.by_tifffile}"

    def list(self, start: str, stop: str) -> Iterator[str]:
        """Yield the keys in ``[start, stop)``."""
        keys = KeyRange.between(start, stop)
        yield from self._keys.between(keys)
        for path in self._arrays:
            if not KeyRange.of_prefix(path + "/").intersect(keys).empty:
                yield from (key for key in self._chunk_keys(path) if key in keys)

    def list_children(self, prefix: str) -> Children:
        """List one level below `prefix`."""
        keys, prefixes = self._keys.children(prefix)
        if prefix.endswith("/") and prefix[:-1] in self._arrays:
            keys = sorted([*keys, *self._chunk_keys(prefix[:-1])])
        return Children(keys, prefixes)

    def _chunk_keys(self, path: str) -> Iterator[str]:
        array = self._arrays[path]
        cell = [0] * len(array.grid)
        while all(array.grid):
            if array.find(tuple(cell)) is not None:
                yield f"{path}/{'.'.join(map(str, cell))}"
            for dim in range(len(cell) - 1, -1, -1):
                cell[dim] += 1
                if cell[dim] < array.grid[dim]:
                    break
                cell[dim] = 0
            else:
                return

    def some_url(self) -> str | None:
        """Return the URL of the file itself."""
        return ""


def _ordered(axes: str) -> str:
    """Return the axes in the order of OME-Zarr, where only those before the ones of a page are moved."""
    known = [letter for letter in _ORDER if letter in axes]
    return "".join(known) if sorted(known) == sorted(axes) else axes


def _multiscales(series: Any, levels: list[TiffArray], metadata: dict[str, Any]) -> dict[str, JSON]:
    """Return the attributes of an image, empty if its axes are not those of an image."""
    first = levels[0]
    letters, shape = first.axes, first.document["shape"]
    found = set(letters)
    if len(found) != len(letters) or not {"Y", "X"} <= found <= set(_ORDER + "S") or {"C", "S"} <= found:
        return {}
    axes: list[JSON] = []
    for letter in letters:
        axis = {"name": "c" if letter == "S" else letter.lower(), "type": _KINDS.get(letter, "space")}
        unit = metadata.get("units", {}).get(letter)
        axes.append({**axis, "unit": unit} if unit else axis)
    datasets = []
    for number, level in enumerate(levels):
        if level.axes != letters:
            return {}
        sizes = metadata.get("sizes", {})
        factors = [a / b if b else 1.0 for a, b in zip(shape, level.document["shape"], strict=True)]
        scale = [
            sizes.get(letter, 1.0) * (factor if letter in "ZYX" else 1.0)
            for letter, factor in zip(letters, factors, strict=True)
        ]
        steps = [{"type": "scale", "scale": scale}]
        datasets.append({"path": str(number), "coordinateTransformations": steps})
    name = metadata.get("name") or str(series.name or "")
    return {"multiscales": [{"version": "0.4", "name": name, "axes": axes, "datasets": datasets}]}


def _ome_metadata(tiff: Any) -> list[dict[str, Any]]:
    """Return name, sizes and units of pixels of each image in OME-XML; empty if there is none."""
    if not tiff.is_ome:
        return []
    text = tiff.pages.first.description or ""
    # Entities of XML could make a short text a long one; OME-XML has none of its own.
    if len(text) > _LONGEST_XML or "<!DOCTYPE" in text or "<!ENTITY" in text:
        return []
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError:
        return []
    images = [e for e in root.iter() if e.tag.rpartition("}")[2] == "Image"]
    return [_of_image(image) for image in images]


def _of_image(image: Any) -> dict[str, Any]:
    pixels = next((e for e in image if e.tag.rpartition("}")[2] == "Pixels"), None)
    out: dict[str, Any] = {"name": image.get("Name"), "sizes": {}, "units": {}}
    if pixels is None:
        return out
    for letter, member, unit, default in (
        ("X", "PhysicalSizeX", "PhysicalSizeXUnit", "µm"),
        ("Y", "PhysicalSizeY", "PhysicalSizeYUnit", "µm"),
        ("Z", "PhysicalSizeZ", "PhysicalSizeZUnit", "µm"),
        ("T", "TimeIncrement", "TimeIncrementUnit", "s"),
    ):
        try:
            size = float(pixels.get(member, "nan"))
        except ValueError:
            continue
        if 0 < size < float("inf"):
            out["sizes"][letter] = size
            known = _UNITS.get(pixels.get(unit, default))
            if known is not None:
                out["units"][letter] = known
    parts = [e for e in pixels.iter() if e.tag.rpartition("}")[2] == "UUID"]
    out["files"] = list({e.text: e.get("FileName") or e.text for e in parts}.values())
    return out


def _dump(value: Any) -> bytes:
    return json.dumps(value).encode()
