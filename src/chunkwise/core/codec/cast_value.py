"""The ``cast_value`` codec: converts values to another data type of real numbers.

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

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, Members, dump, expect_array, expect_one_of, parse_array
from chunkwise.core.codec.casting import (
    ROUNDING,
    cast_values,
    is_integer,
    is_number,
    number_dtype,
    parse_number,
)
from chunkwise.core.codec.protocol import ArrayToArray, ChunkSpec
from chunkwise.errors import CodecError, DataCorruptionError, InvalidArgumentError, prefix, prefixed

__all__ = ["CastValue"]

_Apply = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]
_Pairs = tuple[tuple[JSON, JSON], ...]


_OUT_OF_RANGE = ("clamp", "wrap")


def _parse_pairs(value: JSON) -> _Pairs:
    pairs = parse_array(value, lambda pair: expect_array(pair, 2))
    return tuple((a, b) for a, b in pairs)


def _parse_data_type(value: JSON) -> str:
    return number_dtype(value).name


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
        target = number_dtype(self.data_type)
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
        return self._caster(item.dtype, number_dtype(self.data_type), "encode")

    def open_decoder(self, item: ChunkSpec) -> _Apply:
        cast = self._caster(number_dtype(self.data_type), item.dtype, "decode")

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
