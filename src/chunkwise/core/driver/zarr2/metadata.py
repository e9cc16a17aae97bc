"""The ``.zarray`` of an array: parsed, checked, written back without loss; any part of it, as constraints.

Specification: Zarr v2, "Arrays", "Metadata"; fill values as the published text has them (NaN and the
infinities as strings, fixed-length bytes and structured values as base64).

``CodecSpec({"driver": "zarr", "compressor": …, "filters": …})``: how Zarr v2 chunks are encoded.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import (
    JSON,
    MISSING,
    Members,
    dump,
    expect_array,
    expect_int,
    expect_object,
    expect_one_of,
    expect_string,
    parse_array,
)
from chunkwise.core.codec.chain import codec_to_json, prepare_chain
from chunkwise.core.codec.protocol import ChunkSpec, Codec, PreparedChain
from chunkwise.core.codec.zarr2 import parse_zarr2_codecs, parse_zarr2_step
from chunkwise.core.driver.chunked.documents import usual_form
from chunkwise.core.driver.chunked.record import Field
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.fill_value import same_fill
from chunkwise.core.dtypes.zarr2 import (
    fill_value_to_zarr2,
    object_dtype,
    parse_fill_value_zarr2,
    parse_zarr2,
    to_zarr2,
)
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError, SpecError, prefixed

__all__ = [
    "MEMBERS",
    "Zarr2CodecSpec",
    "Zarr2Constraints",
    "Zarr2Metadata",
    "check_constraints",
    "parse_constraints",
    "parse_metadata",
    "raw_element",
    "record_chain",
    "with_object_codec",
]

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
        return self._replace(shape=tuple(shape), document=dict(document))

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
    dtype, stored_dtype = members.take("dtype", lambda v: parse_zarr2(v, _object_codec(filters)))
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


def _object_codec(filters: list[dict[str, JSON]]) -> str | None:
    """Return the id of the filter that turns variable-length objects into bytes, if any."""
    if filters and object_dtype(filters[0]["id"]) is not None:
        return str(filters[0]["id"])
    return None


def with_object_codec(filters: list[dict[str, JSON]] | None, dtype: DataType) -> list[dict[str, JSON]]:
    """Return filters, first the one that values of variable length need, if it is not among them."""
    filters = list(filters or [])
    name = _OBJECT_FILTERS.get(dtype.name)
    if name is not None and _object_codec(filters) is None:
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


def _parse_compressor(value: JSON) -> dict[str, JSON] | None:
    """Check a ``compressor`` and fill in missing options; null means none."""
    return None if value is None else _canonical(value, is_compressor=True)


def _parse_filters(value: JSON) -> list[dict[str, JSON]] | None:
    """Check ``filters`` and fill in missing options; an empty list is the same as null."""
    if value is None:
        return None
    return parse_array(value, lambda v: _canonical(v, is_compressor=False)) or None


def _canonical(value: JSON, *, is_compressor: bool) -> dict[str, JSON]:
    codec = parse_zarr2_step(value, is_last=is_compressor, serialized=not is_compressor)
    return codec_to_json(codec, "zarr2")


class Zarr2CodecSpec(CodecSpec):
    """Filters and compressor as a schema constraint."""

    driver = "zarr"
    compressor: JSON  # None requires that there is none; MISSING leaves it open
    # None leaves it open and also means none: TensorStore has no filters.
    filters: list[dict[str, JSON]] | None

    @classmethod
    def _parse(cls, members: dict[str, JSON]) -> Self:
        rest = Members(members)
        compressor = rest.take("compressor", _parse_compressor, MISSING)
        filters = rest.take("filters", _parse_filters, None)
        rest.finish()
        return cls.of(compressor, filters)

    @classmethod
    def of(cls, compressor: JSON, filters: list[dict[str, JSON]] | None) -> Self:
        """Return the constraint of already checked members."""
        return cls._new(compressor=compressor, filters=filters)

    def _members(self) -> dict[str, JSON]:
        out: dict[str, JSON] = {"filters": self.filters}
        if self.compressor is not MISSING:
            out["compressor"] = self.compressor
        return out

    def _merge(self, other: Self) -> Self:
        text = f"Cannot merge codec spec {dump(self.to_json())} with {dump(other.to_json())}"
        compressor = other.compressor if self.compressor is MISSING else self.compressor
        if MISSING not in (self.compressor, other.compressor) and self.compressor != other.compressor:
            raise InvalidArgumentError(f'{text}: "compressor" does not match')
        if self.filters is not None and other.filters is not None and self.filters != other.filters:
            raise InvalidArgumentError(f'{text}: "filters" does not match')
        return type(self).of(compressor, self.filters or other.filters)


class Zarr2Constraints(NamedTuple):
    """Constraints of a spec on a ``.zarray``; None, or MISSING if null has a meaning, is no constraint."""

    members: dict[str, JSON]  # the constraints as given, in canonical form
    shape: tuple[int, ...] | None
    chunks: tuple[int, ...] | None
    dtype: DataType | None
    stored_dtype: np.dtype[Any] | None
    dtype_json: JSON
    compressor: JSON
    filters: list[dict[str, JSON]] | None
    fill_value: JSON
    order: str | None
    separator: str | None

    def to_json(self) -> dict[str, JSON]:
        """Return the ``metadata`` member of a spec."""
        return dict(self.members)

    @property
    def rank(self) -> int | None:
        """Number of dimensions, if a member implies it."""
        for size in (self.shape, self.chunks):
            if size is not None:
                return len(size)
        return None


def parse_constraints(value: JSON) -> Zarr2Constraints:
    """Read the ``metadata`` member of a spec."""
    members = Members(value)
    out: dict[str, JSON] = {}
    if members.take("zarr_format", lambda v: expect_int(v, 2, 2), None):
        out["zarr_format"] = 2
    shape = members.take("shape", lambda v: tuple(parse_array(v, lambda n: expect_int(n, 0))), None)
    if shape is not None:
        out["shape"] = list(shape)
    rank = None if shape is None else len(shape)
    chunks = members.take("chunks", lambda v: tuple(parse_array(v, lambda n: expect_int(n, 1), rank)), None)
    if chunks is not None:
        out["chunks"] = list(chunks)
    compressor = members.take("compressor", _parse_compressor, MISSING)
    if compressor is not MISSING:
        out["compressor"] = compressor
    filters = members.take("filters", _parse_filters, MISSING)
    if filters is not MISSING:
        out["filters"] = filters
    dtype_json = members.take("dtype", lambda v: v, MISSING)
    dtype = stored = None
    if dtype_json is not MISSING:
        with prefixed('Error parsing object member "dtype"', SpecError):
            dtype, stored = parse_zarr2(dtype_json, _object_codec(filters or []))
        dtype_json = dtype_json if dtype_json == "|O" else _canonical_dtype(dtype, stored, dtype_json)
        out["dtype"] = dtype_json
    fill_value: JSON = members.take("fill_value", lambda v: v, MISSING)
    if fill_value is not MISSING:
        if dtype is None:
            raise SpecError(
                'Error parsing object member "fill_value": must be specified in conjunction with "dtype"'
            )
        with prefixed('Error parsing object member "fill_value"', SpecError):
            fill_value = parse_fill_value_zarr2(fill_value, dtype, stored)
        out["fill_value"] = fill_value_to_zarr2(fill_value, dtype, stored)
    order = members.take("order", lambda v: expect_one_of(v, ("C", "F")), None)
    if order is not None:
        out["order"] = order
    separator = members.take("dimension_separator", lambda v: expect_one_of(v, (".", "/")), None)
    if separator is not None:
        out["dimension_separator"] = separator
    members.finish()
    return Zarr2Constraints(
        members=out,
        shape=shape,
        chunks=chunks,
        dtype=dtype,
        stored_dtype=stored,
        dtype_json=dtype_json,
        compressor=compressor,
        filters=filters or None,
        fill_value=fill_value,
        order=order,
        separator=separator,
    )


def _canonical_dtype(dtype: DataType, stored: np.dtype[Any], given: JSON) -> JSON:
    if stored.fields is not None or isinstance(given, list):
        return given
    return to_zarr2(dtype, "big" if stored.byteorder == ">" else "little")


def check_constraints(constraints: Zarr2Constraints, metadata: Zarr2Metadata) -> None:
    """Compare stored metadata with the constraints of a spec."""
    document = metadata.document
    for name, wanted in constraints.members.items():
        stored = document.get(name)
        if name == "zarr_format":
            continue
        if name == "dtype":
            same = constraints.stored_dtype == metadata.stored_dtype and constraints.dtype == metadata.dtype
        elif name == "compressor":
            same = _parse_compressor(stored) == wanted
        elif name == "filters":
            same = _parse_filters(stored) == wanted
        elif name == "fill_value":
            same = _same(constraints.fill_value, metadata.fill_value)
        elif name == "dimension_separator":
            stored = metadata.separator
            same = stored == wanted
        else:
            same = stored == wanted
        if not same:
            raise FailedPreconditionError(
                f"Expected {dump(name)} of {dump(wanted)} but received: {dump(stored)}"
            )


def _same(a: npt.NDArray[Any] | None, b: npt.NDArray[Any] | None) -> bool:
    return a is b if a is None or b is None else same_fill(a, b)
