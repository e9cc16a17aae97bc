"""Datasets of HDF5 files as arrays of Zarr v2: a document, and the location of each chunk.

Chunks that our own codecs decode are referenced in the file.  Everything else (text, references, records with
gaps, virtual datasets, filters that only HDF5 has) is read by h5py on request, without filters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from chunkwise.core.base.binding import JSON, dump
from chunkwise.core.kvstore.reference.hdf5_elements import (
    JSON2,
    Array,
    Filter,
    add_filters,
    can_add,
    document_fill,
    element_of,
    encode_chunk,
    fill_of,
    filter_documents,
    filters_of,
    is_suffix,
    marker_of,
    missing_of,
)
from chunkwise.core.kvstore.reference.hdf5_objects import ObjectPaths
from chunkwise.core.kvstore.reference.table import BLOCK_NBYTES, Part, Reference, blocks_of
from chunkwise.errors import DataCorruptionError

if TYPE_CHECKING:
    import h5py

__all__ = ["ChunkSource", "Hdf5Array", "Origin", "describe_dataset"]

_BLOCK_ITEMS = 1 << 16  # of text and objects: 4 MiB if an item takes 64 bytes
_MOST_CHUNKS = 100_000_000  # whatever shape the file claims; an index of so many takes 3.2 GB
Box = tuple[slice, ...]


class Origin(Protocol):
    """The file that a dataset is in."""

    url: str  # empty for the file of the table
    size: int  # size of the file, in bytes
    file: h5py.File

    def part(self, start: int, stop: int) -> bytes: ...


class ChunkSource(Protocol):
    """Returns the reference of a chunk, None if it isn't stored."""

    def __call__(self, cell: tuple[int, ...]) -> Reference | None: ...


class Hdf5Array(NamedTuple):
    """A dataset as an array."""

    document: dict[str, JSON]
    grid: tuple[int, ...]  # number of chunks in each dimension
    find: ChunkSource
    cells: Callable[[], list[tuple[int, ...]]]  # cells of the stored chunks
    by_h5py: str  # why h5py reads it; empty if not
    word: JSON  # HDMF's name of the element type


