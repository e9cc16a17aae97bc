"""Between ``zarr.json`` and a schema, both ways.

Creating: the domain comes from ``shape`` and the schema, the chunk shapes from ``chunk_grid``, the
codecs and the chunk layout; where read and write chunks differ the codecs go into a
``sharding_indexed`` codec; an inner order that isn't C order becomes a ``transpose``.
"""

from __future__ import annotations

from typing import Any

from chunkwise.binding import dump
from chunkwise.codec.protocol import ChunkSpec
from chunkwise.driver.chunked.agree import check_schema
from chunkwise.driver.chunked.domain import (
    at_origin,
    create_domain,
    create_dtype,
    create_layout,
    domain_of_shape,
    fill_scalar,
    merged_units,
)
from chunkwise.driver.chunked.record import Part
from chunkwise.driver.zarr3.codec_constraints import (
    merge_chains,
    resolve_chain,
    sharding_levels,
    split_chain,
)
from chunkwise.driver.zarr3.codec_spec import Zarr3CodecSpec
from chunkwise.driver.zarr3.constraints import Zarr3Constraints, check_constraints, parse_units
from chunkwise.driver.zarr3.item import array_to_bytes_name
from chunkwise.driver.zarr3.metadata import Zarr3Metadata, make_document, parse_metadata
from chunkwise.driver.zarr3.record import fill_of_part
from chunkwise.dtypes.zarr3 import to_zarr3
from chunkwise.errors import InvalidArgumentError
from chunkwise.index_space import IndexDomain
from chunkwise.spec.chunk_layout import ChunkLayout
from chunkwise.spec.chunk_shape import choose_read_write_chunk_shapes
from chunkwise.spec.codec_spec import CodecSpec
from chunkwise.spec.schema import Schema
from chunkwise.spec.unit import Unit

__all__ = ["check_metadata", "constraint_schema", "create_metadata", "schema_of"]

SHARDING = "sharding_indexed"


def schema_of(metadata: Zarr3Metadata, part: Part | None = None) -> Schema:
    """Return the schema of an existing array, or of a part of its elements."""
    chain = metadata.chain
    inner = () if part is None else part.shape
    fill = metadata.fill_value
    return Schema(
        dtype=metadata.dtype if part is None else part.dtype,
        domain=domain_of_shape(metadata.shape, metadata.dimension_names, inner),
        chunk_layout=_layout(chain, metadata.grid.chunk_shape, metadata.rank, inner),
        codec=Zarr3CodecSpec.of(chain),
        fill_value=fill if part is None else fill_of_part(fill, chain, part),
        dimension_units=_with_inner_units(parse_units(metadata.attributes), inner),
    )


def _with_inner_units(
    units: tuple[Unit | None, ...] | None, inner: tuple[int, ...]
) -> tuple[Unit | None, ...] | None:
    return None if units is None else (*units, *[None] * len(inner))


def constraint_schema(constraints: Zarr3Constraints, schema: Schema, part: Part | None = None) -> Schema:
    """Return what the constraints of a spec and its schema say together, as far as they agree."""
    inner = () if part is None else part.shape
    rank = constraints.rank
    derived = Schema(
        rank=None if rank is None else rank + len(inner),
        dtype=constraints.dtype if part is None else part.dtype,
    )
    if rank is not None:
        if constraints.shape is not None or constraints.dimension_names is not None:
            names = constraints.dimension_names or (None,) * rank
            derived.update(domain=domain_of_shape(constraints.shape or (None,) * rank, names, inner))
        chunk_shape = constraints.grid.chunk_shape if constraints.grid is not None else None
        derived.update(chunk_layout=_layout(constraints.codecs, chunk_shape, rank, inner, partial=True))
    derived.update(codec=Zarr3CodecSpec.of(constraints.codecs))
    if constraints.fill_value is not None:
        fill = constraints.fill_value
        derived.update(
            fill_value=fill if part is None else fill_of_part(fill, constraints.codecs or [], part)
        )
    if constraints.units is not None:
        derived.update(dimension_units=_with_inner_units(constraints.units, inner))
    return at_origin(derived.merged(schema))


