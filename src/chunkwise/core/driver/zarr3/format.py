"""The Zarr v3 format, for the code for chunked arrays."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from chunkwise.core.base.binding import JSON, Members
from chunkwise.core.codec.chain import prepare_chain
from chunkwise.core.codec.protocol import ChunkSpec
from chunkwise.core.driver.chunked.domain import domain_of_shape
from chunkwise.core.driver.chunked.format import Format
from chunkwise.core.driver.chunked.record import Field, FieldOptions, outer_schema, record_field
from chunkwise.core.driver.chunked.spec import ChunkedSpec
from chunkwise.core.driver.stored_array import ShardLevel, StoredArray
from chunkwise.core.driver.zarr3.codec_constraints import is_sharding
from chunkwise.core.driver.zarr3.constraints import Zarr3Constraints, parse_constraints
from chunkwise.core.driver.zarr3.metadata import (
    Zarr3Metadata,
    chunk_item,
    parse_metadata,
    raw_element,
    record_chain,
)
from chunkwise.core.driver.zarr3.schema import check_metadata, constraint_schema, create_metadata, schema_of
from chunkwise.core.grid.rectilinear import RectilinearGrid
from chunkwise.core.grid.regular import RegularGrid
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.spec_members import SpecMembers
from chunkwise.errors import InvalidArgumentError, UnsupportedError

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

    def constraints_to_json(self, constraints: Zarr3Constraints) -> dict[str, JSON]:
        """Return the ``metadata`` member of a spec."""
        return constraints.to_json()

    def inner_rank(self, constraints: Zarr3Constraints, options: FieldOptions) -> int:
        """Return the number of the array's trailing dimensions inside each element."""
        return options.inner_rank(constraints.dtype)

    def constraint_schema(
        self, constraints: Zarr3Constraints, options: FieldOptions, schema: Schema
    ) -> Schema:
        """Return the schema of constraints and schema together."""
        return constraint_schema(constraints, schema, options.choose(constraints.dtype))

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
        field = options.choose(constraints.dtype)
        if field is not None:
            schema = outer_schema(schema, field, constraints.shape)
        elif options.field is not None or options.open_as_void:
            raise InvalidArgumentError('data_type must be specified in "metadata"')
        return create_metadata(constraints, schema)

    def check(
        self, metadata: Zarr3Metadata, constraints: Zarr3Constraints, options: FieldOptions, schema: Schema
    ) -> None:
        """Raise if stored metadata doesn't match a spec."""
        check_metadata(metadata, constraints, schema, options.choose(metadata.dtype))

    def schema_of(self, metadata: Zarr3Metadata, options: FieldOptions) -> Schema:
        """Return the schema of an existing array."""
        return schema_of(metadata, options.choose(metadata.dtype))

    def domain_of(self, metadata: Zarr3Metadata, options: FieldOptions) -> IndexDomain:
        """Return the domain of an existing array."""
        field = options.choose(metadata.dtype)
        return domain_of_shape(metadata.shape, metadata.dimension_names, () if field is None else field.shape)

    def metadata_to_json(self, metadata: Zarr3Metadata) -> dict[str, JSON]:
        """Return the stored document."""
        return dict(metadata.document)

    def resized(self, metadata: Zarr3Metadata, shape: tuple[int, ...]) -> Zarr3Metadata:
        """Return the metadata of the array with another shape."""
        return metadata.resized(shape)

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


FORMAT = Zarr3Format()


def parse_zarr3(members: Members, common: SpecMembers) -> ChunkedSpec:
    """Take the members of a spec of this driver."""
    return ChunkedSpec.parse(FORMAT, members, common)
