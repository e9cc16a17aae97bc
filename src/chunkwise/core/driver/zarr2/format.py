"""The Zarr v2 format, for the code for chunked arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from chunkwise.core.base.binding import JSON, Members, dump, expect_one_of, expect_string
from chunkwise.core.chunk_key.key_encoding import KeyEncoding
from chunkwise.core.codec.chain import prepare_chain
from chunkwise.core.codec.protocol import ChunkSpec
from chunkwise.core.driver.chunked.format import Format
from chunkwise.core.driver.chunked.record import FieldOptions, outer_schema, record_field
from chunkwise.core.driver.chunked.spec import ChunkedSpec
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.driver.zarr2.constraints import Zarr2Constraints, parse_constraints
from chunkwise.core.driver.zarr2.metadata import (
    MEMBERS,
    Zarr2Metadata,
    parse_metadata,
    raw_element,
    record_chain,
)
from chunkwise.core.driver.zarr2.schema import (
    check_metadata,
    constraint_schema,
    create_metadata,
    domain_of,
    schema_of,
)
from chunkwise.core.grid.regular import RegularGrid
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.spec_members import SpecMembers
from chunkwise.errors import InvalidArgumentError, SpecError

__all__ = ["Zarr2Format", "Zarr2Options", "parse_zarr2"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Zarr2Options(FieldOptions):
    """Members of a spec that are specific to Zarr v2."""

    metadata_key: str = ".zarray"  # key of the metadata document, relative to the array


class Zarr2Format(Format):
    """Arrays of the Zarr v2 specification."""

    driver: ClassVar[str] = "zarr"
    consolidated_key: ClassVar[str] = ".zmetadata"

    def parse_options(self, members: Members) -> Zarr2Options:
        """Take ``metadata_key``, ``field`` and ``open_as_void``."""
        key = members.take("metadata_key", expect_string, ".zarray")
        return Zarr2Options.parse(members, metadata_key=key)

    def options_to_json(self, options: Zarr2Options) -> dict[str, JSON]:
        """Return the members that aren't at their default."""
        key = options.metadata_key
        return {**({} if key == ".zarray" else {"metadata_key": key}), **options.to_json()}

    def inner_rank(self, constraints: Zarr2Constraints, options: Zarr2Options) -> int:
        """Return the number of the array's trailing dimensions that belong to a field."""
        return options.inner_rank(constraints.dtype)

    def parse_constraints(self, value: JSON) -> Zarr2Constraints:
        """Read the ``metadata`` member of a spec."""
        return parse_constraints(value)

    def constraints_to_json(self, constraints: Zarr2Constraints) -> dict[str, JSON]:
        """Return the ``metadata`` member of a spec."""
        return dict(constraints.members)

    def constraint_schema(
        self, constraints: Zarr2Constraints, options: Zarr2Options, schema: Schema
    ) -> Schema:
        """Return the schema of constraints and schema together."""
        return constraint_schema(constraints, options.choose(constraints.dtype), schema)

    def metadata_key(self, options: Zarr2Options) -> str:
        """Return ``.zarray``, or the spec's key in its place."""
        return options.metadata_key

    def parse_metadata(self, document: JSON) -> Zarr2Metadata:
        """Read a ``.zarray``."""
        return parse_metadata(document)

    def template_key(self, document: JSON) -> JSON | None:
        """Return the members except ``shape``, with the rank."""
        if type(document) is not dict or type(document.get("shape")) is not list:
            return None
        return {**document, "shape": len(document["shape"])}

    def create(self, constraints: Zarr2Constraints, options: Zarr2Options, schema: Schema) -> Zarr2Metadata:
        """Choose the metadata of a new array."""
        field = options.choose(constraints.dtype)
        if field is not None:
            schema = outer_schema(schema, field, constraints.shape)
        elif options.field is not None or options.open_as_void:
            raise InvalidArgumentError('dtype must be specified in "metadata"')
        return create_metadata(constraints, schema)

    def check(
        self,
        metadata: Zarr2Metadata,
        constraints: Zarr2Constraints,
        options: Zarr2Options,
        schema: Schema,
    ) -> None:
        """Raise if stored metadata doesn't match a spec."""
        field = options.choose(metadata.dtype)
        check_metadata(metadata, constraints, schema, field)

    def schema_of(self, metadata: Zarr2Metadata, options: Zarr2Options) -> Schema:
        """Return the schema of an existing array."""
        return schema_of(metadata, options.choose(metadata.dtype))

    def domain_of(self, metadata: Zarr2Metadata, options: Zarr2Options) -> IndexDomain:
        """Return the domain of an existing array."""
        field = options.choose(metadata.dtype)
        return domain_of(metadata.shape, () if field is None else field.shape)

    def metadata_to_json(self, metadata: Zarr2Metadata) -> dict[str, JSON]:
        """Return the stored document, without members that the format doesn't define."""
        return {name: value for name, value in metadata.document.items() if name in MEMBERS}

    def resized(self, metadata: Zarr2Metadata, shape: tuple[int, ...]) -> Zarr2Metadata:
        """Return the metadata of the array with another shape."""
        return metadata.resized(shape)

    def same_but_resized(self, a: Zarr2Metadata, b: Zarr2Metadata) -> bool:
        """Return True if two documents differ only in shape."""
        return {**a.document, "shape": None} == {**b.document, "shape": None}

    def stored_array(self, metadata: Zarr2Metadata, prefix: str, options: Zarr2Options) -> StoredArray:
        """Return the array as stored in its kvstore."""
        fill_value = metadata.missing_value()
        field = options.choose(metadata.dtype)
        if field is not None:
            keys = KeyEncoding("", metadata.separator, "0", len(field.shape)).under(prefix)
            return StoredArray(
                shape=metadata.shape + field.shape,
                dtype=field.dtype,
                fill_value=field.dtype.zero(),
                grid=RegularGrid(metadata.chunks + field.shape),
                chain=record_chain(metadata, field),
                keys=keys,
                store_fill_chunks=metadata.fill_value is None,
                document=metadata.document,
                field=record_field(fill_value, field, partial(raw_element, metadata.stored_dtype)),
            )
        item = ChunkSpec(metadata.chunks, fill_value.dtype, fill_value)
        return StoredArray(
            shape=metadata.shape,
            dtype=metadata.dtype,
            fill_value=fill_value,
            grid=RegularGrid(metadata.chunks),
            chain=prepare_chain(metadata.codecs, item),
            keys=KeyEncoding("", metadata.separator, "0").under(prefix),
            # With a null fill value a missing chunk is undefined, so zeros must be stored.
            store_fill_chunks=metadata.fill_value is None,
            document=metadata.document,
        )


FORMAT = Zarr2Format()


def parse_zarr2(members: Members, common: SpecMembers) -> ChunkedSpec:
    """Take the members of a spec of this driver."""
    # ``key_encoding``, an older name for ``dimension_separator`` in ``metadata``, is converted to it.
    separator = members.take("key_encoding", lambda v: expect_one_of(v, (".", "/")), None)
    spec = ChunkedSpec.parse(FORMAT, members, common)
    if separator is None:
        return spec
    given = spec.constraints.separator
    if given not in (None, separator):
        raise SpecError(
            f'Error parsing object member "key_encoding": value ({dump(separator)}) does not match value in '
            f"metadata ({dump(given)})"
        )
    metadata = {**FORMAT.constraints_to_json(spec.constraints), "dimension_separator": separator}
    return replace(spec, constraints=FORMAT.parse_constraints(metadata))
