"""Dask arrays of chunkwise arrays, and chunkwise arrays of dask arrays (extra ``[dask]``)."""

from chunkwise.dask.convert import to_dask
from chunkwise.dask.write import from_dask, store
from chunkwise.extension.inside import name_members

__all__ = ["from_dask", "store", "to_dask"]

name_members(globals(), __all__)
