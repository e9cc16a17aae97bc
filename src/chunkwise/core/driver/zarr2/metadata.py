"""The ``.zarray`` of an array: parsed, checked, and written back without loss.

Specification: Zarr v2, "Arrays", "Metadata"; fill values as the published text has them (NaN and the
infinities as strings, fixed-length bytes and structured values as base64)."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import (
    JSON,
    Members,
    dump,
    expect_array,
    expect_int,
    expect_object,
    expect_one_of,
    expect_string,
    parse_array,
)
from chunkwise.core.codec.chain import prepare_chain
from chunkwise.core.codec.protocol import ChunkSpec, Codec, PreparedChain
from chunkwise.core.codec.zarr2 import parse_zarr2_codecs
from chunkwise.core.driver.chunked.documents import usual_form
from chunkwise.core.driver.chunked.record import Field
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.zarr2 import object_dtype, parse_fill_value_zarr2, parse_zarr2
from chunkwise.errors import SpecError, prefixed

__all__ = ["MEMBERS", "Zarr2Metadata", "parse_metadata", "raw_element", "record_chain", "with_object_codec"]

# The filter for values of variable length, as zarr-python 2 and 3 write it.
_OBJECT_FILTERS = {"ustring": "vlen-utf8", "string": "vlen-bytes", "json": "json2"}

MEMBERS = (
    "zarr_format",
    "shape",
    "chunks",
    "dtype",
    "compressor",
    "fill_value",
    "order",
    "filters",
    "dimension_separator",
)


class Zarr2Metadata(NamedTuple):
    """An array's metadata document and its meaning."""

    document: dict[str, JSON]  # the document as stored, including members unknown to chunkwise
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: DataType
    stored_dtype: np.dtype[Any]  # with the byte order of stored elements
    fill_value: npt.NDArray[Any] | None  # of shape ``()``; None if the document says null
    order: str
    separator: str
    codecs: tuple[Codec, ...]  # filters and compressor as one chain, bound to the data type

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def shared(self) -> tuple[object, ...]:
        """Objects that metadata with other shapes and attributes may share."""
        return self.chunks, self.dtype, self.stored_dtype, self.fill_value, self.separator, self.codecs

    def with_shape_and_attributes(self, document: dict[str, JSON]) -> Zarr2Metadata | None:
        """Return the metadata of a document that differs only in shape; None if in doubt."""
        shape = document.get("shape")
        if type(shape) is not list or len(shape) != self.rank:
            return None
        if any(type(n) is not int or not 0 <= n < 2**62 for n in shape):
            return None
        if document.get("chunks") != self.document["chunks"]:
            return None
        return self._replace(shape=tuple(shape), document=usual_form(document))

    def resized(self, shape: tuple[int, ...]) -> Zarr2Metadata:
        """Return the metadata of the array with another shape."""
        return self._replace(shape=shape, document={**self.document, "shape": list(shape)})

    def missing_value(self) -> npt.NDArray[Any]:
        """Return the value of missing chunks: the fill value, or zero if that is null."""
        if self.fill_value is not None:
            return self.fill_value
        return self.dtype.zero()


def parse_metadata(document: JSON) -> Zarr2Metadata:
    """Read a stored document; members that the specification doesn't define are kept and ignored."""
    document = usual_form(expect_object(document))
    members = Members(document)
    members.take("zarr_format", lambda v: expect_int(v, 2, 2))
    shape = tuple(members.take("shape", lambda v: parse_array(v, lambda n: expect_int(n, 0))))
    rank = len(shape)
    chunks = tuple(members.take("chunks", lambda v: parse_array(v, lambda n: expect_int(n, 0), rank)))
    for dim, (n, size) in enumerate(zip(chunks, shape, strict=True)):
        if n == 0 < size:
            raise SpecError(
                f'Error parsing object member "chunks": Expected at least 1 in dimension {dim}, which has '
                f"{size} elements, but received: {dump(list(chunks))}"
            )
    chunks = tuple(max(1, n) for n in chunks)  # some writers store 0 for a dimension of length 0
    filters = members.take("filters", _filters, None) or []
    dtype, stored_dtype = members.take("dtype", lambda v: parse_zarr2(v, object_codec(filters)))
    compressor = members.take("compressor", lambda v: None if v is None else _codec(v))
    fill_value = members.take("fill_value", lambda v: parse_fill_value_zarr2(v, dtype, stored_dtype))
    order = members.take("order", lambda v: expect_one_of(v, ("C", "F")))
    separator = members.take("dimension_separator", lambda v: expect_one_of(v, (".", "/")), ".")
    item = ChunkSpec(chunks, dtype.memory_dtype, dtype.zero() if fill_value is None else fill_value)
    with prefixed('Error parsing object member "filters" or "compressor"'):
        codecs = parse_zarr2_codecs(compressor, filters, stored_dtype, order, item)
    return Zarr2Metadata(
        document={**document, "chunks": list(chunks)},
        shape=shape,
        chunks=chunks,
        dtype=dtype,
        stored_dtype=stored_dtype,
        fill_value=fill_value,
        order=order,
        separator=separator,
        codecs=tuple(codecs),
    )


def object_codec(filters: list[dict[str, JSON]]) -> str | None:
    """Return the id of the filter that turns variable-length objects into bytes, if any."""
    if filters and object_dtype(filters[0]["id"]) is not None:
        return str(filters[0]["id"])
    return None


def with_object_codec(filters: list[dict[str, JSON]] | None, dtype: DataType) -> list[dict[str, JSON]]:
    """Return filters, first the one that values of variable length need, if it is not among them."""
    filters = list(filters or [])
    name = _OBJECT_FILTERS.get(dtype.name)
    if name is not None and object_codec(filters) is None:
        filters.insert(0, {"id": name})
    return filters


def _codec(value: JSON) -> dict[str, JSON]:
    codec = dict(expect_object(value))
    with prefixed('Error parsing object member "id"', SpecError):
        expect_string(codec.get("id"))
    return codec


def _filters(value: JSON) -> list[dict[str, JSON]] | None:
    return None if value is None else parse_array(expect_array(value), _codec)


def record_chain(metadata: Zarr2Metadata, field: Field) -> PreparedChain:
    """Return the codec chain for chunks of the records that contain a field."""
    fill = metadata.missing_value()
    if field.name is not None:
        return prepare_chain(metadata.codecs, ChunkSpec(metadata.chunks, fill.dtype, fill))
    fill = raw_element(metadata.stored_dtype, fill)
    document, item = metadata.document, ChunkSpec(metadata.chunks, fill.dtype, fill)
    compressor, filters = document["compressor"], document.get("filters")
    order: Literal["C", "F"] = "F" if metadata.order == "F" else "C"
    return prepare_chain(parse_zarr2_codecs(compressor, filters, fill.dtype, order, item), item)


def raw_element(stored_dtype: np.dtype[Any] | None, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the stored bytes of an element."""
    raw = value.astype(stored_dtype or value.dtype).tobytes()
    return np.ndarray((), f"V{len(raw)}", raw)
