"""Conversion between ``.zarray`` and a schema."""

from __future__ import annotations

from functools import partial

from chunkwise.core.base.binding import JSON, MISSING
from chunkwise.core.driver.chunked.domain import (
    agreed_fill,
    at_origin,
    check_chunk_nbytes,
    check_schema,
    create_domain,
    create_dtype,
    create_layout,
    domain_of_shape,
)
from chunkwise.core.driver.chunked.record import Field, fill_of_field
from chunkwise.core.driver.zarr2.constraints import (
    DEFAULT_COMPRESSOR,
    Zarr2CodecSpec,
    Zarr2Constraints,
    check_constraints,
)
from chunkwise.core.driver.zarr2.metadata import (
    Zarr2Metadata,
    make_document,
    object_codec,
    parse_metadata,
    raw_element,
)
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.zarr2 import fill_value_to_zarr2, stored_dtype, to_zarr2
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.chunk_shape import choose_chunk_shape
from chunkwise.core.specs.schema import Schema
from chunkwise.errors import InvalidArgumentError

__all__ = [
    "check_metadata",
    "constraint_schema",
    "create_metadata",
    "domain_of",
    "schema_of",
    "with_object_codec",
]

# The filter for values of variable length in Zarr v2, as zarr-python 2 and 3 write it.
_OBJECT_FILTERS = {"ustring": "vlen-utf8", "string": "vlen-bytes", "json": "json2"}


def schema_of(metadata: Zarr2Metadata, field: Field | None = None) -> Schema:
    """Return the schema of an existing array, or of a field of its elements."""
    inner = () if field is None else field.shape
    fill = metadata.fill_value
    if field is not None and fill is not None:
        fill = fill_of_field(fill, field, partial(raw_element, metadata.stored_dtype))
    return Schema(
        dtype=metadata.dtype if field is None else field.dtype,
        domain=domain_of(metadata.shape, inner),
        chunk_layout=_layout(metadata.rank, metadata.chunks, metadata.order, inner),
        codec=Zarr2CodecSpec.of(metadata.document["compressor"], metadata.document.get("filters") or None),
        fill_value=fill,
    )


def domain_of(shape: tuple[int | None, ...], inner: tuple[int, ...]) -> IndexDomain:
    """Return the domain of an array; inner dimensions can't be resized."""
    return domain_of_shape(shape, (None,) * len(shape), inner)


def _layout(
    rank: int, chunks: tuple[int, ...] | None, order: str | None, inner: tuple[int, ...] = ()
) -> ChunkLayout:
    dims, last = list(range(rank)), list(range(rank, rank + len(inner)))
    layout = ChunkLayout(rank=rank + len(inner))
    layout._set("grid_origin", [0] * (rank + len(inner)), hard=True)
    if order is not None:
        layout._set("inner_order", [*(dims if order == "C" else dims[::-1]), *last], hard=True)
    if chunks is not None:
        layout.update(chunk_shape=[*chunks, *inner])
    return layout


def constraint_schema(constraints: Zarr2Constraints, field: Field | None, schema: Schema) -> Schema:
    """Return the combined schema of a spec's constraints and its schema."""
    inner = () if field is None else field.shape
    derived = Schema(dtype=constraints.dtype if field is None else field.dtype)
    if constraints.rank is not None:
        derived.update(rank=constraints.rank + len(inner))
        derived.update(chunk_layout=_layout(constraints.rank, constraints.chunks, constraints.order, inner))
    if constraints.shape is not None:
        derived.update(domain=domain_of(constraints.shape, inner))
    elif schema.domain is not None:
        rank = schema.domain.rank - len(inner) if constraints.rank is None else constraints.rank
        derived.update(domain=domain_of((None,) * rank, inner))
    derived.update(codec=Zarr2CodecSpec.of(constraints.compressor, constraints.filters))
    if constraints.fill_value is not MISSING and constraints.fill_value is not None:
        fill = constraints.fill_value
        if field is not None:
            fill = fill_of_field(fill, field, partial(raw_element, constraints.stored_dtype))
        derived.update(fill_value=fill)
        schema = schema.without_fill_value()  # a different one is an error when the array is opened
    return at_origin(derived.merged(schema))


def create_metadata(
    constraints: Zarr2Constraints, schema: Schema, *, default_compressor: JSON = DEFAULT_COMPRESSOR
) -> Zarr2Metadata:
    """Choose the metadata of a new array; `default_compressor` is used if none is specified."""
    dtype = create_dtype(constraints.dtype, schema)
    if schema.dimension_units is not None and any(u is not None for u in schema.dimension_units):
        raise InvalidArgumentError("Dimension units not supported by zarr driver")
    domain = create_domain(constraints.shape, None, constraints.rank, schema)
    rank = domain.rank
    layout = create_layout(schema, rank)
    if constraints.chunks is not None:
        layout.update(chunk_shape=constraints.chunks)
    chunks = choose_chunk_shape(layout, domain.shape)
    check_chunk_nbytes(chunks, dtype)
    order = _choose_order(constraints.order, layout, rank)
    own = Zarr2CodecSpec.of(constraints.compressor, constraints.filters)
    codec = own if schema.codec is None else own.merge(schema.codec)
    assert isinstance(codec, Zarr2CodecSpec)
    compressor = default_compressor if codec.compressor is MISSING else codec.compressor
    filters = with_object_codec(codec.filters, dtype)
    stored = constraints.stored_dtype if constraints.stored_dtype is not None else stored_dtype(dtype)
    document = make_document(
        shape=domain.shape,
        chunks=chunks,
        dtype=constraints.dtype_json if constraints.dtype is not None else to_zarr2(dtype),
        compressor=compressor,
        fill_value=fill_value_to_zarr2(agreed_fill(schema, dtype, constraints.fill_value), dtype, stored),
        order=order,
        filters=filters,
        separator=constraints.separator or ".",
    )
    return parse_metadata(document)


def _choose_order(wanted: str | None, layout: ChunkLayout, rank: int) -> str:
    dims = list(range(rank))
    if wanted is not None:
        layout._set("inner_order", dims if wanted == "C" else dims[::-1], hard=True)
        return wanted  # also for rank 0 and 1, where both orders are the same
    if (constraint := layout._scalar("inner_order")) is None:
        return "C"
    order = list(constraint.value)
    if order == dims:
        return "C"
    if order == dims[::-1]:
        return "F"
    if constraint.hard:
        raise InvalidArgumentError(f'Invalid "inner_order" constraint: {{{", ".join(map(str, order))}}}')
    return "C"


def with_object_codec(filters: list[dict[str, JSON]] | None, dtype: DataType) -> list[dict[str, JSON]]:
    """Return filters, first the one that values of variable length need, if it is not among them."""
    filters = list(filters or [])
    name = _OBJECT_FILTERS.get(dtype.name)
    if name is not None and object_codec(filters) is None:
        filters.insert(0, {"id": name})
    return filters


def check_metadata(
    metadata: Zarr2Metadata, constraints: Zarr2Constraints, schema: Schema, field: Field | None = None
) -> None:
    """Raise if an existing array doesn't match a spec."""
    check_constraints(constraints, metadata)
    if schema.dimension_units is not None and any(u is not None for u in schema.dimension_units):
        raise InvalidArgumentError("Dimension units not supported by zarr driver")
    dtype, inner = (metadata.dtype, ()) if field is None else (field.dtype, field.shape)
    if not schema.is_met_by(dtype, metadata.rank + len(inner)):
        check_schema(schema_of(metadata, field), schema)
