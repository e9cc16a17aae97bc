"""Reading a ZIP archive with few requests: the table of contents, and one member.

Specification
-------------
APPNOTE 6.3.10: 4.3.7 local file header, 4.3.14 and 4.3.15 the ZIP64 end records, 4.3.16 end of central
directory.  Archives over several disks are not supported.

Notes
-----
An archive may have bytes in front of it, such as a program that extracts it, which its positions leave out.
The size of the file tells how many.  It is requested only if positions turn out to be wrong.

The entries of the central directory are read by `zipfile`.  It is not used for the rest: it needs the size of
the archive, which a read of its end doesn't tell; it mistakes the end record's signature in a comment for the
record; and it decodes without limit.

A member is usually read by one request for its header and data together.  The local header may be longer than
the central directory suggests, if its extra field differs.  At least one entry of the directory and the end
record follow the data of any member, so `_SLACK` more bytes never go beyond the archive, and usually make up
for that.

Members are stored, or compressed by the methods that TensorStore reads: *deflate*, *bzip2*, *zstd* and *xz*;
also *lzma*, which Python writes.  They are decoded within bounds.

Specification: APPNOTE 6.3.10, 4.4.5 compression method, 5.8 LZMA.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from io import BytesIO
from struct import Struct
from typing import Any, NamedTuple, TypeAlias
from zipfile import BadZipFile, ZipFile, ZipInfo

import numpy as np

from chunkwise.core.base.binding import dump
from chunkwise.core.kvstore.key_range import decode_key
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.core.kvstore.request_limits import Slots
from chunkwise.core.kvstore.value import check_size, resolve_range
from chunkwise.core.libraries import zstd
from chunkwise.errors import DataCorruptionError, UnsupportedError, prefix

__all__ = [
    "STORED",
    "TAIL_SIZE",
    "Get",
    "Member",
    "Method",
    "MisplacedError",
    "decode",
    "method_named",
    "method_numbered",
    "read_directory",
    "read_member",
    "stored_bytes",
]


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


_END = Struct("<4s4H2LH")
_LOCATOR = Struct("<4sLQL")
_END64 = Struct("<4sQ2H2L4Q")
_LOCAL = Struct("<4s5H3L2H")
_UTF8, _ENCRYPTED = 1 << 11, 1
_SLACK = 46 + _END.size  # an entry of the directory has 46 bytes and a name

TAIL_SIZE = _END.size + 0xFFFF + _LOCATOR.size + _END64.size
"""Number of bytes at the end of any archive that surely contain its end records."""

Get: TypeAlias = Callable[[int, int], Buffer]
"""``get(start, stop)``: bytes of the archive, valid until the next call."""


class MisplacedError(DataCorruptionError):
    """A header isn't at its position, since bytes lie in front of the archive or the archive is damaged."""


class Member(NamedTuple):
    """A file in the archive."""

    header: int  # position of its local header, in bytes
    n_header: int  # likely size of that header; its extra field may differ from the directory's
    stored_nbytes: int  # size in the archive
    nbytes: int  # size when decoded
    method: int  # number of the method in `zip_method`
    crc: int  # CRC-32 of the decoded bytes
    encrypted: bool  # whether it needs a password


def read_directory(tail: bytes, get: Get, size: int | None = None) -> tuple[dict[str, Member], int]:
    """Return the members by name, without directories, the later of two with one name; and the first byte."""
    # `tail` is the last `TAIL_SIZE` bytes of the file, or all of it; `get` reads others.  With the `size` of
    # the file, positions are corrected for bytes in front of the archive.
    at, n_entries, n_bytes, start = _find_end(tail, get)
    front = 0 if size is None else max(0, size - len(tail) + at - n_bytes - start)
    start += front
    table = tail[at - n_bytes : at] if n_bytes <= at else bytes(get(start, start + n_bytes))
    if size is None and n_entries and table[:4] != b"PK\x01\x02":
        raise MisplacedError("Failed to read ZIP central directory: none where the end record says")
    entries = _parse_entries(table)
    if (len(entries) - n_entries) & 0xFFFF:  # some writers store only 16 bits of the number
        raise DataCorruptionError(
            f"Failed to read ZIP central directory: it has {len(entries)} entries, expected {n_entries}"
        )
    members = [_member(entry, front) for entry in entries]
    first = min((member.header for _, member in members), default=front)
    return {name: member for name, member in members if not name.endswith("/")}, first


