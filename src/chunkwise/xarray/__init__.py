"""Datasets of xarray in Zarr v2, v3 and N5 (extra ``[xarray]``).

``xarray.open_dataset(path, engine="chunkwise")`` reads them, `write_dataset` writes them.
"""

from chunkwise.extension.inside import name_members
from chunkwise.xarray.write import write_dataset, write_datatree

__all__ = ["write_dataset", "write_datatree"]

name_members(globals(), __all__)
