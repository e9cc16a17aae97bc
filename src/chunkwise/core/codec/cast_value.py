"""Conversion of real numbers by given rules, and the ``cast_value`` codec, which converts values.

Specification
-------------
https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/cast_value : the scalar map is applied
first, then rounding, then the rule for values out of range.  Decoding casts back by the same rules.

Names
-----
zarr3: ``cast_value``.

Configuration
-------------
>>> CastValue.parse("zarr3", "cast_value", {
...     "data_type": "uint8", "rounding": "towards-zero", "out_of_range": "clamp",
...     "scalar_map": {"encode": [["NaN", 0]], "decode": [[0, "NaN"]]}}).to_json("zarr3")["rounding"]
'towards-zero'

Compatibility
-------------
Without ``out_of_range``, a value out of range is an error, and so is a fill value that can't be cast.  A fill
value that casting changes, such as 0.1 to ``int16``, is accepted: zarr-python writes such arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import ml_dtypes
import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, Members, dump, expect_array, expect_one_of, parse_array
from chunkwise.core.codec.protocol import ArrayToArray, ChunkSpec
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.zarr3 import parse_fill_value_zarr3, parse_zarr3
from chunkwise.errors import (
    CodecError,
    DataCorruptionError,
    InvalidArgumentError,
    SpecError,
    prefix,
    prefixed,
)

__all__ = ["CastValue", "cast_values", "holds", "is_integer", "is_number", "parse_number", "value_range"]

_Apply = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]


def _nearest_away(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    whole = np.trunc(x)
    away: npt.NDArray[Any] = np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x), whole)
    return away


ROUNDING: dict[str, Callable[[npt.NDArray[Any]], npt.NDArray[Any]]] = {
    "nearest-even": np.rint,
    "towards-zero": np.trunc,
    "towards-positive": np.ceil,
    "towards-negative": np.floor,
    "nearest-away": _nearest_away,
}


def cast_values(
    array: npt.NDArray[Any], target: np.dtype[Any], rounding: str, out_of_range: str
) -> npt.NDArray[Any]:
    """Return the values of `array` as `target`."""
    cast = _cast_to_integer if is_integer(target) else _cast_to_float
    return cast(array, target, ROUNDING[rounding], out_of_range)


def _cast_to_integer(
    array: npt.NDArray[Any], target: np.dtype[Any], rounding: _Apply, rule: str
) -> npt.NDArray[Any]:
    lo, hi = value_range(target)
    if not is_integer(array.dtype):
        wide = array.astype(np.float64)
        _reject_special(np.isnan(wide), "NaN", target)
        _reject_special(np.isinf(wide), "infinity", target)
        whole = rounding(wide)
        # 2.0**64 is a float, 2**64 - 1 is not: the upper bound is compared exclusively.
        outside = (whole < float(lo)) | (whole >= float(hi + 1))
        if not outside.any():
            return _to_integers(whole, target)
        _reject_unless(rule, array, outside, target)
        if rule == "clamp":
            inside = _to_integers(np.where(outside, 0, whole), target)
            return np.where(outside, np.where(whole < 0, _scalar(lo, target), _scalar(hi, target)), inside)
        values = [(int(v) - lo) % (hi - lo + 1) + lo for v in whole.flat]
        return np.array(values, np.int64 if lo < 0 else np.uint64).astype(target).reshape(array.shape)
    integers = array.astype(np.int64) if array.dtype.isbuiltin == 2 else array
    source_lo, source_hi = value_range(array.dtype)
    if lo <= source_lo and source_hi <= hi:
        return integers.astype(target)
    outside = np.zeros(integers.shape, bool)
    if source_lo < lo:
        outside |= integers < lo
    if source_hi > hi:
        outside |= integers > hi
    if not outside.any():
        return integers.astype(target)
    _reject_unless(rule, array, outside, target)
    if rule == "clamp":
        bounds = integers.dtype.type(max(lo, source_lo)), integers.dtype.type(min(hi, source_hi))
        clipped: npt.NDArray[Any] = np.clip(integers, *bounds).astype(target)
        return clipped
    if target.isbuiltin == 2:
        values = [(int(v) - lo) % (hi - lo + 1) + lo for v in integers.flat]
        return np.array(values, np.int64).astype(target).reshape(array.shape)
    return integers.astype(target)  # two's complement


def _cast_to_float(
    array: npt.NDArray[Any], target: np.dtype[Any], rounding: _Apply, rule: str
) -> npt.NDArray[Any]:
    wide = array.astype(np.float64) if array.dtype.isbuiltin == 2 else array
    with np.errstate(all="ignore"):
        result = wide.astype(target)
    floating = wide.dtype.kind == "f"
    finite = np.isfinite(wide) if floating else np.ones(wide.shape, bool)
    infinite = holds(np.inf, target)
    if floating and not holds(np.nan, target):
        _reject_special(np.isnan(wide), "NaN", target)
    if floating and not infinite:
        _reject_special(np.isinf(wide), "infinity", target)
    lo, hi = value_range(target)
    if rounding is not np.rint:
        # Values less than one unit of the last digit above the greatest value are rounded down to it.
        unit = hi - float(np.nextafter(_scalar(hi, target), _scalar(0, target))) if infinite else 0
        inexact = finite & (np.isfinite(result) | (np.abs(wide.astype(np.float64)) < hi + unit))
        inexact &= np.asarray(_exact(result) != _exact(wide), bool)
        if inexact.any():
            result[inexact] = _directed(wide[inexact], result[inexact], rounding)
    # As in IEEE 754, a number that rounds to the greatest value is not out of range.
    outside = finite & ~np.isfinite(result)
    if not infinite:
        outside |= (wide > hi) | (wide < lo)
    if not outside.any():
        return result
    _reject_unless(rule, array, outside, target)
    ends = (-np.inf, np.inf) if infinite else (lo, hi)
    return np.where(outside, np.where(wide < 0, _scalar(ends[0], target), _scalar(ends[1], target)), result)


def holds(value: float, target: np.dtype[Any]) -> bool:
    """Return True if `target` can hold this infinity or NaN."""
    with np.errstate(all="ignore"):
        return bool(np.array_equal(np.array(value).astype(target).astype(np.float64), value, equal_nan=True))


def _exact(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return finite values in a form that compares and subtracts without rounding."""
    if values.dtype.kind in "iu" or values.dtype == np.float64:
        # Whole numbers beyond 2**53 need Python's integers; float64 holds smaller ones, and every fraction.
        large = np.abs(np.nan_to_num(values.astype(np.float64), posinf=0, neginf=0)) >= 2.0**53
        if large.any():
            exact = values.astype(object)
            exact[large] = [int(v) for v in values[large].tolist()]
            return exact
    return values.astype(np.float64)