def _find_end(tail: bytes, get: Get) -> tuple[int, int, int, int]:
    """Return the end of the directory in `tail`, its number of entries, its size and its position."""
    at = len(tail)
    while True:
        at = tail.rfind(b"PK\x05\x06", 0, at)
        if at < 0:
            raise DataCorruptionError("Failed to find valid ZIP EOCD: no ZIP archive, or one that is cut off")
        if at + _END.size <= len(tail):
            _, disk, first_disk, _, n_entries, n_bytes, start, n_comment = _END.unpack_from(tail, at)
            if at + _END.size + n_comment == len(tail):  # not the same bytes in a comment, by chance
                break
    locator = at - _LOCATOR.size
    if locator >= 0 and tail[locator : locator + 4] == b"PK\x06\x07":
        _, disk, where, n_disks = _LOCATOR.unpack_from(tail, locator)
        end64 = tail[locator - _END64.size : locator] if locator >= _END64.size else b""
        if end64[:4] != b"PK\x06\x06":  # the record may be longer, or lie before the tail
            end64 = bytes(get(where, where + _END64.size))
        if end64[:4] != b"PK\x06\x06":
            raise DataCorruptionError(f"Failed to read ZIP64 EOCD: none at byte {where}")
        _, n_record, _, _, disk, first_disk, _, n_entries, n_bytes, start = _END64.unpack(end64)
        at = locator - (n_record + 12)
        if n_disks > 1:
            disk = 1
    if disk or first_disk:
        raise UnsupportedError("ZIP archives of several disks are not supported")
    return at, n_entries, n_bytes, start


def _parse_entries(table: bytes) -> list[ZipInfo]:
    """Return the entries of a central directory; names that aren't UTF-8 have one character for each byte."""
    n = len(table)
    end64 = _END64.pack(b"PK\x06\x06", _END64.size - 12, 45, 45, 0, 0, 0, 0, n, 0)
    locator = _LOCATOR.pack(b"PK\x06\x07", 0, n, 1)
    end = _END.pack(b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    try:
        with ZipFile(BytesIO(table + end64 + locator + end), metadata_encoding="latin-1") as archive:
            return archive.infolist()
    except (BadZipFile, UnicodeDecodeError) as e:
        raise DataCorruptionError(f"Failed to read ZIP central directory: {e}") from e
    except NotImplementedError as e:
        raise UnsupportedError(f"Failed to read ZIP central directory: {e}") from e


def _member(entry: ZipInfo, front: int) -> tuple[str, Member]:
    raw = entry.orig_filename.encode("utf-8" if entry.flag_bits & _UTF8 else "latin-1")
    name = decode_key(raw)
    if b"\0" in raw or any(part in ("", "..") for part in name.removesuffix("/").split("/")):
        raise DataCorruptionError(
            f"Invalid ZIP member name: {dump(name)}: expected a relative path without empty components, "
            '".." or NUL'
        )
    return name, Member(
        entry.header_offset + front,
        _LOCAL.size + len(raw) + len(entry.extra),
        entry.compress_size,
        entry.file_size,
        entry.compress_type,
        entry.CRC,
        bool(entry.flag_bits & _ENCRYPTED),
    )


def read_member(
    member: Member,
    start: int,
    stop: int | None,
    get: Get,
    positions: dict[int, int],
    slots: Slots | None = None,
) -> Buffer:
    """Return a part of a member; whole members are compared with their checksum."""
    # The result may be memory of `get`.  `positions` maps the position of a member's header to that of its
    # data, and is added to.  One of `slots` is held while a member is decompressed.
    if member.encrypted:
        raise UnsupportedError("ZIP encryption is not supported")
    begin, end = resolve_range(start, stop, member.nbytes)
    if member.method == STORED and end - begin < member.nbytes:
        if member.header not in positions:
            header = get(member.header, member.header + _LOCAL.size)
            positions[member.header] = member.header + _data_start(header)
        first = positions[member.header]
        return get(first + begin, first + end)
    check_size(member.nbytes, "the ZIP member", start, stop)  # which the archive may claim falsely
    arguments = member.method, stored_bytes(member, get), member.nbytes
    value = decode(*arguments) if slots is None else slots.call(decode, *arguments)
    if len(value) != member.nbytes or zlib.crc32(value) != member.crc:
        raise DataCorruptionError(
            f"ZIP member has {len(value)} bytes with CRC-32 {zlib.crc32(value):08x}, "
            f"expected {member.nbytes} bytes with {member.crc:08x}"
        )
    return value[begin:end]


def stored_bytes(member: Member, get: Get) -> memoryview:
    """Return the bytes of a member as they are in the archive; they may be memory of `get`."""
    data = memoryview(get(member.header, member.header + member.n_header + member.stored_nbytes + _SLACK))
    first = _data_start(data)
    if first + member.stored_nbytes <= len(data):
        return data[first : first + member.stored_nbytes]
    first += member.header
    return memoryview(get(first, first + member.stored_nbytes))


def _data_start(header: Buffer) -> int:
    """Return the distance in bytes from a local header to the data of its member."""
    if len(header) < _LOCAL.size or header[:4] != b"PK\x03\x04":
        raise MisplacedError("no ZIP local header where the central directory says")
    *_, n_name, n_extra = _LOCAL.unpack_from(header)
    return _LOCAL.size + int(n_name) + int(n_extra)
