"""Codecs that change numbers: ``bitround`` to fewer significant bits, ``scale_offset`` by two constants.

Specification
-------------
https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/bitround : round half to even; the bits of
an integer are counted from the most significant set bit.

https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/scale_offset : encoding is
``(x - offset) * scale``, decoding ``x / scale + offset``, in the arithmetic of the data type.

Names
-----
zarr3: ``bitround`` (``numcodecs.bitround`` is read), ``scale_offset``; zarr2: ``bitround``.

Configuration
-------------
>>> BitRound.parse("zarr3", "bitround", {"keepbits": 10}).to_json("zarr3")
{'keepbits': 10}
>>> ScaleOffset.parse("zarr3", "scale_offset", {"offset": 5, "scale": 0.1}).to_json("zarr3")
{'offset': 5, 'scale': 0.1}

Compatibility
-------------
In ``bitround``, infinities and NaN are kept; NumCodecs can turn a NaN into -0.0, and keeps 0 bits, too.
Integers round half to even on their absolute value; a value that would not fit when rounded is truncated
instead.

In ``scale_offset``, integers are exact or an error: nothing wraps around, and decoding must divide without
remainder.  A missing member changes nothing (offset 0, scale 1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, MISSING, Members, expect_int, expect_number
from chunkwise.core.codec.cast_value import is_integer, is_number, parse_number, value_range
from chunkwise.core.codec.notation import notation_of
from chunkwise.core.codec.protocol import ArrayToArray, ChunkSpec
from chunkwise.errors import CodecError, DataCorruptionError

__all__ = ["BitRound", "ScaleOffset"]

_MANTISSA = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}


@dataclass(frozen=True)
class BitRound(ArrayToArray):
    """Array to array: keep `keepbits` bits of the mantissa, or of the integer; decoding changes nothing."""

    keepbits: int

    name: ClassVar[str] = "bitround"

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        members = Members(configuration)
        least = 0 if notation_of(format).is_of_numcodecs(name) else 1
        keepbits = members.take("keepbits", lambda v: expect_int(v, least, 64))
        members.finish()
        return cls(keepbits)

    def to_json(self, format: str) -> dict[str, Any]:
        return {"keepbits": self.keepbits}

    def bind(self, item: ChunkSpec) -> Self:
        part = _real(item.dtype)
        if part.name in _MANTISSA:
            if self.keepbits > _MANTISSA[part.name]:
                raise CodecError(
                    f'"bitround" codec: {item.dtype} has {_MANTISSA[part.name]} bits of mantissa, '
                    f'but "keepbits" is {self.keepbits}'
                )
        elif part.kind not in "iumM":
            raise CodecError(f'"bitround" codec does not support data type {item.dtype}')
        return self

    def output(self, item: ChunkSpec) -> ChunkSpec:
        return item

    def open_decoder(self, item: ChunkSpec) -> Callable[[npt.NDArray[Any]], npt.NDArray[Any]]:
        return lambda array: array

    def open_encoder(self, item: ChunkSpec) -> Callable[[npt.NDArray[Any]], npt.NDArray[Any]]:
        part = _real(item.dtype)
        apply = _round_floats if part.name in _MANTISSA else _round_integers

        def encode(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
            flat = np.array(array, order="C", copy=True).reshape(-1).view(part)
            return apply(flat, self.keepbits).view(item.dtype).reshape(array.shape)

        return encode


def _real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of the real and imaginary parts, or `dtype` itself."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def _round_floats(values: npt.NDArray[Any], keepbits: int) -> npt.NDArray[Any]:
    if keepbits == _MANTISSA[values.dtype.name]:
        return values
    bits = values.view(f"u{values.dtype.itemsize}")
    # NumPy 1 would combine a scalar of that type and a Python integer to a signed number.
    one, dropped = bits.dtype.type(1), bits.dtype.type(_MANTISSA[values.dtype.name] - keepbits)
    # Add half of the last kept bit, less one, plus that bit: ties go to the even neighbour.
    rounded = bits + ((bits >> dropped) & one) + ((one << (dropped - one)) - one)
    rounded &= ~((one << dropped) - one)
    return np.where(np.isfinite(values), rounded, bits).view(values.dtype)


def _round_integers(values: npt.NDArray[Any], keepbits: int) -> npt.NDArray[Any]:
    integers = values.view(f"i{values.dtype.itemsize}") if values.dtype.kind in "mM" else values
    negative = integers < 0
    unsigned = np.dtype(f"u{integers.dtype.itemsize}")
    one = unsigned.type(1)
    magnitude = np.where(negative, (~integers).view(unsigned) + one, integers.view(unsigned)).astype(unsigned)
    n_bits = np.zeros(magnitude.shape, unsigned)
    rest = magnitude.copy()
    while rest.any():
        n_bits += (rest != 0).astype(unsigned)
        rest >>= one
    keep = unsigned.type(min(keepbits, unsigned.itemsize * 8))
    dropped = np.where(n_bits > keep, n_bits - keep, 0).astype(unsigned)
    kept = magnitude >> dropped
    # Compare twice the part cut off with one unit of the last kept bit.
    tail = magnitude - (kept << dropped)
    half = (one << np.maximum(dropped, one) - one).astype(unsigned)  # if any is cut off
    up = (dropped > 0) & ((tail > half) | ((tail == half) & ((kept & one) == one)))
    limit = unsigned.type(np.iinfo(integers.dtype).max)
    top = (kept + one) << dropped
    fits = (top >= magnitude) & (top <= limit)
    rounded = np.where(up & fits, top, kept << dropped).astype(unsigned)
    signed = np.where(negative, ~rounded + one, rounded).astype(unsigned)
    out: npt.NDArray[Any] = signed.view(integers.dtype).view(values.dtype)
    return out


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
        members = Members(
            {
                "offset": 0 if self.offset is None else self.offset,
                "scale": 1 if self.scale is None else self.scale,
            }
        )
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
