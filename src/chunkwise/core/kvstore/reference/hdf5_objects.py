"""HDF5 objects: their paths, regions, references and attributes, as JSON of xarray and HDMF."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chunkwise.core.base.binding import JSON

if TYPE_CHECKING:
    import h5py

__all__ = [
    "UNREADABLE",
    "Attributes",
    "Conventions",
    "ObjectPaths",
    "address_of",
    "attributes_of",
    "conventions_of",
    "dimension_names",
    "is_mere_dimension",
    "links_of",
    "object_id",
    "reference_json",
    "region_json",
]

# -- paths --------------------------------------------------------------------------------------------

# HDF5 searches the whole file each time for the name of a referenced object.  Here the links of a file are
# scanned once.


def address_of(node: h5py.HLObject) -> tuple[int, int]:
    """Return the identity of an object among all open ones: the number of its file, and its address."""
    import h5py

    info = h5py.h5o.get_info(node.id)
    return int(info.fileno), int(info.addr)


class ObjectPaths:
    """The paths of all objects with hard links, in each file that was asked about."""

    def __init__(self) -> None:
        self._files: dict[int, dict[int, str]] = {}

    def find(self, node: h5py.HLObject) -> str | None:
        """Return the path of an object from the root of its file, None if no path leads to it."""
        file, address = address_of(node)
        paths = self._files.get(file)
        if paths is None:
            paths = self._files[file] = _paths_in(node.file)
        return paths.get(address)


def _paths_in(file: h5py.File) -> dict[int, str]:
    from h5py import h5l

    root = file["/"]  # kept, since the file is closed with this object
    out = {address_of(root)[1]: "/"}

    def add(name: bytes, info: h5l.LinkInfo) -> None:
        if info.type == h5l.TYPE_HARD:
            out.setdefault(int(info.u), "/" + name.decode("utf-8", "surrogateescape"))

    root.id.links.visit(add, info=True)
    return out


# -- regions ------------------------------------------------------------------------------------------


def region_json(file: h5py.File, value: h5py.RegionReference, shape: tuple[int, ...]) -> dict[str, JSON]:
    """Return the region of a reference in an h5py file, for a dataset of the given shape."""
    from h5py import h5r, h5s

    space = h5r.get_region(value, file.id)
    kind = space.get_select_type()
    head: dict[str, JSON] = {"shape": list(shape)}
    if kind == h5s.SEL_ALL:
        return {"type": "all", **head}
    if kind == h5s.SEL_NONE:
        return {"type": "none", "ndim": len(shape), **head}
    if kind == h5s.SEL_POINTS:
        points = [[int(i) for i in point] for point in space.get_select_elem_pointlist()]
        return {"type": "points", "points": points, **head}
    if space.is_regular_hyperslab():
        names = ("start", "stride", "count", "block")
        numbers = [[int(i) for i in part] for part in space.get_regular_hyperslab()]
        return {"type": "hyperslab", **dict(zip(names, numbers, strict=True)), **head}
    blocks = [[[int(i) for i in corner] for corner in box] for box in space.get_select_hyper_blocklist()]
    return {"type": "blocks", "blocks": blocks, **head}


# -- attributes ---------------------------------------------------------------------------------------

# xarray: the names of dimensions, which are scales in HDF5, become ``_ARRAY_DIMENSIONS``.  HDMF: references
# are objects with ``source`` and ``path``, and ``zarr_dtype`` names the type of each dataset, as in hdmf-zarr
# 0.13.

_OF_NETCDF = {"_NCProperties", "_Netcdf4Coordinates", "_Netcdf4Dimid", "_nc3_strict"}
_GONE = "(an object that is gone)"  # path for an object without a name in HDF5
_OF_SCALES = {"CLASS", "NAME", "REFERENCE_LIST"}  # in a dataset that is a scale
_SCALES, _LABELS = "DIMENSION_LIST", "DIMENSION_LABELS"
_MERE_DIMENSION = b"This is a netCDF dimension but not a netCDF variable"


UNREADABLE = (OSError, RuntimeError, TypeError, ValueError, LookupError)
"""Errors of h5py for unreadable or damaged data."""


class Attributes(NamedTuple):
    """Attributes of an object."""

    values: dict[str, JSON]
    number_types: dict[str, np.dtype[Any]]  # types of the numeric ones
    left_out: dict[str, str]  # reason why, by name


class Conventions(NamedTuple):
    """Conventions that a file follows."""

    netcdf: bool
    hdmf: bool
    paths: ObjectPaths


def conventions_of(file: h5py.File) -> Conventions:
    """Return the conventions that an h5py file follows."""
    names = set(file.attrs)
    return Conventions("_NCProperties" in names, bool(names & {".specloc", "nwb_version"}), ObjectPaths())


def is_mere_dimension(dataset: h5py.Dataset) -> bool:
    """Return True for the placeholder that NetCDF-4 stores for a dimension without a variable."""
    name = _attribute(dataset, "NAME")
    text = name if isinstance(name, bytes) else str(name).encode("utf-8", "surrogateescape")
    return text.startswith(_MERE_DIMENSION)


def dimension_names(dataset: h5py.Dataset, conventions: Conventions) -> list[str] | None:
    """Return the names of the dimensions, from scales or labels, or None."""
    rank = len(dataset.shape)
    is_scale = _is_scale(dataset)
    scales = _scale_names(dataset, conventions.paths)
    labels = _labels(dataset)
    names = [scale or label for scale, label in zip(scales, labels, strict=True)]
    if rank == 1 and is_scale and not scales[0]:
        names[0] = (dataset.name or "").rpartition("/")[2]
    if not rank or not (is_scale or conventions.netcdf or any(names)):
        return [] if conventions.netcdf else None
    return [name or f"phony_dim_{dim}" for dim, name in enumerate(names)]


def _scale_names(dataset: h5py.Dataset, paths: ObjectPaths) -> list[str]:
    """Return the name of each dimension's first scale, empty without one."""
    import h5py

    lists = _attribute(dataset, _SCALES)
    out = [""] * len(dataset.shape)
    if not isinstance(lists, np.ndarray) or lists.shape != (len(out),):
        return out
    for dim, scales in enumerate(lists):
        for reference in np.atleast_1d(scales)[:1]:
            if isinstance(reference, h5py.Reference) and reference:
                scale = dataset.file[reference]
                out[dim] = (paths.find(scale) or scale.name or "").rpartition("/")[2]
    return out


