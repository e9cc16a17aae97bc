"""``chunkwise.zarr.CodecPipeline``: arrays of zarr-python read and written by chunkwise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from zarr.codecs._v2 import V2Codec
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.core.metadata import ArrayV2Metadata

from chunkwise.zarr.known_array import KnownArray, Region, known_array

__all__ = ["CodecPipeline"]


class CodecPipeline(BatchedCodecPipeline):
    """A codec pipeline of zarr-python that hands regions of known arrays to chunkwise.

    Selected by ``zarr.config.set({"codec_pipeline.path": "chunkwise.zarr.CodecPipeline"})``; arrays are then
    opened, read and written as before.  Partial writes of chunks and shards by several threads or
    processes, all with this pipeline, lose nothing.  Arrays whose store, codecs or data type only
    zarr-python knows, and selections by index arrays when reading, go through its own pipeline.
    """

    _known: KnownArray | None = None  # an array in a store; the codecs inside of shards have none
    _array: tuple[Any, Any] | None = None

    @classmethod
    def from_array_metadata_and_store(cls, array_metadata: Any, store: Any) -> CodecPipeline:
        """Return the pipeline of an array."""
        if isinstance(array_metadata, ArrayV2Metadata):
            codecs: Any = [V2Codec(filters=array_metadata.filters, compressor=array_metadata.compressor)]
        else:
            codecs = array_metadata.codecs
        self: CodecPipeline = cls.from_codecs(codecs)
        object.__setattr__(self, "_array", (array_metadata, store))  # its base is frozen
        object.__setattr__(self, "_known", known_array(array_metadata, store))
        return self

    def __reduce__(self) -> Any:
        if self._array is None:
            return type(self).from_codecs, (tuple(self),)
        return type(self).from_array_metadata_and_store, self._array

    async def read(self, batch_info: Iterable[Any], out: Any, drop_axes: tuple[int, ...] = ()) -> Any:
        """Read the selections of chunks into `out`."""
        batch = list(batch_info)
        target = out.as_ndarray_like()
        known = self._known
        region = known.region(batch, drop_axes) if known and batch and type(target) is np.ndarray else None
        if region is None:
            return await super().read(batch, out, drop_axes)
        part = target[region.selection]
        if part.dtype == region.view.dtype.numpy_dtype:
            await region.view.read(out=part)
        else:  # in the byte order of the file
            part[...] = await region.view.read()
        # Used only if a missing chunk is an error, and then zarr-python's own pipeline reads.
        return ({"status": "present"},) * len(batch)

    async def write(self, batch_info: Iterable[Any], value: Any, drop_axes: tuple[int, ...] = ()) -> None:
        """Write the selections of chunks from `value`."""
        batch = list(batch_info)
        values = value.as_ndarray_like()
        for region in self._regions(batch, values, drop_axes) or ():
            part = values[region.selection] if values.ndim else values
            shape = region.view.shape
            await region.view.write(part.reshape(shape) if part.ndim else part).commit
            batch = []
        if batch:
            await super().write(batch, value, drop_axes)

    def _regions(self, batch: list[Any], values: Any, drop_axes: tuple[int, ...]) -> list[Region] | None:
        """Return what to write where; None if uncertain."""
        known = self._known
        if known is None or not batch or batch[0][0].store.read_only or type(values) is not np.ndarray:
            return None
        region = known.region(batch, drop_axes)
        found = [known.elements(item) for item in batch] if region is None else [region]
        regions = [region for region in found if region is not None]
        # Values of another shape are broadcast by chunk, or refused; that is left to zarr-python.
        fits = values.ndim == 0 or all(values[part].size == view.size for view, part in regions)
        return regions if fits and len(regions) == len(found) else None
