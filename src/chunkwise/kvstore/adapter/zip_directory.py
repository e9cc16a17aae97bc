"""The table of contents of a ZIP archive: where each member is, from as few bytes as possible.

Specification
-------------
APPNOTE 6.3.10: 4.3.7 local file header, 4.3.12 central directory, 4.3.14 and 4.3.15 the ZIP64 end
records, 4.3.16 end of central directory, 4.5.3 ZIP64 extra field.  Archives over several disks and
archives with something in front of them are not supported.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from chunkwise.binding import dump
from chunkwise.errors import DataCorruptionError, UnsupportedError
from chunkwise.kvstore.key_range import decode_key
from chunkwise.kvstore.protocol import Buffer

__all__ = ["LOCAL_HEADER", "TAIL_SIZE", "Member", "data_start", "parse_directory"]

_END = Struct("<4s4H2LH")
_LOCATOR = Struct("<4sLQL")
_END64 = Struct("<4sQ2H2L4Q")
_ENTRY = Struct("<4s6H3L5H2L")
_LOCAL = Struct("<4s5H3L2H")
_FIELD = Struct("<2H")

LOCAL_HEADER = _LOCAL.size
"""Bytes of a local header before the name."""

TAIL_SIZE = _END.size + 0xFFFF + _LOCATOR.size + _END64.size
"""Bytes at the end of any archive that surely hold its end records."""


class Member(NamedTuple):
    """One file in the archive.

    Attributes
    ----------
    header : int
        Where its local header is, in bytes from the begin of the archive.
    n_header : int
        Likely size of that header in bytes; it may have another extra field than the directory.
    stored_nbytes, nbytes : int
        Its size in the archive, and decoded.
    method : int
        How it is compressed; see :mod:`chunkwise.kvstore.adapter.zip_method`.
    crc : int
        CRC-32 of the decoded bytes.
    encrypted : bool
        Whether it needs a password.
    """

    header: int
    n_header: int
    stored_nbytes: int
    nbytes: int
    method: int
    crc: int
    encrypted: bool


def parse_directory(tail: bytes, fetch: Callable[[int, int], Buffer]) -> dict[str, Member]:
    """Return the members by name, directories left out; of two with one name the later.

    Parameters
    ----------
    tail : bytes
        The last `TAIL_SIZE` bytes of the archive, or all of it.
    fetch : callable
        ``fetch(start, stop)`` returns other bytes of the archive.

    Raises
    ------
    DataCorruptionError
        If this is no archive, is damaged, or has a name that would lead out of a directory.
    """
    at, n_entries, n_bytes, start = _find_end(tail, fetch)
    if n_bytes <= at:
        table = tail[at - n_bytes : at]
    else:
        table = bytes(fetch(start, start + n_bytes))
    members: dict[str, Member] = {}
    position = 0
    for _ in range(n_entries):
        if table[position : position + 4] != b"PK\x01\x02" or position + _ENTRY.size > len(table):
            raise DataCorruptionError(
                f"Failed to read ZIP central directory: no entry at byte {position} of it"
            )
        name, member, position = _parse_entry(table, position)
        if not name.endswith("/"):
            members[name] = member
    return members


def _find_end(tail: bytes, fetch: Callable[[int, int], Buffer]) -> tuple[int, int, int, int]:
    """Return where in `tail` the directory ends, its number of entries, its size and its position."""
    at = len(tail)
    while True:
        at = tail.rfind(b"PK\x05\x06", 0, at)
        if at < 0:
            raise DataCorruptionError("Failed to find valid ZIP EOCD: no ZIP archive, or one that is cut off")
        if at + _END.size <= len(tail):
            _, disk, first_disk, _, n_entries, n_bytes, start, n_comment = _END.unpack_from(tail, at)
            if at + _END.size + n_comment == len(tail):  # not the same bytes by chance in a comment
                break
    locator = at - _LOCATOR.size
    if locator >= 0 and tail[locator : locator + 4] == b"PK\x06\x07":
        _, disk, where, n_disks = _LOCATOR.unpack_from(tail, locator)
        end64 = tail[locator - _END64.size : locator] if locator >= _END64.size else b""
        if end64[:4] != b"PK\x06\x06":  # it may be longer, or lie before the tail
            end64 = bytes(fetch(where, where + _END64.size))
        if end64[:4] != b"PK\x06\x06":
            raise DataCorruptionError(f"Failed to read ZIP64 EOCD: none at byte {where}")
        _, n_record, _, _, disk, first_disk, _, n_entries, n_bytes, start = _END64.unpack(end64)
        at = locator - (n_record + 12)
        if n_disks > 1:
            disk = 1
    if disk or first_disk:
        raise UnsupportedError("ZIP archives of several disks are not supported")
    return at, n_entries, n_bytes, start


def _parse_entry(table: bytes, at: int) -> tuple[str, Member, int]:
    fields = _ENTRY.unpack_from(table, at)
    flags, method, crc, stored, nbytes, n_name, n_extra, n_comment = (
        fields[i] for i in (3, 4, 7, 8, 9, 10, 11, 12)
    )
    header = fields[-1]
    begin = at + _ENTRY.size
    raw = table[begin : begin + n_name]
    extra = table[begin + n_name : begin + n_name + n_extra]
    if 0xFFFFFFFF in (stored, nbytes, header):
        nbytes, stored, header = _zip64(extra, nbytes, stored, header)
    name = decode_key(raw)
    if b"\0" in raw or any(part in ("", "..") for part in name.removesuffix("/").split("/")):
        raise DataCorruptionError(
            f"Invalid ZIP member name: {dump(name)}: expected a relative path without empty components, "
            '".." or NUL'
        )
    member = Member(header, LOCAL_HEADER + n_name + n_extra, stored, nbytes, method, crc, bool(flags & 1))
    return name, member, begin + n_name + n_extra + n_comment


def _zip64(extra: bytes, *values: int) -> list[int]:
    """Return `values`, those of all ones replaced by what the ZIP64 extra field holds for them."""
    at = 0
    while at + 4 <= len(extra):
        kind, size = (
            int.from_bytes(extra[at : at + 2], "little"),
            int.from_bytes(extra[at + 2 : at + 4], "little"),
        )
        if kind == 1:
            field = extra[at + 4 : at + 4 + size]
            out = []
            for value in values:
                if value == 0xFFFFFFFF:
                    if len(field) < 8:
                        break
                    value, field = int.from_bytes(field[:8], "little"), field[8:]
                out.append(value)
            else:
                return out
        at += 4 + size
    raise DataCorruptionError("Failed to read ZIP central directory: no ZIP64 extra field, or too short")


def data_start(header: Buffer) -> int:
    """Return how many bytes after the begin of the local `header` the member's data begin.

    Raises
    ------
    DataCorruptionError
        If this is no local header.
    """
    if len(header) < LOCAL_HEADER or header[:4] != b"PK\x03\x04":
        raise DataCorruptionError("no ZIP local header where the central directory says")
    *_, n_name, n_extra = _LOCAL.unpack_from(header)
    return LOCAL_HEADER + int(n_name) + int(n_extra)
