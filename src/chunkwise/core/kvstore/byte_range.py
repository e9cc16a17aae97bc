"""Sizes and byte ranges of values: reading several ranges, and joining them to requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.protocol import (
    Buffer,
    EntryListable,
    KvStoreDriver,
    RangeReadable,
    Readable,
    SizeReadable,
    offers,
)
from chunkwise.errors import InvalidArgumentError, OutOfRangeError

__all__ = [
    "check_range",
    "coalesce_ranges",
    "open_size",
    "read_ranges",
    "resolve_range",
    "slice_range",
    "slice_ranges",
    "stored_nbytes",
]


def check_range(start: int, stop: int | None) -> None:
    """Raise InvalidArgumentError if ``start, stop`` is not a range for any size of the value."""
    # A negative `start`, counted from the end, allows no `stop`.
    if stop is not None and (start < 0 or stop < start):
        raise InvalidArgumentError(
            f"Unsupported byte range {start}:{stop}: expected 0 <= start <= stop, or a negative start alone"
        )


def resolve_range(start: int, stop: int | None, size: int) -> tuple[int, int]:
    """Return the start and end of the range in a value of `size` bytes; raise OutOfRangeError outside it."""
    # A negative `start` counts from the end of the value, and allows no `stop`; a `stop` of None is the end.
    check_range(start, stop)
    begin = start if start >= 0 else size + start
    end = size if stop is None else stop
    if not 0 <= begin <= end <= size:
        until = "?" if stop is None else stop
        error = OutOfRangeError(
            f"Requested byte range [{start}, {until}) is not valid for value of size {size}"
        )
        error.size = size
        raise error
    return begin, end


def slice_range(value: Buffer, start: int, stop: int | None) -> Buffer:
    """Return the bytes of a range of `value`."""
    begin, end = resolve_range(start, stop, len(value))
    return value[begin:end]


def slice_ranges(value: Buffer, starts: Sequence[int], stops: Sequence[int]) -> list[Buffer]:
    """Return the bytes of each range of `value`, without copying them."""
    view = memoryview(value)
    return [slice_range(view, start, stop) for start, stop in zip(starts, stops, strict=True)]


def read_ranges(
    store: Readable, key: str, starts: Sequence[int], stops: Sequence[int]
) -> list[Buffer] | None:
    """Return the bytes of each range of the value of `key`, None if it is missing."""
    # A store that can't serve several ranges in one request gets one request for each.
    if offers(store, RangeReadable):
        return store.read_ranges(key, starts, stops)
    read = store.open_reader()
    out: list[Buffer] = []
    for start, stop in zip(starts, stops, strict=True):
        part = read(key, start, stop)
        if part is None:
            return None
        out.append(bytes(part))  # the reader may reuse its memory in the next call
    return out


def coalesce_ranges(offsets: Sequence[int], lengths: Sequence[int], *, gap: int, largest: int) -> list[slice]:
    """Return runs of byte ranges, sorted by offset; one request serves each run."""
    # Gaps of at most `gap` bytes are read; a request of `largest` bytes or more is not extended.
    runs: list[slice] = []
    first = origin = stop = last = 0
    for i, (start, size) in enumerate(zip(offsets, lengths, strict=True)):
        if start < last:
            raise InvalidArgumentError("byte ranges are not sorted by offset")
        last = start
        if i > first and (start - stop > gap or start + size - origin > largest):
            runs.append(slice(first, i))
            first = i
        if i == first:
            origin = stop = start
        stop = max(stop, start + size)
    if len(offsets):
        runs.append(slice(first, len(offsets)))
    return runs


def open_size(store: Readable) -> Callable[[str], int]:
    """Return a function from a key to the size of its value in bytes, 0 if missing."""
    if offers(store, SizeReadable):
        return store.read_size
    read = store.open_reader()

    def size(key: str) -> int:
        value = read(key)
        return 0 if value is None else memoryview(value).nbytes

    return size


def stored_nbytes(store: KvStoreDriver, prefix: str) -> int:
    """Return the number of bytes stored under keys with a prefix; lists the keys."""
    keys = KeyRange.of_prefix(prefix) if prefix else KeyRange()
    if offers(store, EntryListable):
        return sum(entry.size for entry in store.list_entries(keys.start, keys.stop))
    return sum(map(open_size(store), store.list(keys.start, keys.stop)))