def _layout(
    chain: list[dict[str, Any]] | None,
    chunk_shape: tuple[int, ...] | None,
    rank: int,
    inside: tuple[int, ...] = (),
    *,
    partial: bool = False,
) -> ChunkLayout:
    """Return the chunk layout that a codec chain and a chunk shape amount to.

    `inside` are the dimensions of what is looked at of each element.  Without a chain chunks may be shards.
    """
    n_all = rank + len(inside)
    layout = ChunkLayout(rank=n_all)
    layout.set_grid_origin([0] * n_all, hard=True)
    write_shape = chunk_shape
    read_shape = None if chain is None else chunk_shape
    order = list(range(rank))
    known = not partial
    while True:
        split = split_chain(chain or [])
        for entry in split.array_to_array:
            if entry["name"] == "transpose":
                step = entry.get("configuration", {}).get("order", "C")
                step = list(range(rank)) if step == "C" else list(range(rank))[::-1] if step == "F" else step
                order = [order[i] for i in step]
        a2b = split.array_to_bytes
        if a2b is None or a2b["name"] != SHARDING:
            known = known or a2b is not None
            break
        configuration = a2b.get("configuration", {})
        inner = configuration.get("chunk_shape")
        if inner is not None and (order == list(range(rank))):
            read_shape = tuple(inner)
        elif inner is not None:
            read_shape = tuple(inner[order.index(i)] for i in range(rank))
        else:
            read_shape = None
        chain = configuration.get("codecs", [])
    if known or order != list(range(rank)):
        layout.set_inner_order([*order, *range(rank, n_all)], hard=True)
    if write_shape is not None:
        layout.update(write_chunk_shape=(*write_shape, *inside))
    if read_shape is not None:
        layout.update(read_chunk_shape=(*read_shape, *inside))
    return layout


def create_metadata(constraints: Zarr3Constraints, schema: Schema) -> Zarr3Metadata:
    """Choose the metadata of a new array.

    Raises
    ------
    ChunkwiseError
        If data type or domain are missing, or constraints and schema contradict each other.
    """
    dtype = create_dtype(constraints.dtype, schema)
    domain = create_domain(constraints.shape, constraints.dimension_names, constraints.rank, schema)
    rank = domain.rank
    fill_value = fill_scalar(schema.fill_value, constraints.fill_value, dtype)
    units = merged_units(schema.dimension_units, constraints.units, rank)

    layout = create_layout(schema, rank)
    chain = _merged_chain(constraints, schema.codec)
    grid_json, outer, inner = _choose_chunks(constraints, layout, chain, domain)
    chain = _with_layout(chain, layout, outer, inner, rank)
    item = ChunkSpec(outer, fill_value.dtype, fill_value)
    _refuse_compressed_shards(chain)
    codecs = resolve_chain(chain, item, array_to_bytes_name(dtype)).json
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
        chunk_grid=grid_json,
        chunk_key_encoding=constraints.members.get("chunk_key_encoding", {"name": "default"}),
        fill_value=fill_value,
        codecs=codecs,
        dimension_names=names,
        attributes=attributes,
        extra=constraints.extra,
    )
    return parse_metadata(document)


def _refuse_compressed_shards(chain: list[dict[str, Any]]) -> None:
    """Raise for bytes -> bytes codecs behind a shard: others write that, but it makes the index useless."""
    split = split_chain(chain)
    shard = split.array_to_bytes
    if shard is None or shard["name"] != SHARDING:
        return
    if split.bytes_to_bytes:
        raise InvalidArgumentError(
            f"Sharding codec {dump(shard)} is not compatible with subsequent bytes -> bytes codecs "
            f"{dump(split.bytes_to_bytes)} that apply to the entire shard. Instead, bytes -> bytes codecs "
            "may be specified as inner codecs that apply to each sub-chunk individually."
        )
    _refuse_compressed_shards(shard.get("configuration", {}).get("codecs", []))


def _merged_chain(constraints: Zarr3Constraints, codec: CodecSpec | None) -> list[dict[str, Any]]:
    own = Zarr3CodecSpec.of(constraints.codecs)
    merged = own if codec is None else own.merge(codec)
    assert isinstance(merged, Zarr3CodecSpec)
    return list(merged.codecs or [])


