"""Elements of HDF5 datasets in Zarr v2: data types, fill values, filters, and encoded chunks."""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numcodecs
import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON
from chunkwise.core.dtypes.zarr2 import fill_value_to_zarr2, parse_zarr2
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.core.kvstore.reference.hdf5_objects import UNREADABLE, ObjectPaths, reference_json
from chunkwise.errors import InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    import h5py

__all__ = [
    "FILL_VALUE",
    "JSON2",
    "SHUFFLE",
    "Array",
    "Element",
    "Filter",
    "add_filters",
    "can_add",
    "document_fill",
    "element_of",
    "encode_chunk",
    "fill_of",
    "filter_documents",
    "filters_of",
    "is_suffix",
    "marker_of",
    "missing_of",
    "stored_fill",
]

# -- filters ------------------------------------------------------------------------------------------

# Specification: HDF5 File Format, "Filter Pipeline Message"; filter numbers are those registered with The HDF
# Group.  A filter that could not make a chunk smaller is skipped, which the chunk's filter mask says.  The
# missing filters are applied to such a chunk in a form that does not compress, so that one chain decodes all
# chunks.

_BLOSC_COMPRESSORS = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
SHUFFLE = 2
"""Number of the filter that puts bytes of the same place together."""

_LITERALS = 32  # bytes of a run in LZF


class Filter(NamedTuple):
    """One filter of a pipeline."""

    number: int
    values: tuple[int, ...]
    name: str


Document: TypeAlias = "Callable[[Sequence[int], int], JSON]"


def _blosc(values: Sequence[int], itemsize: int) -> JSON:
    level = values[4] if len(values) > 4 else 5
    shuffle = values[5] if len(values) > 5 else 1
    compressor = values[6] if len(values) > 6 else 0
    if compressor >= len(_BLOSC_COMPRESSORS) or shuffle > 2 or level > 9:
        return None
    return {
        "id": "blosc",
        "cname": _BLOSC_COMPRESSORS[compressor],
        "clevel": level,
        "shuffle": shuffle,
        "blocksize": 0,
    }


def _szip(values: Sequence[int], itemsize: int) -> JSON:
    if len(values) < 4:
        return None
    names = ("options_mask", "pixels_per_block", "bits_per_pixel", "pixels_per_scanline")
    return {"id": "imagecodecs_szip", **dict(zip(names, values[:4], strict=True)), "header": True}


def _level(values: Sequence[int], default: int) -> int:
    return values[0] if values else default


_DOCUMENTS: dict[int, Document] = {
    1: lambda v, n: {"id": "zlib", "level": min(9, _level(v, 4))},
    2: lambda v, n: {"id": "shuffle", "elementsize": _level(v, n)},
    3: lambda v, n: {"id": "fletcher32"},
    4: _szip,
    307: lambda v, n: {"id": "bz2", "level": min(9, max(1, _level(v, 9)))},
    32000: lambda v, n: {"id": "imagecodecs_lzf", "header": False},
    32001: _blosc,
    32004: lambda v, n: {"id": "imagecodecs_lz4h5"},
    32015: lambda v, n: {"id": "zstd", "level": min(22, _level(v, 3))},
}
_PACKAGES = (4, 32000, 32004)  # filters that imagecodecs provides


def filters_of(dataset: h5py.Dataset) -> list[Filter]:
    """Return the filters of a dataset."""
    properties, out = dataset.id.get_create_plist(), []
    for i in range(properties.get_nfilters()):
        number, _, values, name = properties.get_filter(i)
        out.append(Filter(int(number), tuple(map(int, values)), name.decode("utf-8", "replace")))
    return out


def filter_documents(filters: Sequence[Filter], itemsize: int) -> list[JSON] | None:
    """Return the filters in Zarr v2's form; None if only HDF5 itself can undo one of them."""
    out: list[JSON] = []
    for one in filters:
        make = _DOCUMENTS.get(one.number)
        document = None if make is None else make(one.values, itemsize)
        if one.number == SHUFFLE and out:
            return None  # after others it may get partial elements, which HDF5 leaves unchanged
        if document is None or (one.number in _PACKAGES and not _has_imagecodecs()):
            return None
        out.append(document)
    return out


