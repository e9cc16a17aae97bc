"""The N5 format, for the code for chunked arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import ClassVar, NamedTuple

from chunkwise.core.base.binding import JSON, Members, expect_bool
from chunkwise.core.chunk_key import KeyEncoding
from chunkwise.core.codec.chain import prepare_chain
from chunkwise.core.codec.protocol import ChunkSpec
from chunkwise.core.driver.chunked.domain import (
    check_codec,
    check_rank_and_dtype,
    create_domain,
    domain_of_shape,
)
from chunkwise.core.driver.chunked.format import Format
from chunkwise.core.driver.chunked.spec import ChunkedSpec
from chunkwise.core.driver.n5.constraints import (
    N5CodecSpec,
    N5Constraints,
    check_constraints,
    parse_constraints,
)
from chunkwise.core.driver.n5.metadata import (
    DATASET_MEMBERS,
    N5Metadata,
    array_data_type,
    block_codec,
    dtype_of,
    parse_metadata,
    spec_members,
)
from chunkwise.core.driver.n5.tree import (
    ATTRIBUTES_KEY,
    check_version,
    container_key,
    dump_document,
    is_dataset,
    is_marker,
    load_document,
)
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.grid import RegularGrid
from chunkwise.core.index_space import IndexDomain, merge_domains
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.chunk_shape import choose_chunk_shape
from chunkwise.core.specs.driver_spec import SpecMembers
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.unit import Unit, format_dimension_units, merge_dimension_units
from chunkwise.errors import ChunkwiseError, FailedPreconditionError, InvalidArgumentError, prefixed

__all__ = ["N5Format", "N5Options", "parse_n5", "to_stored_array"]


_TEMPLATE = (*(name for name in DATASET_MEMBERS if name != "dimensions"), "compressionType")


class N5Options(NamedTuple):
    """Members of a spec that are specific to N5."""

    # True if blocks at the edges are cropped to the dataset, as in n5-java and z5py, instead of padded, as in
    # TensorStore.  All of them read both.
    crop_end_blocks: bool = False


class N5Format(Format):
    """Datasets of N5 containers."""

    driver: ClassVar[str] = "n5"
    contained: ClassVar[bool] = True

    def parse_options(self, members: Members) -> N5Options:
        """Take ``crop_end_blocks``."""
        return N5Options(members.take("crop_end_blocks", expect_bool, False))

    def options_to_json(self, options: N5Options) -> dict[str, JSON]:
        """Return the members that aren't at their default."""
        return {"crop_end_blocks": True} if options.crop_end_blocks else {}

    def parse_constraints(self, value: JSON) -> N5Constraints:
        """Read the ``metadata`` member of a spec."""
        return parse_constraints(value)

    def constraint_schema(self, constraints: N5Constraints, options: N5Options, schema: Schema) -> Schema:
        """Return the combined schema of a spec's constraints and its schema."""
        if schema.dtype is not None:
            array_data_type(schema.dtype)
        rank = constraints.rank if constraints.rank is not None else schema.rank
        derived = Schema(rank=rank)
        if constraints.data_type is not None:
            derived.update(dtype=dtype_of(constraints.data_type))
        if (domain := _domain(constraints, schema)) is not None:
            derived.update(domain=domain)
        if rank is not None:
            derived.update(chunk_layout=_layout(rank, constraints.block_size))
        derived.update(codec=N5CodecSpec.of(constraints.compression))
        if constraints.units is not None:
            derived.update(dimension_units=_units_of(constraints.units, constraints.resolution))
        return derived.merged(schema).without_fill_value()  # which the format can't store

    def metadata_key(self, options: N5Options) -> str:
        """Return ``attributes.json``."""
        return ATTRIBUTES_KEY

    def parse_document(self, raw: bytes) -> JSON:
        """Read the stored bytes as JSON."""
        return load_document(raw)

    def is_array(self, document: JSON) -> bool:
        """Return True if a document is that of a dataset, not of a group."""
        return is_dataset(document)

    def parse_metadata(self, document: JSON) -> N5Metadata:
        """Read an ``attributes.json``; its compression must be known."""
        metadata = parse_metadata(document)
        block_codec(metadata)
        return metadata

    def template_key(self, document: JSON) -> JSON | None:
        """Return the members other than attributes, with the rank in place of dimensions."""
        if type(document) is not dict or type(document.get("dimensions")) is not list:
            return None
        return [len(document["dimensions"]), {name: document[name] for name in _TEMPLATE if name in document}]

    def without_attributes(self, metadata: N5Metadata) -> N5Metadata:
        """Return the metadata without attributes, except for malformed members of the template."""
        document = {
            name: value for name, value in metadata.document.items() if name in (*_TEMPLATE, "dimensions")
        }
        attributes = {name: value for name, value in metadata.attributes.items() if name in document}
        return metadata._replace(attributes=attributes, document=document)

    def create(self, constraints: N5Constraints, options: N5Options, schema: Schema) -> N5Metadata:
        """Choose the metadata of a new dataset."""
        domain = create_domain(constraints.dimensions, constraints.axes, constraints.rank, schema)
        data_type = _create_data_type(constraints, schema)
        layout = schema.chunk_layout.merged(_layout(domain.rank, constraints.block_size))
        if any(size is not None for size in layout.codec_chunk.shape or ()):
            raise InvalidArgumentError("codec_chunk_shape not supported")
        block_size = choose_chunk_shape(layout, domain.shape)
        codec = N5CodecSpec.of(constraints.compression)._merged(schema.codec)
        _check_no_fill_value(schema)
        units, resolution = _choose_units(constraints.units, constraints.resolution, schema.dimension_units)
        document: dict[str, JSON] = dict(constraints.attributes)
        document["dimensions"] = list(domain.shape)
        document["blockSize"] = list(block_size)
        document["dataType"] = data_type
        document["compression"] = codec.compression or _default_compression(_default_itemsize(data_type))
        if any(domain.labels):
            document["axes"] = list(domain.labels)
        if units is not None:
            document["units"] = list(units)
        if resolution is not None:
            if not all(map(isfinite, resolution)):  # JSON can't hold it, so no reader could open the array
                raise InvalidArgumentError(
                    f"dimension_units: expected finite numbers, not {list(resolution)}"
                )
            document["resolution"] = list(resolution)
        return parse_metadata(document)

    def adopt(self, metadata: N5Metadata, existing: Mapping[str, JSON]) -> N5Metadata | None:
        """Return the metadata with the version of the container, if the group has nothing else."""
        return parse_metadata({**existing, **metadata.document}) if is_marker(existing) else None

    def check(
        self, metadata: N5Metadata, constraints: N5Constraints, options: N5Options, schema: Schema
    ) -> None:
        """Raise if an existing dataset doesn't match a spec."""
        check_constraints(constraints, metadata)
        if schema.is_met_by(metadata.dtype, metadata.rank):
            return
        check_rank_and_dtype(metadata.rank, metadata.dtype, schema)
        if schema.domain is not None:
            with prefixed("Mismatch between metadata and schema", ChunkwiseError):
                merge_domains(schema.domain, domain_of_shape(metadata.dimensions, metadata.axes))
        layout = schema.chunk_layout.merged(_layout(metadata.rank, metadata.block_size))
        if any(size is not None for size in layout.codec_chunk.shape or ()):
            raise InvalidArgumentError("codec_chunk_shape not supported")
        check_codec(N5CodecSpec.of(dict(metadata.compression)), schema)
        _check_no_fill_value(schema)
        _check_units(metadata, schema)

    def schema_of(self, metadata: N5Metadata, options: N5Options) -> Schema:
        """Return the schema of an existing dataset."""
        return Schema(
            dtype=metadata.dtype,
            domain=domain_of_shape(metadata.dimensions, metadata.axes),
            chunk_layout=_layout(metadata.rank, metadata.block_size),
            codec=N5CodecSpec.of(dict(metadata.compression)),
            dimension_units=_units_of(metadata.units, metadata.resolution),
        )

    def domain_of(self, metadata: N5Metadata, options: N5Options) -> IndexDomain:
        """Return the domain of an existing array."""
        return domain_of_shape(metadata.dimensions, metadata.axes)

    def metadata_to_json(self, metadata: N5Metadata) -> dict[str, JSON]:
        """Return the canonical form of the document."""
        return spec_members(metadata)

    def container_key(self, path: str) -> str | None:
        """Return the key of the root of the dataset's container, ``*.n5``."""
        return container_key(path)

    def check_container(self, document: JSON) -> None:
        """Raise if the group is the root of a container with a version above 4."""
        if isinstance(document, Mapping):
            check_version(document.get("n5"))

    def same_but_resized(self, a: N5Metadata, b: N5Metadata) -> bool:
        """Return True if two documents differ only in dimensions and attributes."""
        return _identity(a) == _identity(b)

    def encode(self, metadata: N5Metadata) -> bytes:
        """Return the bytes of ``attributes.json``."""
        return dump_document(metadata.document)

    def stored_array(self, metadata: N5Metadata, prefix: str, options: N5Options) -> StoredArray:
        """Return the array as stored in its kvstore."""
        return to_stored_array(metadata, prefix, crop=options.crop_end_blocks)


