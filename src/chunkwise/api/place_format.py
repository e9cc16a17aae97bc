"""Which format an array or group at a place is to have, if nobody says it."""

from __future__ import annotations

from pathlib import PurePath

from chunkwise.api.location import Location
from chunkwise.api.node import find_documented
from chunkwise.errors import PermissionDeniedError

__all__ = ["format_of_place"]

_SUFFIXES: dict[str, str] = {".n5": "n5", ".zarr": "zarr3", ".zarr3": "zarr3"}


def format_of_place(location: Location, source: str | None = None) -> str | None:
    """Return the format of the nearest group above, or what the nearest name says; else that of the source.

    ``*.n5`` says N5.  ``*.zarr`` can be any format of Zarr: that of the source, or else Zarr v3.

    Parameters
    ----------
    location : Location
        Where the array or group is to be.
    source : str, optional
        Format of what is copied.
    """
    at: Location | None = location
    while at is not None:
        group = None if at is location else _group_format(at)
        if group is not None:
            return group
        suffix = PurePath(at.name).suffix
        if suffix == ".zarr" and source is not None and source != "n5":
            return source
        if suffix in _SUFFIXES:
            return _SUFFIXES[suffix]
        at = at.parent
    return source


def _group_format(location: Location) -> str | None:
    try:
        node = find_documented(location)
    except PermissionDeniedError:  # what lies so far above is somebody else's
        return None
    return node.format if node is not None and node.kind == "group" else None
