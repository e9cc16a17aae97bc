"""The Zarr v3 format, for the code for chunked arrays."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from chunkwise.core.base.binding import JSON, MISSING, Members
from chunkwise.core.codec.chain import prepare_chain
from chunkwise.core.codec.protocol import ChunkSpec
from chunkwise.core.driver.chunked.domain import (
    agreed_fill,
    at_origin,
    check_chunk_nbytes,
    check_schema,
    create_domain,
    create_dtype,
    create_layout,
    domain_of_shape,
    merged_units,
)
from chunkwise.core.driver.chunked.format import Format
from chunkwise.core.driver.chunked.record import Field, FieldOptions, fill_of_field, record_field
from chunkwise.core.driver.chunked.spec import ChunkedSpec
from chunkwise.core.driver.stored_array import ShardLevel, StoredArray
from chunkwise.core.driver.zarr3.codec_constraints import as_written, is_sharding, resolve_chain
from chunkwise.core.driver.zarr3.constraints import (
    Zarr3CodecSpec,
    Zarr3Constraints,
    check_constraints,
    parse_constraints,
    parse_units,
)
from chunkwise.core.driver.zarr3.metadata import (
    Zarr3Metadata,
    array_to_bytes_name,
    chunk_item,
    make_document,
    parse_metadata,
    raw_element,
    record_chain,
)
from chunkwise.core.driver.zarr3.new_chunks import chain_layout, choose_chunks
from chunkwise.core.dtypes.zarr3 import to_zarr3
from chunkwise.core.grid import RectilinearGrid, RegularGrid
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.specs.driver_spec import SpecMembers
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.unit import Unit
from chunkwise.errors import UnsupportedError

__all__ = ["Zarr3Format", "parse_zarr3"]


class Zarr3Format(Format):
    """Arrays of the Zarr core specification v3.1."""

    driver: ClassVar[str] = "zarr3"
    consolidated_key: ClassVar[str] = "zarr.json"

    def parse_options(self, members: Members) -> FieldOptions:
        """Take ``field`` and ``open_as_void``."""
        return FieldOptions.parse(members)

    def options_to_json(self, options: FieldOptions) -> dict[str, JSON]:
        """Return the members that aren't at their default."""
        return options.to_json()

    def parse_constraints(self, value: JSON) -> Zarr3Constraints:
        """Read the ``metadata`` member of a spec."""
        return parse_constraints(value)

    def inner_rank(self, constraints: Zarr3Constraints, options: FieldOptions) -> int:
        """Return the number of the array's trailing dimensions inside each element."""
        return options.inner_rank(constraints.dtype)

    def constraint_schema(
        self, constraints: Zarr3Constraints, options: FieldOptions, schema: Schema
    ) -> Schema:
        """Return the combined schema of a spec's constraints and its schema."""
        field = options.choose(constraints.dtype)
        inner = () if field is None else field.shape
        rank = constraints.rank
        derived = Schema(
            rank=None if rank is None else rank + len(inner),
            dtype=constraints.dtype if field is None else field.dtype,
        )
        asked = None if schema.domain is None else schema.domain.rank - len(inner)
        outer = rank if asked is None or rank is not None else asked
        if outer is not None and (asked, constraints.shape, constraints.dimension_names) != (
            None,
            None,
            None,
        ):
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

    def metadata_key(self, options: FieldOptions) -> str:
        """Return ``zarr.json``."""
        return "zarr.json"

    def is_array(self, document: JSON) -> bool:
        """Return True if a ``zarr.json`` is an array's."""
        return not isinstance(document, Mapping) or document.get("node_type") != "group"

    def parse_metadata(self, document: JSON) -> Zarr3Metadata:
        """Read a ``zarr.json``."""
        return parse_metadata(document)

    def template_key(self, document: JSON) -> JSON | None:
        """Return the members except ``shape`` and ``attributes``, with the rank."""
        if type(document) is not dict or type(document.get("shape")) is not list:
            return None
        template = {name: value for name, value in document.items() if name != "attributes"}
        template["shape"] = len(template["shape"])
        return template

    def without_attributes(self, metadata: Zarr3Metadata) -> Zarr3Metadata:
        """Return the metadata without ``attributes``."""
        return metadata.with_attributes({}) if metadata.attributes else metadata

    def create(self, constraints: Zarr3Constraints, options: FieldOptions, schema: Schema) -> Zarr3Metadata:
        """Choose the metadata of a new array."""
        schema = options.record_schema(constraints.dtype, constraints.shape, schema, "data_type")
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
        check_chunk_nbytes(chosen.inner, dtype)
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

    def check(
        self, metadata: Zarr3Metadata, constraints: Zarr3Constraints, options: FieldOptions, schema: Schema
    ) -> None:
        """Raise if an existing array doesn't match a spec."""
        check_constraints(constraints, metadata)
        field = options.choose(metadata.dtype)
        dtype, inner = (metadata.dtype, ()) if field is None else (field.dtype, field.shape)
        if not schema.is_met_by(dtype, metadata.rank + len(inner)):
            check_schema(self.schema_of(metadata, options), schema)

    def schema_of(self, metadata: Zarr3Metadata, options: FieldOptions) -> Schema:
        """Return the schema of an existing array, or of a field of its elements."""
        field, chain = options.choose(metadata.dtype), metadata.chain
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

    def domain_of(self, metadata: Zarr3Metadata, options: FieldOptions) -> IndexDomain:
        """Return the domain of an existing array."""
        field = options.choose(metadata.dtype)
        return domain_of_shape(metadata.shape, metadata.dimension_names, () if field is None else field.shape)

    def metadata_to_json(self, metadata: Zarr3Metadata) -> dict[str, JSON]:
        """Return the stored document."""
        return dict(metadata.document)

    def same_but_resized(self, a: Zarr3Metadata, b: Zarr3Metadata) -> bool:
        """Return True if two documents differ only in shape, attributes and cells at the end of the grid."""
        ignored = ["shape", "attributes"]
        if isinstance(a.grid, RectilinearGrid) and isinstance(b.grid, RectilinearGrid):
            if not a.grid.continues(b.grid) and not b.grid.continues(a.grid):
                return False
            ignored.append("chunk_grid")
        return {k: v for k, v in a.document.items() if k not in ignored} == {
            k: v for k, v in b.document.items() if k not in ignored
        }

    def stored_array(self, metadata: Zarr3Metadata, prefix: str, options: FieldOptions) -> StoredArray:
        """Return the array as stored in its kvstore."""
        item = chunk_item(metadata.grid, metadata.fill_value)
        field = options.choose(metadata.dtype)
        if field is not None:
            return _stored_field(metadata, item, field, prefix)
        codec = metadata.codecs[0]
        shard = None
        if len(metadata.codecs) == 1 and is_sharding(codec) and metadata.grid.chunk_shape:
            # Only then are the bytes of an inner chunk stored unchanged in the object.
            shard = ShardLevel(
                grid=RegularGrid(codec.chunk_shape),
                chain=codec.inner_chain(item),
                index_location=codec.index_location or "end",
                index_chain=codec.index_chain,
            )
        return StoredArray(
            shape=metadata.shape,
            dtype=metadata.dtype,
            fill_value=metadata.fill_value,
            grid=metadata.grid,
            chain=prepare_chain(metadata.codecs, item),
            keys=metadata.keys.under(prefix),
            shard=shard,
            document=metadata.document,
        )


def _stored_field(metadata: Zarr3Metadata, item: ChunkSpec, field: Field, prefix: str) -> StoredArray:
    """Return a field of an array's elements as stored in its kvstore; a shard is one chunk."""
    chunk_shape = metadata.grid.chunk_shape
    if chunk_shape is None:
        raise UnsupportedError('"field" and "open_as_void" need a regular chunk grid')
    return StoredArray(
        shape=metadata.shape + field.shape,
        dtype=field.dtype,
        fill_value=field.dtype.zero(),
        grid=RegularGrid(chunk_shape + field.shape),
        chain=record_chain(metadata.chain, item, field),
        keys=metadata.keys._replace(inner=len(field.shape)).under(prefix),
        document=metadata.document,
        field=record_field(metadata.fill_value, field, partial(raw_element, metadata.chain)),
    )


def _with_inner_units(
    units: tuple[Unit | None, ...] | None, inner: tuple[int, ...]
) -> tuple[Unit | None, ...] | None:
    return None if units is None else (*units, *[None] * len(inner))


FORMAT = Zarr3Format()


def parse_zarr3(members: Members, common: SpecMembers) -> ChunkedSpec:
    """Take the members of a spec of this driver."""
    return ChunkedSpec.parse(FORMAT, members, common)
