"""A TIFF or OME-TIFF file as images of OME-Zarr 0.4: pyramids, axes, pixel sizes, and locations of tiles.

Needs the package tifffile, which reads the tables of the file.  The first image is at the root, with levels
called 0, 1 and so on; other images are groups called ``image1``, ``image2``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from chunkwise.core.base.binding import JSON, dump
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.kvstore.reference.store import Loaded, OpenTarget
from chunkwise.core.kvstore.reference.table import ArrayTable, Reference, SortedKeys, cell_of, read_by
from chunkwise.core.kvstore.reference.tiff_array import Source, TiffArray, describe_level
from chunkwise.core.kvstore.reference.tiff_metadata import (
    ImageDescription,
    Planes,
    TiffFiles,
    describe_images,
    names_other_files,
    ome_xml,
    open_tiff,
    planes_of,
    tag_of,
)
from chunkwise.core.kvstore.value import ValueFile
from chunkwise.errors import DataCorruptionError, TooLargeError, prefix

__all__ = ["TiffTable", "load_tiff"]

_LONGEST_KEPT = 1 << 24  # characters of OME-XML to keep as an attribute, so that copies have it
_MOST_IMAGES = 1000  # each makes its own documents and tables
_ORDER = "TCZYX"
_KINDS = {"X": "space", "Y": "space", "Z": "space", "T": "time", "C": "channel"}
_OTHER = "other"  # for a stack of planes


def load_tiff(base: KvStoreDriver, key: str, open_target: OpenTarget) -> Loaded:
    """Read the tables of a TIFF file."""
    file = ValueFile(base, key)
    where = base.describe(key)

    def read() -> TiffTable:
        with open_tiff(file) as tiff:
            return TiffTable(tiff, TiffFiles(tiff, file, key, open_target))

    return Loaded(read_by("tifffile", where, read), key, file.generation)


class TiffTable(ArrayTable):
    """The images of a file."""

    def __init__(self, tiff: Any, files: TiffFiles) -> None:
        self._documents: dict[str, bytes] = {}
        self._arrays: dict[str, TiffArray] = {}
        root = ome_xml(tiff)
        metadata = describe_images(tiff, root)
        images = (root is not None and _images_in_files(root, files)) or tiff.series
        if len(images) > _MOST_IMAGES:
            raise TooLargeError(f"TIFF file of {len(images)} images, expected at most {_MOST_IMAGES}")
        sources = {one: Source(url, file.part, file.size) for one, (url, file) in files.sources.items()}
        for number, series in enumerate(images):
            front = "" if number == 0 else f"image{number}/"
            own = metadata[number] if number < len(metadata) else ImageDescription()
            self._add_image(front, series, sources, own)
        if not self._arrays:
            raise DataCorruptionError("TIFF file without images")
        text = "" if root is None else str(tiff.pages.first.description)
        if 0 < len(text) <= _LONGEST_KEPT:
            attributes = json.loads(self._documents[".zattrs"])
            self._documents[".zattrs"] = _dump({**attributes, "OME-XML": text})
        self._keys = SortedKeys([*self._documents])

    def _add_image(
        self, front: str, series: Any, sources: dict[int, Source], known: ImageDescription
    ) -> None:
        axes = _ordered(str(series.axes))
        levels = [describe_level(level, sources, axes) for level in series.levels]
        units, attributes = _image_attributes(series, levels, known)
        for number, array in enumerate(levels):
            name = f"{front}{number}"
            self._arrays[name] = array
            self._documents[f"{name}/.zarray"] = _dump(array.document)
            own: dict[str, JSON] = {"_ARRAY_DIMENSIONS": _axis_names(array.axes)}
            if units and any(units[number]):
                own["dimension_units"] = units[number]
            self._documents[f"{name}/.zattrs"] = _dump(own)
        self._documents[f"{front}.zgroup"] = _dump({"zarr_format": 2})
        self._documents[f"{front}.zattrs"] = _dump(attributes)

    def find(self, key: str) -> Reference | None:
        """Return a document, or the location of a tile or strip."""
        if key in self._documents:
            return self._documents[key]
        path, _, name = key.rpartition("/")
        array = self._arrays.get(path)
        cell = None if array is None else cell_of(name, array.grid)
        if array is None or cell is None:
            return None
        try:
            return array.find(cell)
        except DataCorruptionError as e:
            raise prefix(e, f"Error reading chunk {dump(key)}") from None

    def note(self, key: str) -> str:
        """Return the reason why tifffile decodes the chunks of an array; empty if it doesn't."""
        array = self._arrays.get(key.rstrip("/"))
        return "" if array is None or not array.by_tifffile else f"decoded by tifffile: {array.by_tifffile}"

    def _chunk_keys(self, path: str) -> Iterator[str]:
        array = self._arrays[path]
        for cell in np.ndindex(*array.grid):
            if array.find(cell) is not None:
                yield f"{path}/{'.'.join(map(str, cell))}"

    def some_url(self) -> str | None:
        """Return the URL of the file itself."""
        return ""


