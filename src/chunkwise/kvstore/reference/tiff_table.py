"""A TIFF or OME-TIFF file as images of OME-Zarr 0.4: pyramids, axes, sizes of pixels, and where tiles are.

Needs the package tifffile, which reads the tables of the file.  The first image is at the root, its levels
are called 0, 1 and so on; other images are groups called ``image1``, ``image2``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from chunkwise.binding import JSON, dump
from chunkwise.errors import DataCorruptionError, TooLargeError, prefix
from chunkwise.kvstore.key_range import KeyRange
from chunkwise.kvstore.protocol import Children, KvStoreDriver
from chunkwise.kvstore.reference.store import Loaded, OpenTarget
from chunkwise.kvstore.reference.table import CHUNK_NAME, Reference, SortedKeys, read_by
from chunkwise.kvstore.reference.tiff_array import Source, TiffArray, describe_level
from chunkwise.kvstore.reference.tiff_planes import (
    Planes,
    TiffFiles,
    names_other_files,
    open_tiff,
    planes_of,
    tag_of,
)
from chunkwise.kvstore.value_file import ValueFile

__all__ = ["TiffTable", "load_tiff"]

_MOST_IMAGES = 1000  # each makes documents and tables of its own
_LONGEST_XML = 1 << 26  # characters, which take many times their size in memory
_ORDER = "TCZYX"
_KINDS = {"T": "time", "C": "channel", "S": "channel"}
_UNITS = {
    "nm": "nanometer", "µm": "micrometer", "um": "micrometer", "μm": "micrometer", "mm": "millimeter",
    "cm": "centimeter", "m": "meter", "Å": "angstrom", "s": "second", "ms": "millisecond",
    "µs": "microsecond", "min": "minute", "h": "hour",
}  # fmt: skip


def load_tiff(base: KvStoreDriver, key: str, open_target: OpenTarget) -> Loaded:
    """Read the tables of a TIFF file."""
    file = ValueFile(base, key)
    where = base.describe(key)

    def read() -> TiffTable:
        with open_tiff(file) as tiff:
            return TiffTable(tiff, TiffFiles(tiff, file, key, open_target))

    return Loaded(read_by("tifffile", where, read), key, file.generation)


class TiffTable:
    """The images of a file."""

    def __init__(self, tiff: Any, files: TiffFiles) -> None:
        self._documents: dict[str, bytes] = {}
        self._arrays: dict[str, TiffArray] = {}
        self._errors: dict[str, Exception] = {}
        root = _ome_xml(tiff)
        metadata = [] if root is None else [_of_image(e) for e in root.iter() if tag_of(e) == "Image"]
        images = (root is not None and _images_in_files(root, files)) or tiff.series
        if len(images) > _MOST_IMAGES:
            raise TooLargeError(f"TIFF file of {len(images)} images, expected at most {_MOST_IMAGES}")
        sources = {one: Source(url, file.part, file.size) for one, (url, file) in files.sources.items()}
        for number, series in enumerate(images):
            front = "" if number == 0 else f"image{number}/"
            own = metadata[number] if number < len(metadata) else {}
            self._add_image(front, series, sources, own)
        if not self._arrays:
            raise DataCorruptionError("TIFF file without images")
        self._keys = SortedKeys([*self._documents])

    def _add_image(
        self, front: str, series: Any, sources: dict[int, Source], metadata: dict[str, JSON]
    ) -> None:
        axes = _ordered(str(series.axes))
        levels: list[TiffArray] = []
        for number, level in enumerate(series.levels):
            array = describe_level(level, sources, axes)
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
        if array is None or CHUNK_NAME.fullmatch(name) is None:
            return None
        cell = tuple(map(int, name.split(".")))
        if len(cell) != len(array.grid) or any(i >= n for i, n in zip(cell, array.grid, strict=True)):
            return None
        try:
            return array.find(cell)
        except DataCorruptionError as e:
            raise prefix(e, f"Error reading chunk {dump(key)}") from None

    def note(self, key: str) -> str:
        """Return the reason that tifffile decodes the chunks of an array; empty if it doesn't."""
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


def _multiscales(series: Any, levels: list[TiffArray], metadata: dict[str, JSON]) -> dict[str, JSON]:
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


def _images_in_files(root: Any, files: TiffFiles) -> list[Planes]:
    """Return all images, if planes of one are in other files; tifffile would open these by itself."""
    uuid, found = root.get("UUID"), []
    for image in root.iter():
        if tag_of(image) == "Image":
            found += [
                (pixels, str(image.get("Name") or "")) for pixels in image if tag_of(pixels) == "Pixels"
            ]
    if len(found) > _MOST_IMAGES or not any(names_other_files(pixels, files, uuid) for pixels, _ in found):
        return []
    return [planes_of(pixels, name, files, uuid) for pixels, name in found]


def _ome_xml(tiff: Any) -> Any:
    """Return the root of OME-XML, None if there is none."""
    if not tiff.is_ome:
        return None
    text = tiff.pages.first.description or ""
    # Entities of XML could make a short text a long one; OME-XML has none of its own.
    if len(text) > _LONGEST_XML or "<!DOCTYPE" in text or "<!ENTITY" in text:
        return None
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError:
        return None


def _of_image(image: Any) -> dict[str, JSON]:
    pixels = next((e for e in image if tag_of(e) == "Pixels"), None)
    out: dict[str, JSON] = {"name": image.get("Name"), "sizes": {}, "units": {}}
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
    return out


def _dump(value: JSON) -> bytes:
    return json.dumps(value).encode()
