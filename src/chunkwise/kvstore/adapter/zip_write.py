"""Writing a ZIP archive: members one after the other, then the table of contents.

Specification
-------------
APPNOTE 6.3.10: 4.3.7 local file header, 4.3.12 central directory, 4.3.14 to 4.3.16 end records, 4.5.3
ZIP64 extra field.  Sizes are known before a member is written, so there are no data descriptors, and
ZIP64 fields are only where they are needed.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable
from struct import pack
from typing import IO, Literal, NamedTuple, TypeAlias

from chunkwise.binding import dump
from chunkwise.errors import AbortedError, InvalidArgumentError
from chunkwise.kvstore.adapter.zip_method import method_named
from chunkwise.kvstore.key_range import encode_key
from chunkwise.kvstore.protocol import Buffer, Writable

__all__ = ["ArchiveWriter", "Compression", "check_member_name", "make_archive", "write_archive"]

Compression: TypeAlias = Literal["deflate", "store", "zstd", "xz"]

_EPOCH = 0, 1 << 5 | 1  # midnight of 1 January 1980
_UTF8 = 1 << 11
_UNIX = 3 << 8
_MODE = 0o100644 << 16
_MOST16, _MOST32 = 0xFFFF, 0xFFFFFFFF
_ZIP64_VERSION = 45


class _Entry(NamedTuple):
    name: bytes
    version: int
    flags: int
    method: int
    crc: int
    stored_nbytes: int
    nbytes: int
    header: int


class ArchiveWriter:
    """Writes an archive to a file, from its position on, which counts as the begin.

    Parameters
    ----------
    file : binary file
        Need not be seekable.
    compression : {"store", "deflate", "zstd", "xz"}

    Notes
    -----
    Members are dated 1980-01-01, so the same members in the same order are the same bytes.
    """

    def __init__(self, file: IO[bytes], *, compression: Compression = "store") -> None:
        self._file = file
        self._method = method_named(compression)
        self._entries: list[_Entry] = []
        self._names: set[str] = set()
        self._position = 0

    def add(self, name: str, value: Buffer) -> None:
        """Write a member.

        Raises
        ------
        InvalidArgumentError
            For a name that is there already, or one that a reader would refuse or see changed.
        """
        check_member_name(name)
        if name in self._names:
            raise InvalidArgumentError(f"Invalid ZIP member name: {dump(name)}: it is there twice")
        self._names.add(name)
        raw = name.encode()
        data = memoryview(self._method.encode(value))
        n_stored, n = data.nbytes, memoryview(value).nbytes
        large = max(n_stored, n) >= _MOST32
        version = max(self._method.version, _ZIP64_VERSION if large else 0)
        flags = 0 if name.isascii() else _UTF8
        entry = _Entry(
            raw, version, flags, self._method.number, zlib.crc32(value), n_stored, n, self._position
        )
        extra = pack("<2H2Q", 1, 16, n, n_stored) if large else b""
        self._write(_local_header(entry, extra))
        self._write(data)
        self._entries.append(entry)

    def finish(self) -> int:
        """Write the table of contents and return the size of the archive in bytes."""
        start = self._position
        for entry in self._entries:
            self._write(_directory_entry(entry))
        n_bytes, n = self._position - start, len(self._entries)
        if n >= _MOST16 or n_bytes >= _MOST32 or start >= _MOST32:
            at = self._position
            version = _ZIP64_VERSION
            self._write(
                pack("<4sQ2H2L4Q", b"PK\6\6", 44, _UNIX | version, version, 0, 0, n, n, n_bytes, start)
            )
            self._write(pack("<4sLQL", b"PK\6\7", 0, at, 1))
        count = min(n, _MOST16)
        end = count, count, min(n_bytes, _MOST32), min(start, _MOST32)
        self._write(pack("<4s4H2LH", b"PK\5\6", 0, 0, *end, 0))
        return self._position

    def _write(self, data: Buffer) -> None:
        self._file.write(data)
        self._position += memoryview(data).nbytes


def _local_header(e: _Entry, extra: bytes) -> bytes:
    sizes = (_MOST32, _MOST32) if extra else (e.stored_nbytes, e.nbytes)
    fixed = pack(
        "<4s5H3L2H", b"PK\3\4", e.version, e.flags, e.method, *_EPOCH, e.crc, *sizes, len(e.name), len(extra)
    )
    return fixed + e.name + extra


def _directory_entry(e: _Entry) -> bytes:
    large = [value for value in (e.nbytes, e.stored_nbytes, e.header) if value >= _MOST32]
    extra = pack(f"<2H{len(large)}Q", 1, 8 * len(large), *large) if large else b""
    version = max(e.version, _ZIP64_VERSION if large else 0)
    fixed = pack(
        "<4s6H3L5H2L",
        b"PK\1\2",
        *(_UNIX | version, version, e.flags, e.method, *_EPOCH, e.crc),
        *(min(e.stored_nbytes, _MOST32), min(e.nbytes, _MOST32)),
        *(len(e.name), len(extra), 0, 0, 0, _MODE, min(e.header, _MOST32)),
    )
    return fixed + e.name + extra


def write_archive(
    base: Writable,
    key: str,
    items: Iterable[tuple[str, Buffer]],
    *,
    compression: Compression = "store",
) -> bytes:
    """Write a ZIP archive of `items` as the value `key` of `base`; return its generation.

    Parameters
    ----------
    base : Writable
        Where it is written, as one value: all of it is in memory once.
    key : str
        Its key.
    items : iterable of (str, bytes-like)
        Names and values.
    compression : {"store", "deflate", "zstd", "xz"}

    Raises
    ------
    InvalidArgumentError
        For a name twice, or one that a reader would refuse or see changed.
    """
    generation = base.write(key, make_archive(items, compression=compression))
    if generation is None:
        raise AbortedError(f"Error writing {dump(key)}: an unconditional write was refused")
    return generation


def make_archive(items: Iterable[tuple[str, Buffer]], *, compression: Compression = "store") -> memoryview:
    """Return a ZIP archive of `items`, sorted by name."""
    memory = io.BytesIO()
    archive = ArchiveWriter(memory, compression=compression)
    for name, value in sorted(items, key=lambda item: encode_key(item[0])):
        archive.add(name, value)
    archive.finish()
    return memory.getbuffer()


def check_member_name(name: str) -> None:
    """Raise for a name that a reader would refuse or see changed.

    Raises
    ------
    InvalidArgumentError
        If a component of it is empty or "..", or it has NUL, is too long, or is not UTF-8.
    """
    parts = name.split("/")
    if "\0" in name or "" in parts or ".." in parts or not _is_utf8(name) or len(name.encode()) > _MOST16:
        raise InvalidArgumentError(
            f"Invalid ZIP member name: {dump(name)}: expected a relative path in UTF-8 of at most {_MOST16} "
            'bytes, without empty components, ".." or NUL'
        )


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
