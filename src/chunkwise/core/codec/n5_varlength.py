"""N5 blocks of variable length: opaque objects, label multisets, and strings as chunks of an array of text.

Such blocks don't form a dense array of numbers, so they are read and written block by block, by functions on
bytes.  The functions are:

==========================  ====================  ==========================
content                     data type             functions
==========================  ====================  ==========================
any number of elements      the ten numeric ones  `decode_elements`, `encode_elements`
strings                     ``string``            `decode_strings`, `encode_strings`
opaque bytes                ``object`` or any     `decode_object`, `encode_object`
label multisets             ``uint8``             `decode_label_multiset`, `encode_label_multiset`
==========================  ====================  ==========================

Specification: N5 README, "File-system specification", item 9; n5-java 4 for ``string`` and ``object``.

Paintera stores downsampled segmentations as label multisets: a dataset of type ``uint8`` with
``isLabelMultiset: true``, and blocks in mode 1.  Layout of the decompressed payload, for N cells:

==============  ===================  =====================================================
field           type                 meaning
==============  ===================  =====================================================
argMaxSize      int32 BE             number of the following ids; 0 in current writers
argMax          int64 BE each        the most frequent id of each cell; redundant
offset          int32 BE each, N     where the cell's list starts in the list data, in bytes
list data       lists                int32 LE count, then count times int64 LE id, int32 LE n
==============  ===================  =====================================================

Specification: imglib2-label-multisets, ``LabelUtils.serializeLabelMultisetTypes``.

Specification
-------------
n5-java 4 (not in the N5 README): every string in UTF-8, followed by one NUL, first dimension fastest;
block mode 1 with the number of bytes.  `N5StringBlock` has such blocks as chunks of an array of text.

Names
-----
Not written in any metadata document.

Configuration
-------------
>>> N5StringBlock.parse("n5", "n5_string_block", {"compression": {"type": "raw"}}).to_json("n5")
{'compression': {'type': 'raw'}}

Compatibility
-------------
n5-java loses trailing empty strings of a block in reading; they are kept here.  Strings with NUL can't be
stored.  The number of bytes in the header must be right, and at most 32768 times the stored size, or 64 MiB
if that is more; other blocks are not written.  A block may be up to 4 times as large as its grid cell, or
have 4096 strings.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.limits import text_bound
from chunkwise.core.codec.n5_parts import (
    DEFAULT,
    OBJECT,
    VARLENGTH,
    CompressedBlock,
    N5Header,
    check_payload_size,
    open_compress,
    open_decompress,
    parse_header,
    write_header,
)
from chunkwise.core.codec.protocol import Buffer, BytesToBytes, ChunkSpec, DecodeInto, Encode, byte_view
from chunkwise.errors import CodecError, DataCorruptionError, TooLargeError

__all__ = [
    "BACKGROUND",
    "N5BlockData",
    "N5StringBlock",
    "decode_elements",
    "decode_label_multiset",
    "decode_object",
    "decode_strings",
    "encode_elements",
    "encode_label_multiset",
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
    try:
        payload = "".join(text + "\0" for text in strings).encode()
    except UnicodeEncodeError as e:
        raise CodecError(f"N5 strings are UTF-8: {e}") from None
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


Multiset: TypeAlias = tuple[tuple[int, int], ...]
"""Entries ``(id, count)`` of one cell; ids are unsigned 64-bit numbers."""

BACKGROUND = 0

_ENTRY = np.dtype([("id", "<u8"), ("count", "<i4")])


def decode_label_multiset(data: N5BlockData, cells: Sequence[int]) -> list[Multiset]:
    """Return the multiset of each cell, first dimension fastest; equal lists may be the same object."""
    payload = byte_view(data.payload)
    n_cells = 1
    for size in cells:
        n_cells *= size
    if len(payload) < 4:
        raise DataCorruptionError(f"label multiset block has {len(payload)} bytes, expected at least 4")
    n_argmax = int.from_bytes(payload[:4], "big", signed=True)
    lists = 4 + 8 * n_argmax + 4 * n_cells
    if n_argmax < 0 or len(payload) < lists:
        raise DataCorruptionError(
            f"label multiset block of {n_cells} cells has {len(payload)} bytes, expected at least {lists}"
        )
    offsets = np.frombuffer(payload, ">i4", n_cells, 4 + 8 * n_argmax)
    found: dict[int, Multiset] = {}
    for offset in np.unique(offsets).tolist():
        found[offset] = _decode_list(payload, lists, offset)
    return [found[offset] for offset in offsets.tolist()]


def _decode_list(payload: memoryview, lists: int, offset: int) -> Multiset:
    start = lists + offset
    if offset < 0 or start + 4 > len(payload):
        raise DataCorruptionError(f"label multiset list at offset {offset} is outside its block")
    n_entries = int.from_bytes(payload[start : start + 4], "little", signed=True)
    if n_entries < 0 or start + 4 + _ENTRY.itemsize * n_entries > len(payload):
        raise DataCorruptionError(f"label multiset list at offset {offset} has a bad length: {n_entries}")
    entries = np.frombuffer(payload, _ENTRY, n_entries, start + 4)
    return tuple(zip(entries["id"].tolist(), entries["count"].tolist(), strict=True))


def encode_label_multiset(multisets: Sequence[Multiset], dims: Sequence[int]) -> N5BlockData:
    """Return a block of `multisets`, one for each cell of `dims`, first dimension fastest."""
    # Equal multisets share a list.
    n_cells = 1
    for size in dims:
        n_cells *= size
    if len(multisets) != n_cells:
        raise CodecError(f"label multiset block needs {n_cells} multisets, not {len(multisets)}")
    offsets: dict[Multiset, int] = {}
    parts: list[bytes] = []
    end = 0
    for multiset in multisets:
        if multiset in offsets:
            continue
        offsets[multiset] = end
        try:
            part = struct.pack("<i", len(multiset)) + b"".join(struct.pack("<Qi", *e) for e in multiset)
        except struct.error as e:
            raise CodecError(f"label multiset {multiset}: {e}") from e
        parts.append(part)
        end += len(part)
    index = np.array([0, *(offsets[multiset] for multiset in multisets)], ">i4")
    payload = index.tobytes() + b"".join(parts)
    return N5BlockData(VARLENGTH, tuple(dims), len(payload), payload)


_OVERSIZE = 4
_UNSUSPICIOUS_CELLS = 1 << 12


@dataclass(frozen=True, slots=True)
class N5StringBlock(CompressedBlock):
    """Array to bytes: N5 blocks of strings."""

    name: ClassVar[str] = "n5_string_block"

    def bind(self, item: ChunkSpec) -> Self:
        """Bind the compressors; raise for elements other than text."""
        if item.dtype != np.dtype(object):
            raise CodecError(f"N5 string blocks hold text, not elements of data type {item.dtype}")
        return self.bind_compression(item)

    def open_decoder(self, item: ChunkSpec) -> DecodeInto:
        """Return a decoder; a block of another size is cut to its cell, as with numbers."""
        shape = item.shape

        def decode(buffer: Buffer, out: np.ndarray) -> None:
            dims = parse_header(buffer).dims
            if len(dims) != len(shape):
                raise DataCorruptionError(
                    f"Received chunk with {len(dims)} dimensions but expected {len(shape)}"
                )
            if prod(dims) > max(_OVERSIZE * prod(shape), _UNSUSPICIOUS_CELLS):
                raise DataCorruptionError(
                    f"Received chunk of size {list(dims)} larger than blockSize {list(shape)} by too much"
                )
            data = parse_block(buffer, self.compression, itemsize=1)
            strings = decode_strings(data)
            line = np.empty(len(strings), object)
            line[:] = strings
            block = line.reshape(data.dims[::-1]).T
            inside = tuple(slice(0, min(n, size)) for n, size in zip(data.dims, shape, strict=True))
            out[...] = ""
            out[inside] = block[inside]

        return decode

    def open_encoder(self, item: ChunkSpec) -> Encode:
        """Return an encoder for whole blocks."""

        def encode(array: np.ndarray) -> Buffer:
            strings = array.T.ravel().tolist()
            for text in strings:
                if not isinstance(text, str):
                    raise CodecError(f"N5 string blocks hold text, not {type(text).__name__}")
            return write_block(encode_strings(strings, item.shape), self.compression)

        return encode