def _labels(dataset: h5py.Dataset) -> list[str]:
    found = _attribute(dataset, _LABELS)
    rank = len(dataset.shape)
    if not isinstance(found, np.ndarray) or found.shape != (rank,) or found.dtype.kind not in "OSU":
        return [""] * rank
    return [_text(label) if isinstance(label, str | bytes) else "" for label in found]


def _is_scale(node: h5py.HLObject) -> bool:
    found = _attribute(node, "CLASS")
    return isinstance(found, str | bytes) and _text(found) == "DIMENSION_SCALE"


def _attribute(node: h5py.HLObject, name: str) -> Any:
    """Return the value of an attribute; None if it is missing or h5py can't read it."""
    try:
        return node.attrs.get(name)
    except UNREADABLE:
        return None


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _hidden(node: h5py.HLObject, netcdf: bool) -> set[str]:
    """Return the attributes whose content the tree expresses otherwise."""
    import h5py

    out = set(_OF_NETCDF)
    if isinstance(node, h5py.Dataset) and node.shape is not None:
        if _is_scale(node):
            out |= _OF_SCALES
        if any(_labels(node)):
            out.add(_LABELS)
        lists = _attribute(node, _SCALES)
        if isinstance(lists, np.ndarray) and lists.shape == (len(node.shape),) and lists.dtype.hasobject:
            out.add(_SCALES)
    return out


