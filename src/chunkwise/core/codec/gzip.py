"""The codecs ``gzip`` and ``zlib``: DEFLATE in gzip or zlib framing.

Specification
-------------
https://zarr-specs.readthedocs.io/en/latest/v3/codecs/gzip/ ; RFC 1950 (zlib), 1951 and 1952 (gzip);
https://numcodecs.readthedocs.io/en/stable/compression/zlib.html .

Names
-----
zarr3: ``gzip`` (``numcodecs.gzip`` is read), ``numcodecs.zlib``; zarr2: ``gzip``, ``zlib``; N5: ``gzip``.

Configuration
-------------
>>> Gzip.parse("zarr3", "gzip", {"level": 1}).to_json("zarr3")
{'level': 1}
>>> Gzip.parse("n5", "gzip", {"useZlib": True}).to_json("n5")
{'level': 6, 'useZlib': True}
>>> Zlib.parse("zarr2", "zlib", {}).to_json("zarr2")
{'level': 1}

Compatibility
-------------
Several members in a row are read, as by the gzip tool but not by TensorStore 0.1.86.  Both framings are read
by both codecs, whatever ``useZlib`` says, since z5py does not store that member.

Libraries
---------
libdeflate handles the usual case: one stream of the promised size, encoded at the level in the metadata.
ISA-L decodes many small chunks with one call, and everything else, such as several streams or streams of any
size, including what libdeflate refuses.  Without libdeflate, zlib encodes and ISA-L decodes.  ISA-L's levels
differ from zlib's, so it encodes only on request.
"""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from isal import isal_zlib

from chunkwise.core.base.binding import Members, expect_bool, expect_int
from chunkwise.core.base.limits import largest_value
from chunkwise.core.codec.notation import notation_of
from chunkwise.core.codec.protocol import (
    BatchDecoder,
    Buffer,
    BytesToBytes,
    ChunkSpec,
    Compressor,
    size_error,
)
from chunkwise.core.libraries import deflate
from chunkwise.core.libraries.direct import Framing
from chunkwise.errors import CodecError, DataCorruptionError

__all__ = ["Gzip", "Zlib"]

_WBITS = {"gzip": 31, "zlib": 15}
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_NUMBER = int.from_bytes(_GZIP_MAGIC, "little")
_READ_STEP = 1 << 24
_USUAL_LEVEL = 6
# ISA-L decodes many members with one call, libdeflate each of them a fifth faster.  Chunks of 8 KiB take two
# threads 23 us with one call for many, one thread with libdeflate 32, two 48; chunks of 64 KiB take two
# threads as long with either.
_LARGEST_TOGETHER = 1 << 14
_LEAST_MEMBER = 18  # bytes of header and trailer
_SHORT, _LONG = ctypes.c_uint16.__ctype_le__, ctypes.c_uint32.__ctype_le__
_MAX_RATIO = 1032  # a code of two bits stands for at most 258 bytes
_DEFAULT_LEVEL = {"zarr2": 1, "n5": 6}


