"""Reading whole chunks to the rows of memory that they are copied from.

Small chunks are fetched some at a time, and then decoded.  A processor that goes from the system's code to
Python's to the codec's and back for each chunk finds its caches and branch predictors full of what the others
left there: apart, decoding 16³ chunks of uint16 takes two thirds of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, cast

from chunkwise.codec.decode import Packed
from chunkwise.codec.size import size_error
from chunkwise.execute.runs import TOGETHER, Row
from chunkwise.kvstore.protocol import Reader

__all__ = ["decoded_together", "read_rows"]


def decoded_together(some: Sequence[bytes | None], packed: Packed, memory: memoryview) -> bool:
    """Decode encoded chunks with one call if that can be done; return whether `memory` has been filled."""
    if packed.fill_row is None or len(some) < 2 or not all(some):
        return False
    lengths = list(map(len, cast("Sequence[bytes]", some)))
    return packed.fill_row(b"".join(cast("Sequence[bytes]", some)), lengths, memory)


def read_rows(
    rows: Iterable[Row],
    keys: Iterator[str],
    packed: Packed,
    fetch: Reader,
    fetch_into: Callable[[str, memoryview], int | None] | None,
    missing: Callable[[str, Any], None],
) -> Iterator[str]:
    """Read chunks; yield the key of each before something is done with it.

    Parameters
    ----------
    rows : iterable of Row
        Memory for all of them.
    keys : iterator of str
        In the order of the rows.
    packed : Packed
        How a chunk is decoded.
    fetch : callable
        A reader of the store.
    fetch_into : callable or None
        One that fills memory; for chunks that are stored as they are.
    missing : callable
        ``missing(key, chunk)`` fills a chunk that is not stored, or raises.
    """
    nbytes, fill = packed.nbytes, packed.fill
    together = 1 if fill is None else TOGETHER // max(1, nbytes)
    for row in rows:
        if fill is not None and together > 1:
            for first in range(0, len(row.chunks), together):
                places = slice(first, first + together)
                some = []
                for key in islice(keys, len(row.chunks[places])):
                    yield key
                    encoded = fetch(key)
                    some.append((key, None if encoded is None else bytes(encoded)))
                memory = row.memory[first * nbytes : (first + len(some)) * nbytes]
                if decoded_together([kept for _, kept in some], packed, memory):
                    continue
                for (key, kept), chunk, buffer in zip(
                    some, row.chunks[places], row.buffers[places], strict=True
                ):
                    yield key
                    if kept is None:
                        missing(key, chunk)
                    else:
                        fill(kept, buffer)
            continue
        for chunk, buffer in zip(row.chunks, row.buffers, strict=True):
            key = next(keys)
            yield key
            if fetch_into is not None and fetch_into(key, buffer) == nbytes:
                continue
            encoded = fetch(key)
            if encoded is None:
                missing(key, chunk)
            elif fill is not None:
                fill(encoded, buffer)
            elif len(encoded) != nbytes:
                raise size_error("bytes", len(encoded), nbytes)
            else:
                buffer[:] = encoded