def attributes_of(node: h5py.HLObject, conventions: Conventions) -> Attributes:
    """Return the attributes of an h5py group or dataset that the tree doesn't express otherwise."""

    out = Attributes({}, {}, {})
    hidden = _hidden(node, conventions.netcdf)
    for name in node.attrs:
        if name in hidden:
            continue
        try:
            value = node.attrs[name]
        except UNREADABLE as e:
            out.left_out[name] = f"h5py can't read it: {e}"
            continue
        if conventions.hdmf and name == ".specloc":
            out.values[name] = _path_of(node.file, value, conventions.paths).removeprefix("/")
            continue
        json = _json(node.file, value, conventions.paths)
        if conventions.netcdf and isinstance(json, list) and len(json) == 1:
            json = json[0]
        out.values[name] = json
        dtype = getattr(value, "dtype", None)
        if dtype is not None and dtype.kind in "iuf" and dtype.itemsize <= 8:
            out.number_types[name] = dtype.newbyteorder("=")
    return out


def links_of(group: h5py.Group, find: Callable[[str], h5py.HLObject]) -> dict[str, JSON]:
    """Return the links of a group by name, in HDMF's form for Zarr v2; `find` looks up a path."""
    import h5py

    out: dict[str, JSON] = {}
    for name in group:
        link = group.get(name, getlink=True)
        if not isinstance(link, h5py.SoftLink | h5py.ExternalLink):
            continue
        path = link.path if link.path.startswith("/") else f"{group.name.rstrip('/')}/{link.path}"
        entry: dict[str, JSON] = {"name": name, "path": path, "source": "."}
        if isinstance(link, h5py.ExternalLink):
            entry["source"] = link.filename
        else:
            entry |= _identity(group.file, find(path))
        out[name] = entry
    return out


def _identity(file: h5py.File, target: h5py.HLObject) -> dict[str, JSON]:
    """Return HDMF's identifiers of an object and of its file."""
    return {"object_id": None if target is None else object_id(target), "source_object_id": object_id(file)}


def object_id(node: h5py.HLObject) -> str | None:
    """Return HDMF's identifier of an object, or None."""
    found = node.attrs.get("object_id")
    return _text(found) if isinstance(found, str | bytes) else None


def _json(file: h5py.File, value: Any, paths: ObjectPaths) -> JSON:
    import h5py

    if isinstance(value, h5py.Empty):
        return ""
    if isinstance(value, np.ndarray):
        return [_json(file, item, paths) for item in value] if value.ndim else _json(file, value[()], paths)
    if isinstance(value, h5py.Reference | h5py.RegionReference):
        word = "region" if isinstance(value, h5py.RegionReference) else "object"
        return {"value": reference_json(file, value, paths), "zarr_dtype": word}
    if isinstance(value, np.void) and value.dtype.names:
        return {name: _json(file, value[name], paths) for name in value.dtype.names}
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, np.void):
        return value.tobytes().hex()
    if isinstance(value, complex | np.complexfloating):
        return [float(value.real), float(value.imag)]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return value  # the literals NaN and Infinity, which other writers of Zarr v2 use
    return value if isinstance(value, str | int | float | bool) else str(value)


def _path_of(file: h5py.File, reference: h5py.Reference, paths: ObjectPaths) -> str:
    import h5py

    if not isinstance(reference, h5py.Reference | h5py.RegionReference) or not reference:
        return str(reference)
    with suppress(*UNREADABLE):
        found = paths.find(file[reference])
        if found is not None:
            return found
    name = h5py.h5r.get_name(reference, file.id)
    return "" if name is None else name.decode("utf-8", "surrogateescape")


def reference_json(file: h5py.File, reference: h5py.Reference, paths: ObjectPaths) -> JSON:
    """Return a reference to an object of the same file, or to a region of it, in HDMF's form for Zarr v2."""
    import h5py

    if not reference:
        return None
    path = _path_of(file, reference, paths)
    target = file[reference] if path else None
    out: dict[str, JSON] = {"path": path or _GONE, "source": ".", **_identity(file, target)}
    if isinstance(reference, h5py.RegionReference) and target is not None:
        out["region"] = region_json(file, reference, target.shape)
    return out
