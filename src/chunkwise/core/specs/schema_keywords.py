"""The keywords of a schema, and what they set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypedDict

import numpy as np
import numpy.typing as npt

from chunkwise.core.dtypes.as_array import as_array
from chunkwise.core.dtypes.data_type import DataType, DTypeLike, dtypes
from chunkwise.core.dtypes.data_type import dtype as as_dtype
from chunkwise.core.dtypes.tensor import elements_of
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.core.specs.constraint import int_item
from chunkwise.core.specs.dimension_units import DimensionUnits, as_dimension_units
from chunkwise.core.specs.schema_constraints import SchemaConstraints
from chunkwise.core.specs.unit import Unit
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, prefix

__all__ = ["SCHEMA_OPTIONS", "SchemaKeywords", "apply_schema_keywords"]


class SchemaKeywords(TypedDict, total=False):
    """Keywords of `Schema` and `Schema.update`; None means not given."""

    rank: int | None
    dtype: DTypeLike | None
    domain: IndexDomain | None
    shape: Iterable[int] | None
    chunk_layout: ChunkLayout | None
    codec: CodecSpec | None
    fill_value: npt.ArrayLike | None
    dimension_units: Iterable[Unit | str | float | tuple[float, str] | None] | None
    schema: SchemaConstraints | None


SCHEMA_OPTIONS: Final = tuple(SchemaKeywords.__annotations__)
"""The keywords in the order in which they are applied."""


def apply_schema_keywords(schema: SchemaConstraints, keywords: Mapping[str, Any]) -> None:
    """Add the constraints in keywords to `schema`."""
    for name in keywords:
        if name not in SCHEMA_OPTIONS:
            raise TypeError(
                f"unexpected keyword argument {name!r}; expected one of {', '.join(SCHEMA_OPTIONS)}"
            )
    for name in SCHEMA_OPTIONS:
        value = keywords.get(name)
        if value is None:
            continue
        try:
            _SETTERS[name](schema, value)
        except ChunkwiseError as e:
            if name == "dtype" and not isinstance(value, DataType) and not _is_dtype(value):
                raise
            raise prefix(e, f"Invalid {name}") from None
        except OverflowError as e:
            raise _OutOfRangeError(f"Invalid {name}: {e}") from None


class _OutOfRangeError(InvalidArgumentError, OverflowError):
    """A number that its data type can't hold: an OverflowError as in TensorStore."""


def _is_dtype(value: Any) -> bool:
    try:
        as_dtype(value)
    except ChunkwiseError:
        return False
    return True


def _expect(kind: type, name: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError(f"Invalid {name}")
        return value

    return check


def _as_fill(schema: SchemaConstraints, value: Any) -> npt.NDArray[Any]:
    if schema._dtype is not None:
        return as_array(value, schema._dtype)
    array = np.asarray(elements_of(value))
    if array.dtype.kind == "O":
        for item in array.flat:
            if isinstance(item, int) and not -(2**63) <= item < 2**64:
                raise OverflowError(f"Python integer {item} out of bounds for int64 and uint64")
        return as_array(value, dtypes["json"])
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _units(value: Any) -> DimensionUnits:
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        raise TypeError("Invalid dimension_units")
    return as_dimension_units(value)


def _shape_domain(shape: Iterable[int]) -> IndexDomain:
    if isinstance(shape, str | bytes) or not hasattr(shape, "__iter__"):
        raise TypeError("Invalid shape")
    return IndexDomain(shape=list(shape))


_SETTERS: dict[str, Callable[[SchemaConstraints, Any], None]] = {
    "rank": lambda s, v: s._set_rank(rank) if (rank := int_item(v, "rank")) != -1 else None,
    "dtype": lambda s, v: s._set_dtype(as_dtype(v)),
    "domain": lambda s, v: s._set_domain(_expect(IndexDomain, "domain")(v)),
    "shape": lambda s, v: s._set_domain(_shape_domain(v), "shape"),
    "chunk_layout": lambda s, v: s._set_layout(_expect(ChunkLayout, "chunk_layout")(v)),
    "codec": lambda s, v: s._set_codec(_expect(CodecSpec, "codec")(v)),
    "fill_value": lambda s, v: s._set_fill(_as_fill(s, v)),
    "dimension_units": lambda s, v: s._set_units(_units(v)),
    "schema": lambda s, v: s._merge(_expect(type(s), "schema")(v)),
}
