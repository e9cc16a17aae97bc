"""``chunkwise.zarr.CodecPipeline``: arrays of zarr-python read and written by chunkwise.

Arrays of zarr-python that chunkwise reads and writes itself, and how their chunks make one region.

zarr-python asks a codec pipeline for chunks, each with a selection in the chunk and one in the result.  If
both libraries know the store, codecs, data type and grid, and the chunks are the product of one slice per
dimension, that is one read or write of an array of chunkwise.  Each request is checked for this, and left to
zarr-python otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from itertools import chain
from math import prod
from typing import Any, NamedTuple

import numpy as np
import zarr.storage
from zarr.codecs import ShardingCodec
from zarr.codecs._v2 import V2Codec
from zarr.core.buffer import cpu, default_buffer_prototype
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.core.metadata import ArrayV2Metadata, ArrayV3Metadata
from zarr.storage import StorePath

from chunkwise import KvStore, TensorStore, open
from chunkwise.errors import ChunkwiseError
from chunkwise.extension.inside import is_of
from chunkwise.extension.trees import Location, locate
from chunkwise.zarr.store import Store

__all__ = ["CodecPipeline", "KnownArray", "Region", "known_array"]


_CODECS = ("BytesCodec", "TransposeCodec", "GzipCodec", "ZstdCodec", "BloscCodec", "Crc32cCodec")
_KINDS = "biufc"


class Region(NamedTuple):
    """A region of an array, and its position in zarr-python's buffer."""

    view: TensorStore
    selection: tuple[Any, ...]


def known_array(metadata: Any, store: Any) -> KnownArray | None:
    """Return the array if both libraries store it in the same way; None if that is uncertain."""
    if isinstance(metadata, ArrayV3Metadata):
        name, driver = "zarr.json", "zarr3"
        grid = metadata.chunk_grid
        if type(grid).__name__ not in ("RegularChunkGrid", "RegularChunkGridMetadata"):
            return None
        chunk_shape = grid.chunk_shape
        known = all(map(_is_known_codec, metadata.codecs))
    elif isinstance(metadata, ArrayV2Metadata):
        name, driver, chunk_shape = ".zarray", "zarr2", metadata.chunks
        known = all(
            is_of(codec, "numcodecs")
            for codec in (*(metadata.filters or ()), metadata.compressor)
            if codec is not None
        )
    else:
        return None
    dtype = metadata.dtype.to_native_dtype()
    if not known or dtype.kind not in _KINDS or metadata.fill_value is None:
        return None
    location = _location(store)
    if location is None:
        return None
    document = json.loads(metadata.to_buffer_dict(default_buffer_prototype())[name].to_bytes())
    document.pop("attributes", None)
    document.pop("consolidated_metadata", None)
    known_as = KnownArray(metadata, store, location, driver, document, tuple(chunk_shape), dtype)
    return known_as if known_as.can_be_opened() else None


def _is_known_codec(codec: Any) -> bool:
    """Return True for zarr-python's own implementation of a codec, not for another of the same name."""
    if type(codec) is ShardingCodec:
        # An option of zarr-python 3.4, not in the metadata, says in which order a shard has its chunks.
        if getattr(codec, "subchunk_write_order", "morton") != "morton":
            return False
        return all(map(_is_known_codec, chain(codec.codecs, codec.index_codecs)))
    kind = type(codec)
    return kind.__module__.startswith("zarr.codecs.") and kind.__name__ in _CODECS


def _location(store: Any) -> Location | None:
    """Return the location of a store's keys; None if only zarr-python knows it."""
    # Exactly these classes: a subclass may do anything.
    if type(store) is Store:
        return store._location
    if type(store) is zarr.storage.LocalStore:
        return locate({"driver": "file", "path": f"{store.root}/", "file_io_sync": False})  # as zarr-python
    # Its coroutines could not be waited for in the event loop that runs a pipeline.
    methods = ("get_sync", "set_sync", "delete_sync")
    if type(store) is zarr.storage.MemoryStore and all(hasattr(store, method) for method in methods):
        return locate({"driver": "object", "object": store})
    return None


