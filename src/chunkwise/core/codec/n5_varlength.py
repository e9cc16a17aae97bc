"""Single N5 blocks of any mode: variable-length elements, strings and opaque objects.

Such blocks don't form a dense array of numbers, so they are read and written block by block, by functions on
bytes.  The functions are:

==========================  ====================  ==========================
content                     data type             functions
==========================  ====================  ==========================
any number of elements      the ten numeric ones  `decode_elements`, `encode_elements`
strings                     ``string``            `decode_strings`, `encode_strings`
opaque bytes                ``object`` or any     `decode_object`, `encode_object`
label multisets             ``uint8``             `chunkwise.core.codec.n5_label_multiset`
==========================  ====================  ==========================

Specification: N5 README, "File-system specification", item 9; n5-java 4 for ``string`` and ``object``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.size_bound import text_bound
from chunkwise.core.codec.n5_parts import (
    DEFAULT,
    OBJECT,
    VARLENGTH,
    N5Header,
    check_payload_size,
    open_compress,
    open_decompress,
    parse_header,
    write_header,
)
from chunkwise.core.codec.protocol import Buffer, BytesToBytes, byte_view
from chunkwise.errors import CodecError, DataCorruptionError, TooLargeError

__all__ = [
    "N5BlockData",
    "decode_elements",
    "decode_object",
    "decode_strings",
    "encode_elements",
    "encode_object",
    "encode_strings",
    "parse_block",
    "write_block",
]


class N5BlockData(NamedTuple):
    """One block, decompressed but not interpreted."""

    mode: int  # 0 (default), 1 (varlength) or 2 (object)
    dims: tuple[int, ...]  # shape of the block's region, in elements, N5 order; empty in mode 2
    # From the header: the number of elements in modes 0 and 1 (bytes for strings in mode 1), of bytes in mode
    # 2.
    n_elements: int
    payload: Buffer  # big-endian elements, or whatever the data type means


def parse_block(
    block: Buffer, compression: tuple[BytesToBytes, ...] = (), *, itemsize: int | None = None
) -> N5BlockData:
    """Read a block of any mode; with `itemsize`, one of a size that `write_block` refuses gets no memory."""
    view = byte_view(block)
    header = parse_header(view)
    payload = view[header.nbytes :]
    want = None if itemsize is None else header.n_elements * (1 if header.mode == OBJECT else itemsize)
    if want is not None and want > _most(len(view)):
        raise DataCorruptionError(f"N5 block of {len(view)} bytes promises {want} bytes")
    if not compression:
        if want is not None:
            check_payload_size(len(payload), want)
        return N5BlockData(header.mode, header.dims, header.n_elements, payload)
    return N5BlockData(
        header.mode, header.dims, header.n_elements, open_decompress(compression, want)(payload)
    )


def write_block(data: N5BlockData, compression: tuple[BytesToBytes, ...] = ()) -> bytes:
    """Return the stored value of a block; inverse of `parse_block`."""
    element_count = None if data.mode == DEFAULT else data.n_elements
    header = write_header(data.mode, data.dims, element_count)
    block = b"".join((header, open_compress(compression)(data.payload)))
    if len(data.payload) > _most(len(block)):
        raise TooLargeError(
            f"an N5 block of {len(data.payload)} bytes that compresses to {len(block)} would not be read "
            "again: make blocks smaller"
        )
    return block


def _most(stored: int) -> int:
    """Return the largest payload that is believed of a block of `stored` bytes."""
    # Zstandard takes four bytes for 128 KiB of one value; bzip2 may take fewer.
    return max(text_bound(stored).nbytes, stored << 15)


def decode_elements(data: N5BlockData, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return the elements of a block as a 1-D array in stored order, first dimension fastest."""
    native = np.dtype(dtype).newbyteorder("=")
    if data.mode == OBJECT:
        raise DataCorruptionError(f"Unexpected N5 chunk mode: {OBJECT}")
    check_payload_size(len(data.payload), data.n_elements * native.itemsize)
    return np.frombuffer(data.payload, native.newbyteorder(">")).astype(native)


def encode_elements(elements: npt.ArrayLike, dims: Sequence[int], dtype: npt.DTypeLike) -> N5BlockData:
    """Return a block of `elements`, given in stored order; mode 0 if they fill `dims`, else mode 1."""
    array = np.asarray(elements)
    n_elements = array.size
    full = n_elements == N5Header(DEFAULT, tuple(dims), None, 0).n_elements
    payload = np.ascontiguousarray(array, np.dtype(dtype).newbyteorder(">")).tobytes()
    return N5BlockData(DEFAULT if full else VARLENGTH, tuple(dims), n_elements, payload)


def decode_strings(data: N5BlockData) -> list[str]:
    """Return the strings of a block of data type ``string``, first dimension fastest."""
    # One NUL follows every string.  The number of strings is the number of cells, since the header doesn't
    # tell: n5-java 3 may write mode 0, n5-java 4 always writes mode 1 with the number of bytes.  Missing
    # strings are empty.
    if data.mode == OBJECT:
        raise DataCorruptionError(f"Unexpected N5 chunk mode: {OBJECT}")
    try:
        strings = bytes(data.payload).decode().split("\0")
    except UnicodeDecodeError as e:
        raise DataCorruptionError(f"N5 string block is not UTF-8: {e}") from e
    if strings[-1] == "":
        del strings[-1]
    n_cells = N5Header(DEFAULT, data.dims, None, 0).n_elements
    if len(strings) > n_cells:
        raise DataCorruptionError(
            f"N5 string block of size {list(data.dims)} has {len(strings)} strings, expected {n_cells}"
        )
    n_missing = n_cells - len(strings)
    if n_missing > max(len(data.payload), 1 << 20):
        raise DataCorruptionError(
            f"N5 string block of size {list(data.dims)} has {len(strings)} strings only"
        )
    return strings + [""] * n_missing


def encode_strings(strings: Sequence[str], dims: Sequence[int]) -> N5BlockData:
    """Return a block of `strings`, given first dimension fastest, in mode 1 as n5-java 4 does."""
    n_cells = N5Header(DEFAULT, tuple(dims), None, 0).n_elements
    if len(strings) != n_cells:
        raise CodecError(f"N5 string block of size {list(dims)} needs {n_cells} strings, not {len(strings)}")
    if any("\0" in text for text in strings):
        raise CodecError("N5 strings can't hold the character NUL")
    payload = "".join(text + "\0" for text in strings).encode()
    return N5BlockData(VARLENGTH, tuple(dims), len(payload), payload)


def decode_object(data: N5BlockData) -> bytes:
    """Return the opaque bytes of a mode 2 block; n5-java writes Java-serialised objects."""
    if data.mode != OBJECT:
        raise DataCorruptionError(f"Unexpected N5 chunk mode: {data.mode}; expected {OBJECT}")
    check_payload_size(len(data.payload), data.n_elements)
    return bytes(data.payload)


def encode_object(payload: Buffer) -> N5BlockData:
    """Return a mode 2 block of opaque bytes."""
    raw = bytes(payload)
    return N5BlockData(OBJECT, (), len(raw), raw)
