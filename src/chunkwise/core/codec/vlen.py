"""The ``vlen-utf8``, ``vlen-bytes`` and ``vlen-array`` codecs: values of variable length.

Specification
-------------
https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/vlen-utf8 and ``vlen-bytes``;
https://numcodecs.readthedocs.io/en/stable/other/vlen.html : the number of values as a little-endian 32-bit
integer, then for each value, in C order, its size in bytes as such an integer, and its bytes.

Names
-----
zarr3: ``vlen-utf8``, ``vlen-bytes``; zarr2: also ``vlen-array``.

Configuration
-------------
None, except the ``dtype`` of the elements of ``vlen-array``.

>>> VlenArray.parse("zarr2", "vlen-array", {"dtype": "<i4"}).to_json("zarr2")
{'dtype': '<i4'}

Compatibility
-------------
``None`` and the number 0, which Zarr v2 uses as fill values, are written as empty values, as in NumCodecs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numcodecs.vlen
import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, Members, dump, expect_string
from chunkwise.core.codec.protocol import ArrayToBytes, Buffer, ChunkSpec, DecodeInto, Encode, byte_view
from chunkwise.errors import CodecError, DataCorruptionError, SpecError

__all__ = ["VlenArray", "VlenBytes", "VlenUtf8"]


def _require_object(name: str, item: ChunkSpec) -> None:
    if item.dtype != np.dtype(object):
        raise CodecError(
            f'"{name}" codec supports only variable-length data types, but the data type is {item.dtype}'
        )


def _open_decoder(name: str, item: ChunkSpec, implementation: Any) -> DecodeInto:
    n = 1
    for size in item.shape:
        n *= size

    def decode(encoded: Buffer, out: npt.NDArray[Any]) -> None:
        view = byte_view(encoded)
        if len(view) < 4 + 4 * n:
            raise DataCorruptionError(f'"{name}" codec: {len(view)} bytes can\'t hold a chunk of {n} values')
        stored = int.from_bytes(view[:4], "little")
        if stored != n:
            raise DataCorruptionError(f'"{name}" codec: chunk holds {stored} values, but expected {n}')
        flat = np.empty(n, object)
        try:
            implementation.decode(np.frombuffer(view, np.uint8), flat)
        except (ValueError, UnicodeDecodeError) as e:
            raise DataCorruptionError(f'"{name}" codec: {e}') from e
        np.copyto(out, flat.reshape(item.shape))

    return decode


def _is_missing(value: Any) -> bool:
    """Return True for None and for the zeros of an array of objects that was never filled."""
    return value is None or (isinstance(value, int | np.integer) and value == 0)


def _open_encoder(
    name: str, implementation: Any, missing: object, valid: tuple[type, ...], what: str
) -> Encode:
    def prepare(value: Any) -> Any:
        if isinstance(value, valid):
            return value
        if _is_missing(value):
            return missing
        raise CodecError(f'"{name}" codec encodes {what}, but received: {value!r}')

    def encode(array: npt.NDArray[Any]) -> Buffer:
        values = np.empty(array.size, object)
        for i, value in enumerate(array.flat):
            values[i] = prepare(value)
        try:
            return bytes(implementation.encode(values))
        except (ValueError, OverflowError) as e:
            raise CodecError(f'"{name}" codec: {e}') from e

    return encode


class _Vlen(ArrayToBytes):
    """Array to bytes: elements of any length, each after its size."""

    name: ClassVar[str]
    implementation: ClassVar[type[Any]]
    missing: ClassVar[str | bytes]
    elements: ClassVar[str]

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        Members(configuration).finish()
        return cls()

    def to_json(self, format: str) -> dict[str, Any]:
        return {}

    def bind(self, item: ChunkSpec) -> Self:
        _require_object(self.name, item)
        return self

    def open_decoder(self, item: ChunkSpec) -> DecodeInto:
        return _open_decoder(self.name, item, self.implementation())

    def open_encoder(self, item: ChunkSpec) -> Encode:
        return _open_encoder(
            self.name, self.implementation(), self.missing, (type(self.missing),), self.elements
        )


@dataclass(frozen=True)
class VlenUtf8(_Vlen):
    """Array to bytes: strings of any length, as UTF-8."""

    name: ClassVar[str] = "vlen-utf8"
    object_dtype: ClassVar[str] = "ustring"
    implementation = numcodecs.vlen.VLenUTF8
    missing = ""
    elements = "strings"


@dataclass(frozen=True)
class VlenBytes(_Vlen):
    """Array to bytes: byte strings of any length."""

    name: ClassVar[str] = "vlen-bytes"
    object_dtype: ClassVar[str] = "string"
    implementation = numcodecs.vlen.VLenBytes
    missing = b""
    elements = "byte strings"


def _parse_dtype(value: JSON) -> str:
    text = expect_string(value)
    try:
        dtype = np.dtype(text)
    except (TypeError, ValueError, SyntaxError, OverflowError):  # NumPy raises all of them
        raise SpecError(f"Expected data type, but received: {dump(text)}") from None
    if dtype.hasobject or dtype.itemsize == 0:
        raise SpecError(f'Expected data type with elements of fixed size, but received: "{text}"')
    return text


def _element_bytes(value: Any, stored: np.dtype[Any]) -> bytes:
    """Return the stored form of an array or list; raise if integers would change."""
    try:
        given = np.asarray(value)
        exact = stored.kind in "biu" or given.size == 0
        part = given.astype(stored, casting="unsafe" if exact else "same_kind")
        if exact and not np.array_equal(part, given):
            raise ValueError(f"{value!r} has no equal of data type {stored.str}")
    except (TypeError, ValueError, OverflowError) as e:
        raise CodecError(f'"vlen-array" codec: {e}') from e
    if part.ndim != 1:
        raise CodecError(f'"vlen-array" codec encodes one-dimensional arrays, but received: {value!r}')
    return part.tobytes()


@dataclass(frozen=True)
class VlenArray(ArrayToBytes):
    """Array to bytes: one-dimensional arrays of any length, whose elements have data type `dtype`."""

    dtype: str

    name: ClassVar[str] = "vlen-array"
    object_dtype: ClassVar[str] = "json"

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        members = Members(configuration)
        dtype = members.take("dtype", _parse_dtype)
        members.finish()
        return cls(dtype)

    def to_json(self, format: str) -> dict[str, Any]:
        return {"dtype": self.dtype}

    def bind(self, item: ChunkSpec) -> Self:
        _require_object(self.name, item)
        return self

    def open_decoder(self, item: ChunkSpec) -> DecodeInto:
        stored = np.dtype(self.dtype)
        native = stored.newbyteorder("=")
        decode_bytes = _open_decoder(self.name, item, numcodecs.vlen.VLenBytes())

        def decode(encoded: Buffer, out: npt.NDArray[Any]) -> None:
            raw = np.empty(item.shape, object)
            decode_bytes(encoded, raw)
            flat = np.empty(raw.size, object)
            for i, value in enumerate(raw.flat):
                if len(value) % stored.itemsize:
                    raise DataCorruptionError(
                        f'"vlen-array" codec: value of {len(value)} bytes is not a multiple of {self.dtype}'
                    )
                flat[i] = np.frombuffer(value, stored).astype(native)
            np.copyto(out, flat.reshape(item.shape))

        return decode

    def open_encoder(self, item: ChunkSpec) -> Encode:
        stored = np.dtype(self.dtype)
        encode_bytes = _open_encoder(self.name, numcodecs.vlen.VLenBytes(), b"", (bytes,), "arrays")

        def encode(array: npt.NDArray[Any]) -> Buffer:
            values = np.empty(array.size, object)
            for i, value in enumerate(array.flat):
                if _is_missing(value):
                    values[i] = b""
                    continue
                values[i] = _element_bytes(value, stored)
            return encode_bytes(values)

        return encode
