"""Opening and making stores; the error for a place without one."""

from __future__ import annotations

import os
import zipfile
from typing import Literal

from chunkwise.errors import ChunkwiseError, NotFoundError
from chunkwise.extension.inside import Pool, is_url, load_json, read_bounded
from chunkwise.extension.trees import Location, tree_format
from chunkwise.hdmf.model.attributes import SPECLOC
from chunkwise.hdmf.model.place import Place, place_of, source_name
from chunkwise.hdmf.model.tree import Format, Tree, detect_format, read_tree
from chunkwise.hdmf.replacement import read_replacement, replace_encoded
from chunkwise.hdmf.storage.store import HdmfStore

__all__ = ["UNFINISHED", "is_hdf5", "new_store", "no_store", "open_store"]

UNFINISHED = ".chunkwise-unfinished"
"""Key that says that a new store is being written, or that its writing was interrupted."""

_HDF5 = b"\x89HDF\r\n\x1a\n"


def is_hdf5(path: str | os.PathLike[str]) -> bool:
    """Return True if there is an HDF5 file at a local path."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as f:
        return f.read(len(_HDF5)) == _HDF5


def no_store(location: Location, source: str) -> NotFoundError:
    """Return the error that says what is at a place where a store was expected."""
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
        unfinished = location.store.read(location.path + UNFINISHED).value is not None
    except ChunkwiseError:
        unfinished = False
    if unfinished:
        return f"its writing was interrupted or goes on (it has {UNFINISHED})"
    return "no zarr.json, .zgroup or attributes.json with hdmf_n5"


def new_store(location: Location, source: str, format: Format, pool: Pool) -> HdmfStore:
    """Return a store that has only a root, and stores nothing."""
    store = HdmfStore(location, source, Tree(format), pool, replace_encoded)
    store.tree.add(store.convention.group("/", {}))
    return store


def open_store(
    place: Place,
    *,
    consolidated: bool | Literal["check"] = True,
    pool: Pool | None = None,
) -> HdmfStore:
    """Open an HDMF store for reading its tree and data.

    Parameters
    ----------
    place : str, path, KvStore or Location
    consolidated : bool or "check"
        Whether consolidated metadata is believed; with "check" only if it agrees with the nodes.
    pool : Pool, optional
        Threads that read chunks; by default new ones.

    Raises
    ------
    NotFoundError
        If there is no store of a known convention.
    """
    location = place_of(place)
    format = detect_format(location)
    if format is None:
        raise no_store(location, source_name(place))
    pool = pool or Pool()
    tree = read_tree(location, format, consolidated, pool=pool)
    read_replacement(location, tree)
    root = tree.nodes["/"]
    key = tree_format(format).attributes_key
    if key and tree.consolidated and SPECLOC not in root.attributes:
        # Release 0.10 consolidated before it cached the specifications.
        raw = read_bounded(location.store, location.path + key).value
        own = {} if raw is None else load_json(raw)
        if isinstance(own, dict) and SPECLOC in own:
            root.attributes[SPECLOC] = own[SPECLOC]
    return HdmfStore(location, source_name(place), tree, pool, replace_encoded)
