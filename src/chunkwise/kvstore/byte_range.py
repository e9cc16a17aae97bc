"""Byte ranges of values: which bytes are meant, and reading several."""

from __future__ import annotations

from collections.abc import Sequence

from chunkwise.errors import InvalidArgumentError, OutOfRangeError
from chunkwise.kvstore.protocol import Buffer, RangeReadable, Readable, offers

__all__ = ["check_range", "read_ranges", "resolve_range"]


def check_range(start: int, stop: int | None) -> None:
    """Raise InvalidArgumentError unless ``start, stop`` is a range, whatever the size of the value."""
    # A `start` that counts from the end goes with no `stop`.
    if stop is not None and (start < 0 or stop < start):
        raise InvalidArgumentError(
            f"Unsupported byte range {start}:{stop}: expected 0 <= start <= stop, or a negative start alone"
        )


def resolve_range(start: int, stop: int | None, size: int) -> tuple[int, int]:
    """Return begin and end of the range in a value of `size` bytes; raise OutOfRangeError outside it."""
    # A negative `start` counts from the end of the value, and goes with no `stop`; None is the end.
    check_range(start, stop)
    begin = start if start >= 0 else size + start
    end = size if stop is None else stop
    if not 0 <= begin <= end <= size:
        until = "?" if stop is None else stop
        raise OutOfRangeError(
            f"Requested byte range [{start}, {until}) is not valid for value of size {size}"
        )
    return begin, end


def read_ranges(
    store: Readable, key: str, starts: Sequence[int], stops: Sequence[int]
) -> list[Buffer] | None:
    """Return the bytes of each range of the value of `key`, None if it is missing."""
    # A store that can't serve several ranges in one request gets a request for each.
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
