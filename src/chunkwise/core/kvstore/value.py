"""Values of a store: sizes, byte ranges, reading within `chunkwise.core.base.limits`, or as a file.

A part of a value, with a given end, is as large as its reader wants, so only whole values have a bound other
than memory.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from chunkwise.core.base.limits import DOCUMENT, bounded, held, largest_value, too_large
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.protocol import (
    Buffer,
    ByteRange,
    EntryListable,
    KvStoreDriver,
    RangeReadable,
    Readable,
    SizeReadable,
    Stamped,
    offers,
)
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.errors import InvalidArgumentError, NotFoundError, OutOfRangeError, StorageError

__all__ = [
    "PageInsteadError",
    "ValueFile",
    "check_claim",
    "check_range",
    "check_size",
    "coalesce_ranges",
    "open_size",
    "read_bounded",
    "read_own",
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


class PageInsteadError(StorageError):
    """A web server sent a page in place of a value: a login, an error, or a list of a directory."""


def check_size(size: int, name: str, start: int = 0, stop: int | None = None) -> None:
    """Raise if a value, or the part ``[start, stop)`` of it, must not be read; `name` is its URL or path."""
    is_part = stop is not None or start < 0
    if size > largest_value(is_part=is_part):
        raise too_large(f"Failed to read {name}: it is said to have {size} bytes", is_part=is_part)


def check_claim(size: int, name: str, start: int = 0, stop: int | None = None) -> None:
    """Like `check_size`, where a size that exceeds the memory is compared with the stored value."""
    if held() is not None:
        check_size(size, name, start, stop)


def read_bounded(
    store: Readable, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
) -> Stamped:
    """Return a metadata document, or a part; raise StorageError if it is too large for one."""
    options: dict[str, Any] = {}
    if byte_range is not None:
        options["byte_range"] = byte_range
    if if_not_equal is not None:
        options["if_not_equal"] = if_not_equal
    with bounded(DOCUMENT):
        return store.read(key, **options)


def read_own(store: Readable, key: str, **options: Any) -> Stamped:
    """Return a value that a store needs to find others, such as a table of its keys."""
    with bounded(None):
        return store.read(key, **options)


# Bytes of a block, for a store that answers at once, and for one where a request takes as long as some MB.
# The metadata of 300 datasets in an HDF5 file of 151 MiB takes 162 ms of processor time and 411 reads with 32
# KiB, 245 ms and 223 reads with 1 MiB.
_NEAR, _FAR = 1 << 15, 1 << 20
_KEPT = 64  # blocks, so 64 MiB at most
_NOWHERE = 1 << 62


class ValueFile(io.RawIOBase):
    """The current value of `key`; `generation` is that of the first read."""

    def __init__(self, store: KvStoreDriver, key: str) -> None:
        super().__init__()
        self._store = store
        self._key = key
        self._at = 0
        self._block = _NEAR if traits_of(store).request_concurrency is None else _FAR
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        found = store.read(key, byte_range=ByteRange(0, 0))
        if found.value is None:
            raise NotFoundError(f"{store.describe(key)} is missing")
        self.generation = found.generation
        self.size = self._find_size()

    def _find_size(self) -> int:
        try:
            self._store.read(self._key, byte_range=ByteRange(_NOWHERE, _NOWHERE + 1))
        except OutOfRangeError as e:
            if e.size is not None:
                return e.size
        value = read_own(self._store, self._key).value  # a store that doesn't tell the size
        return 0 if value is None else memoryview(value).nbytes

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def readinto(self, out: memoryview) -> int:  # type: ignore[override]
        """Fill `out` from the position; return the number of bytes, which is less at the end."""
        view = memoryview(out).cast("B")
        n = max(0, min(len(view), self.size - self._at))
        if n > 4 * self._block:
            view[:n] = self.part(self._at, self._at + n)
        else:
            done = 0
            while done < n:
                number, first = divmod(self._at + done, self._block)
                piece = self._load(number)[first : first + n - done]
                view[done : done + len(piece)] = piece
                done += len(piece)
        self._at += n
        return n

    def _load(self, number: int) -> bytes:
        block = self._blocks.get(number)
        if block is None:
            start = number * self._block
            block = self._blocks[number] = self.part(start, min(self.size, start + self._block))
            if len(self._blocks) > _KEPT:
                self._blocks.popitem(last=False)
        else:
            self._blocks.move_to_end(number)
        return block

    def forget(self) -> None:
        """Free the kept blocks."""
        self._blocks.clear()

    def part(self, start: int, stop: int) -> bytes:
        """Return bytes of the value; raise OutOfRangeError outside it."""
        if stop > self.size:
            raise OutOfRangeError(f"bytes {start} to {stop} are outside a file of {self.size} bytes")
        value = self._store.read(self._key, byte_range=ByteRange(start, stop)).value
        if value is None:
            raise NotFoundError(f"{self._store.describe(self._key)} is missing")
        return bytes(value)
