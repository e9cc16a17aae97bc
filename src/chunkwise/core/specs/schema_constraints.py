"""The constraints of a schema, and how each is added; an error leaves it partly changed."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from chunkwise.core.base.binding import JSON, dump, expect_string
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.data_type import dtype as as_dtype
from chunkwise.core.index_space import IndexDomain, merge_domains
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.core.specs.constraint import braces, check_rank
from chunkwise.core.specs.dimension_units import DimensionUnits, merge_dimension_units
from chunkwise.core.specs.fill_value import (
    check_broadcast,
    equal_fill,
    fill_from_json,
    fill_text,
    unbroadcast,
)
from chunkwise.errors import InvalidArgumentError, SpecError, UnknownExtensionError

__all__ = ["MEMBERS", "SchemaConstraints", "dtype_from_json"]

MEMBERS = ("_codec", "_domain", "_dtype", "_fill", "_fill_is_json", "_layout", "_rank", "_units")


class SchemaConstraints:
    """The constraints of a `Schema`."""

    __slots__ = ("__weakref__", *MEMBERS)

    _rank: int | None
    _dtype: DataType | None
    _domain: IndexDomain | None
    _layout: ChunkLayout
    _codec: CodecSpec | None
    _fill: npt.NDArray[Any] | None
    _fill_is_json: bool  # given as JSON before the data type was known
    _units: DimensionUnits | None

    def _set_rank(self, rank: int, source: str = "rank") -> None:
        check_rank(rank, None)
        if self._rank is not None and self._rank != rank:
            raise InvalidArgumentError(
                f"Rank specified by {source} ({rank}) does not match existing rank specified by schema "
                f"({self._rank})"
            )
        if self._fill is not None and self._fill.ndim > rank:
            raise InvalidArgumentError(
                f"Rank specified by {source} ({rank}) is incompatible with existing fill_value of shape "
                f"{braces(self._fill.shape)}"
            )
        self._rank = rank

    def _set_dtype(self, dtype: DataType) -> None:
        if self._dtype is not None and self._dtype != dtype:
            raise InvalidArgumentError(
                f"Specified dtype ({dtype.name}) does not match existing value ({self._dtype.name})"
            )
        self._dtype = dtype  # a fill value stays as given until `converted_fill_value`

    def _set_domain(self, domain: IndexDomain, source: str = "domain") -> None:
        self._set_rank(domain.rank, source)
        merged = domain if self._domain is None else merge_domains(self._domain, domain)
        if self._fill is not None:
            check_broadcast(self._fill.shape, merged.shape, "domain is incompatible with fill_value")
        self._domain = merged

    def _set_layout(self, layout: ChunkLayout) -> None:
        if layout.rank != -1:
            self._set_rank(layout.rank, "chunk_layout")
        self._layout = self._layout.merged(layout)

    def _set_codec(self, codec: CodecSpec) -> None:
        self._codec = codec if self._codec is None else self._codec.merge(codec)

    def _set_fill(self, value: npt.NDArray[Any], *, is_json: bool = False) -> None:
        if self._domain is not None:
            check_broadcast(value.shape, self._domain.shape, "fill_value is incompatible with domain")
        value = unbroadcast(value)
        if self._rank is not None and value.ndim > self._rank:
            raise InvalidArgumentError(f"Invalid fill_value for rank {self._rank}: {fill_text(value)}")
        if self._fill is not None and not equal_fill(self._fill, value):
            raise InvalidArgumentError(
                f"Specified fill_value ({fill_text(value)}) does not match existing value in schema "
                f"({fill_text(self._fill)})"
            )
        if self._fill is None:
            self._fill, self._fill_is_json = value, is_json

    def _set_units(self, units: DimensionUnits) -> None:
        if not units:
            return
        self._set_rank(len(units), "dimension_units")
        self._units = merge_dimension_units(units, self._units)

    def _merge(self, other: SchemaConstraints) -> None:
        if other._rank is not None:
            self._set_rank(other._rank)
        if other._dtype is not None:
            self._set_dtype(other._dtype)
        if other._domain is not None:
            self._set_domain(other._domain)
        self._set_layout(other._layout)
        if other._codec is not None:
            self._set_codec(other._codec)
        if other._fill is not None:
            self._set_fill(other._fill, is_json=other._fill_is_json)
        if other._units is not None:
            self._set_units(other._units)

    def _set_fill_json(self, value: JSON) -> None:
        self._set_fill(fill_from_json(value, self._dtype), is_json=self._dtype is None)

    def _become(self, other: SchemaConstraints) -> None:
        for name in MEMBERS:
            setattr(self, name, getattr(other, name))


def dtype_from_json(value: JSON) -> DataType:
    """Return the data type of member ``dtype`` of a schema or a spec."""
    name = expect_string(value)
    try:
        return as_dtype(name)
    except UnknownExtensionError:
        raise SpecError(f"Unsupported data type: {dump(name)}") from None
