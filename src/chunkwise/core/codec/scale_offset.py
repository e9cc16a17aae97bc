"""The ``scale_offset`` codec: subtracts an offset, then multiplies by a factor.

Specification
-------------
https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/scale_offset : encoding is
``(x - offset) * scale``, decoding ``x / scale + offset``, in the arithmetic of the data type.

Names
-----
zarr3: ``scale_offset``.

Configuration
-------------
>>> ScaleOffset.parse("zarr3", "scale_offset", {"offset": 5, "scale": 0.1}).to_json("zarr3")
{'offset': 5, 'scale': 0.1}

Compatibility
-------------
Integers are exact or an error: nothing wraps around, and decoding must divide without remainder.
A missing member changes nothing (offset 0, scale 1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, MISSING, Members, expect_number
from chunkwise.core.codec.casting import is_integer, is_number, parse_number, value_range
from chunkwise.core.codec.protocol import ArrayToArray, ChunkSpec
from chunkwise.errors import CodecError, DataCorruptionError

__all__ = ["ScaleOffset"]

_Apply = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]


def _parse_scalar(value: JSON) -> JSON:
    # The data type, which decides which scalars are valid, is not known before `bind`.
    if not isinstance(value, str):
        expect_number(value)
    return value


@dataclass(frozen=True)
class ScaleOffset(ArrayToArray):
    """Array to array: ``(x - offset) * scale``; both are written like fill values, None if left out."""

    offset: JSON = None
    scale: JSON = None

    name: ClassVar[str] = "scale_offset"

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        members = Members(configuration)
        codec = cls(members.take("offset", _parse_scalar, None), members.take("scale", _parse_scalar, None))
        members.finish()
        return codec

    def to_json(self, format: str) -> dict[str, Any]:
        members = {"offset": self.offset, "scale": self.scale}
        return {key: value for key, value in members.items() if value is not None}

    def bind(self, item: ChunkSpec) -> Self:
        dtype = item.dtype
        if not is_number(dtype):
            raise CodecError(f'"scale_offset" codec supports real numbers only, but the data type is {dtype}')
        _, scale = self._scalars(item)
        if scale == 0:
            raise CodecError('"scale_offset" codec: "scale" must not be 0')
        return self

    def _scalars(self, item: ChunkSpec) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        members = Members({"offset": self.offset or 0, "scale": 1 if self.scale is None else self.scale})
        offset = members.take("offset", lambda v: parse_number(v, item.dtype), MISSING)
        return offset, members.take("scale", lambda v: parse_number(v, item.dtype), MISSING)

    def output(self, item: ChunkSpec) -> ChunkSpec:
        try:
            fill = self.open_encoder(item)(item.fill_value.reshape(1)).reshape(())
        except CodecError as e:
            raise CodecError(f"fill value: {e}") from None
        return item._replace(fill_value=fill)

    def open_encoder(self, item: ChunkSpec) -> _Apply:
        offset, scale = self._scalars(item)
        dtype = item.dtype
        if is_integer(dtype):
            o, s = int(offset), int(scale)
            check = _range_check(dtype, lambda x: x - o, lambda x: (x - o) * s)

            def encode(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
                check(array)
                scaled: npt.NDArray[Any] = ((array - offset) * scale).astype(dtype, copy=False)
                return scaled

            return encode

        def encode_float(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
            with np.errstate(all="ignore"):
                scaled: npt.NDArray[Any] = ((array - offset) * scale).astype(dtype, copy=False)
            return scaled

        return encode_float

    def open_decoder(self, item: ChunkSpec) -> _Apply:
        offset, scale = self._scalars(item)
        dtype = item.dtype
        if is_integer(dtype):
            o, s = int(offset), int(scale)
            # The check of the sum also notices a quotient outside the range (min / -1).
            check = _range_check(dtype, lambda x: x // s, lambda x: x // s + o)

            def decode(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
                try:
                    check(array)
                except CodecError as e:
                    raise DataCorruptionError(str(e)) from None
                wide = array.astype(np.int64) if dtype.isbuiltin == 2 else array
                if s not in (1, -1) and (wide % wide.dtype.type(s)).any():
                    raise DataCorruptionError(
                        f'"scale_offset" codec: a value is not a multiple of the scale {s}'
                    )
                quotient = wide // wide.dtype.type(s)
                return (quotient + wide.dtype.type(o)).astype(dtype, copy=False)

            return decode

        def decode_float(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
            with np.errstate(all="ignore"):
                restored: npt.NDArray[Any] = (array / scale + offset).astype(dtype, copy=False)
            return restored

        return decode_float


def _range_check(dtype: np.dtype[Any], *steps: Callable[[int], int]) -> Callable[[npt.NDArray[Any]], None]:
    """Return a function that raises if a step leaves the range of `dtype` for any element."""
    # Each step is monotonic, so checking the least and greatest elements is enough.
    lo, hi = value_range(dtype)

    def check(array: npt.NDArray[Any]) -> None:
        if array.size == 0:
            return
        wide = array.astype(np.int64) if dtype.isbuiltin == 2 else array
        for extreme in (int(wide.min()), int(wide.max())):
            for step in steps:
                if not lo <= step(extreme) <= hi:
                    raise CodecError(
                        f'"scale_offset" codec: {step(extreme)}, from the element {extreme}, '
                        f"is outside the range of {dtype}"
                    )

    return check
