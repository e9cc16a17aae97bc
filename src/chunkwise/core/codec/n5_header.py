"""The header of an N5 block: it precedes the payload, big-endian and never compressed.

========  =====  ==================================================
mode      value  layout
========  =====  ==================================================
default   0      ``u16 mode, u16 rank, u32 dims[rank]``
varlength 1      ``u16 mode, u16 rank, u32 dims[rank], u32 count``
object    2      ``u16 mode, u32 count``: no rank, no dims
========  =====  ==================================================

Specification: N5 README, "File-system specification", item 9.  The README lists mode 2 with dimensions, but
n5-java reads and writes the short form.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from chunkwise.core.codec.protocol import Buffer, byte_view
from chunkwise.errors import CodecError, DataCorruptionError

__all__ = ["DEFAULT", "OBJECT", "VARLENGTH", "N5Header", "parse_header", "write_header"]

DEFAULT = 0
VARLENGTH = 1
OBJECT = 2

_U32_MAX = 2**32 - 1


class N5Header(NamedTuple):
    """Header of one block."""

    mode: int  # 0, 1 or 2
    dims: tuple[int, ...]  # size of the block in elements, first dimension fastest; empty in mode 2
    # Number of elements before compression; None in mode 0, for the product of `dims`.
    element_count: int | None
    nbytes: int  # size of the header itself

    @property
    def n_elements(self) -> int:
        """Number of elements in the decoded payload."""
        if self.element_count is not None:
            return self.element_count
        n = 1
        for size in self.dims:
            n *= size
        return n


def parse_header(block: Buffer) -> N5Header:
    """Read the header at the start of `block`."""
    view = byte_view(block)
    if len(view) < 4:
        raise DataCorruptionError(f"Expected N5 header of at least 4 bytes, but chunk has size {len(view)}")
    mode, rank = struct.unpack_from(">HH", view)
    if mode == OBJECT:
        if len(view) < 6:
            raise DataCorruptionError(f"Expected header of length 6, but chunk has size {len(view)}")
        return N5Header(OBJECT, (), struct.unpack_from(">I", view, 2)[0], 6)
    if mode not in (DEFAULT, VARLENGTH):
        raise DataCorruptionError(f"Unexpected N5 chunk mode: {mode}")
    nbytes = 4 + 4 * rank + (4 if mode == VARLENGTH else 0)
    if len(view) < nbytes:
        raise DataCorruptionError(f"Expected header of length {nbytes}, but chunk has size {len(view)}")
    dims = struct.unpack_from(f">{rank}I", view, 4)
    count = struct.unpack_from(">I", view, nbytes - 4)[0] if mode == VARLENGTH else None
    return N5Header(mode, dims, count, nbytes)


def write_header(mode: int, dims: Sequence[int] = (), element_count: int | None = None) -> bytes:
    """Return the bytes of a header."""
    if len(dims) > 2**16 - 1 or any(not 0 <= size <= _U32_MAX for size in dims):
        raise CodecError(f"N5 block dimensions {list(dims)} do not fit 32-bit header fields")
    if mode != DEFAULT and (element_count is None or not 0 <= element_count <= _U32_MAX):
        raise CodecError(f"N5 block element count {element_count} does not fit a 32-bit header field")
    if mode == OBJECT:
        return struct.pack(">HI", OBJECT, element_count)
    header = struct.pack(f">HH{len(dims)}I", mode, len(dims), *dims)
    return header + struct.pack(">I", element_count) if mode == VARLENGTH else header
