"""The XML file of BigDataViewer, beside N5, HDF5 or OME-Zarr: its container, times, sizes, places of setups.

The transformations of a view are a list; the last is applied first.  Together they take voxels of
full resolution to the world.  A setup that is rotated or sheared only keeps its voxel size.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np
import numpy.typing as npt

from chunkwise import Context
from chunkwise.errors import InvalidArgumentError, UnsupportedError
from chunkwise.extension import KvStoreDriver
from chunkwise.extension.inside import dump, read_bounded
from chunkwise.extension.trees import Location, locate
from chunkwise.images.conventions.convention import Change, Level, plain
from chunkwise.images.multiscale.metadata import ImageAxis, Transformation, symbol_of

__all__ = [
    "NO_FILE",
    "BdvFile",
    "BdvSetup",
    "BdvView",
    "bdv_file_beside",
    "container_of",
    "edited_bdv_file",
    "file_of",
    "made_bdv_file",
    "read_bdv_file",
]

_MOST_TIMES = 1_000_000
_MEMBERS = {
    "bdv.n5": ("n5",),
    "bdv.hdf5": ("hdf5",),
    "bdv.multimg.zarr": ("zarr",),
    "bdv.ome.zarr": ("ome.zarr", "zarr"),
}
"""Members of ImageLoader that name the container, by format."""


class BdvView(NamedTuple):
    """Location of one setup at one time in a container of OME-Zarr images."""

    path: str  # of the image, from the container on
    indices: tuple[int, ...] | None  # of axes that are not of space, the last axis first; None if not given


class BdvSetup(NamedTuple):
    """A setup at one time: a channel, a tile or an angle; x first."""

    name: str
    size: tuple[float, ...]  # of a voxel of full resolution
    unit: str
    start: tuple[float, ...]  # centre of the first voxel
    problems: tuple[str, ...] = ()  # parts of its position that size and start can't express


class BdvFile(NamedTuple):
    """Content of a file."""

    container: str  # path of the container, or HDF5 file, relative to the file; or a URL
    setups: Mapping[int, BdvSetup]  # at the first time that each has a place for
    times: tuple[int, ...]  # numbers of time points; none if the file doesn't tell them
    missing: frozenset[tuple[int, int]]  # missing views, as time and setup
    at_times: Mapping[tuple[int, int], BdvSetup]  # by time and setup
    kind: str = "n5"  # or "hdf5", "multimg.zarr", "ome.zarr"
    views: Mapping[tuple[int, int], BdvView] = {}  # of "multimg.zarr", by time and setup

    def setup_at(self, time: int, setup: int) -> BdvSetup | None:
        """Return a setup with its place at a time; None if the file doesn't know it."""
        return self.at_times.get((time, setup), self.setups.get(setup))


NO_FILE = BdvFile("", {}, (), frozenset(), {})
"""Facts that are known without a file."""


def _parse(value: bytes, where: str) -> BdvFile:
    """Parse an XML file; raise InvalidArgumentError, which names the element, if it is wrong."""
    try:
        root = ElementTree.fromstring(value)
    except ElementTree.ParseError as e:
        raise InvalidArgumentError(f"{where}: no XML: {e}") from None
    loader = root.find("SequenceDescription/ImageLoader")
    format = None if loader is None else loader.get("format")
    if loader is None or format not in _MEMBERS:
        raise UnsupportedError(
            f"{where}: ImageLoader: expected format {' or '.join(map(dump, _MEMBERS))}, but found {format!r}"
        )
    places = _registrations(root, where)
    setups, at_times = {}, {}
    for element in root.iterfind("SequenceDescription/ViewSetups/ViewSetup"):
        number = _integer(element, "id", f"{where}: ViewSetup")
        at = f"{where}: ViewSetup {number}"
        size = _numbers(element, "voxelSize/size", 3, at) or (1.0, 1.0, 1.0)
        unit = (element.findtext("voxelSize/unit") or "").strip()
        symbol = "" if unit in ("pixel", "px") else symbol_of(unit)
        plain = BdvSetup((element.findtext("name") or "").strip(), size, symbol, (0.0, 0.0, 0.0))
        own = {time: _placed(plain, matrix, at) for time, matrix in sorted(places.get(number, {}).items())}
        at_times.update({(time, number): setup for time, setup in own.items()})
        first = next(iter(own.values()), plain)
        others = [time for time, setup in own.items() if setup[1:4] != first[1:4]]
        if others:
            listed = ", ".join(map(str, others[:5])) + (", …" if len(others) > 5 else "")
            text = f"{at}: its registrations differ: times {listed} lie elsewhere than the first"
            first = first._replace(problems=(*first.problems, text))
        setups[number] = first
    missing = {
        (_attribute(view, "timepoint", where), _attribute(view, "setup", where))
        for view in root.iterfind("SequenceDescription/MissingViews/MissingView")
    }
    kind = format.removeprefix("bdv.")
    views = _views(loader, where) if kind == "multimg.zarr" else {}
    times = _times(root, where)
    return BdvFile(_container(loader, where), setups, times, frozenset(missing), at_times, kind, views)


