"""Paths of objects in HDF5 files, by address.

HDF5 searches the whole file each time for the name of a referenced object.  Here the links of a file are
scanned once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import h5py

__all__ = ["ObjectPaths", "address_of"]


def address_of(node: h5py.HLObject) -> tuple[int, int]:
    """Return what identifies an object among all open ones: the number of its file, and its address."""
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
