"""Label multisets: a variable-length N5 block with a list of label ids and their counts for each cell.

Paintera stores downsampled segmentations in this form: a dataset of type ``uint8`` with ``isLabelMultiset:
true``, and blocks in mode 1.  Layout of the decompressed payload, for N cells:

==============  ===================  =====================================================
field           type                 meaning
==============  ===================  =====================================================
argMaxSize      int32 BE             number of the following ids; 0 in current writers
argMax          int64 BE each        the most frequent id of each cell; redundant
offset          int32 BE each, N     where the cell's list starts in the list data, in bytes
list data       lists                int32 LE count, then count times int64 LE id, int32 LE n
==============  ===================  =====================================================

Specification: imglib2-label-multisets, ``LabelUtils.serializeLabelMultisetTypes``.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from chunkwise.core.codec.n5_parts import VARLENGTH
from chunkwise.core.codec.n5_varlength import N5BlockData
from chunkwise.core.codec.protocol import byte_view
from chunkwise.errors import CodecError, DataCorruptionError

__all__ = [
    "BACKGROUND",
    "Multiset",
    "decode_label_multiset",
    "encode_label_multiset",
]

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
