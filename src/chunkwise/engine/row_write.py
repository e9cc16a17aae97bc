"""Writing whole chunks that lie in rows of memory.

Small chunks are encoded some at a time, and then stored, for the reason that :mod:`.row_read` gives:
writing 16³ chunks of uint16 with Blosc takes three quarters of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import numpy.typing as npt

from chunkwise.engine.runs import TOGETHER
from chunkwise.kvstore.protocol import Buffer

__all__ = ["write_rows"]


def write_rows(
    chunks: Iterable[tuple[npt.NDArray[Any], memoryview]],
    keys: Iterator[str],
    compress: Callable[[Buffer], Buffer] | None,
    nbytes: int,
    is_fill: Callable[[npt.NDArray[Any]], bool],
    store: Callable[[str, Buffer], Any],
    delete: Callable[[str], Any],
) -> Iterator[str]:
    """Write chunks; yield the key of each before something is done with it.

    Parameters
    ----------
    chunks : iterable of (ndarray, memoryview)
        Each with its bytes, valid until the next one is taken.
    keys : iterator of str
        In the same order.
    compress : callable or None
        What encodes the bytes of a chunk, if anything; the result is valid until the next call.
    nbytes : int
        Of a chunk that is not encoded.
    is_fill : callable
        Whether a chunk is to be deleted.
    store, delete : callable
        What does it.
    """
    each = zip(keys, chunks, strict=True)
    together = 1 if compress is None else TOGETHER // max(1, nbytes)
    if compress is None or together <= 1:
        for key, (chunk, buffer) in each:
            yield key
            if is_fill(chunk):
                delete(key)
            else:
                store(key, buffer if compress is None else compress(buffer))
        return
    while True:
        some: list[tuple[str, bytes | None]] = []
        for key, (chunk, buffer) in islice(each, together):
            yield key
            some.append((key, None if is_fill(chunk) else bytes(compress(buffer))))
        if not some:
            return
        for key, encoded in some:
            yield key
            if encoded is None:
                delete(key)
            else:
                store(key, encoded)
