"""The Zarr v2 format, for the code for chunked arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from chunkwise.core.base.binding import JSON, MISSING, Members, dump, expect_one_of, expect_string
from chunkwise.core.chunk_key import KeyEncoding
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
)
from chunkwise.core.driver.chunked.format import Format
from chunkwise.core.driver.chunked.record import FieldOptions, fill_of_field, record_field
from chunkwise.core.driver.chunked.spec import ChunkedSpec
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.driver.zarr2.constraints import (
    Zarr2CodecSpec,
    Zarr2Constraints,
    check_constraints,
    parse_constraints,
)
from chunkwise.core.driver.zarr2.metadata import (
    MEMBERS,
    Zarr2Metadata,
    parse_metadata,
    raw_element,
    record_chain,
    with_object_codec,
)
from chunkwise.core.dtypes.zarr2 import fill_value_to_zarr2, stored_dtype, to_zarr2
from chunkwise.core.grid import RegularGrid
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.chunk_shape import choose_chunk_shape
from chunkwise.core.specs.driver_spec import SpecMembers
from chunkwise.core.specs.schema import Schema
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
    default_compressor: ClassVar[dict[str, JSON]] = {
        "id": "blosc",
        "cname": "lz4",
        "clevel": 5,
        "shuffle": -1,
        "blocksize": 0,
    }

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

    def constraint_schema(
        self, constraints: Zarr2Constraints, options: Zarr2Options, schema: Schema
    ) -> Schema:
        """Return the schema of constraints and schema together."""
        field = options.choose(constraints.dtype)
        inner = () if field is None else field.shape
        derived = Schema(dtype=constraints.dtype if field is None else field.dtype)
        if constraints.rank is not None:
            layout = _layout(constraints.rank, constraints.chunks, constraints.order, inner)
            derived.update(rank=constraints.rank + len(inner), chunk_layout=layout)
        if constraints.shape is not None:
            derived.update(domain=_domain(constraints.shape, inner))
        elif schema.domain is not None:
            rank = schema.domain.rank - len(inner) if constraints.rank is None else constraints.rank
            derived.update(domain=_domain((None,) * rank, inner))
        derived.update(codec=Zarr2CodecSpec.of(constraints.compressor, constraints.filters))
        if constraints.fill_value is not MISSING and constraints.fill_value is not None:
            fill = constraints.fill_value
            if field is not None:
                fill = fill_of_field(fill, field, partial(raw_element, constraints.stored_dtype))
            derived.update(fill_value=fill)
            schema = schema.without_fill_value()  # a different one is an error when the array is opened
        return at_origin(derived.merged(schema))

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
        schema = options.record_schema(constraints.dtype, constraints.shape, schema, "dtype")
        dtype = create_dtype(constraints.dtype, schema)
        _check_no_units(schema)
        domain = create_domain(constraints.shape, None, constraints.rank, schema)
        layout = create_layout(schema, domain.rank)
        if constraints.chunks is not None:
            layout.update(chunk_shape=constraints.chunks)
        chunks = choose_chunk_shape(layout, domain.shape)
        check_chunk_nbytes(chunks, dtype)
        codec = Zarr2CodecSpec.of(constraints.compressor, constraints.filters)._merged(schema.codec)
        stored = constraints.stored_dtype if constraints.stored_dtype is not None else stored_dtype(dtype)
        fill_value = agreed_fill(schema, dtype, constraints.fill_value)
        return parse_metadata(
            {
                "zarr_format": 2,
                "shape": list(domain.shape),
                "chunks": list(chunks),
                "dtype": constraints.dtype_json if constraints.dtype is not None else to_zarr2(dtype),
                "compressor": self.default_compressor if codec.compressor is MISSING else codec.compressor,
                "fill_value": fill_value_to_zarr2(fill_value, dtype, stored),
                "order": _choose_order(constraints.order, layout, domain.rank),
                "filters": with_object_codec(codec.filters, dtype) or None,
                "dimension_separator": constraints.separator or ".",
            }
        )

    def check(
        self,
        metadata: Zarr2Metadata,
        constraints: Zarr2Constraints,
        options: Zarr2Options,
        schema: Schema,
    ) -> None:
        """Raise if stored metadata doesn't match a spec."""
        check_constraints(constraints, metadata)
        _check_no_units(schema)
        field = options.choose(metadata.dtype)
        dtype, inner = (metadata.dtype, ()) if field is None else (field.dtype, field.shape)
        if not schema.is_met_by(dtype, metadata.rank + len(inner)):
            check_schema(self.schema_of(metadata, options), schema)

    def schema_of(self, metadata: Zarr2Metadata, options: Zarr2Options) -> Schema:
        """Return the schema of an existing array, or of a field of its elements."""
        field, fill, document = options.choose(metadata.dtype), metadata.fill_value, metadata.document
        inner = () if field is None else field.shape
        if field is not None and fill is not None:
            fill = fill_of_field(fill, field, partial(raw_element, metadata.stored_dtype))
        return Schema(
            dtype=metadata.dtype if field is None else field.dtype,
            domain=_domain(metadata.shape, inner),
            chunk_layout=_layout(metadata.rank, metadata.chunks, metadata.order, inner),
            codec=Zarr2CodecSpec.of(document["compressor"], document.get("filters") or None),
            fill_value=fill,
        )

    def domain_of(self, metadata: Zarr2Metadata, options: Zarr2Options) -> IndexDomain:
        """Return the domain of an existing array."""
        field = options.choose(metadata.dtype)
        return _domain(metadata.shape, () if field is None else field.shape)

    def metadata_to_json(self, metadata: Zarr2Metadata) -> dict[str, JSON]:
        """Return the stored document, without members that the format doesn't define."""
        return {name: value for name, value in metadata.document.items() if name in MEMBERS}

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


def _domain(shape: tuple[int | None, ...], inner: tuple[int, ...]) -> IndexDomain:
    """Return the domain of an array; inner dimensions can't be resized."""
    return domain_of_shape(shape, (None,) * len(shape), inner)


def _check_no_units(schema: Schema) -> None:
    if schema.dimension_units is not None and any(u is not None for u in schema.dimension_units):
        raise InvalidArgumentError("Dimension units not supported by zarr driver")


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
