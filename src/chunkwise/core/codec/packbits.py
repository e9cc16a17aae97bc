"""The ``packbits`` codec: elements of any number of bits, without gaps.

Specification
-------------
https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/packbits . Bits are counted from the least
significant one, in an element and in a byte.

Names
-----
zarr3: ``packbits``.  The ``packbits`` of NumCodecs is another codec, with the bits of a byte in reverse
order.

Configuration
-------------
>>> PackBits.parse("zarr3", "packbits", {"padding_encoding": "last_byte", "last_bit": 6}).to_json("zarr3")
{'padding_encoding': 'last_byte', 'last_bit': 6}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, Members, expect_int, expect_one_of
from chunkwise.core.codec.bytes import BITS
from chunkwise.core.codec.protocol import (
    ArrayToBytes,
    Buffer,
    ChunkSpec,
    DecodeInto,
    Encode,
    byte_view,
    size_error,
)
from chunkwise.errors import CodecError, DataCorruptionError

__all__ = ["PackBits"]


def _parse_bit(value: JSON) -> int | None:
    return None if value is None else expect_int(value, 0, 63)


def _is_pair(dtype: np.dtype[Any]) -> bool:
    """Return True if `dtype` is a complex number that NumPy lacks."""
    return dtype.names == ("real", "imag") and dtype["real"] == dtype["imag"]


def _component(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the number of components of an element of `dtype`, and the bits in each."""
    if dtype.kind == "c":
        return 2, dtype.itemsize * 4
    if _is_pair(dtype):
        return 2, _component(dtype["real"])[1]
    if dtype == np.dtype(bool):
        return 1, 1
    if dtype.name in BITS:
        return 1, BITS[dtype.name]
    return 1, dtype.itemsize * 8


@dataclass(frozen=True)
class PackBits(ArrayToBytes):
    """Array to bytes: the bits `first_bit` to `last_bit` of each element."""

    # Position of the byte with the number of padding bits; None is "none" and is not written.
    padding_encoding: str | None = None
    first_bit: int | None = None  # both inclusive; None means the first or last bit of the data type
    last_bit: int | None = None

    name: ClassVar[str] = "packbits"

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        members = Members(configuration)
        codec = cls(
            members.take(
                "padding_encoding", lambda v: expect_one_of(v, ("none", "first_byte", "last_byte")), None
            ),
            members.take("first_bit", _parse_bit, None),
            members.take("last_bit", _parse_bit, None),
        )
        members.finish()
        return codec

    def to_json(self, format: str) -> dict[str, Any]:
        members = {
            "padding_encoding": self.padding_encoding,
            "first_bit": self.first_bit,
            "last_bit": self.last_bit,
        }
        return {key: value for key, value in members.items() if value is not None}

    def bind(self, item: ChunkSpec) -> Self:
        dtype = item.dtype
        number = dtype["real"] if _is_pair(dtype) else dtype
        if not (number.kind in "biufcmM" or number.isbuiltin == 2):
            raise CodecError(f'"packbits" codec does not support data type {dtype}')
        first, last = self._bits(dtype)
        n_bits = _component(dtype)[1]
        if not first <= last < n_bits:
            raise CodecError(
                f'"packbits" codec: bits {first} to {last} are no range of the {n_bits} bits '
                f"of data type {dtype}"
            )
        return self

    def _bits(self, dtype: np.dtype[Any]) -> tuple[int, int]:
        first = 0 if self.first_bit is None else self.first_bit
        return first, _component(dtype)[1] - 1 if self.last_bit is None else self.last_bit

    def _sizes(self, item: ChunkSpec) -> tuple[int, int, int]:
        """Return the number of components, of their bits, and of the bytes that hold these."""
        first, last = self._bits(item.dtype)
        n = _component(item.dtype)[0]
        for size in item.shape:
            n *= size
        n_bits = n * (last - first + 1)
        return n, n_bits, -(-n_bits // 8)

    def encoded_nbytes(self, item: ChunkSpec) -> int:
        return self._sizes(item)[2] + (self.padding_encoding in ("first_byte", "last_byte"))

    def open_decoder(self, item: ChunkSpec) -> DecodeInto:
        n, n_bits, n_bytes = self._sizes(item)
        first, last = self._bits(item.dtype)
        components, width = _component(item.dtype)
        expected, kept = self.encoded_nbytes(item), last - first + 1
        unit = np.dtype(f"u{item.dtype.itemsize // components}")
        signed = item.dtype.kind == "i" or item.dtype.name in ("int2", "int4")

        def decode(encoded: Buffer, out: npt.NDArray[Any]) -> None:
            view = byte_view(encoded)
            if len(view) != expected:
                raise size_error("packbits", len(view), expected)
            if self.padding_encoding in ("first_byte", "last_byte"):
                at_start = self.padding_encoding == "first_byte"
                padding = view[0] if at_start else view[-1]
                view = view[1:] if at_start else view[:-1]
                if padding != n_bytes * 8 - n_bits:
                    raise DataCorruptionError(
                        f'"packbits" codec: chunk claims {padding} bits of padding, '
                        f"but expected {n_bytes * 8 - n_bits}"
                    )
            bits: npt.NDArray[Any] = np.unpackbits(
                np.frombuffer(view, np.uint8), count=n_bits, bitorder="little"
            )
            if width == 1:
                np.copyto(out, bits.view(item.dtype).reshape(item.shape))
                return
            bits = bits.reshape(n, kept)
            whole = np.zeros((n, unit.itemsize * 8), np.uint8)
            whole[:, first : last + 1] = bits
            if signed:
                whole[:, last + 1 : width] = bits[:, -1:]
            packed = np.packbits(whole, axis=1, bitorder="little").view(unit.newbyteorder("<"))
            values = np.ascontiguousarray(packed.reshape(-1), unit).view(item.dtype)
            np.copyto(out, values.reshape(item.shape))

        return decode

    def open_encoder(self, item: ChunkSpec) -> Encode:
        n, n_bits, n_bytes = self._sizes(item)
        first, last = self._bits(item.dtype)
        components, _ = _component(item.dtype)
        little = np.dtype(f"<u{item.dtype.itemsize // components}")
        native = little.newbyteorder("=")

        def encode(array: npt.NDArray[Any]) -> Buffer:
            values = np.ascontiguousarray(array).reshape(-1).view(native).astype(little)
            whole = np.unpackbits(
                values.view(np.uint8).reshape(n, little.itemsize), axis=1, bitorder="little"
            )
            packed = np.packbits(whole[:, first : last + 1].reshape(-1), bitorder="little").tobytes()
            padding = bytes([n_bytes * 8 - n_bits])
            if self.padding_encoding == "first_byte":
                return padding + packed
            return packed + padding if self.padding_encoding == "last_byte" else packed

        return encode
