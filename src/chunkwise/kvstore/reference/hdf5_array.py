"""Datasets of HDF5 files as arrays of Zarr v2: a document, and where each chunk is.

What our own codecs decode is left where it is in the file.  The rest, which is text, references, records with
gaps, virtual datasets and filters that only HDF5 has, is read by h5py when it is asked for, without filters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple, Protocol

import numcodecs
import numpy as np
import numpy.typing as npt

from chunkwise.binding import JSON, dump
from chunkwise.dtypes.zarr2 import fill_value_to_zarr2, parse_zarr2
from chunkwise.errors import DataCorruptionError, UnsupportedError
from chunkwise.kvstore.protocol import Buffer
from chunkwise.kvstore.reference.hdf5_attributes import reference_json
from chunkwise.kvstore.reference.hdf5_filters import Filter, add_filters, filter_documents, is_suffix
from chunkwise.kvstore.reference.table import BLOCK_NBYTES, Part, Reference, blocks_of

__all__ = ["ChunkSource", "Hdf5Array", "Origin", "describe_dataset"]

_BLOCK_ITEMS = 1 << 16  # of text and objects: 4 MiB, if an item takes 64 bytes
_MOST_CHUNKS = 100_000_000  # whatever shape the file claims; their index takes 3.2 GB
JSON2: dict[str, JSON] = {
    "allow_nan": True,
    "check_circular": True,
    "encoding": "utf-8",
    "ensure_ascii": True,
    "id": "json2",
    "indent": None,
    "separators": [",", ":"],
    "skipkeys": False,
    "sort_keys": True,
    "strict": True,
}

Array = npt.NDArray[Any]
Box = tuple[slice, ...]


class Origin(Protocol):
    """The file that a dataset is in."""

    url: str  # empty for the file that the table is about
    size: int  # of the file in bytes
    file: Any  # of h5py

    def part(self, start: int, stop: int) -> bytes: ...


class ChunkSource(Protocol):
    """Returns the reference of a chunk, None if it isn't stored."""

    def __call__(self, cell: tuple[int, ...]) -> Reference | None: ...


class Hdf5Array(NamedTuple):
    """A dataset as an array."""

    document: dict[str, JSON]
    grid: tuple[int, ...]  # chunks in each dimension
    find: ChunkSource
    cells: Callable[[], list[tuple[int, ...]]]  # of the chunks that are stored
    by_h5py: str  # why it is read by h5py; empty if it isn't
    word: JSON  # what HDMF calls the type of the elements


class _Element(NamedTuple):
    """The type of the elements."""

    dtype: JSON  # of the document
    stored: np.dtype[Any]  # as they are in chunks
    inner: tuple[int, ...]  # dimensions that each element has
    filters: list[JSON]  # what makes bytes of objects
    by_h5py: str
    word: JSON


