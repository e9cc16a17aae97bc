"""Conventions that a copy or a migration has to know: OME-Zarr attributes, and HDMF files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chunkwise.core.base.binding import JSON
from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.core.trees.attributes import node_attributes
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.node import Node
from chunkwise.errors import InvalidArgumentError

__all__ = [
    "OME_OF_GROUPS",
    "check_copied_as_tree",
    "converted_name",
    "is_converted",
    "is_hdmf_file",
    "level_names",
    "ome_attributes",
]

# -- OME-Zarr -----------------------------------------------------------------------------------------

# Source: OME-Zarr specification 0.4 and 0.5, of which the second has all members in ``ome``, with one
# version.

_VERSIONED = ("multiscales", "plate", "well", "image-label")
OME_OF_GROUPS = (*_VERSIONED, "labels", "omero", "bioformats2raw.layout", "series")
"""Attributes of OME-Zarr 0.4, and members of ``ome`` in 0.5."""


def ome_attributes(attributes: Mapping[str, JSON], format: str, name: str) -> dict[str, JSON]:
    """Return the attributes of the group `name` as OME-Zarr has them in a Zarr format; others unchanged."""
    out, version = dict(attributes), tree_format(format).ngff_version
    if version == "0.5" and "ome" not in out and _is_ome(out, name):
        own = {key: out.pop(key) for key in OME_OF_GROUPS if key in out}
        return {**out, "ome": {"version": version, **{key: _versioned(own[key], None) for key in own}}}
    ome = out.get("ome")
    if version == "0.4" and isinstance(ome, dict) and ome.get("version") == "0.5" and not set(ome) & set(out):
        del out["ome"]
        own = {key: value for key, value in ome.items() if key != "version"}
        return {**out, **{k: _versioned(v, version) if k in _VERSIONED else v for k, v in own.items()}}
    return out


def level_names(attributes: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the names of the axes for each level of the images of a group of OME-Zarr 0.5, by its path."""
    ome = attributes.get("ome")
    images = ome.get("multiscales") if isinstance(ome, dict) and ome.get("version") == "0.5" else None
    found = {}
    for image in images if isinstance(images, list) else ():
        if _is_image(image):
            names = tuple(axis["name"] for axis in image["axes"])
            found.update({one["path"].strip("/"): names for one in image["datasets"]})
    return found


def _versioned(value: JSON, version: str | None) -> JSON:
    """Return a member, or each of a list of them, with a version or without one."""
    if isinstance(value, list):
        return [_versioned(one, version) for one in value]
    if not isinstance(value, dict):
        return value
    others = {key: member for key, member in value.items() if key != "version"}
    return others if version is None else {"version": version, **others}


def _is_ome(attributes: Mapping[str, Any], name: str) -> bool:
    """Return True for the members of OME-Zarr 0.4, which no other convention has in this form."""
    found = attributes.get("multiscales")
    if found is not None:
        return isinstance(found, list) and bool(found) and all(_is_image(one) for one in found)
    for member, inside in (("plate", "wells"), ("well", "images")):
        found = attributes.get(member)
        if isinstance(found, dict):
            return isinstance(found.get(inside), list) and found.get("version", "0.4") == "0.4"
    listed = attributes.get({"labels": "labels", "OME": "series"}.get(name, ""))
    if isinstance(listed, list):
        return all(isinstance(one, str) for one in listed)
    return "bioformats2raw.layout" in attributes


def _is_image(image: Any) -> bool:
    return (
        isinstance(image, dict)
        and image.get("version", "0.4") == "0.4"
        and all(
            isinstance(image.get(member), list)
            and all(isinstance(one, dict) and isinstance(one.get(key), str) for one in image[member])
            for member, key in (("axes", "name"), ("datasets", "path"))
        )
    )


# -- HDMF ---------------------------------------------------------------------------------------------

_MARKS = {"nwb_version", ".specloc"}
"""Attributes of the root of every NWB file, and of any file with a cached schema."""


def is_hdmf_file(root: Node) -> bool:
    """Return True if a group is the root of an NWB or other HDMF file."""
    attributes = root.document.get("hdmf_attributes") if root.format == "n5" else node_attributes(root)
    return isinstance(attributes, dict) and bool(_MARKS & set(attributes))


def is_converted(root: Node, format: str) -> bool:
    """Return True if a group is an HDMF file that a plain copy to a format would break."""
    return root.kind == "group" and is_hdmf_file(root) and (_is_hdf5(root.location) or format != root.format)


def check_copied_as_tree(root: Node, there: Location, format: FormatName) -> None:
    """Raise InvalidArgumentError, which says how to convert the file instead."""
    if not is_converted(root, format):
        return
    here = root.location
    path = converted_name(here)
    text = f"{here.text} is an NWB or HDMF file, of which a plain copy to {format} would not be one; "
    if path is None:
        raise InvalidArgumentError(f"{text}it is in HDF5, which is converted from local files only")
    call = f'chunkwise.hdmf.convert("{path}", "{there.text}", format="{format}")'
    raise InvalidArgumentError(f"{text}{call} or `chunkwise nwb convert` converts it")


def converted_name(location: Location) -> str | None:
    """Return the name of a place for a conversion: the path of an HDF5 file; None if that isn't local."""
    if not _is_hdf5(location):
        return location.text
    file = location.store_spec.base
    return file.path if file is not None and file.driver == "file" else None


def _is_hdf5(location: Location) -> bool:
    return location.base.get("driver") == "hdf5"