def _container(loader: Element, where: str) -> str:
    """Return the path or URL of the container that an ImageLoader names."""
    names = _MEMBERS[loader.get("format", "")]
    texts = [(loader.findtext(name) or "").strip() for name in names]
    text = next(filter(None, texts), "")
    bucket = (loader.findtext("s3bucket") or "").strip()
    if not text or "\\" in text:
        raise InvalidArgumentError(f"{where}: ImageLoader/{names[0]}: expected the path of a container")
    return f"s3://{bucket}/{text.strip('/')}" if bucket else text


def _views(loader: Element, where: str) -> dict[tuple[int, int], BdvView]:
    """Return the places of the views in a container of OME-Zarr, in the forms of all versions."""
    views = {}
    for group in loader.iterfind("zgroups/zgroup"):
        time = _attribute(group, "tp" if "tp" in group.attrib else "timepoint", where)
        setup = _attribute(group, "setup", where)
        path = (group.get("path") or group.findtext("path") or "").strip().strip("/")
        text = group.get("indicies", "[]").strip()  # the format spells it so
        if not path or "\\" in path or ".." in path.split("/"):
            raise InvalidArgumentError(
                f"{where}: zgroup of setup {setup}: expected a path in the container, not {path[:99]!r}"
            )
        if text != "[]" and re.fullmatch(r"\d{1,9}(\s+\d{1,9})*", text) is None:
            raise InvalidArgumentError(
                f"{where}: zgroup of setup {setup}: indicies: expected numbers, but found {text[:100]!r}"
            )
        views[time, setup] = BdvView(path, None if text == "[]" else tuple(map(int, text.split())))
    return views


def _placed(setup: BdvSetup, matrix: npt.NDArray[np.float64], where: str) -> BdvSetup:
    """Return a setup with the size and the start that its transformation gives it, if it has them."""
    diagonal = np.diag(matrix)
    if np.any(matrix[:, :3] - np.diag(diagonal)) or not np.all(diagonal > 0):
        text = f"{where}: it is turned, mirrored or sheared; only the size of its voxels is known"
        return setup._replace(problems=(text,))
    return setup._replace(size=tuple(map(float, diagonal)), start=tuple(map(float, matrix[:, 3])))


