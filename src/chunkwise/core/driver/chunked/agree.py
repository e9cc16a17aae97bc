"""Comparison of stored metadata with the schema of a spec; each conflict names both sides."""

from __future__ import annotations

from chunkwise.core.driver.chunked.domain import agreed_fill
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.index_space import merge_domains
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.unit import merge_dimension_units
from chunkwise.errors import ChunkwiseError, FailedPreconditionError, prefix

__all__ = ["check_codec", "check_rank_and_dtype", "check_schema"]


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
