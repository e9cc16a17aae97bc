"""Compression of members of ZIP archives: encoding, and decoding within bounds.

Specification
-------------
APPNOTE 6.3.10: 4.4.5 compression method, 5.8 LZMA.

Compatibility
-------------
The methods that TensorStore reads: *stored*, *deflate*, *bzip2*, *zstd* and *xz*; also *lzma*, which Python
writes.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.core.libraries import zstd
from chunkwise.errors import DataCorruptionError, UnsupportedError, prefix

__all__ = ["STORED", "Method", "decode", "method_named", "method_numbered"]

STORED = 0
# The largest preset of an encoder takes 65 MiB to decode; much more is an attack on memory.
_XZ_MEMORY = 1 << 28
_PIECE = 1 << 20  # bytes to decode at a time if the claimed size isn't trusted
_ZSTD_RATIO = 1 << 15  # a block of 128 KiB takes at least 4 bytes


class Method(NamedTuple):
    """A compression method."""

    number: int  # its number in the archive
    version: int  # version of the specification that a reader needs, times ten
    encode: Callable[[Buffer], Buffer]


def _deflate(value: Buffer) -> bytes:
    encoder = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return encoder.compress(value) + encoder.flush()


def _zstd(value: Buffer) -> bytes:
    return bytes(zstd().open_encoder(3, False)(value))


_ENCODED = {
    "store": Method(STORED, 20, lambda value: value),
    "deflate": Method(8, 20, _deflate),
    "zstd": Method(93, 63, _zstd),
    "xz": Method(95, 63, lzma.compress),
}


def method_named(name: str) -> Method:
    """Return ``store``, ``deflate``, ``zstd`` or ``xz``."""
    return _ENCODED[name]


def method_numbered(number: int) -> Method | None:
    """Return one of these methods by its number in an archive; None for others."""
    return next((method for method in _ENCODED.values() if method.number == number), None)


def decode(method: int, data: Buffer, nbytes: int) -> Buffer:
    """Return the decoded `data`, at most one byte more than the expected `nbytes`."""
    if method == STORED:
        return data
    decoder = _DECODERS.get(method)
    if decoder is None:
        known = ", ".join(f"{number} ({name})" for number, name in _NAMES.items())
        raise UnsupportedError(f"ZIP compression method {method} is not supported; expected one of {known}")
    try:
        return decoder(data, nbytes)
    except DataCorruptionError as e:
        raise prefix(e, f"ZIP member can't be decoded by {_NAMES[method]}") from None
    except (zlib.error, OSError, EOFError, ValueError, lzma.LZMAError) as e:
        raise DataCorruptionError(f"ZIP member can't be decoded by {_NAMES[method]}: {e}") from e


def _inflate(data: Buffer, nbytes: int) -> bytes:
    return zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, nbytes + 1)


def _bunzip2(data: Buffer, nbytes: int) -> bytes:
    return _pieces(bz2.BZ2Decompressor(), data, nbytes)


def _unxz(data: Buffer, nbytes: int) -> bytes:
    return _pieces(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY), data, nbytes)


def _unlzma(data: Buffer, nbytes: int) -> bytes:
    """Decode the part after the version and size of the properties: one byte, then the dictionary's size."""
    view = memoryview(data)
    if len(view) < 9 or bytes(view[2:4]) != b"\5\0" or view[4] >= 9 * 5 * 5:
        raise ValueError("its properties are not those of LZMA")
    rest, lc = divmod(view[4], 9)
    pb, lp = divmod(rest, 5)
    # References can't reach back beyond the start of the member, whatever dictionary size is claimed.
    size = max(1 << 12, min(int.from_bytes(view[5:9], "little"), nbytes))
    filters: list[dict[str, Any]] = [
        {"id": lzma.FILTER_LZMA1, "lc": lc, "lp": lp, "pb": pb, "dict_size": size}
    ]
    return _pieces(lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=filters), view[9:], nbytes)


def _pieces(decoder: Any, data: Buffer, nbytes: int) -> bytes:
    """Decode piece by piece, so memory is allocated for actual data, not for the claimed size."""
    out = bytearray()
    while len(out) <= nbytes and not decoder.eof:
        piece = decoder.decompress(data, min(_PIECE, nbytes + 1 - len(out)))
        out += piece
        if not piece and not data:
            break
        data = b""
    return bytes(out)


def _unzstd(data: Buffer, nbytes: int) -> Buffer:
    out = np.empty(min(nbytes, _ZSTD_RATIO * len(data)), np.uint8).data
    written = zstd().open_decoder()(data, out)
    if written is None:
        raise ValueError(f"it holds more than {len(out)} bytes")
    return out[:written]


_DECODERS: dict[int, Callable[[Buffer, int], Buffer]] = {
    8: _inflate,
    12: _bunzip2,
    14: _unlzma,
    93: _unzstd,
    95: _unxz,
}
_NAMES = {STORED: "stored", 8: "deflate", 12: "bzip2", 14: "lzma", 93: "zstd", 95: "xz"}
