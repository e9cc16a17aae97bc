"""Codecs of Zarr v2 that only the registry of NumCodecs knows: images, floating-point compressors.

``imagecodecs`` and others register their codecs there (``imagecodecs_jpegxl``, ``zfpy``, ``pcodec``, ...).
As a compressor, such a codec receives the array, so here it is an array to bytes codec; after a codec that
returns bytes, it is a bytes to bytes codec.

Names
-----
zarr2: whatever `numcodecs.get_codec` finds; zarr3: ``numcodecs.pcodec``, ``numcodecs.zfpy``.

Configuration
-------------
The codec's own configuration; it is kept as written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numcodecs.registry
import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, Members, expect_object, expect_string
from chunkwise.core.base.extras import needs
from chunkwise.core.codec.lz4 import decode_lz4_hdf5
from chunkwise.core.codec.notation import notation_of
from chunkwise.core.codec.numcodecs import Frozen, frozen, thawed
from chunkwise.core.codec.protocol import (
    ArrayToBytes,
    Buffer,
    BytesToBytes,
    ChunkSpec,
    Codec,
    DecodeInto,
    Encode,
    byte_view,
    size_error,
)
from chunkwise.errors import CodecError, DataCorruptionError, SpecError, UnsupportedError

__all__ = ["NumcodecsCompressor", "NumcodecsSerializer", "PCodec", "Zfpy", "find_numcodecs"]

# Codecs that work on bytes: the ``bytes`` codec precedes them, wherever they stand.
_OF_BYTES = {
    f"imagecodecs_{name}"
    for name in ("bitorder", "delta", "deflate", "lz4", "lz4h5", "lzf", "lzma", "lzw", "szip", "zlib", "zstd")
}
# Packages that implement codecs, by the start of the codecs' names.
_PACKAGES = {"imagecodecs_": "imagecodecs", "zfpy": "zfpy", "pcodec": "pcodec", "grib": "kerchunk"}


def _get(id: str, configuration: Frozen) -> Any:
    package = next((p for start, p in _PACKAGES.items() if id.startswith(start)), None)
    if package == "imagecodecs":
        try:
            from imagecodecs.numcodecs import register_codecs
        except ImportError:
            raise _missing(id, package) from None
        register_codecs(verbose=False)
    try:
        return numcodecs.registry.get_codec({"id": id, **thawed(configuration)})
    except ImportError:
        raise _missing(id, package or "numcodecs") from None
    except (TypeError, ValueError, KeyError) as e:
        if package is not None and id not in numcodecs.registry.codec_registry:
            raise _missing(id, package) from None
        raise SpecError(f'"{id}" codec can\'t be used as configured: {e}') from e


def _missing(id: str, package: str) -> UnsupportedError:
    return UnsupportedError(needs(f'"{id}" codec', package))


def find_numcodecs(
    value: JSON, *, is_last: bool, serialized: bool, stored: np.dtype[Any] | None
) -> Codec | None:
    """Return the codec that NumCodecs has for a Zarr v2 codec object; None if it has none."""
    members = Members(expect_object(value))
    id = members.take("id", expect_string)
    known = id in numcodecs.registry.codec_registry or any(id.startswith(start) for start in _PACKAGES)
    if not known and id not in numcodecs.registry.entries:
        return None
    configuration = frozen(members.rest())
    _get(id, configuration)
    if serialized or id in _OF_BYTES:
        return NumcodecsCompressor(configuration, id)
    if not is_last:
        raise UnsupportedError(f'"{id}" codec is supported as the last codec only, not before another')
    return NumcodecsSerializer(configuration, id, None if stored is None or stored.isnative else stored)


@dataclass(frozen=True)
class NumcodecsCompressor(BytesToBytes):
    """Bytes to bytes, by any codec of NumCodecs."""

    configuration: Frozen
    id: str

    name: ClassVar[str] = "numcodecs_compressor"

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        return cls(frozen(configuration), name)

    def to_json(self, format: str) -> dict[str, Any]:
        # The name differs from codec to codec, so it is written here.
        return {**thawed(self.configuration), "id": self.id}

    def open_decoder(self, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
        if self.id == "imagecodecs_lz4h5":  # imagecodecs considers a short last block compressed
            return lambda encoded: decode_lz4_hdf5(encoded, decoded_nbytes)
        instance = _get(self.id, self.configuration)

        # Decode into memory of the expected size and one more byte, to notice excess data.  What szip returns
        # depends on that size; it notices itself, and leaves some unwritten if data are missing.
        bounded = self.id in _OF_BYTES and self.id != "imagecodecs_delta" and decoded_nbytes is not None
        spare = self.id != "imagecodecs_szip"

        def decode(encoded: Buffer) -> Buffer:
            work = instance.decode
            if bounded:
                work = partial(work, out=np.zeros((decoded_nbytes or 0) + spare, np.uint8))
            decoded = _run(self.id, work, bytes(encoded), DataCorruptionError)
            view = byte_view(np.ascontiguousarray(np.asarray(memoryview(decoded))).data)
            if decoded_nbytes is not None and len(view) != decoded_nbytes:
                raise size_error(self.id, len(view), decoded_nbytes)
            return view

        return decode

    def open_encoder(self) -> Callable[[Buffer], Buffer]:
        instance = _get(self.id, self.configuration)
        return lambda decoded: byte_view(_run(self.id, instance.encode, bytes(decoded), CodecError))


@dataclass(frozen=True)
class NumcodecsSerializer(ArrayToBytes):
    """Array to bytes, by any codec of NumCodecs that takes arrays."""

    configuration: Frozen
    id: str
    stored: np.dtype[Any] | None = None  # of elements in another than the native byte order

    name: ClassVar[str] = "numcodecs_serializer"

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        id = name.removeprefix("numcodecs.")
        members = frozen(configuration)
        _get(id, members)
        return cls(members, id)

    def to_json(self, format: str) -> dict[str, Any]:
        members = thawed(self.configuration)
        return members if notation_of(format).is_chain else {**members, "id": self.id}

    def bind(self, item: ChunkSpec) -> Self:
        if item.dtype.hasobject:
            raise CodecError(f'"{self.id}" codec does not support data type {item.dtype}')
        return self

    def open_decoder(self, item: ChunkSpec) -> DecodeInto:
        instance, stored = _get(self.id, self.configuration), self.stored or item.dtype

        def decode(encoded: Buffer, out: npt.NDArray[Any]) -> None:
            decoded = np.asarray(_run(self.id, instance.decode, bytes(encoded), DataCorruptionError))
            if decoded.nbytes != item.nbytes:
                raise size_error(self.id, decoded.nbytes, item.nbytes)
            # Codecs return bytes, or elements in native order whatever they were given.
            elements = np.ascontiguousarray(decoded).reshape(-1).view(np.uint8).view(stored)
            np.copyto(out, elements.reshape(item.shape))

        return decode

    def open_encoder(self, item: ChunkSpec) -> Encode:
        instance, stored = _get(self.id, self.configuration), self.stored or item.dtype
        return lambda array: byte_view(
            _run(self.id, instance.encode, np.ascontiguousarray(array, stored), CodecError)
        )


def _run(id: str, function: Callable[[Any], Any], value: Any, error: type[CodecError]) -> Any:
    try:
        return function(value)
    except ImportError as e:  # from a dependency of the codec's package, such as eccodes for GRIB
        raise UnsupportedError(f'"{id}" codec needs a package that is not installed: {e}') from e
    except Exception as e:
        # A codec of another package may raise any error for invalid data.
        raise error(f'"{id}" codec: {type(e).__name__}: {e}') from e


class PCodec(NumcodecsSerializer):
    """Pcodec, a compressor of numbers; needs the package ``pcodec``."""

    name: ClassVar[str] = "numcodecs.pcodec"


class Zfpy(NumcodecsSerializer):
    """ZFP, a compressor of floating-point arrays; needs the package ``zfpy``."""

    name: ClassVar[str] = "numcodecs.zfpy"