def _directed(wide: npt.NDArray[Any], nearest: npt.NDArray[Any], rounding: _Apply) -> npt.NDArray[Any]:
    """Round finite values that `nearest` does not hold exactly in the given direction."""
    infinity = np.array(np.inf).astype(nearest.dtype)
    exact, near = _exact(wide), _exact(nearest)
    above = np.asarray(near > exact, bool)
    negative = np.asarray(exact < 0, bool)
    with np.errstate(all="ignore"):
        other = np.where(above, np.nextafter(nearest, -infinity), np.nextafter(nearest, infinity))
    if rounding is _nearest_away:
        tie = np.asarray(abs(near - exact) == abs(_exact(other) - exact), bool)
        towards_zero = above == negative
        return np.where(tie & towards_zero, other, nearest)
    if rounding is np.trunc:
        wrong = above != negative
    else:
        wrong = above if rounding is np.floor else ~above
    return np.where(wrong, other, nearest)


def _to_integers(whole: npt.NDArray[Any], target: np.dtype[Any]) -> npt.NDArray[Any]:
    return (whole.astype(np.int64) if target.isbuiltin == 2 else whole).astype(target)


def _scalar(value: Any, target: np.dtype[Any]) -> npt.NDArray[Any]:
    return np.array(value).astype(target)


def _reject_special(found: npt.NDArray[Any], what: str, target: np.dtype[Any]) -> None:
    if found.any():
        raise CodecError(f'"cast_value" codec: {what} has no value in {target}; "scalar_map" can give it one')


def _reject_unless(
    rule: str, array: npt.NDArray[Any], outside: npt.NDArray[Any], target: np.dtype[Any]
) -> None:
    if rule == "error":
        raise CodecError(
            f'"cast_value" codec: {array[outside].flat[0]} is outside the range of {target}; '
            '"out_of_range" can be "clamp" or "wrap"'
        )


_SMALL_INTEGERS = ("int2", "int4", "uint2", "uint4")


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Return True if `dtype` holds whole numbers only."""
    return dtype.kind in "iu" or dtype.name in _SMALL_INTEGERS


def is_number(dtype: np.dtype[Any]) -> bool:
    """Return True if `dtype` holds real numbers."""
    return dtype.kind in "iuf" or dtype.isbuiltin == 2


def _number_dtype(value: JSON) -> np.dtype[Any]:
    """Return the NumPy type of the Zarr v3 data type `value`, which must hold real numbers."""
    dtype = parse_zarr3(value).memory_dtype
    if not is_number(dtype):
        raise SpecError(f"Expected data type of real numbers, but received: {dump(value)}")
    return dtype


def value_range(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the least and the greatest finite value of `dtype`, as Python numbers."""
    info: Any = ml_dtypes.iinfo(dtype) if is_integer(dtype) else ml_dtypes.finfo(dtype)
    kind = int if is_integer(dtype) else float
    return kind(info.min), kind(info.max)


