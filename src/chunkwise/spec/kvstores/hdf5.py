"""The kvstore ``hdf5``: an HDF5 or NetCDF-4 file, to read, as a tree of Zarr v2."""

from __future__ import annotations

from typing import ClassVar

from chunkwise.kvstore.reference.store import LoadTable
from chunkwise.spec.kvstores.reference import TableKvStoreSpec

__all__ = ["Hdf5KvStoreSpec"]


class Hdf5KvStoreSpec(TableKvStoreSpec):
    """``{"driver": "hdf5", "base": "file:///x.h5", "path": "a/b/"}``, ``file:///x.h5|hdf5:a/b/``."""

    driver: ClassVar[str] = "hdf5"

    def load_table(self) -> LoadTable:
        """Return the reader of HDF5 files."""
        from chunkwise.kvstore.reference.hdf5_table import load_hdf5

        return load_hdf5