def _choose_chunks(
    constraints: Zarr3Constraints, layout: ChunkLayout, chain: list[dict[str, Any]], domain: IndexDomain
) -> tuple[dict[str, Any], tuple[int, ...], tuple[int, ...] | None]:
    """Return the grid's JSON, the shape of its (first) cell, and that of inner chunks if there are any."""
    grid = constraints.grid
    if grid is not None and grid.chunk_shape is None:
        if layout.write_chunk.shape is not None and any(layout.write_chunk.shape):
            raise InvalidArgumentError(
                "chunk shape constraints are not compatible with a rectilinear chunk grid"
            )
        bounds = [grid.bounds(dim, 0) for dim in range(grid.rank)]
        outer = tuple(stop - start for start, stop in bounds)
        return constraints.members["chunk_grid"], outer, None
    if grid is not None:
        assert grid.chunk_shape is not None
        layout.set_grid(
            "write_chunk", "shape", lambda g: g.set_shape(list(grid.chunk_shape or ()), hard=True)
        )
    levels = sharding_levels(chain)
    split = split_chain(chain)
    if levels:
        assert split.array_to_bytes is not None
        deepest = split.array_to_bytes
        while (nested := split_chain(deepest.get("configuration", {}).get("codecs", [])).array_to_bytes) and (
            nested["name"] == SHARDING
        ):
            deepest = nested
        inner = deepest.get("configuration", {}).get("chunk_shape")
        if inner is not None:
            layout.set_grid("read_chunk", "shape", lambda g: g.set_shape(inner, hard=True))
    elif grid is not None and constraints.codecs is not None and split.array_to_bytes is not None:
        shape = list(grid.chunk_shape or ())
        layout.set_grid("read_chunk", "shape", lambda g: g.set_shape(shape, hard=True))
    read, write = choose_read_write_chunk_shapes(layout, domain.shape)
    grid_json = {"name": "regular", "configuration": {"chunk_shape": list(write)}}
    return grid_json, write, read if (levels or read != write) else None


def _with_layout(
    chain: list[dict[str, Any]],
    layout: ChunkLayout,
    outer: tuple[int, ...],
    inner: tuple[int, ...] | None,
    rank: int,
) -> list[dict[str, Any]]:
    """Add what the layout asks for: a transpose, and sharding around it."""
    order = list(layout.order.value) if layout.order is not None else list(range(rank))
    if inner is None:
        return _with_order(chain, order, rank, layout)
    if sharding_levels(chain):
        return _into_shard(chain, inner, lambda c: _with_order(c, order, rank, layout))
    if inner == outer:
        return _with_order(chain, order, rank, layout)
    shard = {
        "name": SHARDING,
        "configuration": {"chunk_shape": list(inner), "codecs": _with_order(chain, order, rank, layout)},
    }
    return [shard]


def _into_shard(chain: list[dict[str, Any]], inner: tuple[int, ...], change: Any) -> list[dict[str, Any]]:
    split = split_chain(chain)
    a2b = split.array_to_bytes
    assert a2b is not None
    configuration = dict(a2b.get("configuration", {}))
    codecs = configuration.get("codecs", [])
    if sharding_levels(codecs):
        configuration["codecs"] = _into_shard(codecs, inner, change)
    else:
        configuration.setdefault("chunk_shape", list(inner))
        configuration["codecs"] = change(codecs)
    return [*split.array_to_array, {"name": SHARDING, "configuration": configuration}, *split.bytes_to_bytes]


def _with_order(
    chain: list[dict[str, Any]], order: list[int], rank: int, layout: ChunkLayout
) -> list[dict[str, Any]]:
    transposes = [e for e in split_chain(chain).array_to_array if e["name"] == "transpose"]
    if not transposes:
        if order == list(range(rank)):
            return chain
        return [{"name": "transpose", "configuration": {"order": order}}, *chain]
    own = transposes[0].get("configuration", {}).get("order", "C")
    own = list(range(rank)) if own == "C" else list(range(rank))[::-1] if own == "F" else list(own)
    hard = layout.order is not None and layout.order.hard
    if hard and own != order:
        merge_chains([{"name": "transpose", "configuration": {"order": order}}, *chain], chain)
    return chain


def check_metadata(
    metadata: Zarr3Metadata, constraints: Zarr3Constraints, schema: Schema, part: Part | None = None
) -> None:
    """Raise if an existing array isn't what a spec asks for."""
    check_constraints(constraints, metadata)
    dtype, inner = (metadata.dtype, ()) if part is None else (part.dtype, part.shape)
    if not schema.is_met_by(dtype, metadata.rank + len(inner)):
        check_schema(schema_of(metadata, part), schema)
