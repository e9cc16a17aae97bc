"""Conversion between ``zarr.json`` and a schema, and the chunks and codecs of a new array.

For a new array, the domain comes from ``shape`` and the schema; chunks and codecs come from both too.  A
chain in ``metadata`` determines the order of elements, and is put into shards only if read and write chunks
of different sizes are required.  If the chain is left open, codecs are put into shards if read chunks turn
out smaller than write chunks, and an inner order other than C order becomes a ``transpose``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from chunkwise.core.base.binding import JSON, MISSING, dump
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
from chunkwise.core.driver.chunked.record import Field, fill_of_field
from chunkwise.core.driver.zarr3.chain_layout import chain_axes, chain_layout
from chunkwise.core.driver.zarr3.codec_constraints import (
    SHARDING,
    as_written,
    resolve_chain,
    sharding_levels,
    split_chain,
)
from chunkwise.core.driver.zarr3.constraints import (
    Zarr3CodecSpec,
    Zarr3Constraints,
    check_constraints,
    parse_units,
)
from chunkwise.core.driver.zarr3.metadata import (
    Zarr3Metadata,
    array_to_bytes_name,
    first_chunk_shape,
    make_document,
    parse_metadata,
    raw_element,
)
from chunkwise.core.dtypes.zarr3 import to_zarr3
from chunkwise.core.grid.rectilinear import RectilinearGrid, Sizes
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.chunk_shape import choose_chunk_shape, choose_read_write_chunk_shapes
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.core.specs.constraint import braces, hard_part, prefixed
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.unit import Unit
from chunkwise.errors import InvalidArgumentError

__all__ = ["check_metadata", "constraint_schema", "create_metadata", "schema_of"]


class _NewChunks(NamedTuple):
    """Chunks and codecs of a new array."""

    grid: dict[str, JSON]  # the member ``chunk_grid``
    shape: tuple[int, ...]  # shape of a cell, the first one in a grid of unequal cells
    inner: tuple[int, ...]  # shape of a chunk that is read alone
    chain: list[dict[str, JSON]]  # the codecs; some options may still be open


def _choose_chunks(
    constraints: Zarr3Constraints, layout: ChunkLayout, codec: CodecSpec | None, domain: IndexDomain
) -> _NewChunks:
    """Choose the chunks of an array of the given `domain`."""
    chain = _merged_chain(constraints, codec)
    grid, outer, inner = _choose_shapes(constraints, layout, chain, domain)
    chain = _with_shards(chain, outer, inner)
    if chain_axes(constraints.codecs, domain.rank).is_open:
        chain = _with_order(chain, layout, domain.rank)
    _check_order(chain, layout, domain.rank)
    return _NewChunks(grid, outer, inner, chain)


def _merged_chain(constraints: Zarr3Constraints, codec: CodecSpec | None) -> list[dict[str, JSON]]:
    own = Zarr3CodecSpec.of(constraints.codecs)
    merged = own if codec is None else own.merge(codec)
    assert isinstance(merged, Zarr3CodecSpec)
    return list(merged.codecs or [])


def _choose_shapes(
    constraints: Zarr3Constraints, layout: ChunkLayout, chain: list[dict[str, JSON]], domain: IndexDomain
) -> tuple[dict[str, JSON], tuple[int, ...], tuple[int, ...]]:
    """Return the grid's JSON, the shape of its (first) cell, and the shape of read chunks."""
    shards = chain_axes(chain, domain.rank).shards
    own = chain_layout(None if shards else constraints.codecs, constraints.grid, domain.rank)
    layout.become(layout.merged(own))
    if shards and (shape := shards[-1].chunk_shape) is not None:
        layout._set_of_grid("read_chunk", "shape", shape, hard=True)
    if layout.chunk_shapes is not None:
        grid = _rectilinear_grid(layout.chunk_shapes)
        json = {"name": "rectilinear", "configuration": grid.to_json()}
        json = constraints.members.get("chunk_grid", json)
        if json["name"] != "rectilinear":
            raise InvalidArgumentError(
                f"chunk_shapes are not compatible with a {dump(json['name'])} chunk grid"
            )
        inner = hard_part(layout.read_chunk._vector("shape"), domain.rank)
        if any(inner) and not shards:
            raise InvalidArgumentError(
                f"read_chunk shape {braces(inner)} needs shards in the codecs of a rectilinear chunk grid"
            )
        outer = first_chunk_shape(grid)
        return json, outer, tuple(n or size for n, size in zip(inner, outer, strict=True))
    given = constraints.codecs is not None or sharding_levels(chain) > 0
    if given and not shards and not _asks_for_both(layout):
        layout._merge_grid("write_chunk", layout.read_chunk)
        read = write = choose_chunk_shape(ChunkLayout(write_chunk=layout.write_chunk), domain.shape)
    else:
        read, write = choose_read_write_chunk_shapes(layout, domain.shape)
    return {"name": "regular", "configuration": {"chunk_shape": list(write)}}, write, read


