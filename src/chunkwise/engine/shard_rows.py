"""Decoding a shard that is in memory by rows of neighbouring inner chunks.

A shard whose inner chunks were written in order has those of a row one after the other, too.  A codec that
can decode several with one call is called once for the row: threads then pass the GIL once, not for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.codec.decode import Packed
from chunkwise.engine.runs import Row
from chunkwise.engine.shard_index import MISSING

__all__ = ["decode_rows"]


def decode_rows(
    rows: Iterable[Row],
    packed: Packed,
    shard: memoryview,
    index: npt.NDArray[np.uint64],
    missing: Callable[[Any, int], None],
) -> Iterator[int]:
    """Decode inner chunks; yield the number of the one that comes next.

    Parameters
    ----------
    rows : iterable of Row
        Memory for all of them.
    packed : Packed
        How one is decoded; with `fill`.
    shard : memoryview
        The encoded shard.
    index : ndarray, shape (n, 2)
        Offset and length of each, in the order of the rows; all lie in the shard.
    missing : callable
        ``missing(chunk, number)`` fills a chunk that is not stored, or raises.
    """
    fill, fill_row = packed.fill, packed.fill_row
    assert fill is not None, "the codecs were asked"
    offsets, lengths = index[:, 0].tolist(), index[:, 1].tolist()
    joined = (index[:-1].sum(axis=1) == index[1:, 0]).tolist()  # a missing one's sum is no offset
    number = 0
    for row in rows:
        n = len(row.chunks)
        last = number + n - 1
        if fill_row is not None and n > 1 and all(joined[number:last]):
            yield number
            encoded = shard[offsets[number] : offsets[last] + lengths[last]]
            if fill_row(encoded, lengths[number : last + 1], row.memory):
                number += n
                continue
        for chunk, buffer in zip(row.chunks, row.buffers, strict=True):
            yield number
            offset = offsets[number]
            if offset == MISSING:
                missing(chunk, number)
            else:
                fill(shard[offset : offset + lengths[number]], buffer)
            number += 1
