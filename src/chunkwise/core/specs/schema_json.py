"""The JSON form of a schema."""

from __future__ import annotations

from collections.abc import Callable

from chunkwise.core.base.binding import JSON, Members, expect_int
from chunkwise.core.dtypes.data_type import dtype as as_dtype
from chunkwise.core.dtypes.schema_value import array_to_json
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.core.specs.constraint import MAX_RANK
from chunkwise.core.specs.dimension_units import dimension_units_from_json, dimension_units_to_json
from chunkwise.core.specs.fill_value import NUMBERS
from chunkwise.core.specs.schema_constraints import SchemaConstraints, dtype_from_json

__all__ = ["parse_schema", "schema_to_json"]


def parse_schema(schema: SchemaConstraints, json: JSON) -> None:
    """Add the constraints in plain JSON to `schema`."""
    members = Members(json)
    rank = members.take("rank", lambda v: expect_int(v, 0, MAX_RANK), None)
    if rank is not None:
        schema._set_rank(rank)
    for name, parse in _PARSERS.items():
        members.take(name, lambda v, p=parse: p(schema, v), None)  # type: ignore[misc]
    members.finish()


def schema_to_json(schema: SchemaConstraints) -> dict[str, JSON]:
    """Return the JSON form, with ``rank`` whenever it is known."""
    out: dict[str, JSON] = {}
    layout = schema._layout.to_json()
    layout.pop("rank", None)
    if layout:
        out["chunk_layout"] = layout
    if schema._codec is not None:
        out["codec"] = schema._codec.to_json()
    if schema._units is not None and any(u is not None for u in schema._units):
        out["dimension_units"] = dimension_units_to_json(schema._units)
    if schema._domain is not None:
        out["domain"] = schema._domain.to_json()
    if schema._dtype is not None:
        out["dtype"] = schema._dtype.to_json()
    fill = schema._fill
    if schema._fill_is_json and fill is not None:
        out["fill_value"] = fill.tolist()
    elif fill is not None:
        dtype = schema._dtype
        if dtype is None or (fill.dtype != dtype.memory_dtype and fill.dtype.kind in NUMBERS):
            dtype = as_dtype("json" if fill.dtype == object else fill.dtype)
        out["fill_value"] = array_to_json(fill, dtype)
    if schema._rank is not None:
        out["rank"] = schema._rank
    return out


_PARSERS: dict[str, Callable[[SchemaConstraints, JSON], None]] = {
    "dtype": lambda s, v: s._set_dtype(dtype_from_json(v)),
    "domain": lambda s, v: s._set_domain(IndexDomain(json=v)),
    "chunk_layout": lambda s, v: s._set_layout(ChunkLayout(v)),
    "codec": lambda s, v: s._set_codec(CodecSpec(v)),
    "fill_value": lambda s, v: s._set_fill_json(v),
    "dimension_units": lambda s, v: s._set_units(dimension_units_from_json(v)),
}