def _rectilinear_grid(shapes: Sequence[Sizes | None]) -> RectilinearGrid:
    known = [sizes for sizes in shapes if sizes is not None]
    if len(known) < len(shapes):
        raise InvalidArgumentError(
            f"chunk_shapes of a rectilinear grid must be known for each dimension, not unknown for dimension "
            f"{shapes.index(None)}"
        )
    return RectilinearGrid.of(known)


def _asks_for_both(layout: ChunkLayout) -> bool:
    """Return True if different sizes of read and write chunks are required."""
    sizes = zip(layout.read_chunk._vector("shape"), layout.write_chunk._vector("shape"), strict=False)
    return any(r and w and r.hard and w.hard and r.value != w.value for r, w in sizes)


def _with_shards(
    chain: list[dict[str, JSON]], outer: tuple[int, ...], inner: tuple[int, ...]
) -> list[dict[str, JSON]]:
    """Add shards around the chain, or the inner chunk shape that its shards leave open."""
    shards = chain_axes(chain, len(outer)).shards
    if shards:
        shape = [inner[dim] for dim in shards[-1].axes]
        return _changed(chain, len(shards) - 1, lambda c: _with_inner_shape(c, shape))
    if inner == outer:
        return chain
    return [{"name": SHARDING, "configuration": {"chunk_shape": list(inner), "codecs": chain}}]


def _with_inner_shape(chain: list[dict[str, JSON]], shape: list[int]) -> list[dict[str, JSON]]:
    return [
        {**e, "configuration": {"chunk_shape": shape, **e.get("configuration", {})}}
        if e["name"] == SHARDING
        else e
        for e in chain
    ]


def _changed(
    chain: list[dict[str, JSON]], depth: int, change: Callable[[list[dict[str, JSON]]], list[dict[str, JSON]]]
) -> list[dict[str, JSON]]:
    """Return the chain with a changed chain of the inner chunks `depth` shards down."""
    if depth == 0:
        return change(chain)
    before, shard, after = split_chain(chain)
    assert shard is not None
    options = dict(shard.get("configuration", {}))
    options["codecs"] = _changed(options.get("codecs", []), depth - 1, change)
    return [*before, {"name": SHARDING, "configuration": options}, *after]


def _with_order(chain: list[dict[str, JSON]], layout: ChunkLayout, rank: int) -> list[dict[str, JSON]]:
    """Add a transpose that puts elements in the order of the layout."""
    axes = chain_axes(chain, rank).axes
    order = layout._scalar("inner_order")
    if order is None or axes is None or axes == order.value:
        return chain
    entry = {
        "name": "transpose",
        "configuration": {"order": [axes.index(dim) for dim in order.value]},
    }

    def change(inner: list[dict[str, JSON]]) -> list[dict[str, JSON]]:
        n = len(split_chain(inner).array_to_array)
        return [*inner[:n], entry, *inner[n:]]

    return _changed(chain, sharding_levels(chain), change)


def _check_order(chain: list[dict[str, JSON]], layout: ChunkLayout, rank: int) -> None:
    """Raise unless elements are in the order that the layout requires."""
    if layout.inner_order is None:
        return
    axes = chain_axes(chain, rank).axes
    if axes is None:
        raise InvalidArgumentError(
            f"inner_order {braces(layout.inner_order)} can't be met by codecs that change the shape of chunks"
        )
    with prefixed("Error setting inner_order"):
        layout._set("inner_order", axes, hard=True)


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
    chosen = _choose_chunks(constraints, layout, schema.codec, domain)
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


def check_metadata(
    metadata: Zarr3Metadata, constraints: Zarr3Constraints, schema: Schema, field: Field | None = None
) -> None:
    """Raise if an existing array doesn't match a spec."""
    check_constraints(constraints, metadata)
    dtype, inner = (metadata.dtype, ()) if field is None else (field.dtype, field.shape)
    if not schema.is_met_by(dtype, metadata.rank + len(inner)):
        check_schema(schema_of(metadata, field), schema)
