"""Codecs that NumCodecs computes: array to array, which are filters of Zarr v2, and bytes to bytes.

Specification
-------------
https://numcodecs.readthedocs.io/en/stable/ , the page of each codec.  NumCodecs encodes and decodes; the
input and output arrays of filters are checked.

Names
-----
zarr2: ``delta``, ``fixedscaleoffset``, ``quantize``, ``astype``, ``packbits``, ``categorize``; ``crc32``,
``adler32``, ``fletcher32``, ``jenkins_lookup3``, ``shuffle``, ``base64``; zarr3: the same with ``numcodecs.``
in front, without ``categorize``.

Configuration
-------------
>>> Delta.parse("zarr2", "delta", {"dtype": ">i4"}).to_json("zarr2")
{'dtype': '>i4'}
>>> Shuffle.parse("zarr2", "shuffle", {"elementsize": 2}).to_json("zarr2")
{'elementsize': 2}

Compatibility
-------------
``elementsize`` 0 of ``shuffle``, which netCDF-C writes, is the size of the data type; NumCodecs shuffles
nothing then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar, Self, TypeAlias

import numcodecs.registry
import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, check_known, dump, expect_string
from chunkwise.core.codec.notation import notation_of
from chunkwise.core.codec.protocol import ArrayToArray, Buffer, BytesToBytes, ChunkSpec, byte_view, size_error
from chunkwise.errors import CodecError, DataCorruptionError, InvalidArgumentError, SpecError

__all__ = [
    "Adler32",
    "AsType",
    "Base64",
    "Categorize",
    "Crc32",
    "Delta",
    "FixedScaleOffset",
    "Fletcher32",
    "Frozen",
    "JenkinsLookup3",
    "PackBitsFilter",
    "Quantize",
    "Shuffle",
    "frozen",
    "thawed",
]

Frozen: TypeAlias = "tuple[tuple[str, JSON], ...]"
"""Members of a configuration, sorted by name, with tuples in place of lists."""

_Apply = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]

_Found: TypeAlias = "npt.NDArray[np.bool_] | None"

_ERRORS = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)  # of codecs of NumCodecs


def _dtype(value: JSON, member: str) -> np.dtype[Any]:
    try:
        return np.dtype(expect_string(value))
    except (TypeError, ValueError, SyntaxError, OverflowError):  # errors of NumPy and of expect_string
        raise SpecError(
            f'Error parsing object member "{member}": Expected data type, but received: {dump(value)}'
        ) from None


@dataclass(frozen=True)
class NumcodecsFilter(ArrayToArray):
    """Array to array, by a filter of NumCodecs with this `id`."""

    configuration: Frozen = ()  # its members, sorted by name

    name: ClassVar[str] = ""
    id: ClassVar[str] = ""
    required: ClassVar[tuple[str, ...]] = ()
    optional: ClassVar[tuple[str, ...]] = ()
    # The members with the data types of the decoded array and, in order of preference, the encoded one.
    decoded_member: ClassVar[str] = "dtype"
    encoded_members: ClassVar[tuple[str, ...]] = ("astype", "dtype")

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        missing = [m for m in cls.required if m not in configuration]
        if missing:
            raise SpecError(
                f'Error parsing object member "{missing[0]}": Expected value, but member is missing'
            )
        check_known(configuration, (*cls.required, *cls.optional))
        codec = cls(frozen(configuration))
        codec._instance()
        if not notation_of(format).has_numcodecs_options:
            # Arrays between codecs have no stored byte order in Zarr v3; in memory it is little-endian.
            decoded = codec._member((cls.decoded_member,))
            if decoded is not None:
                codec.next_stored(decoded.newbyteorder("<"))
        return codec

    def to_json(self, format: str) -> dict[str, Any]:
        return thawed(self.configuration)

    def _member(self, names: tuple[str, ...]) -> np.dtype[Any] | None:
        members = dict(self.configuration)
        return next((_dtype(members[n], n) for n in names if members.get(n) is not None), None)

    def stored_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the data type after encoding, in the byte order of the configuration."""
        return self._member(self.encoded_members) or dtype

    def next_stored(self, stored: np.dtype[Any]) -> np.dtype[Any]:
        """Return the stored type after encoding, for elements with the stored type `stored`."""
        decoded = self._member((self.decoded_member,))
        if (
            decoded is not None
            and decoded != stored
            and decoded.newbyteorder("=") == stored.newbyteorder("=")
        ):
            raise InvalidArgumentError(
                f'"{self.id}" codec is for data type {decoded.str}, but receives {stored.str}'
            )
        return self.stored_dtype(stored)

    def _instance(self) -> Any:
        """Return NumCodecs' filter, for arrays in native byte order."""
        members = self.to_json("zarr2")
        for member in {self.decoded_member, *self.encoded_members}:
            if members.get(member) is not None:
                members[member] = _dtype(members[member], member).newbyteorder("=").str
        try:
            return numcodecs.registry.get_codec({"id": self.id, **members})
        except (TypeError, ValueError, KeyError) as e:
            raise SpecError(f'"{self.id}" codec can\'t be used as configured: {e}') from e

    def bind(self, item: ChunkSpec) -> Self:
        decoded = self._member((self.decoded_member,))
        if decoded is not None and decoded.newbyteorder("=") != item.dtype:
            raise CodecError(f'"{self.id}" codec is for data type {decoded}, but receives {item.dtype}')
        return self

    def output(self, item: ChunkSpec) -> ChunkSpec:
        dtype = self.stored_dtype(item.dtype).newbyteorder("=")
        try:
            with np.errstate(all="ignore"):  # the fill value, for example NaN, may be one that no element has
                fill = np.asarray(self._instance().encode(item.fill_value.reshape(1))).reshape(-1)[:1]
                fill = fill.astype(dtype).reshape(())
        except _ERRORS:
            fill = np.zeros((), dtype)
        return ChunkSpec(self._encoded_shape(item), dtype, fill)

    def _encoded_shape(self, item: ChunkSpec) -> tuple[int, ...]:
        return item.shape

    def open_encoder(self, item: ChunkSpec) -> _Apply:
        encoded, instance = self.output(item), self._instance()

        def encode(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
            try:
                with np.errstate(all="ignore"):
                    result = np.asarray(instance.encode(np.ascontiguousarray(array)))
            except _ERRORS as e:
                raise CodecError(f'"{self.id}" codec: {e}') from e
            result = _checked(self.id, result, encoded, CodecError)
            suspects = self._suspects(array, result)
            if suspects is not None and suspects.any():
                back = np.asarray(instance.decode(result)).reshape(array.shape)
                fill = item.fill_value  # which may be one that no element has, and also fills up a chunk
                for kept in (back, fill):
                    suspects &= np.asarray((array != kept) & ((array == array) | (kept == kept)), bool)
                if suspects.any():
                    value = array[suspects].flat[0]
                    raise CodecError(f'"{self.id}" codec can\'t encode {value} as configured')
            return result

        return encode

    def _suspects(self, values: npt.NDArray[Any], encoded: npt.NDArray[Any]) -> _Found:
        """Return which values the encoded type may not hold; NumCodecs gives them another one's code."""
        if encoded.dtype.kind == "f" and values.dtype.kind in "iuf":
            return np.asarray(np.isinf(encoded) & np.isfinite(values), bool)
        if encoded.dtype.kind not in "iu" or values.dtype.kind not in "iuf":
            return None
        with np.errstate(all="ignore"):
            whole = self._whole(values.astype(np.float64))
        bounds = np.iinfo(encoded.dtype)
        return np.asarray(~((whole >= float(bounds.min)) & (whole < float(bounds.max + 1))), bool)

    def _whole(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the whole numbers that values are encoded as, if it is integers."""
        return np.trunc(values)

    def open_decoder(self, item: ChunkSpec) -> _Apply:
        instance = self._instance()

        def decode(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
            try:
                with np.errstate(all="ignore"):
                    result = np.asarray(instance.decode(np.ascontiguousarray(array)))
            except _ERRORS as e:
                raise DataCorruptionError(f'"{self.id}" codec: {e}') from e
            return _checked(self.id, result, item, DataCorruptionError)

        return decode


def _checked(
    id: str, result: npt.NDArray[Any], expected: ChunkSpec, error: type[CodecError]
) -> npt.NDArray[Any]:
    if result.size != prod(expected.shape) or result.dtype != expected.dtype:
        raise error(
            f'"{id}" codec gives {result.size} elements of {result.dtype}, '
            f"but expected {prod(expected.shape)} of {expected.dtype}"
        )
    return result.reshape(expected.shape)


def frozen(configuration: Mapping[str, JSON]) -> Frozen:
    """Return members of a configuration as a hashable value; `thawed` reverts it."""
    return tuple(sorted((name, _freeze(value)) for name, value in configuration.items()))


def thawed(configuration: Frozen) -> dict[str, JSON]:
    """Return the members that `frozen` was given."""
    return {name: _thaw(value) for name, value in configuration}


def _freeze(value: JSON) -> JSON:
    return tuple(_freeze(v) for v in value) if isinstance(value, list | tuple) else value


def _thaw(value: JSON) -> JSON:
    return [_thaw(v) for v in value] if isinstance(value, tuple) else value


class Delta(NumcodecsFilter):
    """Differences between neighbours, in C order."""

    name, id = "numcodecs.delta", "delta"
    required, optional = ("dtype",), ("astype",)

    def open_encoder(self, item: ChunkSpec) -> _Apply:
        if item.dtype.kind in "bM":  # sums of differences are other booleans, and times have no sum
            raise CodecError(f'"delta" codec encodes {item.dtype}, but can\'t restore it')
        return super().open_encoder(item)

    def _suspects(self, values: npt.NDArray[Any], encoded: npt.NDArray[Any]) -> _Found:
        if values.dtype.kind == encoded.dtype.kind == "f":
            return super()._suspects(values, encoded)
        if encoded.dtype == values.dtype or values.dtype.kind not in "iu":
            return None  # sums that wrap around are restored
        return np.ones(values.shape, bool)


class FixedScaleOffset(NumcodecsFilter):
    """``round((x - offset) * scale)``, in another data type."""

    name, id = "numcodecs.fixedscaleoffset", "fixedscaleoffset"
    required, optional = ("offset", "scale", "dtype"), ("astype",)

    def _whole(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        members: dict[str, Any] = dict(self.configuration)
        offset, scale = float(members["offset"]), float(members["scale"])
        return np.around((values - offset) * scale)


class Quantize(NumcodecsFilter):
    """Floating-point numbers with a given number of decimal digits."""

    name, id = "numcodecs.quantize", "quantize"
    required, optional = ("digits", "dtype"), ("astype",)


class AsType(NumcodecsFilter):
    """Values in another data type, by NumPy's rules."""

    name, id = "numcodecs.astype", "astype"
    required = ("encode_dtype", "decode_dtype")
    decoded_member, encoded_members = "decode_dtype", ("encode_dtype",)

    def _suspects(self, values: npt.NDArray[Any], encoded: npt.NDArray[Any]) -> _Found:
        kinds = values.dtype.kind + encoded.dtype.kind
        if kinds == "cc" or (kinds[0] in "iuf" and kinds[1] in "iufc"):  # which round
            return super()._suspects(values, encoded)
        return np.ones(values.shape, bool)


class Categorize(NumcodecsFilter):
    """Strings as numbers of labels, starting at 1; 0 decodes to ``""``, and no other string is encoded."""

    name, id = "categorize", "categorize"
    object_dtype = "ustring"
    required, optional = ("labels", "dtype"), ("astype",)
    encoded_members = ("astype",)

    def stored_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return self._member(("astype",)) or np.dtype("u1")

    def _suspects(self, values: npt.NDArray[Any], encoded: npt.NDArray[Any]) -> _Found:
        return np.asarray((encoded == 0) & (values != ""), bool)


class PackBitsFilter(NumcodecsFilter):
    """Eight booleans a byte, the first in the highest bit, after a byte with the number of unused bits."""

    name, id = "numcodecs.packbits", "packbits"
    reshapes = True
    encoded_members = ()

    def bind(self, item: ChunkSpec) -> Self:
        if item.dtype != np.dtype(bool):
            raise CodecError(f'"packbits" codec is for data type bool, but receives {item.dtype}')
        return self

    def stored_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        return np.dtype("u1")

    def _encoded_shape(self, item: ChunkSpec) -> tuple[int, ...]:
        return (1 + -(-prod(item.shape) // 8),)


@dataclass(frozen=True)
class NumcodecsBytes(BytesToBytes):
    """Bytes to bytes, by a codec of NumCodecs with this `id`."""

    configuration: tuple[tuple[str, JSON], ...] = ()  # its members, sorted by name

    name: ClassVar[str] = ""
    id: ClassVar[str] = ""
    members: ClassVar[tuple[str, ...]] = ()
    overhead: ClassVar[int | None] = 4

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        check_known(configuration, cls.members)
        codec = cls(
            tuple(sorted((k, tuple(v) if isinstance(v, list) else v) for k, v in configuration.items()))
        )
        codec._instance()
        return codec

    def to_json(self, format: str) -> dict[str, Any]:
        return {key: list(v) if isinstance(v, tuple) else v for key, v in self.configuration}

    def _instance(self) -> Any:
        try:
            return numcodecs.registry.get_codec({"id": self.id, **self.to_json("zarr2")})
        except (TypeError, ValueError, KeyError) as e:
            raise SpecError(f'"{self.id}" codec can\'t be used as configured: {e}') from e

    def encoded_nbytes(self, decoded_nbytes: int) -> int | None:
        return None if self.overhead is None else decoded_nbytes + self.overhead

    def open_decoder(self, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
        instance, id = self._instance(), self.id

        def decode(encoded: Buffer) -> Buffer:
            view = byte_view(encoded)
            if self.overhead is not None:
                n = len(view) - self.overhead
                if n < 0 or (decoded_nbytes is not None and n != decoded_nbytes):
                    raise size_error(id, n, decoded_nbytes or 0)
            try:
                decoded = byte_view(instance.decode(np.frombuffer(view, np.uint8)))
            except _ERRORS as e:
                raise DataCorruptionError(f'"{id}" codec: {e}') from e
            if decoded_nbytes is not None and len(decoded) != decoded_nbytes:
                raise size_error(id, len(decoded), decoded_nbytes)
            return decoded

        return decode

    def open_encoder(self) -> Callable[[Buffer], Buffer]:
        instance, id = self._instance(), self.id

        def encode(decoded: Buffer) -> Buffer:
            try:
                return byte_view(instance.encode(np.frombuffer(decoded, np.uint8)))
            except _ERRORS as e:
                raise CodecError(f'"{id}" codec: {e}') from e

        return encode


class Crc32(NumcodecsBytes):
    """A CRC-32 checksum of four bytes, before the content unless `location` is "end"."""

    name, id, members = "numcodecs.crc32", "crc32", ("location",)
    always_checked = True


class Adler32(NumcodecsBytes):
    """An Adler-32 checksum of four bytes, before the content unless `location` is "end"."""

    name, id, members = "numcodecs.adler32", "adler32", ("location",)
    always_checked = True


class Fletcher32(NumcodecsBytes):
    """A Fletcher-32 checksum of four bytes after the content, as in HDF5."""

    name, id = "numcodecs.fletcher32", "fletcher32"
    always_checked = True


class JenkinsLookup3(NumcodecsBytes):
    """A Jenkins lookup3 checksum of four bytes after the content, as in HDF5."""

    name, id, members = "numcodecs.jenkins_lookup3", "jenkins_lookup3", ("initval", "prefix")
    always_checked = True


class Shuffle(NumcodecsBytes):
    """The first bytes of all elements, then the second ones, and so on."""

    name, id, members, overhead = "numcodecs.shuffle", "shuffle", ("elementsize",), 0

    def bind(self, item: ChunkSpec) -> Self:
        if dict(self.configuration).get("elementsize") != 0:
            return self
        return replace(
            self, configuration=(("elementsize", 1 if item.dtype.hasobject else item.dtype.itemsize),)
        )


class Base64(NumcodecsBytes):
    """Base64 text."""

    name, id, overhead = "numcodecs.base64", "base64", None

    def encoded_nbytes(self, decoded_nbytes: int) -> int | None:
        return -(-decoded_nbytes // 3) * 4