def describe_dataset(
    dataset: Any, origin: Origin, read_box: Callable[[Any, Box], Array], external: ChunkReader | None
) -> Hdf5Array:
    """Return a dataset of h5py as an array; `read_box` reads a part of it by h5py."""
    element = _element(dataset)
    outer = tuple(int(n) for n in (dataset.shape if dataset.shape is not None else (0,)))
    shape = outer + element.inner
    properties = dataset.id.get_create_plist()
    filters = _filters(properties)
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

    fill = np.asarray(_fill(dataset, element))
    find: ChunkSource
    cells: Callable[[], list[tuple[int, ...]]] = lambda: list(np.ndindex(*inner_grid))  # noqa: E731
    if why:
        whole = blocks + element.inner

        def find(cell: tuple[int, ...]) -> Reference | None:
            return lambda: _encoded(read_box(dataset, box_of(cell)), whole, element, dataset, fill)

    elif records is not None:
        known = records

        def find(cell: tuple[int, ...]) -> Reference | None:
            return known.find(cell[: len(grid)], filters, element.stored.itemsize)

        cells = lambda: [c + (0,) * len(element.inner) for c in known.cells()]  # noqa: E731
    else:
        if external is None:
            # Of data that were never written it is no number, or one that looks like one.
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
                return None
            if size == nbytes:
                return Part(origin.url, offset + start, offset + start + size)
            return lambda: origin.part(offset + start, offset + start + size).ljust(nbytes, b"\0")

        if external is None and not compact and offset is None:
            cells = list
    encoding = [*element.filters, *(() if why or documents is None else documents)]
    return Hdf5Array(
        {
            "chunks": [max(1, n) for n in blocks + element.inner],
            "compressor": None,
            "dtype": element.dtype,
            "fill_value": _fill_json(fill, element),
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


def _filters(properties: Any) -> list[Filter]:
    out = []
    for i in range(properties.get_nfilters()):
        number, _, values, name = properties.get_filter(i)
        out.append(Filter(int(number), tuple(map(int, values)), name.decode("utf-8", "replace")))
    return out


class _Chunks:
    """Locations of the chunks of a dataset: its index, read once."""

    def __init__(self, dataset: Any, origin: Origin, chunks: tuple[int, ...], shape: tuple[int, ...]) -> None:
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
                if i >= n:  # beyond the shape, of a dataset that was made smaller
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


# -- elements -----------------------------------------------------------------------------------------


def _element(dataset: Any) -> _Element:
    import h5py

    try:
        dtype, kind = dataset.dtype, dataset.id.get_type()
    except TypeError as e:
        raise UnsupportedError(f"dataset {dump(dataset.name)}: unsupported data type: {e}") from None
    inner: tuple[int, ...] = ()
    if dtype.subdtype is not None:
        dtype, inner = dtype.subdtype
        kind = kind.get_super()
    text = h5py.check_string_dtype(dtype)
    if text is not None and text.length is None:
        return _Element("|O", np.dtype(object), inner, [{"id": "vlen-utf8"}], "text", "str")
    if h5py.check_ref_dtype(dtype) is not None:
        word = "region" if h5py.check_ref_dtype(dtype) is h5py.RegionReference else "object"
        return _Element("|O", np.dtype(object), inner, [JSON2], "references", word)
    of = h5py.check_vlen_dtype(dtype)
    if of is not None:
        of = np.dtype(of)
        if of.kind not in "biuf":
            return _Element("|O", np.dtype(object), inner, [JSON2], "lists", "object")
        made = [{"id": "vlen-array", "dtype": of.str}]
        return _Element("|O", np.dtype(object), inner, made, "lists", "object")
    if dtype.hasobject:
        words = [{"dtype": _word(dtype.fields[name][0]), "name": name} for name in dtype.names or ()]
        return _Element("|O", np.dtype(object), inner, [JSON2], "records with text or references", words)
    packed = np.dtype(_packed(dtype))
    why = ""
    if text is not None:
        if kind.get_strpad() == h5py.h5t.STR_SPACEPAD:
            why = "text that is filled up with spaces"
    elif packed != dtype or ((dtype.kind != "V" or dtype.names) and not _is_native(dtype, kind)):
        why = "elements that are stored in another way than in memory"
    kinds: JSON = _word(packed)
    if packed.names:
        kinds = [{"dtype": _word(packed[name]), "name": name} for name in packed.names]
    return _Element(_dtype_json(packed), packed, inner, [], why, kinds)


def _is_native(dtype: np.dtype[Any], kind: Any) -> bool:
    import h5py

    try:
        return bool(h5py.h5t.py_create(dtype, logical=True).equal(kind))
    except (TypeError, ValueError):
        return False


def _word(dtype: np.dtype[Any]) -> str:
    import h5py

    if h5py.check_ref_dtype(dtype) is not None:
        return "region" if h5py.check_ref_dtype(dtype) is h5py.RegionReference else "object"
    if dtype.kind in "SO":
        return "bytes" if dtype.kind == "S" else "str_"
    return dtype.name


def _packed(dtype: np.dtype[Any]) -> Any:
    """Return a type without gaps between its fields, and without what h5py notes in it."""
    if dtype.subdtype is not None:
        return _packed(dtype.subdtype[0]), dtype.subdtype[1]
    if dtype.names is None or dtype.fields is None:
        return dtype.str
    return [(name, *_field(_packed(dtype.fields[name][0]))) for name in dtype.names]


def _field(packed: Any) -> tuple[Any, ...]:
    return packed if isinstance(packed, tuple) else (packed,)


def _dtype_json(dtype: np.dtype[Any]) -> JSON:
    if dtype.names is None or dtype.fields is None:
        return dtype.str
    out: list[JSON] = []
    for name in dtype.names:
        of = dtype.fields[name][0]
        sub = () if of.subdtype is None else (list(of.subdtype[1]),)
        base = of if of.subdtype is None else of.subdtype[0]
        out.append([name, _dtype_json(base), *sub])
    return out


def _fill(dataset: Any, element: _Element) -> Any:
    if element.filters:
        return ""
    value = dataset.fillvalue
    try:
        return np.asarray(value, dataset.dtype if element.inner == () else element.stored).astype(
            element.stored
        )
    except (TypeError, ValueError):
        return np.zeros((), element.stored)


def _fill_json(fill: Array, element: _Element) -> JSON:
    """Return the fill value of the document; zero is null, which xarray takes for no marker of its own."""
    if element.filters or fill.shape or not fill.tobytes().strip(b"\0"):
        return None
    data_type, _ = parse_zarr2(element.dtype)
    return fill_value_to_zarr2(fill.astype(data_type.memory_dtype), data_type)


def _encoded(values: Array, shape: tuple[int, ...], element: _Element, dataset: Any, fill: Array) -> Buffer:
    """Return a chunk as bytes, with what lies beyond the array filled up."""
    first = element.filters[0] if element.filters else None
    if first is None:
        out = np.empty(shape, element.stored)
        out[...] = fill
        out[tuple(slice(n) for n in values.shape)] = values
        return out.tobytes()
    objects = np.empty(shape, object)
    if first["id"] == "vlen-array":
        empty = np.empty(0, first["dtype"])
        for index in np.ndindex(*shape):
            objects[index] = empty
        for index in np.ndindex(*values.shape):
            objects[index] = np.asarray(values[index], first["dtype"])
        encoded: Any = numcodecs.VLenArray(first["dtype"]).encode(objects.reshape(-1))
        return bytes(encoded)
    objects[...] = "" if first["id"] == "vlen-utf8" else 0
    for index in np.ndindex(*values.shape):
        objects[index] = values[index] if first["id"] == "vlen-utf8" else _object(values[index], dataset)
    codec: Any = numcodecs.VLenUTF8() if first["id"] == "vlen-utf8" else numcodecs.get_codec(dict(first))
    return bytes(codec.encode(objects.reshape(-1) if first["id"] == "vlen-utf8" else objects))


def _object(value: Any, dataset: Any) -> JSON:
    import h5py

    if isinstance(value, h5py.Reference | h5py.RegionReference):
        return reference_json(dataset.file, value)
    if isinstance(value, np.void) and value.dtype.names:
        return [_object(value[name], dataset) for name in value.dtype.names]
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, np.ndarray | tuple):
        return [_object(item, dataset) for item in value]
    return value.item() if isinstance(value, np.generic) else value