class KnownArray:
    """An array of zarr-python that chunkwise can open at the path of its keys."""

    def __init__(
        self,
        metadata: Any,
        store: Any,
        location: Location,
        driver: str,
        document: dict[str, Any],
        chunk_shape: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> None:
        self._metadata = metadata
        self._store = store
        self._location = location
        self._driver = driver
        self._document = document
        self._chunk_shape = chunk_shape
        self.dtype = dtype
        self._opened: dict[tuple[str, bool], TensorStore] = {}

    def can_be_opened(self) -> bool:
        """Return True if chunkwise knows everything in the metadata, and uses the same data type."""
        try:
            array = self._open("", False, self._document["shape"])
        except ChunkwiseError:
            return False
        return array.dtype.numpy_dtype == self.dtype.newbyteorder("=")

    def _open(self, prefix: str, store_fill: bool, shape: Sequence[int]) -> TensorStore:
        location = self._location.at(self._location.path + prefix)
        spec = {
            "driver": self._driver,
            "metadata": {**self._document, "shape": list(shape)},
            "store_data_equal_to_fill_value": store_fill,
        }
        kvstore = KvStore._make(location.kvstore())
        return open(spec, kvstore=kvstore, open=True, assume_metadata=True).result()

    def _array(self, prefix: str, store_fill: bool, stops: Sequence[int]) -> TensorStore:
        """Return the array with a domain of at least `stops`, since zarr-python may have resized it."""
        array = self._opened.get((prefix, store_fill))
        shape = self._document["shape"] if array is None else array.shape
        if array is None or any(stop > n for stop, n in zip(stops, shape, strict=True)):
            array = self._open(prefix, store_fill, list(map(max, shape, stops)))
            self._opened[prefix, store_fill] = array
        return array

    def region(self, batch: Sequence[Any], drop_axes: tuple[int, ...]) -> Region | None:
        """Return the region that the chunks of `batch` form together, or None."""
        found = self._cells(batch)
        if found is None or drop_axes:
            return None
        prefix, cells, store_fill = found
        axes = _axes(batch, cells, self._chunk_shape)
        if axes is None:
            return None
        box = [_whole(axis, n) for axis, n in zip(axes, self._chunk_shape, strict=True)]
        index, selection, stops = [], [], []
        for part in box:
            if part is None:
                return None
            index.append(part[0])
            stops.append(part[2])
            if part[1] is not None:
                selection.append(part[1])
        view = self._array(prefix, store_fill, stops)
        return Region(view[tuple(index)] if index else view, (*selection, ...))

    def elements(self, item: Any) -> Region | None:
        """Return the single elements that are selected in one chunk, in the order of the selection."""
        found = self._cells([item])
        if found is None:
            return None
        prefix, (cell,), store_fill = found
        shape = self._chunk_shape
        linear = np.arange(prod(shape)).reshape(shape)[item[2]]
        places = np.unravel_index(linear, shape)
        first = [c * n for c, n in zip(cell, shape, strict=True)]
        stops = [a + n for a, n in zip(first, shape, strict=True)]
        view = self._array(prefix, store_fill, stops)
        index = tuple(a + place for a, place in zip(first, places, strict=True))
        return Region(view.vindex[index] if index else view, item[3])

    def _cells(self, batch: Sequence[Any]) -> tuple[str, list[tuple[int, ...]], bool] | None:
        """Return the prefix of all keys, their cells, and whether chunks of the fill value are stored."""
        rank = len(self._chunk_shape)
        cells, prefixes, specs = [], set(), {}
        for place, spec, *_ in batch:
            if type(place) is not StorePath or place.store is not self._store:
                return None
            numbers = re.split(r"[./]", place.path)[-rank:] if rank else []
            if not all(number.isdecimal() for number in numbers):
                return None
            cell = tuple(map(int, numbers))
            tail = self._metadata.encode_chunk_key(cell)
            if not place.path.endswith(tail):
                return None
            cells.append(cell)
            prefixes.add(place.path[: len(place.path) - len(tail)])
            specs[id(spec)] = spec
        if len(prefixes) != 1 or len(set(cells)) < len(cells):
            return None
        (prefix,) = prefixes
        fills = {spec.config.write_empty_chunks for spec in specs.values()}
        if (prefix and not prefix.endswith("/")) or len(fills) > 1:
            return None
        if not all(self._is_plain(spec) for spec in specs.values()):
            return None
        return prefix, cells, fills.pop()

    def _is_plain(self, spec: Any) -> bool:
        """Return True for a plain request: a chunk of the grid, in memory of NumPy."""
        return (
            tuple(spec.shape) == self._chunk_shape
            and spec.dtype == self._metadata.dtype
            and spec.prototype.buffer is cpu.Buffer
            and spec.prototype.nd_buffer is cpu.NDBuffer
            and getattr(spec.config, "read_missing_chunks", True)
        )


Axis = dict[int, tuple[Any, Any]]


def _axes(
    batch: Sequence[Any], cells: Iterable[tuple[int, ...]], chunk_shape: Sequence[int]
) -> list[Axis] | None:
    """Return the selections in chunk and result by cell and dimension, if `batch` is their product."""
    axes: list[Axis] = [{} for _ in chunk_shape]
    for (_, _, inside, outside, _), cell in zip(batch, cells, strict=True):
        if not isinstance(inside, tuple) or not isinstance(outside, tuple) or len(inside) != len(axes):
            return None
        rest = list(reversed(outside))
        pair: tuple[Any, Any]
        for axis, number, part in zip(axes, cell, inside, strict=True):
            if isinstance(part, slice):
                if not rest or not isinstance(rest[-1], slice):
                    return None
                pair = part, rest.pop()
            elif isinstance(part, int | np.integer):
                pair = int(part), None
            else:
                return None
            if axis.setdefault(number, pair) != pair:
                return None
        if rest:
            return None
    return axes if prod(map(len, axes)) == len(batch) else None


def _whole(axis: Axis, n: int) -> tuple[Any, slice | None, int] | None:
    """Return the index in the array, the one in the result, and the end of the former, of one dimension."""
    # These are not keys of users: zarr-python has derived them from keys, and they are within bounds.
    numbers = sorted(axis)
    first, outside = axis[numbers[0]]
    if isinstance(first, int):
        index = numbers[0] * n + first
        return (index, None, index + 1) if len(axis) == 1 and 0 <= first < n else None
    begin, _, step = first.indices(n)
    start = position = numbers[0] * n + begin
    lowest = done = outside.start or 0
    for number in numbers:
        inside, outside = axis[number]
        if not isinstance(inside, slice):
            return None
        begin, end, own_step = inside.indices(n)
        count = len(range(begin, end, own_step))
        if own_step != step or step < 1 or not count or number * n + begin != position:
            return None
        if outside.step not in (None, 1) or (outside.start or 0) != done or outside.stop != done + count:
            return None
        position += count * step
        done += count
    stop = position - step + 1
    return slice(start, stop, step), slice(lowest, done), stop


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
