"""Conversion between ``attributes.json`` and a schema."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from chunkwise.core.base.binding import JSON
from chunkwise.core.driver.chunked.domain import check_codec, check_rank_and_dtype, domain_of_shape
from chunkwise.core.driver.n5.constraints import N5CodecSpec, N5Constraints, check_constraints
from chunkwise.core.driver.n5.members import array_data_type, dtype_of
from chunkwise.core.driver.n5.metadata import N5Metadata, parse_metadata
from chunkwise.core.index_space import IndexDomain, inf, merge_domains
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.chunk_shape import choose_chunk_shape
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.unit import Unit, format_dimension_units, merge_dimension_units
from chunkwise.errors import ChunkwiseError, FailedPreconditionError, InvalidArgumentError, prefix

__all__ = [
    "check_metadata",
    "choose_units",
    "constraint_schema",
    "create_metadata",
    "default_compression",
    "schema_of",
    "units_of",
]


def schema_of(metadata: N5Metadata) -> Schema:
    """Return the schema of an existing dataset."""
    return Schema(
        dtype=metadata.dtype,
        domain=domain_of_shape(metadata.dimensions, metadata.axes),
        chunk_layout=_layout(metadata.rank, metadata.block_size),
        codec=N5CodecSpec.of(dict(metadata.compression)),
        dimension_units=units_of(metadata.units, metadata.resolution),
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


def constraint_schema(constraints: N5Constraints, schema: Schema) -> Schema:
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
        derived.update(dimension_units=units_of(constraints.units, constraints.resolution))
    return derived.merged(schema).without_fill_value()  # which the format can't store


def default_compression(itemsize: int) -> dict[str, JSON]:
    """Return TensorStore's choice for elements of `itemsize` bytes: Blosc with lz4, bit shuffle for bytes."""
    return {
        "type": "blosc",
        "cname": "lz4",
        "clevel": 5,
        "shuffle": 2 if itemsize == 1 else 1,
        "blocksize": 0,
    }


def create_metadata(constraints: N5Constraints, schema: Schema) -> N5Metadata:
    """Choose the metadata of a new dataset."""
    domain = _create_domain(constraints, schema)
    data_type = _create_data_type(constraints, schema)
    rank = domain.rank
    layout = schema.chunk_layout.merged(_layout(rank, constraints.block_size))
    if any(size is not None for size in layout.codec_chunk.shape or ()):
        raise InvalidArgumentError("codec_chunk_shape not supported")
    block_size = choose_chunk_shape(layout, domain.shape)
    own = N5CodecSpec.of(constraints.compression)
    codec = own if schema.codec is None else own.merge(schema.codec)
    assert isinstance(codec, N5CodecSpec)
    _check_no_fill_value(schema)
    units, resolution = choose_units(constraints.units, constraints.resolution, schema.dimension_units)
    document: dict[str, JSON] = dict(constraints.attributes)
    document["dimensions"] = list(domain.shape)
    document["blockSize"] = list(block_size)
    document["dataType"] = data_type
    document["compression"] = codec.compression or default_compression(_default_itemsize(data_type))
    if any(domain.labels):
        document["axes"] = list(domain.labels)
    if units is not None:
        document["units"] = list(units)
    if resolution is not None:
        if not all(map(isfinite, resolution)):  # JSON can't hold it, so no reader could open the array
            raise InvalidArgumentError(f"dimension_units: expected finite numbers, not {list(resolution)}")
        document["resolution"] = list(resolution)
    return parse_metadata(document)


def _default_itemsize(data_type: str) -> int:
    dtype = dtype_of(data_type)
    return 1 if dtype.memory_dtype.hasobject else dtype.itemsize


def _create_domain(constraints: N5Constraints, schema: Schema) -> IndexDomain:
    ranks = {rank for rank in (constraints.rank, schema.rank) if rank is not None}
    if len(ranks) > 1:
        raise FailedPreconditionError(
            f"Rank specified by schema ({schema.rank}) does not match rank specified by metadata "
            f"({constraints.rank})"
        )
    if not ranks:
        raise InvalidArgumentError("domain must be specified")
    (rank,) = ranks
    domain = domain_of_shape(constraints.dimensions or (None,) * rank, constraints.axes or (None,) * rank)
    if schema.domain is not None:
        try:
            domain = merge_domains(schema.domain, domain)
        except ChunkwiseError as e:
            raise prefix(e, "Mismatch between metadata and schema") from None
    if any(size > inf for size in domain.shape):
        raise InvalidArgumentError("domain must be specified")
    return domain


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


def check_metadata(metadata: N5Metadata, constraints: N5Constraints, schema: Schema) -> None:
    """Raise if an existing dataset doesn't match a spec."""
    check_constraints(constraints, metadata)
    if schema.is_met_by(metadata.dtype, metadata.rank):
        return
    check_rank_and_dtype(metadata.rank, metadata.dtype, schema)
    if schema.domain is not None:
        try:
            merge_domains(schema.domain, domain_of_shape(metadata.dimensions, metadata.axes))
        except ChunkwiseError as e:
            raise prefix(e, "Mismatch between metadata and schema") from None
    layout = schema.chunk_layout.merged(_layout(metadata.rank, metadata.block_size))
    if any(size is not None for size in layout.codec_chunk.shape or ()):
        raise InvalidArgumentError("codec_chunk_shape not supported")
    check_codec(N5CodecSpec.of(dict(metadata.compression)), schema)
    _check_no_fill_value(schema)
    _check_units(metadata, schema)


def _check_units(metadata: N5Metadata, schema: Schema) -> None:
    wanted = schema.dimension_units
    if wanted is None or all(unit is None for unit in wanted):
        return
    stored = units_of(metadata.units, metadata.resolution)
    if stored is None:
        raise FailedPreconditionError(
            f"Dimension units in metadata {format_dimension_units((None,) * metadata.rank)} do not match "
            f"dimension units in schema {format_dimension_units(wanted)}"
        )
    try:
        merge_dimension_units(stored, wanted)
    except ChunkwiseError as e:
        raise FailedPreconditionError(e.message) from None


def units_of(units: Sequence[str] | None, resolution: Sequence[float] | None) -> tuple[Unit, ...] | None:
    """Return the dimension units from the two members, or None."""
    if units is None:
        return None
    factors = resolution if resolution is not None else (1.0,) * len(units)
    return tuple(Unit(factor, unit) for factor, unit in zip(factors, units, strict=True))


def choose_units(
    units: tuple[str, ...] | None,
    resolution: tuple[float, ...] | None,
    wanted: Sequence[Unit | None] | None,
) -> tuple[tuple[str, ...] | None, tuple[float, ...] | None]:
    """Return ``units`` and ``resolution`` of a new dataset."""
    if wanted is None or all(unit is None for unit in wanted):
        return units, resolution if units is None or resolution is not None else (1.0,) * len(units)
    if units is not None:
        merge_dimension_units(wanted, units_of(units, resolution))
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
