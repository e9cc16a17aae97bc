"""Reading whole chunks to the rows of memory that they are copied from.

Small chunks are fetched some at a time, and then decoded (:mod:`chunkwise.engine.encoded_row`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from chunkwise.codec.decode import Packed
from chunkwise.codec.size import size_error
from chunkwise.engine.encoded_row import MISSING, EncodedRow, FetchInto, take_together
from chunkwise.engine.runs import Row
from chunkwise.kvstore.protocol import Reader

__all__ = ["read_rows"]


def read_rows(
    rows: Iterable[Row],
    keys: Iterator[str],
    packed: Packed,
    fetch: Reader,
    fetch_into: FetchInto | None,
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
        One that fills memory, if the store has that.
    missing : callable
        ``missing(key, chunk)`` fills a chunk that is not stored, or raises.
    """
    nbytes, fill, together = packed.nbytes, packed.fill, take_together(packed)
    encoded_row = EncodedRow(packed, fetch, fetch_into)
    for row in rows:
        if fill is not None and together > 1:
            for first in range(0, len(row.chunks), together):
                places = slice(first, first + together)
                some = list(islice(keys, len(row.chunks[places])))
                encoded_row.clear(len(some))
                for key in some:
                    yield key
                    encoded_row.append(key)
                if encoded_row.decode_all(row.memory[first * nbytes : (first + len(some)) * nbytes]):
                    continue
                for number, (key, chunk, buffer) in enumerate(
                    zip(some, row.chunks[places], row.buffers[places], strict=True)
                ):
                    yield key
                    if encoded_row.decode(number, buffer):
                        continue
                    encoded = None if encoded_row.lengths[number] == MISSING else fetch(key)
                    if encoded is None:
                        missing(key, chunk)
                    else:
                        fill(encoded, buffer)
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