def _times(root: Element, where: str) -> tuple[int, ...]:
    """Return the numbers of time points: a range, a list, or a pattern such as ``0-4, 6, 8-20:2``."""
    element = root.find("SequenceDescription/Timepoints")
    if element is None:
        return ()
    at, kind = f"{where}: Timepoints", element.get("type")
    if kind == "range":
        spans = [(_integer(element, "first", at), _integer(element, "last", at), 1)]
    elif kind == "list":
        numbers = [_integer(one, "id", at) for one in element.iterfind("Timepoint")]
        spans = [(n, n, 1) for n in numbers]
    else:
        text = element.findtext("integerpattern") or ""
        spans = [_span(part.strip(), at) for part in text.split(",") if part.strip()]
    if sum(max(0, last - first + 1) // step for first, last, step in spans) > _MOST_TIMES:
        raise InvalidArgumentError(f"{at}: expected at most {_MOST_TIMES} time points")
    return tuple(sorted({n for first, last, step in spans for n in range(first, last + 1, step)}))


def _span(text: str, where: str) -> tuple[int, int, int]:
    found = re.fullmatch(r"(\d{1,9})(?:\s*-\s*(\d{1,9})(?:\s*:\s*([1-9]\d{0,8}))?)?", text)
    if found is None:
        raise InvalidArgumentError(f"{where}: expected numbers such as 0-4, 6, but found {text[:100]!r}")
    return int(found[1]), int(found[2] or found[1]), int(found[3] or 1)


def _registrations(root: Element, where: str) -> dict[int, dict[int, npt.NDArray[np.float64]]]:
    """Return the transformation of each setup at each time, of shape (3, 4)."""
    out: dict[int, dict[int, npt.NDArray[np.float64]]] = {}
    for view in root.iterfind("ViewRegistrations/ViewRegistration"):
        number, time = (_attribute(view, name, where) for name in ("setup", "timepoint"))
        whole = np.eye(4)
        for transform in view.iterfind("ViewTransform"):
            rows = _numbers(transform, "affine", 12, f"{where}: ViewRegistration of setup {number}")
            if rows is not None:
                whole = whole @ np.vstack([np.reshape(rows, (3, 4)), [0, 0, 0, 1]])
        out.setdefault(number, {}).setdefault(time, whole[:3])
    return out


def _attribute(view: Element, name: str, where: str) -> int:
    return _number(view.get(name, ""), f"{where}: {view.tag}: {name}")


def _integer(element: Element, path: str, where: str) -> int:
    return _number((element.findtext(path) or "").strip(), f"{where}: {path}")


def _number(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidArgumentError(f"{where}: expected a number, but found {text[:100]!r}")
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


# -- places ----------------------------------------------------------------------------------------------


def file_of(container: Location) -> BdvFile:
    """Return what the XML file beside a container says; nothing if there is none."""
    place = bdv_file_beside(container)
    return (None if place is None else read_bdv_file(place[0].store, place[0].path + place[1])) or NO_FILE


def read_bdv_file(store: KvStoreDriver, key: str) -> BdvFile | None:
    """Return what an XML file says; None if there is none."""
    value = read_bounded(store, key).value
    return None if value is None else _parse(bytes(value), store.describe(key))


def container_of(location: Location, file: BdvFile, where: str, context: Context | None) -> Location:
    """Return the location of the container of an XML file at a location."""
    text, scheme = file.container, re.match(r"([a-z0-9]+):/", file.container)
    if scheme is not None and scheme[1] == "file" and location.base.get("driver") == "file":
        text = unquote(text.removeprefix("file:").removeprefix("//"))
    elif scheme is not None:
        if scheme[1] not in ("s3", "gs"):
            raise UnsupportedError(
                f"{where}: expected a path, or a URL of S3 or Google Cloud: {text[:200]!r}"
            )
        found = locate(text, context)
        own, named = location.base, found.base
        if all(own.get(name) == named.get(name) for name in ("driver", "bucket")):
            return location.at(found.path)._replace(text=text)  # read as the file is: with its options
        return found
    key = location.path.rstrip("/")
    path = posixpath.normpath(posixpath.join("/", posixpath.dirname(key), text))
    container = location.at(path.lstrip("/") + "/")
    folder = location.text.rstrip("/").removesuffix(location.name)
    if folder != location.text.rstrip("/"):
        container = container._replace(text=text if text.startswith("/") else f"{folder}{text}")
    return container


# -- writing ---------------------------------------------------------------------------------------------


def bdv_file_beside(container: Location) -> tuple[Location, str] | None:
    """Return the directory and the key of the XML file of a container; None if nothing is above it."""
    above = container.parent
    return None if above is None else (above, f"{container.name.removesuffix('.n5')}.xml")


def made_bdv_file(
    container: str, name: str, axes: Sequence[ImageAxis], first: Level, *, n_channels: int, n_times: int
) -> bytes:
    """Return the XML file of an image whose container is beside it; each channel is a setup."""
    root = Element("SpimData", version="0.2")
    _add(root, "BasePath", ".", type="relative")
    sequence = _add(root, "SequenceDescription")
    loader = _add(sequence, "ImageLoader", format="bdv.n5", version="1.0")
    _add(loader, "n5", container, type="relative")
    setups = _add(sequence, "ViewSetups")
    for channel in range(n_channels):
        setup = _add(setups, "ViewSetup")
        _add(setup, "id", str(channel))
        _add(setup, "name", f"{name} {channel}" if n_channels > 1 else name)
        _add(setup, "size", " ".join(map(str, first.shape)))
        voxel = _add(setup, "voxelSize")
        _add(voxel, "unit", axes[0].unit or "pixel")
        _add(voxel, "size", " ".join(map(repr, first.scale)))
        _add(_add(setup, "attributes"), "channel", str(channel))
    channels = _add(setups, "Attributes", name="channel")
    for channel in range(n_channels):
        entry = _add(channels, "Channel")
        _add(entry, "id", str(channel))
        _add(entry, "name", str(channel))
    times = _add(sequence, "Timepoints", type="range")
    _add(times, "first", "0")
    _add(times, "last", str(n_times - 1))
    registrations = _add(root, "ViewRegistrations")
    rows = [
        [*(size if i == j else 0.0 for j in range(3)), at]
        for i, (size, at) in enumerate(zip(first.scale, first.translation, strict=True))
    ]
    affine = " ".join(repr(float(number)) for row in rows for number in row)
    for channel in range(n_channels):
        for time in range(n_times):
            view = _add(registrations, "ViewRegistration", timepoint=str(time), setup=str(channel))
            transform = _add(view, "ViewTransform", type="affine")
            _add(transform, "Name", "calibration")
            _add(transform, "affine", affine)
    ElementTree.indent(root)
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _add(parent: Element, tag: str, text: str | None = None, **members: str) -> Element:
    child = ElementTree.SubElement(parent, tag, members)
    child.text = text
    return child


def edited_bdv_file(value: bytes, setup: int, old: Transformation, change: Change) -> bytes:
    """Return the file with the size and unit of a setup, whose registrations get a last step."""
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    root = ElementTree.fromstring(value, parser)
    where = "the XML file"
    elements = root.iterfind("SequenceDescription/ViewSetups/ViewSetup")
    setups = [element for element in elements if _integer(element, "id", f"{where}: ViewSetup") == setup]
    for element in setups:
        _edit_voxel(element, change)
    new = change.places[0]
    by = np.array(change.factors[:3])
    shift = np.array(new.translation[:3]) - by * np.array(old.translation[:3])
    last = np.diag([*by, 1.0])
    last[:3, 3] = shift
    registered = root.iterfind("ViewRegistrations/ViewRegistration")
    views = [view for view in registered if _attribute(view, "setup", where) == setup]
    if shift.any() and not (setups and views):
        lacking = "ViewRegistration" if setups else "ViewSetup"
        raise UnsupportedError(f"translation: {where} has no {lacking} of setup {setup}")
    for view in views if (last != np.eye(4)).any() else ():
        affine = view.find("ViewTransform/affine")
        if affine is None:
            step = ElementTree.SubElement(view, "ViewTransform", type="affine")
            ElementTree.SubElement(step, "Name").text = "calibration"
            affine = ElementTree.SubElement(step, "affine")
            affine.text = " ".join(map(repr, np.eye(4)[:3].ravel().tolist()))
        rows = np.reshape([float(n) for n in (affine.text or "").split()], (3, 4))
        whole = last @ np.vstack([rows, [0.0, 0.0, 0.0, 1.0]])
        affine.text = " ".join(repr(plain(n)) for n in whole[:3].ravel().tolist())
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _edit_voxel(element: Element, change: Change) -> None:
    voxel = element.find("voxelSize")
    voxel = ElementTree.SubElement(element, "voxelSize") if voxel is None else voxel
    for name in ("unit", "size"):
        if voxel.find(name) is None:
            ElementTree.SubElement(voxel, name).text = "pixel" if name == "unit" else "1.0 1.0 1.0"
    unit, size = voxel.find("unit"), voxel.find("size")
    assert unit is not None and size is not None, "they were made"
    unit.text = change.units[0] or "pixel"
    sizes = zip((size.text or "").split(), change.factors, strict=False)
    size.text = " ".join(repr(plain(float(n) * f)) for n, f in sizes)