def _identity(metadata: N5Metadata) -> tuple[object, ...]:
    return (
        metadata.rank,
        metadata.block_size,
        metadata.data_type,
        metadata.compression,
        metadata.axes,
        metadata.units,
        metadata.resolution,
    )


def to_stored_array(metadata: N5Metadata, prefix: str, *, crop: bool = False) -> StoredArray:
    """Return a dataset as stored in its kvstore."""
    fill_value = metadata.dtype.zero()
    item = ChunkSpec(metadata.block_size, fill_value.dtype, fill_value)
    return StoredArray(
        shape=metadata.dimensions,
        dtype=metadata.dtype,
        fill_value=fill_value,
        grid=RegularGrid(metadata.block_size),
        chain=prepare_chain([block_codec(metadata)], item),
        keys=KeyEncoding("", "/", "0").under(prefix),
        document=metadata.document,
        crop=crop,
    )


def _layout(rank: int, block_size: tuple[int, ...] | None) -> ChunkLayout:
    """Return the layout of every dataset: the first dimension innermost, blocks from the origin."""
    layout = ChunkLayout(rank=rank)
    layout._set("grid_origin", [0] * rank, hard=True)
    layout._set("inner_order", list(range(rank))[::-1], hard=True)
    if block_size is not None:
        layout.update(chunk_shape=block_size)
    return layout


