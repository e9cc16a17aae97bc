"""NWB and other HDMF files, which only a conversion can write in another format."""

from __future__ import annotations

from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.trees.attributes import node_attributes
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.node import Node
from chunkwise.errors import InvalidArgumentError

__all__ = ["check_copied_as_tree", "converted_name", "is_converted", "is_hdmf_file"]

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
    """Raise InvalidArgumentError, with what to do instead, for a file that is converted."""
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
    """Return what a conversion names a place by: the path of an HDF5 file; None if that isn't local."""
    if not _is_hdf5(location):
        return location.text
    file = location.store_spec.base
    return file.path if file is not None and file.driver == "file" else None


def _is_hdf5(location: Location) -> bool:
    return location.base.get("driver") == "hdf5"