def describe_dataset(
    dataset: h5py.Dataset,
    origin: Origin,
    read_box: Callable[[h5py.Dataset, Box], Array],
    external: ChunkReader | None,
    paths: ObjectPaths,
) -> Hdf5Array:
    """Return a dataset of h5py as an array; `read_box` reads a part of it through h5py."""
    element = element_of(dataset)
    outer = tuple(int(n) for n in (dataset.shape if dataset.shape is not None else (0,)))
    shape = outer + element.inner
    filters = filters_of(dataset)
    documents: list[JSON] | None = (
        [] if element.by_h5py else filter_documents(filters, element.stored.itemsize)
    )
    why = element.by_h5py
    chunks: tuple[int, ...] | None = dataset.chunks
    records: _Chunks | None = None
    if not why and documents is None:
        why = f"filters {', '.join(one.name or str(one.number) for one in filters)}"
    if not why and dataset.is_virtual:
        why = "virtual dataset"
    if not why and chunks is not None:
        records = _Chunks(dataset, origin, chunks, outer)
        if any(not is_suffix(int(mask), filters) for mask in np.unique(records.masks) if mask):
            why = "chunks without some of the filters"
    fill, marker = fill_of(dataset, element), marker_of(dataset, element)
    # A missing chunk reads as the fill value of the document.  For another value, a chunk is made.
    is_told = element.filters or same_bytes(fill, np.full_like(fill, missing_of(marker, element)))
    if records is not None and not why and not is_told and not can_add(filters):
        why = "a fill value other than _FillValue, with filters that only HDF5 applies"
    itemsize = max(1, element.stored.itemsize * prod(element.inner))
    blocks = chunks or blocks_of(
        outer, itemsize, _BLOCK_ITEMS * itemsize if element.filters else BLOCK_NBYTES
    )
    grid = tuple(-(-n // c) for n, c in zip(outer, blocks, strict=True))
    inner_grid = grid + (1,) * len(element.inner)
    nbytes = prod(blocks) * itemsize

    def box_of(cell: tuple[int, ...]) -> Box:
        pairs = zip(cell, blocks, outer, strict=False)
        return tuple(slice(i * c, min(n, (i + 1) * c)) for i, c, n in pairs)

    hole = None if is_told else _Hole(fill, blocks + element.inner, filters, element.stored.itemsize)
    find: ChunkSource
    cells: Callable[[], list[tuple[int, ...]]] = lambda: list(np.ndindex(*inner_grid))  # noqa: E731
    if why:
        whole = blocks + element.inner

        def find(cell: tuple[int, ...]) -> Reference | None:
            return lambda: encode_chunk(read_box(dataset, box_of(cell)), whole, element, dataset, fill, paths)

    elif records is not None:
        known = records

        def find(cell: tuple[int, ...]) -> Reference | None:
            found = known.find(cell[: len(grid)], filters, element.stored.itemsize)
            return hole if found is None else found

        if hole is None:
            cells = lambda: [c + (0,) * len(element.inner) for c in known.cells()]  # noqa: E731
    else:
        if external is None:
            # For data that was never written, the offset is undefined or meaningless.
            offset = dataset.id.get_offset() if dataset.id.get_storage_size() else None
            if offset is not None and offset + prod(shape) * element.stored.itemsize > origin.size:
                raise DataCorruptionError(f"dataset {dump(dataset.name)} is cut off: it ends beyond the file")
        compact = external is None and offset is None and dataset.id.get_storage_size() > 0
        contents = dataset[...].tobytes() if compact else b""

        def find(cell: tuple[int, ...]) -> Reference | None:
            box = box_of(cell)
            start = 0
            for part, n in zip(box, outer, strict=True):
                start = start * n + part.start
            start, size = start * itemsize, prod(p.stop - p.start for p in box) * itemsize
            if compact:
                return contents[start : start + size].ljust(nbytes, b"\0")
            if external is not None:
                return lambda: external(start, start + size).ljust(nbytes, b"\0")
            if offset is None:
                return hole
            if size == nbytes:
                return Part(origin.url, offset + start, offset + start + size)
            return lambda: origin.part(offset + start, offset + start + size).ljust(nbytes, b"\0")

        if external is None and not compact and offset is None and hole is None:
            cells = list
    encoding = [*element.filters, *(() if why or documents is None else documents)]
    return Hdf5Array(
        {
            "chunks": [max(1, n) for n in blocks + element.inner],
            "compressor": None,
            "dtype": element.dtype,
            "fill_value": document_fill(marker, element),
            "filters": encoding or None,
            "order": "C",
            "shape": list(shape),
            "zarr_format": 2,
        },
        inner_grid,
        find,
        cells,
        why,
        "scalar"
        if not shape and isinstance(element.word, str) and element.filters[:1] != [JSON2]
        else element.word,
    )


ChunkReader = Callable[[int, int], bytes]


def same_bytes(a: Array, b: Array) -> bool:
    """Return True for equal values of one type; NaN is equal to NaN."""
    return a.tobytes() == b.tobytes() or (a.dtype.kind in "fc" and bool(a != a) and bool(b != b))


class _Hole:
    """Makes an unwritten chunk, once."""

    def __init__(self, fill: Array, shape: tuple[int, ...], filters: Sequence[Filter], itemsize: int) -> None:
        self._parts = fill, shape, filters, itemsize
        self._made = b""

    def __call__(self) -> bytes:
        if not self._made:
            fill, shape, filters, itemsize = self._parts
            plain = np.full(shape, fill).tobytes()
            self._made = add_filters(plain, (1 << len(filters)) - 1, filters, itemsize)
        return self._made


class _Chunks:
    """Locations of the chunks of a dataset: its index, read once."""

    def __init__(
        self, dataset: h5py.Dataset, origin: Origin, chunks: tuple[int, ...], shape: tuple[int, ...]
    ) -> None:
        self._grid = tuple(-(-n // c) for n, c in zip(shape, chunks, strict=True))
        self._origin = origin
        name, total = dataset.name, prod(self._grid)
        rows: list[tuple[int, int, int, int]] = []
        wrong: list[str] = []

        def add(info: Any) -> int | None:
            number = 0
            for start, c, n in zip(info.chunk_offset, chunks, self._grid, strict=True):
                i, rest = divmod(int(start), c)
                if rest:
                    wrong.append(f"a chunk begins at {tuple(info.chunk_offset)}, which is not on the grid")
                    return 1
                if i >= n:  # beyond the shape, since the dataset was made smaller
                    return None
                number = number * n + i
            stop = int(info.byte_offset) + int(info.size)
            if stop > origin.size:
                wrong.append(f"chunk {number} ends at byte {stop} of a file of {origin.size} bytes")
                return 1
            rows.append((number, int(info.byte_offset), int(info.size), int(info.filter_mask)))
            if len(rows) > min(total, _MOST_CHUNKS):
                wrong.append(f"more than {len(rows) - 1} chunks")
                return 1
            return None

        if total:
            dataset.id.chunk_iter(add)
        if wrong:
            raise DataCorruptionError(f"dataset {dump(name)} has an invalid index of chunks: {wrong[0]}")
        table = np.array(rows, np.int64).reshape(-1, 4)
        table = table[np.argsort(table[:, 0], kind="stable")]
        self._numbers = np.ascontiguousarray(table[:, 0])
        self._starts, self._sizes, self.masks = table[:, 1], table[:, 2], table[:, 3]

    def find(self, cell: tuple[int, ...], filters: Sequence[Filter], itemsize: int) -> Reference | None:
        number = 0
        for i, n in zip(cell, self._grid, strict=True):
            number = number * n + i
        at = int(np.searchsorted(self._numbers, number))
        if at == len(self._numbers) or self._numbers[at] != number:
            return None
        start, size, mask = int(self._starts[at]), int(self._sizes[at]), int(self.masks[at])
        if not mask:
            return Part(self._origin.url, start, start + size)
        return lambda: add_filters(self._origin.part(start, start + size), mask, filters, itemsize)

    def cells(self) -> list[tuple[int, ...]]:
        where = np.unravel_index(self._numbers, self._grid)
        return list(zip(*(along.tolist() for along in where), strict=True))