def _ordered(axes: str) -> str:
    """Return the axes in OME-Zarr's order; only axes before those of a page are moved."""
    known = [letter for letter in _ORDER if letter in axes]
    return "".join(known) if sorted(known) == sorted(axes) else axes


def _image_attributes(
    series: Any, levels: list[TiffArray], known: ImageDescription
) -> tuple[list[JSON], dict[str, JSON]]:
    """Return the units of the dimensions of each level, and the attributes of an image.

    Both are empty if the image has no x and y.
    """
    first = levels[0]
    letters, shape = first.axes, first.document["shape"]
    if not {"Y", "X"} <= set(letters) or any(level.axes != letters for level in levels):
        return [], {}
    axes: list[JSON] = []
    for letter, name in zip(letters, _axis_names(letters), strict=True):
        axis = {"name": name, "type": _KINDS.get("C" if name == "c" else letter, _OTHER)}
        unit = known.units.get(letter)
        axes.append({**axis, "unit": unit} if unit else axis)
    datasets, units = [], []
    for number, level in enumerate(levels):
        factors = [
            _factor(a, b) if letter in "ZYX" else 1.0
            for letter, a, b in zip(letters, shape, level.document["shape"], strict=True)
        ]
        sizes = [known.sizes.get(letter, 1.0) for letter in letters]
        scale = [size * factor for size, factor in zip(sizes, factors, strict=True)]
        start = [
            known.origins.get(letter, 0.0) + 0.5 * (factor - 1) * size
            for letter, factor, size in zip(letters, factors, sizes, strict=True)
        ]
        steps: list[JSON] = [{"type": "scale", "scale": scale}]
        if any(start):
            steps.append({"type": "translation", "translation": start})
        datasets.append({"path": str(number), "coordinateTransformations": steps})
        named = zip(letters, scale, axes, strict=True)
        units.append(
            [
                f"{size:.15g} {axis.get('unit', '')}".strip() if letter in known.sizes else None
                for letter, size, axis in named
            ]
        )
    name = known.name or str(series.name or "")
    out: dict[str, JSON] = {
        "multiscales": [{"version": "0.4", "name": name, "axes": axes, "datasets": datasets}]
    }
    channel = next((dim for dim, axis in enumerate(axes) if axis["type"] == "channel"), None)
    n_channels = 1 if channel is None else shape[channel]
    if any(known.channels) and len(known.channels) == n_channels:
        out["omero"] = {"channels": known.channels}
    return units, out


def _axis_names(letters: str) -> list[str]:
    """Return the names of axes: samples are channels if there are no others; letters may repeat."""
    names: list[str] = []
    for letter in letters:
        name = "c" if letter == "S" and "C" not in letters else letter.lower()
        n = sum(known.rstrip("0123456789") == name for known in names)
        names.append(name if n == 0 else f"{name}{n}")
    return names


def _factor(n: int, m: int) -> float:
    """Return the factor from `n` pixels to `m`, a whole number if one fits."""
    whole = max(1, round(n / max(1, m)))
    powers = [2**k for k in range(n.bit_length() + 1)]
    fitting = [f for f in (*powers, whole) if n // f <= m <= -(-n // f)]
    return float(fitting[0]) if fitting else n / max(1, m)


def _images_in_files(root: Any, files: TiffFiles) -> list[Planes]:
    """Return all images, if planes of one are in other files, which tifffile would open itself."""
    uuid, found = root.get("UUID"), []
    for image in root.iter():
        if tag_of(image) == "Image":
            found += [
                (pixels, str(image.get("Name") or "")) for pixels in image if tag_of(pixels) == "Pixels"
            ]
    if len(found) > _MOST_IMAGES or not any(names_other_files(pixels, files, uuid) for pixels, _ in found):
        return []
    return [planes_of(pixels, name, files, uuid) for pixels, name in found]


def _dump(value: JSON) -> bytes:
    return json.dumps(value).encode()