@dataclass(frozen=True)
class Gzip(BytesToBytes):
    """Bytes to bytes: DEFLATE."""

    level: int | None = (
        None  # 0 (stored) to 9; -1 (not in Zarr v3) is zlib's default. None until bound, then 6.
    )
    framing: Framing = "gzip"  # Framing to write; both are read. "zlib" only in N5.
    # Library of the levels.  ISA-L is several times faster, but its levels, 0 to 3, have another meaning.  So
    # it is used only if the caller says so, and is not part of the metadata.
    library: Literal["zlib", "isal"] = field(default="zlib", compare=False)

    name: ClassVar[str] = "gzip"
    always_checked: ClassVar[bool] = True  # by CRC-32, or Adler-32 in zlib framing
    level_member: ClassVar[str] = "level"
    n5_defaults: ClassVar[Mapping[str, Any]] = {"level": -1, "useZlib": False}

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        members = Members(configuration)
        notation = notation_of(format)
        least = 0 if notation.has_words else -1  # Java's default, which jzarr writes
        level = members.take("level", lambda v: expect_int(v, least, 9), _DEFAULT_LEVEL.get(format))
        if not notation.ignores_unknown:
            members.finish()
            return cls(level)
        return cls(level, "zlib" if members.take("useZlib", expect_bool, False) else "gzip")

    def to_json(self, format: str) -> dict[str, Any]:
        members: dict[str, Any] = {} if self.level is None else {"level": self.level}
        if notation_of(format).ignores_unknown:  # which are Java's own
            members["useZlib"] = self.framing == "zlib"
        return members

    def bind(self, item: ChunkSpec) -> Self:
        return self if self.level is not None else replace(self, level=6)

    def open_decoder(self, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
        return _open_decoder("gzip", decoded_nbytes)

    def open_decoder_into(self, decoded_nbytes: int) -> Callable[[Buffer, memoryview], None] | None:
        return _open_decoder_into("gzip", decoded_nbytes)

    def open_batch_decoder(self, decoded_nbytes: int) -> BatchDecoder | None:
        return _open_members(decoded_nbytes)

    def open_encoder(self) -> Callable[[Buffer], Buffer]:
        return _open_encoder(self.framing, 6 if self.level is None else self.level, self.library)


@dataclass(frozen=True)
class Zlib(Compressor):
    """Bytes to bytes: DEFLATE with a zlib header; `level` is 0 to 9, or -1 for zlib's default."""

    name: ClassVar[str] = "numcodecs.zlib"
    bounds = (-1, 9)
    always_checked: ClassVar[bool] = True
    level_member: ClassVar[str] = "level"

    def open_decoder(self, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
        return _open_decoder("zlib", decoded_nbytes)

    def open_decoder_into(self, decoded_nbytes: int) -> Callable[[Buffer, memoryview], None] | None:
        return _open_decoder_into("zlib", decoded_nbytes)

    def open_encoder(self) -> Callable[[Buffer], Buffer]:
        return _open_encoder("zlib", self.level, "zlib")


def _open_decoder_into(codec: str, decoded_nbytes: int) -> Callable[[Buffer, memoryview], None] | None:
    """Return a decoder that fills memory of exactly `decoded_nbytes` bytes, or None."""
    library = deflate()
    if library is None or decoded_nbytes == 0:
        return None
    fill = library.open_decoder()
    general: list[Callable[[Buffer], Buffer]] = []

    def decode(encoded: Buffer, out: memoryview) -> None:
        if len(encoded) and fill("gzip" if encoded[:2] == _GZIP_MAGIC else "zlib", encoded, out):
            return
        if not general:
            general.append(_open_streams(codec, decoded_nbytes))
        out[:] = general[0](encoded)

    return decode


def _open_members(decoded_nbytes: int) -> BatchDecoder | None:
    """Return a decoder of many small chunks, each a gzip member, in one call."""
    reader = getattr(isal_zlib, "_GzipReader", None)  # the class behind isal's GzipFile
    if reader is None or not 0 < decoded_nbytes <= _LARGEST_TOGETHER:
        return None

    errors: Any = (isal_zlib.error, OSError, EOFError)

    def takes(address: int, nbytes: int) -> bool:
        # The reader compares the size after the last member with what that decodes to.  If others before it
        # decode to more than nothing, the whole is too long.
        if nbytes < _LEAST_MEMBER or _SHORT.from_address(address).value != _GZIP_NUMBER:
            return False
        size: int = _LONG.from_address(address + nbytes - 4).value
        return size == decoded_nbytes

    def decode(encoded: Buffer, out: memoryview) -> bool:
        try:
            stream, n = reader(encoded), 0
            while n < len(out):
                if not (got := stream.readinto(out[n:])):
                    return False
                n += got
            return not stream.read(1)
        except errors:
            return False

    return BatchDecoder(takes, decode)


def _open_decoder(codec: str, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
    """Return a decoder that returns new memory with each call; see `_open_decoder_into`."""
    into = None if decoded_nbytes is None else _open_decoder_into(codec, decoded_nbytes)
    if into is None or decoded_nbytes is None:
        return _open_streams(codec, decoded_nbytes)
    n, fill = decoded_nbytes, into
    general = _open_streams(codec, n)

    def decode(encoded: Buffer) -> Buffer:
        if len(encoded) * _MAX_RATIO < n:  # too few encoded bytes for that size: no memory is allocated
            return general(encoded)
        out = np.empty(n, np.uint8).data
        fill(encoded, out)
        return out

    return decode


def _open_streams(codec: str, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
    """Return a decoder for one or more streams in a row; errors name `codec`."""
    # The first bytes decide the framing, since N5 writers don't agree on it.  Zero bytes after the last
    # stream are ignored, as gzip tools do.
    new = isal_zlib.decompressobj
    errors: Any = (isal_zlib.error, ValueError, EOFError)

    def decode(encoded: Buffer) -> Buffer:
        most = largest_value() if decoded_nbytes is None else decoded_nbytes
        try:
            stream = new(31 if encoded[:2] == _GZIP_MAGIC else 15)
            data: bytes = stream.decompress(encoded, _step(most))
            if stream.eof and len(data) == decoded_nbytes and not stream.unused_data:
                return data
            return _rest(stream, data, most)
        except DataCorruptionError:
            raise
        except errors as e:
            raise DataCorruptionError(f'"{codec}" codec: {e}') from e

    def _step(left: int) -> int:
        return left + 1 if decoded_nbytes is not None else min(_READ_STEP, left + 1)

    def _rest(stream: isal_zlib.Decompress, data: bytes, most: int) -> Buffer:
        parts, total = [data], len(data)
        while True:
            if total > most:
                raise size_error(codec, f"more than {most}", most)
            step = _step(most - total)
            if not stream.eof:
                if not stream.unconsumed_tail and not data:
                    raise DataCorruptionError(f'"{codec}" codec: truncated stream')
                data = stream.decompress(stream.unconsumed_tail, step)
            else:
                tail = stream.unused_data.lstrip(b"\0")
                if not tail:
                    break
                if tail[:2] != _GZIP_MAGIC:
                    raise DataCorruptionError(
                        f'"{codec}" codec: {len(tail)} bytes after the end of the stream'
                    )
                stream = new(31)
                data = stream.decompress(tail, step)
            parts.append(data)
            total += len(data)
        if decoded_nbytes is not None and total != decoded_nbytes:
            raise size_error(codec, total, decoded_nbytes)
        return b"".join(parts)

    return decode


def _open_encoder(
    framing: Framing, level: int, library: Literal["zlib", "isal"]
) -> Callable[[Buffer], Buffer]:
    """Return an encoder for one stream; a gzip header contains no time and no name."""
    # With `library` "zlib", `level` is a level of zlib, whichever library compresses.  A result is valid
    # until the next call.
    direct = deflate() if library == "zlib" else None
    if direct is not None:
        return direct.open_encoder(framing, _USUAL_LEVEL if level < 0 else level)
    wbits = _WBITS[framing]
    if library == "isal":
        if not 0 <= level <= 3:
            raise CodecError(f"ISA-L compresses with level 0 to 3, but the level is {level}")
        open_stream: Callable[..., Any] = isal_zlib.compressobj
    else:
        open_stream = zlib.compressobj

    def encode(decoded: Buffer) -> Buffer:
        stream = open_stream(level, zlib.DEFLATED, wbits)
        head: bytes = stream.compress(decoded)
        tail: bytes = stream.flush()
        return head + tail if head else tail

    return encode
