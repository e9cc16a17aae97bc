"""The XML file beside a container of BigDataViewer: where its container is, sizes and places of setups.

The transformations of a view are a list, of which the last is applied first.  Together they take voxels of
full resolution to the world; those that turn or shear leave a setup with its voxel size alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np
import numpy.typing as npt

from chunkwise.errors import InvalidArgumentError, UnsupportedError
from chunkwise.multiscale.ome_zarr import symbol_of

__all__ = ["BdvFile", "BdvSetup", "parse_bdv_file"]


class BdvSetup(NamedTuple):
    """A setup: a channel, a tile or an angle; x first."""

    name: str
    size: tuple[float, ...]  # of a voxel of full resolution
    unit: str
    start: tuple[float, ...]  # centre of the first voxel


class BdvFile(NamedTuple):
    """Content of a file."""

    container: str  # path of the N5 container, relative to the file
    setups: Mapping[int, BdvSetup]


def parse_bdv_file(value: bytes, where: str) -> BdvFile:
    """Return what an XML file says; raise InvalidArgumentError, which names the element, if it is wrong."""
    try:
        root = ElementTree.fromstring(value)
    except ElementTree.ParseError as e:
        raise InvalidArgumentError(f"{where}: no XML: {e}") from None
    loader = root.find("SequenceDescription/ImageLoader")
    format = None if loader is None else loader.get("format")
    if loader is None or format != "bdv.n5":
        raise UnsupportedError(f'{where}: ImageLoader: expected format "bdv.n5", but found {format!r}')
    places = _registrations(root, where)
    setups = {}
    for element in root.iterfind("SequenceDescription/ViewSetups/ViewSetup"):
        number = _integer(element, "id", f"{where}: ViewSetup")
        at = f"{where}: ViewSetup {number}"
        size = _numbers(element, "voxelSize/size", 3, at) or (1.0, 1.0, 1.0)
        unit = (element.findtext("voxelSize/unit") or "").strip()
        matrix = places.get(number)
        start: tuple[float, ...] = (0.0, 0.0, 0.0)
        if matrix is not None:
            diagonal = np.diag(matrix)
            if not np.any(matrix[:, :3] - np.diag(diagonal)) and np.all(diagonal > 0):
                size, start = tuple(map(float, diagonal)), tuple(map(float, matrix[:, 3]))
        symbol = "" if unit in ("pixel", "px") else symbol_of(unit)
        setups[number] = BdvSetup((element.findtext("name") or "").strip(), size, symbol, start)
    return BdvFile((loader.findtext("n5") or "").strip(), setups)


def _registrations(root: Element, where: str) -> dict[int, npt.NDArray[np.float64]]:
    """Return the transformation of each setup at its first time, of shape (3, 4)."""
    out: dict[int, npt.NDArray[np.float64]] = {}
    for view in root.iterfind("ViewRegistrations/ViewRegistration"):
        try:
            number = int(view.get("setup", ""))
        except ValueError:
            raise InvalidArgumentError(f"{where}: ViewRegistration: expected the number of a setup") from None
        if number in out:
            continue
        whole = np.eye(4)
        for transform in view.iterfind("ViewTransform"):
            rows = _numbers(transform, "affine", 12, f"{where}: ViewRegistration of setup {number}")
            if rows is not None:
                whole = whole @ np.vstack([np.reshape(rows, (3, 4)), [0, 0, 0, 1]])
        out[number] = whole[:3]
    return out


def _integer(element: Element, path: str, where: str) -> int:
    text = (element.findtext(path) or "").strip()
    if not text.isdigit():
        raise InvalidArgumentError(f"{where}: {path}: expected a number, but found {text!r}")
    return int(text)


def _numbers(element: Element, path: str, n: int, where: str) -> tuple[float, ...] | None:
    text = element.findtext(path)
    if text is None:
        return None
    try:
        numbers = tuple(float(part) for part in text.split())
    except ValueError:
        numbers = ()
    if len(numbers) != n or not np.all(np.isfinite(numbers)):
        raise InvalidArgumentError(f"{where}: {path}: expected {n} numbers, but found {text.strip()[:100]!r}")
    return numbers
