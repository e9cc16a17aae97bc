"""The codecs ``bytes`` and ``packbits``: elements one after the other, in C order.

Specification ------------- https://zarr-specs.readthedocs.io/en/latest/v3/codecs/bytes/ . Beyond the data
types listed there ``bytes`` supports every type whose elements have a fixed size, as stored in Zarr v2:
fixed-length strings (UTF-32 code units for ``U``), ``datetime64``, structured types with a byte order for
each field, and the small floating-point and integer types of ``ml_dtypes``, one byte an element.

https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/packbits . Bits are counted from the least
significant one, in an element and in a byte.

Names
-----
zarr3: ``bytes`` (formerly ``endian``).  Zarr v2 and N5 have no name for it; the data type implies it.

zarr3: ``packbits``.  The ``packbits`` of NumCodecs is another codec, with the bits of a byte in reverse
order.

Configuration
-------------
>>> Bytes.parse("zarr3", "bytes", {"endian": "big"}).to_json("zarr3")
{'endian': 'big'}
>>> PackBits.parse("zarr3", "packbits", {"padding_encoding": "last_byte", "last_bit": 6}).to_json("zarr3")
{'padding_encoding': 'last_byte', 'last_bit': 6}

Compatibility ------------- In ``bytes``, a ``bool`` other than 0 and 1 is an error, as in TensorStore.  The
unused high bits of 2, 4 and 6 bit types are cleared on reading and on writing.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, Members, expect_int, expect_one_of
from chunkwise.core.codec.copying import copy_rows
from chunkwise.core.codec.protocol import (
    ArrayToBytes,
    Buffer,
    ChunkSpec,
    DecodeInto,
    Encode,
    byte_view,
    size_error,
)
from chunkwise.errors import CodecError, DataCorruptionError, UnsupportedError

__all__ = ["BITS", "Bytes", "Layout", "PackBits", "has_byte_order"]

_NATIVE = "little" if sys.byteorder == "little" else "big"
_ORDER = {"little": "<", "big": ">", None: "="}
# Number of bits of an element, for the types of ml_dtypes smaller than the byte that holds them.
BITS = {
    "int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6,
}  # fmt: skip


class Layout(NamedTuple):
    """Layouts of elements in the encoded bytes and in memory."""

    memory: np.dtype[Any]
    stored: np.dtype[Any]
    same: bool
    mask: int

    def tidy(self, raw: npt.NDArray[np.uint8], *, strict: bool) -> None:
        """Make the bytes of decoded or encoded elements valid, in place; `strict` rejects a bad ``bool``."""
        if self.mask == 1:
            if strict and raw.size and raw.max() > 1:
                at = int(np.argmax(raw > 1))
                raise DataCorruptionError(f"Invalid bool value: {raw[at]}; at byte {at}")
        elif self.mask != 255:
            np.bitwise_and(raw, self.mask, out=raw)


def has_byte_order(dtype: np.dtype[Any]) -> bool:
    """Return True if the bytes of an element depend on a byte order."""
    if dtype.subdtype is not None:
        return has_byte_order(dtype.subdtype[0])
    if dtype.fields is not None:
        return any(has_byte_order(field[0]) for field in dtype.fields.values())
    if dtype.isbuiltin == 2 or dtype.kind in "biufcmM":
        return dtype.itemsize > 1
    return dtype.kind == "U"


def _packed(dtype: np.dtype[Any], order: str | None) -> np.dtype[Any]:
    """Return `dtype` packed, with every part in byte order `order`, or in its own if None."""
    # Types of ml_dtypes, for which NumPy has no byte order, become unsigned integers of the same size.
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return np.dtype((_packed(base, order), shape))
    if dtype.names is not None and dtype.fields is not None:
        return np.dtype([(name, _packed(dtype.fields[name][0], order)) for name in dtype.names])
    if dtype.isbuiltin == 2:
        dtype, order = np.dtype(f"u{dtype.itemsize}"), order or "<"
    return dtype if order is None else dtype.newbyteorder(cast(Any, order))


def _mask(dtype: np.dtype[Any]) -> int:
    """Return a mask of the bits that may be set in each byte of an element."""
    if dtype.fields is not None:
        masks = {_mask(field[0]) for field in dtype.fields.values()}
        return masks.pop() if len(masks) == 1 and 1 not in masks else 255
    return 1 if dtype == np.dtype(bool) else (1 << BITS.get(dtype.name, 8)) - 1


@lru_cache(256)
def _layout(dtype: np.dtype[Any], endian: str | None, given: np.dtype[Any] | None) -> Layout:
    stored = _packed(dtype, _ORDER[endian]) if given is None else _packed(given, None)
    mask = _mask(dtype)
    swapped = endian is not None and endian != _NATIVE
    if dtype.isbuiltin == 2 or (swapped and dtype.kind in "iufmM" and dtype.itemsize in (2, 4, 8)):
        # Swapped as unsigned integers, which is the fastest way in NumPy and keeps every bit of a NaN.
        memory = np.dtype(f"u{dtype.itemsize}")
        return Layout(memory, memory.newbyteorder(cast(Any, _ORDER[endian])), not swapped, mask)
    memory = _packed(dtype, "=") if dtype.fields is not None else dtype
    return Layout(memory, stored, memory == stored, mask)


@dataclass(frozen=True)
class Bytes(ArrayToBytes):
    """Array to bytes: elements in C order."""

    # Byte order; None if it does not matter, and before `bind`.
    endian: Literal["little", "big"] | None = None
    # The exact type in the encoded bytes, for Zarr v2 structured types with several byte orders.
    stored: np.dtype[Any] | None = None

    name: ClassVar[str] = "bytes"
    decode_rate = encode_rate = 0.0

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        members = Members(configuration)
        endian = members.take("endian", lambda v: expect_one_of(v, ("little", "big")), None)
        members.finish()
        return cls(endian)

    def to_json(self, format: str) -> dict[str, Any]:
        if self.stored is not None:
            raise UnsupportedError('"bytes" codec can\'t express a different byte order for each field')
        return {} if self.endian is None else {"endian": self.endian}

    def bind(self, item: ChunkSpec) -> Self:
        """Settle the byte order: little if none is given and the data type has one."""
        if item.dtype.hasobject:
            raise CodecError(
                f'"bytes" codec does not support variable-length data type {item.dtype}; '
                'use a codec such as "vlen-utf8"'
            )
        if self.stored is not None:
            return self
        if not has_byte_order(item.dtype):
            # Like TensorStore, drop a byte order without meaning.
            return replace(self, endian=None)
        return self if self.endian is not None else replace(self, endian="little")

    def layout(self, item: ChunkSpec) -> Layout:
        """Return the stored type of the elements of `item`."""
        return _layout(item.dtype, self.endian, self.stored)

    def encoded_nbytes(self, item: ChunkSpec) -> int:
        n = self.layout(item).stored.itemsize
        for size in item.shape:
            n *= size
        return n

    def open_decoder(self, item: ChunkSpec) -> DecodeInto:
        layout, nbytes = self.layout(item), self.encoded_nbytes(item)

        def decode(encoded: Buffer, out: npt.NDArray[Any]) -> None:
            view = byte_view(encoded)
            if len(view) != nbytes:
                raise size_error("bytes", len(view), nbytes)
            if layout.mask != 255:
                raw = np.array(np.frombuffer(view, np.uint8))
                layout.tidy(raw, strict=True)
                view = raw.data
            copy_rows(out.view(layout.memory), np.ndarray(item.shape, layout.stored, view))

        return decode

    def open_encoder(self, item: ChunkSpec) -> Encode:
        layout = self.layout(item)
        scratch: list[npt.NDArray[Any]] = []

        def encode(array: npt.NDArray[Any]) -> Buffer:
            if layout.same and layout.mask in (1, 255) and array.flags.c_contiguous:
                return array.reshape(-1).view(np.uint8).data if array.size else b""
            if not scratch:
                scratch.append(np.empty(item.shape, layout.stored))
            copy_rows(scratch[0], array.view(layout.memory))
            raw = scratch[0].reshape(-1).view(np.uint8)
            layout.tidy(raw, strict=False)
            return raw.data

        return encode


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
