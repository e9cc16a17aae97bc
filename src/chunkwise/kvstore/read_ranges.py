"""Several byte ranges of one value, from any store."""

from __future__ import annotations

from collections.abc import Sequence

from chunkwise.kvstore.protocol import Buffer, RangeReadable, Readable, offers

__all__ = ["read_ranges"]


def read_ranges(
    store: Readable, key: str, starts: Sequence[int], stops: Sequence[int]
) -> list[Buffer] | None:
    """Return the bytes of each range of the value of `key`, None if it is missing.

    A store that can't serve several ranges in one request gets a request for each.
    """
    if offers(store, RangeReadable):
        return store.read_ranges(key, starts, stops)
    read = store.open_reader()
    out: list[Buffer] = []
    for start, stop in zip(starts, stops, strict=True):
        part = read(key, start, stop)
        if part is None:
            return None
        out.append(bytes(part))  # the reader may use its memory again with the next call
    return out
