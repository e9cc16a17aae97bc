"""Why there is no store at a place: what is there instead, said as its user would want to know it."""

from __future__ import annotations

import os
import zipfile

from chunkwise.errors import ChunkwiseError, NotFoundError
from chunkwise.hierarchy.location import Location
from chunkwise.spec.url import is_url

__all__ = ["UNFINISHED", "is_hdf5", "no_store"]

UNFINISHED = ".chunkwise-unfinished"
"""Key that says that a new store is being written, or that its writing was interrupted."""

_HDF5 = b"\x89HDF\r\n\x1a\n"


def is_hdf5(path: str | os.PathLike[str]) -> bool:
    """Return whether there is an HDF5 file at a local path."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as f:
        return f.read(len(_HDF5)) == _HDF5


def no_store(location: Location, source: str) -> NotFoundError:
    """Return the error that says what is at a place where a store was expected.

    Parameters
    ----------
    location : Location
    source : str
        Its name.
    """
    return NotFoundError(f"there is no HDMF store at {source}: {_instead(location, source)}")


def _instead(location: Location, source: str) -> str:
    if not is_url(source):
        if not os.path.lexists(source):
            return "nothing is there"
        if os.path.isfile(source):
            if is_hdf5(source):
                return (
                    "it is an HDF5 file; pynwb.NWBHDF5IO reads it, chunkwise.hdmf.convert makes a store of it"
                )
            if zipfile.is_zipfile(source):
                return f'it is a ZIP archive, what is in it is at "{source}|zip:"'
            return "it is a file"
    try:
        unfinished = location.kv.read(location.path + UNFINISHED).value is not None
    except ChunkwiseError:
        unfinished = False
    if unfinished:
        return f"its writing was interrupted or goes on (it has {UNFINISHED})"
    return "no zarr.json, .zgroup or attributes.json with hdmf_n5"
