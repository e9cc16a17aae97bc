"""The ``bitround`` codec: rounds numbers to fewer significant bits, so that they compress better.

Specification
-------------
https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/bitround : round half to even; the bits of
an integer are counted from the most significant set bit.

Names
-----
zarr3: ``bitround`` (``numcodecs.bitround`` is read); zarr2: ``bitround``.

Configuration
-------------
>>> BitRound.parse("zarr3", "bitround", {"keepbits": 10}).to_json("zarr3")
{'keepbits': 10}

Compatibility
-------------
Infinities and NaN are kept; NumCodecs can turn a NaN into -0.0.  Integers round half to even on their
absolute value; a value that would not fit when rounded is truncated instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import Members, expect_int
from chunkwise.core.codec.protocol import ArrayToArray, ChunkSpec
from chunkwise.errors import CodecError

__all__ = ["BitRound"]

_MANTISSA = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}


@dataclass(frozen=True)
class BitRound(ArrayToArray):
    """Array to array: keep `keepbits` bits of the mantissa, or of the integer; decoding changes nothing."""

    keepbits: int

    name: ClassVar[str] = "bitround"

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        members = Members(configuration)
        keepbits = members.take("keepbits", lambda v: expect_int(v, 1, 64))
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
    half = np.where(dropped > 0, one << np.maximum(dropped, one) - one, 0).astype(unsigned)
    up = (dropped > 0) & ((tail > half) | ((tail == half) & ((kept & one) == one)))
    limit = unsigned.type(np.iinfo(integers.dtype).max)
    top = (kept + one) << dropped
    fits = (top >= magnitude) & (top <= limit)
    rounded = np.where(up & fits, top, kept << dropped).astype(unsigned)
    signed = np.where(negative, ~rounded + one, rounded).astype(unsigned)
    out: npt.NDArray[Any] = signed.view(integers.dtype).view(values.dtype)
    return out