def parse_number(value: JSON, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the scalar `value`, written as a Zarr v3 fill value of `dtype`, with shape ``()``."""
    # ``"+Infinity"``, which the registry's examples use, is ``"Infinity"``.
    return parse_fill_value_zarr3("Infinity" if value == "+Infinity" else value, DataType(dtype))


_Pairs = tuple[tuple[JSON, JSON], ...]


_OUT_OF_RANGE = ("clamp", "wrap")


def _parse_pairs(value: JSON) -> _Pairs:
    pairs = parse_array(value, lambda pair: expect_array(pair, 2))
    return tuple((a, b) for a, b in pairs)


def _parse_data_type(value: JSON) -> str:
    return _number_dtype(value).name


class _ScalarMap(NamedTuple):
    encode: _Pairs | None
    decode: _Pairs | None

    @classmethod
    def parse(cls, value: JSON) -> _ScalarMap:
        members = Members(value)
        both = cls(members.take("encode", _parse_pairs, None), members.take("decode", _parse_pairs, None))
        members.finish()
        return both

    def to_json(self) -> dict[str, JSON]:
        return {key: [list(p) for p in v] for key, v in self._asdict().items() if v is not None}


@dataclass(frozen=True)
class CastValue(ArrayToArray):
    """Array to array: values of the data type `data_type`."""

    data_type: str  # Zarr v3 name of the encoded data type
    # Treatment of values that the target can't hold; None means "nearest-even" and an error.
    rounding: str | None = None
    out_of_range: str | None = None
    # Pairs of values that are replaced before all other steps, in encoding and in decoding.
    scalar_map: _ScalarMap | None = None

    name: ClassVar[str] = "cast_value"

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        members = Members(configuration)
        codec = cls(
            members.take("data_type", _parse_data_type),
            members.take("rounding", lambda v: expect_one_of(v, tuple(ROUNDING)), None),
            members.take("out_of_range", lambda v: expect_one_of(v, _OUT_OF_RANGE), None),
            members.take("scalar_map", _ScalarMap.parse, None),
        )
        members.finish()
        return codec

    def to_json(self, format: str) -> dict[str, Any]:
        members = {
            "data_type": self.data_type,
            "rounding": self.rounding,
            "out_of_range": self.out_of_range,
            "scalar_map": None if self.scalar_map is None else self.scalar_map.to_json(),
        }
        return {key: value for key, value in members.items() if value is not None}

    def bind(self, item: ChunkSpec) -> Self:
        if not is_number(item.dtype):
            raise CodecError(
                f'"cast_value" codec supports real numbers only, but the data type is {item.dtype}'
            )
        target = _number_dtype(self.data_type)
        if self.out_of_range == "wrap" and not is_integer(target):
            raise CodecError('"cast_value" codec: "wrap" needs an integer "data_type"')
        encode = self._caster(item.dtype, target, "encode")
        decode = self._caster(target, item.dtype, "decode")
        fill = item.fill_value.reshape(1)
        with prefixed(f"Fill value {fill[0]}", CodecError):
            decode(encode(fill))
        return self

    def output(self, item: ChunkSpec) -> ChunkSpec:
        fill = self.open_encoder(item)(item.fill_value.reshape(1)).reshape(())
        return item._replace(dtype=fill.dtype, fill_value=fill)

    def open_encoder(self, item: ChunkSpec) -> _Apply:
        return self._caster(item.dtype, _number_dtype(self.data_type), "encode")

    def open_decoder(self, item: ChunkSpec) -> _Apply:
        cast = self._caster(_number_dtype(self.data_type), item.dtype, "decode")

        def decode(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
            try:
                return cast(array)
            except CodecError as e:
                raise DataCorruptionError(e.message) from None

        return decode

    def _caster(self, source: np.dtype[Any], target: np.dtype[Any], direction: str) -> _Apply:
        pairs = () if self.scalar_map is None else getattr(self.scalar_map, direction) or ()
        try:
            table = [(parse_number(a, source), parse_number(b, target)) for a, b in pairs]
        except InvalidArgumentError as e:
            raise prefix(
                e, f'"cast_value" codec: "scalar_map" {direction} {dump(list(map(list, pairs)))}'
            ) from None
        rule = self.out_of_range or "error"
        if rule == "wrap" and not is_integer(target):
            rule = "error"
        rounding = self.rounding or "nearest-even"

        def apply(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
            if not table:
                return cast_values(array, target, rounding, rule)
            mapped = np.zeros(array.shape, bool)
            replaced = np.empty(array.shape, target)
            for value, replacement in table:
                same = np.isnan(array) if np.isnan(value) else array == value
                same &= ~mapped
                replaced[same] = replacement
                mapped |= same
            replaced[~mapped] = cast_values(array[~mapped], target, rounding, rule)
            return replaced

        return apply