def _has_imagecodecs() -> bool:
    try:
        import imagecodecs  # noqa: F401
    except ImportError:
        return False
    return True


def can_add(filters: Sequence[Filter]) -> bool:
    """Return True if `add_filters` can make a chunk with these filters."""
    return all(one.number in _ADD for one in filters)


def is_suffix(mask: int, filters: Sequence[Filter]) -> bool:
    """Return True if a chunk lacks only the last filters, all of which `add_filters` can add."""
    missing = [i for i in range(len(filters)) if mask >> i & 1]
    last = list(range(len(filters) - len(missing), len(filters)))
    return missing == last and all(filters[i].number in _ADD for i in missing)


def add_filters(data: bytes, mask: int, filters: Sequence[Filter], itemsize: int) -> bytes:
    """Return a chunk with the skipped filters applied, without compression."""
    for i, one in enumerate(filters):
        if mask >> i & 1:
            data = _ADD[one.number](data, _level(one.values, itemsize))
    return data


def _shuffled(data: bytes, itemsize: int) -> bytes:
    whole = len(data) // itemsize * itemsize
    items = np.frombuffer(data[:whole], np.uint8).reshape(-1, itemsize)
    return items.T.tobytes() + data[whole:]


def _literals(data: bytes, _: int) -> bytes:
    """Return an uncompressed LZF stream: runs, each after its length less one."""
    pieces = (data[i : i + _LITERALS] for i in range(0, len(data), _LITERALS))
    return b"".join(bytes((len(piece) - 1,)) + piece for piece in pieces)


def _checked(data: bytes, _: int) -> bytes:
    out: Any = numcodecs.Fletcher32().encode(data)
    return bytes(out)


def _bz2(data: bytes, _: int) -> bytes:
    return bz2.compress(data, 1)


def _by_numcodecs(codec: Any) -> Callable[[bytes, int], bytes]:
    def add(data: bytes, _: int) -> bytes:
        out: Any = codec.encode(data)
        return bytes(out)

    return add


_ADD: dict[int, Callable[[bytes, int], bytes]] = {
    1: lambda data, _: zlib.compress(data, 0),
    2: _shuffled,
    3: _checked,
    307: _bz2,
    32000: _literals,
    32001: _by_numcodecs(numcodecs.Blosc(clevel=0)),
    32015: _by_numcodecs(numcodecs.Zstd(level=1)),
}


# -- elements -----------------------------------------------------------------------------------------

Array = npt.NDArray[Any]

FILL_VALUE = "_FillValue"
"""Name of the CF attribute for missing values."""

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


class Element(NamedTuple):
    """The type of the elements."""

    dtype: JSON  # of the document
    stored: np.dtype[Any]  # type of the elements in chunks
    inner: tuple[int, ...]  # dimensions of each element
    filters: list[JSON]  # filters that turn objects into bytes
    by_h5py: str
    word: JSON


def element_of(dataset: h5py.Dataset) -> Element:
    """Return the element type of a dataset of h5py."""
    import h5py

    try:
        dtype, kind = dataset.dtype, dataset.id.get_type()
    except TypeError as e:
        raise UnsupportedError(f"unsupported data type: {e}") from None
    inner: tuple[int, ...] = ()
    if dtype.subdtype is not None:
        dtype, inner = dtype.subdtype
        kind = kind.get_super()
    text = h5py.check_string_dtype(dtype)
    if text is not None and text.length is None:
        return Element("|O", np.dtype(object), inner, [{"id": "vlen-utf8"}], "text", "str")
    if h5py.check_ref_dtype(dtype) is not None:
        word = "region" if h5py.check_ref_dtype(dtype) is h5py.RegionReference else "object"
        return Element("|O", np.dtype(object), inner, [JSON2], "references", word)
    of = h5py.check_vlen_dtype(dtype)
    if of is not None:
        of = np.dtype(of)
        if of.kind not in "biuf":
            return Element("|O", np.dtype(object), inner, [JSON2], "lists", "object")
        made = [{"id": "vlen-array", "dtype": of.str}]
        return Element("|O", np.dtype(object), inner, made, "lists", "object")
    if dtype.hasobject:
        words = [{"dtype": _word(dtype.fields[name][0]), "name": name} for name in dtype.names or ()]
        return Element("|O", np.dtype(object), inner, [JSON2], "records with text or references", words)
    packed = np.dtype(_packed(dtype))
    try:
        parse_zarr2(_dtype_json(packed))
    except InvalidArgumentError:
        raise UnsupportedError(f"data type {dtype} has no counterpart in Zarr") from None
    why = ""
    if text is not None:
        if kind.get_strpad() == h5py.h5t.STR_SPACEPAD:
            why = "text that is filled up with spaces"
    elif packed != dtype or ((dtype.kind != "V" or dtype.names) and not _is_native(dtype, kind)):
        why = "elements that are stored in another way than in memory"
    kinds: JSON = _word(packed)
    if packed.names:
        kinds = [{"dtype": _word(packed[name]), "name": name} for name in packed.names]
    return Element(_dtype_json(packed), packed, inner, [], why, kinds)


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
    """Return a type without gaps between its fields, and without h5py's metadata."""
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


