"""Reading one member of a ZIP archive: as a rule, with one request for its header and data together.

The local header may be longer than the central directory lets expect, by another extra field.  What
follows the data of any member is at least one entry of the directory and the end record, so asking for
`_SLACK` bytes too many never goes beyond the archive, and mostly makes up for that.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TypeAlias

from chunkwise.errors import DataCorruptionError, UnsupportedError
from chunkwise.kvstore.adapter.zip_directory import LOCAL_HEADER, Member, data_start
from chunkwise.kvstore.adapter.zip_method import STORED, decode
from chunkwise.kvstore.byte_range import resolve_range
from chunkwise.kvstore.protocol import Buffer

__all__ = ["Get", "read_member"]

Get: TypeAlias = Callable[[int, int], Buffer]
"""``get(start, stop)``: bytes of the archive, valid until the next call."""

_SLACK = 64


def read_member(member: Member, start: int, stop: int | None, get: Get, positions: dict[int, int]) -> Buffer:
    """Return a part of a member; the whole is compared with its checksum.

    Parameters
    ----------
    member : Member
        Which one.
    start, stop : int, optional
        The part, as :func:`~chunkwise.kvstore.byte_range.resolve_range` takes it.
    get : callable
        Reads the archive.  What is returned here may be its memory.
    positions : dict
        Where the data of members begin, by the position of their header; is added to.

    Raises
    ------
    DataCorruptionError
        If size or checksum are not what the directory says.
    UnsupportedError
        If the member is encrypted, or compressed in a way that is not known.
    """
    if member.encrypted:
        raise UnsupportedError("ZIP encryption is not supported")
    begin, end = resolve_range(start, stop, member.nbytes)
    if member.method == STORED and end - begin < member.nbytes:
        if member.header not in positions:
            header = get(member.header, member.header + LOCAL_HEADER)
            positions[member.header] = member.header + data_start(header)
        first = positions[member.header]
        return get(first + begin, first + end)
    value = decode(member.method, _stored_bytes(member, get), member.nbytes)
    if len(value) != member.nbytes or zlib.crc32(value) != member.crc:
        raise DataCorruptionError(
            f"ZIP member has {len(value)} bytes with CRC-32 {zlib.crc32(value):08x}, "
            f"expected {member.nbytes} bytes with {member.crc:08x}"
        )
    return value[begin:end]


def _stored_bytes(member: Member, get: Get) -> memoryview:
    data = memoryview(get(member.header, member.header + member.n_header + member.stored_nbytes + _SLACK))
    first = data_start(data)
    if first + member.stored_nbytes <= len(data):
        return data[first : first + member.stored_nbytes]
    first += member.header
    return memoryview(get(first, first + member.stored_nbytes))
