"""The constraints of a schema: a table of the setter, the keyword and the JSON of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.arguments import as_sequence
from chunkwise.core.base.binding import JSON, MISSING, Members, dump, expect_int, expect_string
from chunkwise.core.dtypes.as_array import as_array, elements_of
from chunkwise.core.dtypes.data_type import DataType, DTypeLike, dtypes
from chunkwise.core.dtypes.data_type import dtype as as_dtype
from chunkwise.core.dtypes.fill_value import array_to_json
from chunkwise.core.index_space import IndexDomain, merge_domains
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.core.specs.constraint import MAX_RANK, braces, check_rank, int_item
from chunkwise.core.specs.fill_value import (
    NUMBERS,
    check_broadcast,
    equal_fill,
    fill_from_json,
    fill_text,
    unbroadcast,
)
from chunkwise.core.specs.unit import (
    DimensionUnits,
    Unit,
    as_dimension_units,
    dimension_units_from_json,
    dimension_units_to_json,
    merge_dimension_units,
)
from chunkwise.errors import (
    ChunkwiseError,
    InvalidArgumentError,
    SpecError,
    UnknownExtensionError,
    noted,
    prefix,
)

__all__ = ["MEMBERS", "SCHEMA_OPTIONS", "SchemaConstraints", "SchemaKeywords", "dtype_from_json"]

MEMBERS = ("_codec", "_domain", "_dtype", "_fill", "_fill_is_json", "_layout", "_rank", "_units")


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


def dtype_from_json(value: JSON) -> DataType:
    """Return the data type of member ``dtype`` of a schema or a spec."""
    name = expect_string(value)
    try:
        return as_dtype(name)
    except UnknownExtensionError:
        raise SpecError(f"Unsupported data type: {dump(name)}") from None


class SchemaConstraints:
    """The constraints of a `Schema`; an error leaves it partly changed."""

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

    @property
    def _given_fill(self) -> _Fill | None:
        return None if self._fill is None else _Fill(self._fill, self._fill_is_json)

    def _set_fill(self, fill: _Fill) -> None:
        value = fill.value
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
            self._fill, self._fill_is_json = value, fill.is_json

    def _set_units(self, units: DimensionUnits) -> None:
        if not units:
            return
        self._set_rank(len(units), "dimension_units")
        self._units = merge_dimension_units(units, self._units)

    def _merge(self, other: SchemaConstraints) -> None:
        for row in _ROWS.values():
            if (value := getattr(other, row.attribute)) is not None:
                row.set(self, value)

    def _become(self, other: SchemaConstraints) -> None:
        for name in MEMBERS:
            setattr(self, name, getattr(other, name))

    def _apply(self, keywords: Mapping[str, Any]) -> None:
        """Add the constraints in keywords."""
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
                self._apply_one(name, value)
            except ChunkwiseError as e:
                if name == "dtype" and not isinstance(value, DataType) and not _is_dtype(value):
                    raise
                raise prefix(e, f"Invalid {name}") from None
            except OverflowError as e:
                raise _OutOfRangeError(f"Invalid {name}: {e}") from None

    def _apply_one(self, name: str, value: Any) -> None:
        if name == "shape":
            self._set_domain(IndexDomain(shape=as_sequence(value, name)), "shape")
        elif name == "schema":
            self._merge(_expect(type(self))(self, value, name))
        elif (parsed := _ROWS[name].from_keyword(self, value, name)) is not None:
            _ROWS[name].set(self, parsed)

    def _parse(self, json: JSON) -> None:
        """Add the constraints in plain JSON."""
        members = Members(json)
        for name, row in _ROWS.items():
            members.take(name, lambda v, row=row: row.set(self, row.from_json(self, v)), None)  # type: ignore[misc]
        members.finish()

    def to_json(self, include_defaults: bool = False) -> dict[str, JSON]:
        """Return the JSON form, with ``rank`` whenever it is known.  No member has a default to include.

        Parameters
        ----------
        include_defaults : bool, optional
            Accepted for TensorStore's sake.

        Returns
        -------
        dict
        """
        json = {}
        for name, row in sorted(_ROWS.items()):
            value = getattr(self, row.attribute)
            json[name] = MISSING if value is None else row.to_json(self, value)
        return {name: value for name, value in json.items() if value is not MISSING}


class _Fill(NamedTuple):
    """A fill value, which may have been given as JSON before the data type was known."""

    value: npt.NDArray[Any]
    is_json: bool


class _OutOfRangeError(InvalidArgumentError, OverflowError):
    """A number that its data type can't hold: an OverflowError as in TensorStore."""