def _domain(constraints: N5Constraints, schema: Schema) -> IndexDomain | None:
    """Return the known part of the domain; the origin is known as soon as anything else is."""
    rank = constraints.rank if constraints.rank is not None else schema.rank
    known = (constraints.dimensions, constraints.axes, schema.domain)
    if rank is None or all(part is None for part in known):
        return None
    return domain_of_shape(constraints.dimensions or (None,) * rank, constraints.axes or (None,) * rank)


def _default_compression(itemsize: int) -> dict[str, JSON]:
    """Return TensorStore's choice for elements of `itemsize` bytes: Blosc with lz4, bit shuffle for bytes."""
    return {
        "type": "blosc",
        "cname": "lz4",
        "clevel": 5,
        "shuffle": 2 if itemsize == 1 else 1,
        "blocksize": 0,
    }


def _default_itemsize(data_type: str) -> int:
    dtype = dtype_of(data_type)
    return 1 if dtype.memory_dtype.hasobject else dtype.itemsize


def _create_data_type(constraints: N5Constraints, schema: Schema) -> str:
    if schema.dtype is None:
        if constraints.data_type is None:
            raise InvalidArgumentError("dtype must be specified")
        return constraints.data_type
    wanted = array_data_type(schema.dtype)
    if constraints.data_type not in (None, wanted):
        raise InvalidArgumentError(
            f"dtype from metadata ({constraints.data_type}) does not match dtype in schema ({wanted})"
        )
    return wanted


def _check_no_fill_value(schema: Schema) -> None:
    if schema.fill_value is not None:
        raise InvalidArgumentError("fill_value not supported by N5 format")


def _check_units(metadata: N5Metadata, schema: Schema) -> None:
    wanted = schema.dimension_units
    if wanted is None or all(unit is None for unit in wanted):
        return
    stored = _units_of(metadata.units, metadata.resolution)
    if stored is None:
        raise FailedPreconditionError(
            f"Dimension units in metadata {format_dimension_units((None,) * metadata.rank)} do not match "
            f"dimension units in schema {format_dimension_units(wanted)}"
        )
    try:
        merge_dimension_units(stored, wanted)
    except ChunkwiseError as e:
        raise FailedPreconditionError(e.message) from None


def _units_of(units: Sequence[str] | None, resolution: Sequence[float] | None) -> tuple[Unit, ...] | None:
    """Return the dimension units from the two members, or None."""
    if units is None:
        return None
    factors = resolution if resolution is not None else (1.0,) * len(units)
    return tuple(Unit(factor, unit) for factor, unit in zip(factors, units, strict=True))


def _choose_units(
    units: tuple[str, ...] | None,
    resolution: tuple[float, ...] | None,
    wanted: Sequence[Unit | None] | None,
) -> tuple[tuple[str, ...] | None, tuple[float, ...] | None]:
    """Return ``units`` and ``resolution`` of a new dataset."""
    if wanted is None or all(unit is None for unit in wanted):
        return units, resolution if units is None or resolution is not None else (1.0,) * len(units)
    if units is not None:
        merge_dimension_units(wanted, _units_of(units, resolution))
        return units, resolution if resolution is not None else (1.0,) * len(units)
    if resolution is None:
        resolution = tuple(1.0 if unit is None else unit.multiplier for unit in wanted)
    elif any(unit is not None and unit.multiplier != r for unit, r in zip(wanted, resolution, strict=True)):
        factors = ", ".join(f"{factor:.6g}" for factor in resolution)
        raise InvalidArgumentError(
            f'"resolution" from metadata {{{factors}}} does not match dimension units from schema '
            f"{format_dimension_units(wanted)}"
        )
    return tuple("" if unit is None else unit.base_unit for unit in wanted), resolution


FORMAT = N5Format()


def parse_n5(members: Members, common: SpecMembers) -> ChunkedSpec:
    """Take the members of a spec of this driver."""
    return ChunkedSpec.parse(FORMAT, members, common)
