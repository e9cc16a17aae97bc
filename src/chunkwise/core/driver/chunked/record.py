"""Fields of a structured type, or the bytes of any type, as arrays of their own.

Spec members: ``field`` names the field; its shape, if any, becomes inner dimensions after the array's.
``open_as_void`` gives the stored bytes of each element as an inner dimension.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, Members, dump, expect_bool, expect_string
from chunkwise.core.driver.stored_array import StoredField
from chunkwise.core.dtypes.data_type import DataType, dtypes
from chunkwise.core.index_space import IndexDomain, inf
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.schema import Schema
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError, SpecError, UnsupportedError

__all__ = ["Field", "FieldOptions", "fill_of_field", "outer_schema", "record_field"]


ToRaw: TypeAlias = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]
"""Returns the stored bytes of an element, as an element of a raw bytes type."""


class Field(NamedTuple):
    """Field of a record, or all bytes of an element of any type, addressed separately."""

    name: str | None  # the field; None for all bytes
    dtype: DataType  # type of the field
    shape: tuple[int, ...]  # inner dimensions


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldOptions:
    """Members of a spec that select a field of each element, or its bytes."""

    field: str | None = None
    open_as_void: bool = False  # the stored bytes, as an inner dimension

    @classmethod
    def parse(cls, members: Members, **own: Any) -> Self:
        """Take ``field`` and ``open_as_void`` out of a spec; `own` are a format's further options."""
        field = members.take("field", expect_string, None)
        as_void = members.take("open_as_void", expect_bool, False)
        if field is not None and as_void:
            raise SpecError('"field" and "open_as_void" are mutually exclusive')
        return cls(field=field, open_as_void=as_void, **own)

    def to_json(self) -> dict[str, JSON]:
        """Return the members that aren't at their default."""
        out: dict[str, JSON] = {} if self.field is None else {"field": self.field}
        return {**out, "open_as_void": True} if self.open_as_void else out

    def choose(self, dtype: DataType | None) -> Field | None:
        """Return the field; None for whole elements or if the data type is unknown."""
        return None if dtype is None else _choose_field(dtype, self.field, self.open_as_void)

    def record_schema(
        self, dtype: DataType | None, shape: tuple[int, ...] | None, schema: Schema, member: str
    ) -> Schema:
        """Return the schema of a new array, from that of the field; `member` of the metadata has the type."""
        field = self.choose(dtype)
        if field is not None:
            return outer_schema(schema, field, shape)
        if self.field is not None or self.open_as_void:
            raise InvalidArgumentError(f'{member} must be specified in "metadata"')
        return schema

    def inner_rank(self, dtype: DataType | None) -> int:
        """Return the number of the array's trailing dimensions inside each element."""
        field = self.choose(dtype)
        return 0 if field is None else len(field.shape)


def _choose_field(dtype: DataType, field: str | None, as_void: bool) -> Field | None:
    memory = dtype.memory_dtype
    if as_void:
        if memory.hasobject:
            raise UnsupportedError(f'"open_as_void" needs elements of fixed size, not {dtype.name}')
        return Field(None, dtypes["byte"], (memory.itemsize,))
    if field is None:
        return None
    if memory.names is None or memory.fields is None:
        raise FailedPreconditionError(
            f"Requested field {dump(field)} but dtype does not have named fields: {dump(dtype.name)}"
        )
    if field not in memory.names:
        raise FailedPreconditionError(
            f"Requested field {dump(field)} is not one of: {dump(list(memory.names))}"
        )
    base, shape = memory.fields[field][0].subdtype or (memory.fields[field][0], ())
    if 0 in shape:
        raise UnsupportedError(f"Requested field {dump(field)} has no elements: its shape is {list(shape)}")
    return Field(field, DataType(base), shape)


def outer_schema(schema: Schema, field: Field, shape: tuple[int, ...] | None) -> Schema:
    """Return the schema of the array of records, from the schema of a field."""
    if schema.dtype is not None and schema.dtype != field.dtype:
        raise InvalidArgumentError(
            f"Specified dtype ({schema.dtype.name}) does not match existing value ({field.dtype.name})"
        )
    if schema.fill_value is not None:
        raise InvalidArgumentError(
            "Invalid fill_value: Cannot specify fill_value through schema for structured zarr data type"
        )
    n_inner = len(field.shape)
    if schema.rank is None:
        return Schema(codec=schema.codec)
    if schema.rank < n_inner or (shape is not None and schema.rank != len(shape) + n_inner):
        raise FailedPreconditionError(
            f"Rank specified by schema ({schema.rank}) does not match {n_inner} inner dimensions of the "
            f"selected field{'' if shape is None else f' and an array of rank {len(shape)}'}"
        )
    rank = schema.rank - n_inner
    inner = Schema(
        domain=IndexDomain(
            inclusive_min=[0] * schema.rank,
            exclusive_max=[inf + 1] * rank + list(field.shape),
            implicit_upper_bounds=[True] * rank + [False] * n_inner,
        )
    )
    inner.update(chunk_layout=ChunkLayout(rank=schema.rank, chunk_shape=[None] * rank + list(field.shape)))
    known = schema.domain is not None
    outer = schema.merged(inner)[(..., *[0] * n_inner)]
    return Schema(
        rank=rank,
        domain=outer.domain if known else None,
        chunk_layout=outer.chunk_layout,
        codec=outer.codec,
        dimension_units=outer.dimension_units,
    )


def fill_of_field(fill: npt.NDArray[Any], field: Field, to_raw: ToRaw) -> npt.NDArray[Any]:
    """Return the fill value of a field, with its inner shape, from the whole element's."""
    if field.name is not None:
        return np.asarray(fill[field.name])
    return np.frombuffer(to_raw(fill).tobytes(), "V1")


def record_field(fill: npt.NDArray[Any], field: Field, to_raw: ToRaw) -> StoredField:
    """Return the location of a field in decoded chunks of whole elements."""
    if field.name is None:
        return StoredField(to_raw(fill), field.shape, lambda a: a[..., None].view("V1"))
    return StoredField(fill, field.shape, lambda a: a[field.name])