def _is_dtype(value: Any) -> bool:
    try:
        as_dtype(value)
    except ChunkwiseError:
        return False
    return True


def _expect(kind: type) -> Callable[[SchemaConstraints, Any, str], Any]:
    def check(schema: SchemaConstraints, value: Any, name: str) -> Any:
        if not isinstance(value, kind):
            way = "; chunkwise.create_array takes it in other forms too" if name == "codec" else ""
            raise noted(TypeError(f"Invalid {name}"), f"expected {kind.__name__}, not {value!r}{way}")
        return value

    return check


def _rank_item(schema: SchemaConstraints, value: Any, name: str) -> int | None:
    rank = int_item(value, name)
    return None if rank == -1 else rank


def _as_fill(schema: SchemaConstraints, value: Any, name: str) -> _Fill:
    if schema._dtype is not None:
        try:
            return _Fill(as_array(value, schema._dtype), is_json=False)
        except ValueError as e:
            raise noted(e, f"{name}: {value!r} is not a value of {schema._dtype.name}") from None
    array = np.asarray(elements_of(value))
    if array.dtype.kind != "O":
        return _Fill(array.astype(array.dtype.newbyteorder("="), copy=False), is_json=False)
    for item in array.flat:
        if isinstance(item, int) and not -(2**63) <= item < 2**64:
            raise OverflowError(f"Python integer {item} out of bounds for int64 and uint64")
    return _Fill(as_array(value, dtypes["json"]), is_json=False)


def _fill_to_json(schema: SchemaConstraints, given: _Fill) -> JSON:
    fill, dtype = given.value, schema._dtype
    if given.is_json:
        return fill.tolist()
    if dtype is None or (fill.dtype != dtype.memory_dtype and fill.dtype.kind in NUMBERS):
        dtype = as_dtype("json" if fill.dtype == object else fill.dtype)
    return array_to_json(fill, dtype)


def _layout_to_json(schema: SchemaConstraints, layout: ChunkLayout) -> JSON:
    json = layout.to_json()
    json.pop("rank", None)
    return json or MISSING


class _Row(NamedTuple):
    """A constraint of a schema; functions of the schema and a value."""

    attribute: str
    set: Callable[[SchemaConstraints, Any], None]
    from_keyword: Callable[[SchemaConstraints, Any, str], Any]  # None: no constraint
    from_json: Callable[[SchemaConstraints, JSON], Any]
    to_json: Callable[[SchemaConstraints, Any], Any] = lambda s, v: v.to_json()


_ROWS: Final = {
    "rank": _Row(
        "_rank",
        SchemaConstraints._set_rank,
        _rank_item,
        lambda s, v: expect_int(v, 0, MAX_RANK),
        lambda s, v: v,
    ),
    "dtype": _Row(
        "_dtype",
        SchemaConstraints._set_dtype,
        lambda s, v, name: as_dtype(v),
        lambda s, v: dtype_from_json(v),
    ),
    "domain": _Row(
        "_domain", SchemaConstraints._set_domain, _expect(IndexDomain), lambda s, v: IndexDomain(json=v)
    ),
    "chunk_layout": _Row(
        "_layout",
        SchemaConstraints._set_layout,
        _expect(ChunkLayout),
        lambda s, v: ChunkLayout(v),
        _layout_to_json,
    ),
    "codec": _Row("_codec", SchemaConstraints._set_codec, _expect(CodecSpec), lambda s, v: CodecSpec(v)),
    "fill_value": _Row(
        "_given_fill",
        SchemaConstraints._set_fill,
        _as_fill,
        lambda s, v: _Fill(fill_from_json(v, s._dtype), is_json=s._dtype is None),
        _fill_to_json,
    ),
    "dimension_units": _Row(
        "_units",
        SchemaConstraints._set_units,
        lambda s, v, name: as_dimension_units(as_sequence(v, name)),
        lambda s, v: dimension_units_from_json(v),
        lambda s, v: dimension_units_to_json(v) if any(u is not None for u in v) else MISSING,
    ),
}