def stored_fill(dataset: h5py.Dataset) -> Any:
    """Return the fill value of a dataset; None if it is undefined or h5py can't read it."""
    from h5py import h5d

    try:
        if dataset.id.get_create_plist().fill_value_defined() == h5d.FILL_VALUE_UNDEFINED:
            return None
        return dataset.fillvalue
    except UNREADABLE:
        return None


def fill_of(dataset: h5py.Dataset, element: Element) -> Array:
    """Return the value of unwritten elements, as it is in chunks."""
    if element.filters:
        return np.asarray("")
    zero = np.zeros((), element.stored)
    value = stored_fill(dataset)
    if value is None:
        return zero
    try:
        return np.asarray(value, dataset.dtype if element.inner == () else element.stored).astype(
            element.stored
        )
    except (TypeError, ValueError):
        return zero


def marker_of(dataset: h5py.Dataset, element: Element) -> Array | None:
    """Return the value for missing data in the attribute ``_FillValue``; None without it."""
    # The fill value of a dataset is not such a marker: NetCDF gives one to each dataset.
    if element.filters or element.inner or element.stored.names:
        return None
    try:
        value = np.asarray(dataset.attrs[FILL_VALUE])
        marker = value.reshape(()).astype(element.stored)
    except UNREADABLE:
        return None
    same = bool(marker == value.reshape(())) or bool(marker != marker)
    return marker if same and (value.dtype.kind in "iufcb") == (marker.dtype.kind in "iufcb") else None


def document_fill(marker: Array | None, element: Element) -> JSON:
    """Return the fill value of the document, which means missing data: the marker, or null."""
    if marker is None:
        return None
    data_type, _ = parse_zarr2(element.dtype)
    return fill_value_to_zarr2(marker.astype(data_type.memory_dtype), data_type)


def missing_of(marker: Array | None, element: Element) -> Array:
    """Return what missing chunks read as: for times without a marker, that is NaT."""
    return parse_zarr2(element.dtype)[0].zero().astype(element.stored) if marker is None else marker


def encode_chunk(
    values: Array,
    shape: tuple[int, ...],
    element: Element,
    dataset: h5py.Dataset,
    fill: Array,
    paths: ObjectPaths,
) -> Buffer:
    """Return a chunk as bytes, padded beyond the array."""
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
        objects[index] = (
            values[index] if first["id"] == "vlen-utf8" else _object(values[index], dataset, paths)
        )
    codec: Any = numcodecs.VLenUTF8() if first["id"] == "vlen-utf8" else numcodecs.get_codec(dict(first))
    return bytes(codec.encode(objects.reshape(-1) if first["id"] == "vlen-utf8" else objects))


def _object(value: Any, dataset: h5py.Dataset, paths: ObjectPaths) -> JSON:
    import h5py

    if isinstance(value, h5py.Reference | h5py.RegionReference):
        return reference_json(dataset.file, value, paths)
    if isinstance(value, np.void) and value.dtype.names:
        return [_object(value[name], dataset, paths) for name in value.dtype.names]
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, np.ndarray | tuple):
        return [_object(item, dataset, paths) for item in value]
    return value.item() if isinstance(value, np.generic) else value
