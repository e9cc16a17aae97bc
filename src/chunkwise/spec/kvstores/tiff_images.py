"""The kvstore ``tiff_images``: a TIFF or OME-TIFF file, to read, as images of OME-Zarr."""

from __future__ import annotations

from typing import ClassVar

from chunkwise.kvstore.reference.store import LoadTable
from chunkwise.spec.kvstores.reference import TableKvStoreSpec

__all__ = ["TiffImagesKvStoreSpec"]


class TiffImagesKvStoreSpec(TableKvStoreSpec):
    """``{"driver": "tiff_images", "base": "file:///x.tif", "path": "0/"}``, ``file:///x.tif|tiff-images:0/``."""

    driver: ClassVar[str] = "tiff_images"

    def load_table(self) -> LoadTable:
        """Return the reader of TIFF files."""
        from chunkwise.kvstore.reference.tiff_table import load_tiff

        return load_tiff
