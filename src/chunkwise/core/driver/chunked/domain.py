"""Domains, data types, layouts, units and fill values of new chunked arrays, for all formats.

Comparison of stored metadata with the schema of a spec; each conflict names both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import MISSING, dump
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.fill_value import same_fill
from chunkwise.core.index_space import IndexDomain, inf, merge_domains
from chunkwise.core.index_space.dim import MAX_RANK
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.core.specs.fill_value import check_broadcast
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.unit import Unit, merge_dimension_units
from chunkwise.errors import ChunkwiseError, FailedPreconditionError, InvalidArgumentError, prefix, prefixed

__all__ = [
    "agreed_fill",
    "at_origin",
    "check_chunk_nbytes",
    "check_codec",
    "check_rank_and_dtype",
    "check_schema",
    "create_domain",
    "create_dtype",
    "create_layout",
    "domain_of_shape",
    "merged_units",
]


def check_chunk_nbytes(shape: Sequence[int], dtype: DataType) -> None:
    """Raise InvalidArgumentError if a chunk would have 2^63 bytes or more, which no library can hold."""
    nbytes = dtype.memory_dtype.itemsize
    for size in shape:
        nbytes *= size
    if nbytes >= 1 << 63:
        sizes = ", ".join(map(str, shape))
        raise InvalidArgumentError(
            f"a chunk of {{{sizes}}} elements of {dtype.name} would have {nbytes} bytes, not less than 2^63"
        )


def domain_of_shape(
    shape: Sequence[int | None], names: Sequence[str | None], inner: Sequence[int] = ()
) -> IndexDomain:
    """Return ``[0, n*)`` for each dimension; the upper bounds can be resized, so they are implicit."""
    labels = [name or "" for name in names]
    labels = [label if labels.count(label) == 1 else "" for label in labels]
    rank, fixed = len(labels), len(inner)
    n = rank + fixed
    upper = tuple([size for size in (*shape, *inner) if type(size) is int and 0 <= size <= inf])
    if len(upper) == n <= MAX_RANK:
        implicit = (True,) * rank + (False,) * fixed
        return IndexDomain._make((0,) * n, upper, (False,) * n, implicit, (*labels, *[""] * fixed))
    return IndexDomain(
        inclusive_min=[0] * (len(labels) + len(inner)),
        exclusive_max=[*(inf + 1 if size is None else size for size in shape), *inner],
        implicit_upper_bounds=[True] * len(labels) + [False] * len(inner),
        labels=[*labels, *[""] * len(inner)],
    )


def create_domain(
    shape: Sequence[int] | None, names: Sequence[str | None] | None, rank: int | None, schema: Schema
) -> IndexDomain:
    """Return the domain of a new array from metadata constraints and schema."""
    if schema.rank is not None and rank is not None and schema.rank != rank:
        raise FailedPreconditionError(
            f"Rank specified by schema ({schema.rank}) does not match rank specified by metadata ({rank})"
        )
    rank = rank if rank is not None else schema.rank
    if rank is None:
        raise InvalidArgumentError("domain must be specified")
    domain = domain_of_shape(shape or (None,) * rank, names or (None,) * rank)
    if schema.domain is not None:
        try:
            domain = merge_domains(schema.domain, domain)
        except ChunkwiseError as e:
            error = prefix(e, "Mismatch between metadata and schema")
            raise FailedPreconditionError(error.message) from None
    if any(size > inf for size in domain.shape):
        raise InvalidArgumentError("domain must be specified")
    return domain


def create_dtype(own: DataType | None, schema: Schema) -> DataType:
    """Return the data type of a new array from metadata constraints and schema."""
    if schema.dtype is not None and own is not None and schema.dtype != own:
        raise InvalidArgumentError(
            f"Specified dtype ({schema.dtype.name}) does not match existing value ({own.name})"
        )
    dtype = own or schema.dtype
    if dtype is None:
        raise InvalidArgumentError("dtype must be specified")
    return dtype


def create_layout(schema: Schema, rank: int) -> ChunkLayout:
    """Return the chunk layout of a schema, for chunks that begin at the origin."""
    layout = schema.chunk_layout
    layout.set_rank(rank)
    layout._set("grid_origin", [0] * rank, hard=True)
    if any(size is not None for size in layout.codec_chunk.shape or ()):
        raise InvalidArgumentError("codec_chunk_shape not supported")
    return layout


def at_origin(schema: Schema) -> Schema:
    """Return `schema` with chunks that begin at the origin, if its rank is known."""
    if schema.rank is not None:
        schema.update(chunk_layout=ChunkLayout(grid_origin=[0] * schema.rank))
    return schema


def agreed_fill(schema: Schema, dtype: DataType, stored: Any) -> npt.NDArray[Any] | None:
    """Return the fill value of a schema and metadata, which must agree; None without one."""
    # `stored` is MISSING if the metadata doesn't specify it, and None if it specifies no fill value.
    wanted = schema.converted_fill_value(dtype)
    said: npt.NDArray[Any] | None = None if stored is MISSING else stored
    if wanted is None:
        return said
    shape = () if said is None else said.shape
    check_broadcast(wanted.shape, shape, "Invalid fill_value")
    wanted = np.broadcast_to(wanted, shape)
    if stored is not MISSING and not same_fill(wanted, said):
        raise FailedPreconditionError(
            f"Invalid fill_value: schema requires fill value of {_show(wanted)}, but metadata specifies "
            + ("no fill value" if said is None else f"fill value of {_show(said)}")
        )
    return wanted


def _show(value: npt.NDArray[Any]) -> str:
    item = np.asarray(value).item()
    return dump(item) if isinstance(item, bool | int | float | str) else repr(item)


def merged_units(
    wanted: Sequence[Unit | None] | None, constrained: Sequence[Unit | None] | None, rank: int
) -> tuple[Unit | None, ...]:
    """Return the units of a new array from schema and metadata."""
    if wanted is None or constrained is None:
        return tuple(wanted or constrained or (None,) * rank)
    with prefixed("Invalid dimension_units", ChunkwiseError):
        return tuple(merge_dimension_units(wanted, constrained) or (None,) * rank)


def check_schema(stored: Schema, wanted: Schema) -> None:
    """Raise unless stored metadata meets the schema of a spec."""
    # Soft constraints on the chunk layout are ignored.
    check_rank_and_dtype(stored.rank, stored.dtype, wanted)
    if wanted.domain is not None:
        assert stored.domain is not None
        try:
            merge_domains(wanted.domain, stored.domain)
        except ChunkwiseError as e:
            raise _failed(prefix(e, "Mismatch between metadata and schema")) from None
    wanted.chunk_layout.merged(stored.chunk_layout)
    check_codec(stored.codec, wanted)
    assert stored.dtype is not None
    agreed_fill(wanted, stored.dtype, stored.fill_value)
    if wanted.dimension_units is not None and any(u is not None for u in wanted.dimension_units):
        try:
            merge_dimension_units(stored.dimension_units, wanted.dimension_units)
        except ChunkwiseError as e:
            raise _failed(
                prefix(e, "dimension_units from metadata does not match dimension_units in schema")
            ) from None


def check_rank_and_dtype(rank: int | None, dtype: DataType | None, wanted: Schema) -> None:
    """Raise unless rank and data type of the metadata match the schema of a spec."""
    if wanted.rank is not None and wanted.rank != rank:
        raise FailedPreconditionError(
            f"Rank specified by schema ({wanted.rank}) does not match rank specified by metadata ({rank})"
        )
    if wanted.dtype is not None and wanted.dtype != dtype:
        raise FailedPreconditionError(
            f"dtype from metadata ({_name(dtype)}) does not match dtype in schema ({_name(wanted.dtype)})"
        )


def check_codec(stored: CodecSpec | None, wanted: Schema) -> None:
    """Raise unless the codec of the metadata matches the schema of a spec."""
    if wanted.codec is None:
        return
    try:
        assert stored is not None
        stored.merge(wanted.codec)
    except ChunkwiseError as e:
        raise _failed(prefix(e, "codec from metadata does not match codec in schema")) from None


def _failed(error: ChunkwiseError) -> FailedPreconditionError:
    return FailedPreconditionError(error.message)


def _name(dtype: DataType | None) -> str:
    return str(None if dtype is None else dtype.name)
