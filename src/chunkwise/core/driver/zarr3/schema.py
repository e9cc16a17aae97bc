"""Conversion between ``zarr.json`` and a schema.

For a new array, the domain comes from ``shape`` and the schema; chunks and codecs come from both too, see
`chunkwise.core.driver.zarr3.new_chunks`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from chunkwise.core.base.binding import MISSING
from chunkwise.core.codec.protocol import ChunkSpec
from chunkwise.core.driver.chunked.agree import check_schema
from chunkwise.core.driver.chunked.domain import (
    agreed_fill,
    at_origin,
    create_domain,
    create_dtype,
    create_layout,
    domain_of_shape,
    merged_units,
)
from chunkwise.core.driver.chunked.record import Field, fill_of_field
from chunkwise.core.driver.zarr3.chain_layout import chain_layout
from chunkwise.core.driver.zarr3.codec_constraints import as_written, resolve_chain
from chunkwise.core.driver.zarr3.codec_spec import Zarr3CodecSpec
from chunkwise.core.driver.zarr3.constraints import Zarr3Constraints, check_constraints, parse_units
from chunkwise.core.driver.zarr3.metadata import (
    Zarr3Metadata,
    array_to_bytes_name,
    make_document,
    parse_metadata,
    raw_element,
)
from chunkwise.core.driver.zarr3.new_chunks import choose_chunks
from chunkwise.core.dtypes.zarr3 import to_zarr3
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.unit import Unit

__all__ = ["check_metadata", "constraint_schema", "create_metadata", "schema_of"]


def schema_of(metadata: Zarr3Metadata, field: Field | None = None) -> Schema:
    """Return the schema of an existing array, or of a field of its elements."""
    chain = metadata.chain
    inner = () if field is None else field.shape
    fill = metadata.fill_value
    return Schema(
        dtype=metadata.dtype if field is None else field.dtype,
        domain=domain_of_shape(metadata.shape, metadata.dimension_names, inner),
        chunk_layout=chain_layout(chain, metadata.grid, metadata.rank, inner),
        codec=Zarr3CodecSpec.of(chain),
        fill_value=fill if field is None else fill_of_field(fill, field, partial(raw_element, chain)),
        dimension_units=_with_inner_units(parse_units(metadata.attributes), inner),
    )


def _with_inner_units(
    units: tuple[Unit | None, ...] | None, inner: tuple[int, ...]
) -> tuple[Unit | None, ...] | None:
    return None if units is None else (*units, *[None] * len(inner))


def constraint_schema(constraints: Zarr3Constraints, schema: Schema, field: Field | None = None) -> Schema:
    """Return the combined schema of a spec's constraints and its schema."""
    inner = () if field is None else field.shape
    rank = constraints.rank
    derived = Schema(
        rank=None if rank is None else rank + len(inner),
        dtype=constraints.dtype if field is None else field.dtype,
    )
    asked = None if schema.domain is None else schema.domain.rank - len(inner)
    outer = rank if asked is None or rank is not None else asked
    if outer is not None and (asked, constraints.shape, constraints.dimension_names) != (None, None, None):
        names = constraints.dimension_names or (None,) * outer
        derived.update(domain=domain_of_shape(constraints.shape or (None,) * outer, names, inner))
    if rank is not None:
        derived.update(chunk_layout=chain_layout(constraints.codecs, constraints.grid, rank, inner))
    derived.update(codec=Zarr3CodecSpec.of(constraints.codecs))
    if constraints.fill_value is not None:
        fill = constraints.fill_value
        if field is not None:
            fill = fill_of_field(fill, field, partial(raw_element, constraints.codecs or []))
        derived.update(fill_value=fill)
        schema = schema.without_fill_value()  # a different one is an error when the array is opened
    if constraints.units is not None:
        derived.update(dimension_units=_with_inner_units(constraints.units, inner))
    return at_origin(derived.merged(schema))


def create_metadata(constraints: Zarr3Constraints, schema: Schema) -> Zarr3Metadata:
    """Choose the metadata of a new array."""
    dtype = create_dtype(constraints.dtype, schema)
    domain = create_domain(constraints.shape, constraints.dimension_names, constraints.rank, schema)
    rank = domain.rank
    constrained = MISSING if constraints.fill_value is None else constraints.fill_value
    fill_value = agreed_fill(schema, dtype, constrained)
    if fill_value is None:
        fill_value = dtype.zero()
    units = merged_units(schema.dimension_units, constraints.units, rank)

    layout = create_layout(schema, rank)
    chosen = choose_chunks(constraints, layout, schema.codec, domain)
    item = ChunkSpec(chosen.shape, fill_value.dtype, fill_value)
    codecs = as_written(resolve_chain(chosen.chain, item, array_to_bytes_name(dtype)).json)
    names: Any = [label or None for label in domain.labels]
    if constraints.dimension_names is None and not any(names):
        names = None
    elif constraints.dimension_names is not None:
        # the spec distinguishes "" from null, which a domain can't
        names = [
            n if n is not None else own for n, own in zip(names, constraints.dimension_names, strict=True)
        ]
        names = names if any(n is not None for n in names) else None
    attributes = dict(constraints.attributes)
    if any(u is not None for u in units):
        attributes["dimension_units"] = [None if u is None else str(u) for u in units]
    document = make_document(
        shape=domain.shape,
        dtype=dtype,
        data_type=constraints.members["data_type"] if constraints.dtype is not None else to_zarr3(dtype),
        chunk_grid=chosen.grid,
        chunk_key_encoding=constraints.members.get("chunk_key_encoding", {"name": "default"}),
        fill_value=fill_value,
        codecs=codecs,
        dimension_names=names,
        attributes=attributes,
        extra=constraints.extra,
    )
    return parse_metadata(document)


def check_metadata(
    metadata: Zarr3Metadata, constraints: Zarr3Constraints, schema: Schema, field: Field | None = None
) -> None:
    """Raise if an existing array doesn't match a spec."""
    check_constraints(constraints, metadata)
    dtype, inner = (metadata.dtype, ()) if field is None else (field.dtype, field.shape)
    if not schema.is_met_by(dtype, metadata.rank + len(inner)):
        check_schema(schema_of(metadata, field), schema)
