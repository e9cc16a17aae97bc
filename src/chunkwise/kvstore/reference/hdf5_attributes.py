"""Attributes of HDF5 objects as JSON, in the conventions of xarray and of HDMF for Zarr v2.

xarray: the names of dimensions, which HDF5 has as scales, are ``_ARRAY_DIMENSIONS``.  HDMF: references are
objects with ``source`` and ``path``, and ``zarr_dtype`` names the type of each dataset, as hdmf-zarr 0.13
writes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chunkwise.binding import JSON

if TYPE_CHECKING:
    import h5py

__all__ = [
    "Conventions",
    "attributes_of",
    "conventions_of",
    "dimension_names",
    "is_mere_dimension",
    "links_of",
    "reference_json",
]

_OF_SCALES = {
    "CLASS",
    "DIMENSION_LABELS",
    "DIMENSION_LIST",
    "NAME",
    "REFERENCE_LIST",
    "_NCProperties",
    "_Netcdf4Coordinates",
    "_Netcdf4Dimid",
    "_nc3_strict",
}
_MERE_DIMENSION = b"This is a netCDF dimension but not a netCDF variable"


class Conventions(NamedTuple):
    """Conventions that a file was written by."""

    netcdf: bool
    hdmf: bool


def conventions_of(file: h5py.File) -> Conventions:
    """Return the conventions that an h5py file was written by."""
    names = set(file.attrs)
    return Conventions("_NCProperties" in names, bool(names & {".specloc", "nwb_version"}))


def is_mere_dimension(dataset: h5py.Dataset) -> bool:
    """Return True for what NetCDF-4 stores for a dimension that has no variable."""
    if "NAME" not in dataset.attrs:
        return False
    name = dataset.attrs["NAME"]
    text = name if isinstance(name, bytes) else str(name).encode("utf-8", "surrogateescape")
    return text.startswith(_MERE_DIMENSION)


def dimension_names(dataset: h5py.Dataset, conventions: Conventions) -> list[str] | None:
    """Return the names of the dimensions, those of the scales attached; None if there is no scale."""
    from h5py import h5ds

    rank = len(dataset.shape)
    is_scale = bool(h5ds.is_scale(dataset.id))
    names: list[str | None] = [None] * rank
    for dim in range(rank):
        scales = dataset.dims[dim]
        if len(scales):
            path = scales[0].name or ""
            names[dim] = path.rpartition("/")[2] or None
    if rank == 1 and is_scale and names[0] is None:
        names[0] = dataset.name.rpartition("/")[2]
    if not rank or not (is_scale or conventions.netcdf or any(names)):
        return [] if conventions.netcdf else None
    return [name or f"phony_dim_{dim}" for dim, name in enumerate(names)]


def attributes_of(node: h5py.HLObject, conventions: Conventions) -> dict[str, JSON]:
    """Return the attributes of an h5py group or dataset; what HDF5 keeps for scales is left out."""
    out: dict[str, JSON] = {}
    for name in node.attrs:
        if name in _OF_SCALES:
            continue
        value = node.attrs[name]
        if conventions.hdmf and name == ".specloc":
            out[name] = _path_of(node.file, value).removeprefix("/")
            continue
        json = _json(node.file, value)
        if conventions.netcdf and isinstance(json, list) and len(json) == 1:
            json = json[0]
        out[name] = json
    return out


def links_of(group: h5py.Group, find: Callable[[str], h5py.HLObject]) -> dict[str, JSON]:
    """Return the links of a group by name, as HDMF has them in Zarr v2; `find` gives the object at a path."""
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
    out: dict[str, JSON] = {}
    for name, owner in (("object_id", target), ("source_object_id", file)):
        found = None if owner is None else owner.attrs.get("object_id")
        out[name] = found if isinstance(found, str) else None
    return out


def _json(file: h5py.File, value: Any) -> JSON:
    import h5py

    if isinstance(value, h5py.Empty):
        return ""
    if isinstance(value, np.ndarray):
        return [_json(file, item) for item in value] if value.ndim else _json(file, value[()])
    if isinstance(value, h5py.Reference | h5py.RegionReference):
        word = "region" if isinstance(value, h5py.RegionReference) else "object"
        return {"value": reference_json(file, value), "zarr_dtype": word}
    if isinstance(value, np.void) and value.dtype.names:
        return {name: _json(file, value[name]) for name in value.dtype.names}
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, np.void):
        return value.tobytes().hex()
    if isinstance(value, complex | np.complexfloating):
        return [float(value.real), float(value.imag)]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return value  # the literals NaN and Infinity, as other writers of Zarr v2 have them
    return value if isinstance(value, str | int | float | bool) else str(value)


def _path_of(file: h5py.File, reference: h5py.Reference) -> str:
    import h5py

    if not isinstance(reference, h5py.Reference) or not reference:
        return str(reference)
    name = h5py.h5r.get_name(reference, file.id)
    return "" if name is None else name.decode("utf-8", "surrogateescape")


def reference_json(file: h5py.File, reference: h5py.Reference) -> JSON:
    """Return a reference to an object of the same file, as HDMF has it in Zarr v2."""
    if not reference:
        return None
    path = _path_of(file, reference)
    return {"path": path, "source": ".", **_identity(file, file[reference] if path else None)}
