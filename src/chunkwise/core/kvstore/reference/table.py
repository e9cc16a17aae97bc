"""Tables of references, from each key to bytes or to their location.

Tables are read from reference files (`json_table`, `parquet_table`) or made from the index of a file in
another format: HDF5, TIFF.
"""

from __future__ import annotations

import operator
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from chunkwise.core.base.binding import JSON, dump
from chunkwise.core.kvstore.key_range import KeyRange, encode_key
from chunkwise.core.kvstore.protocol import Buffer, Children
from chunkwise.errors import ChunkwiseError, DataCorruptionError

__all__ = [
    "BLOCK_NBYTES",
    "LARGEST_OFFSET",
    "ArrayTable",
    "Part",
    "Reference",
    "SortedKeys",
    "Table",
    "blocks_of",
    "cell_of",
    "expect_part",
    "read_by",
]

T = TypeVar("T")

_NUMBER = re.compile("[0-9]{1,18}")  # fits in 64 bits
LARGEST_OFFSET = 1 << 62
"""Larger offsets and sizes exist in no storage."""

BLOCK_NBYTES = 1 << 22
"""Approximate bytes of a block of an array that is stored in one piece.

128 MiB of HDF5 take 21 ms of processor time with this size, 31 ms with 256 KiB, 25 ms with 16 MiB; 100 x 100
elements of it take 0.4 ms, 0.06 ms and 2.2 ms.
"""


class Part(NamedTuple):
    """Bytes of a value of another store."""

    url: str  # as in the reference, perhaps relative; empty for the file of the table
    start: int = 0
    stop: int | None = None  # None for the whole value, with `start` 0


Reference: TypeAlias = "bytes | Part | Callable[[], Buffer]"
"""The value itself, its location, or a function that makes it."""


class Table(Protocol):
    """A table of references, read from one version of its file."""

    def find(self, key: str) -> Reference | None:
        """Return the reference of `key`, None if there is none; raise for an invalid reference."""
        ...

    def list(self, start: str, stop: str) -> Iterator[str]:
        """Yield the keys in ``[start, stop)``."""
        ...

    def list_children(self, prefix: str) -> Children:
        """List one level below `prefix`, which is empty or ends in "/"."""
        ...

    def note(self, prefix: str) -> str:
        """Return which library reads an array, and why; empty if its chunks are decoded here."""
        return ""

    def some_url(self) -> str | None:
        """Return the URL of some chunk; None if none is known without reading."""
        ...


class SortedKeys:
    """A set of keys in memory, listed by range and level."""

    def __init__(self, keys: Sequence[str]) -> None:
        pairs = sorted((encode_key(key), key) for key in keys)
        self._encoded = [raw for raw, _ in pairs]
        self._keys = [key for _, key in pairs]

    def between(self, keys: KeyRange) -> list[str]:
        """Return the keys in a range, in order."""
        first = bisect_left(self._encoded, keys.inclusive_min)
        last = bisect_left(self._encoded, keys.exclusive_max) if keys.exclusive_max else None
        return self._keys[first:last]

    def children(self, prefix: str) -> Children:
        """Return one level below `prefix`."""
        return Children.of(prefix, self.between(KeyRange.of_prefix(prefix)))


class ArrayTable(Table, Protocol):
    """A table of documents, and of arrays whose keys of chunks are only made for a list."""

    _keys: SortedKeys  # of the documents
    _arrays: Mapping[str, Any]

    def _chunk_keys(self, path: str) -> Iterator[str]:
        """Yield the keys of the stored chunks of an array."""
        ...

    def list(self, start: str, stop: str) -> Iterator[str]:
        """Yield the keys in ``[start, stop)``."""
        keys = KeyRange.between(start, stop)
        yield from self._keys.between(keys)
        for path in self._arrays:
            if not KeyRange.of_prefix(f"{path}/" if path else "").intersect(keys).empty:
                yield from (key for key in self._chunk_keys(path) if key in keys)

    def list_children(self, prefix: str) -> Children:
        """List one level below `prefix`."""
        keys, prefixes = self._keys.children(prefix)
        path = prefix[:-1]
        if path in self._arrays and prefix.endswith("/") == bool(prefix):
            below = Children.of(prefix, sorted(self._chunk_keys(path), key=encode_key))
            keys, prefixes = sorted([*keys, *below.keys], key=encode_key), [*prefixes, *below.prefixes]
        return Children(keys, prefixes)


def cell_of(name: str, grid: Sequence[int], separator: str = ".") -> tuple[int, ...] | None:
    """Return the cell of the chunk that Zarr v2 calls `name`; None if the grid has none of this name."""
    numbers = name.split(separator)
    if not all(map(_NUMBER.fullmatch, numbers)):
        return None
    cell = tuple(map(int, numbers))
    if not grid:
        return () if cell == (0,) else None
    return cell if len(cell) == len(grid) and all(map(operator.lt, cell, grid)) else None


def expect_part(key: str, url: JSON, offset: JSON = 0, length: JSON = None) -> Part:
    """Return the reference of `key` from a file, where members may be anything; `length` None is all."""
    if not isinstance(url, str) or not url:
        raise _invalid(key, "a URL", url)
    if length is None:
        return Part(url)
    for value, name in ((offset, "an offset"), (length, "a length")):
        if not _is_position(value):
            raise _invalid(key, f"{name} of 0 to {LARGEST_OFFSET}", value)
    return Part(url, int(offset), int(offset) + int(length))


def _is_position(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_OFFSET


def _invalid(key: str, expected: str, value: JSON) -> DataCorruptionError:
    return DataCorruptionError(
        f"Invalid reference of {dump(key)}: expected {expected}, received {repr(value)[:80]}"
    )


def blocks_of(shape: tuple[int, ...], itemsize: int, largest: int) -> tuple[int, ...]:
    """Return the shape of contiguous blocks of at most `largest` bytes in data without chunks."""
    out = [1] * len(shape)
    left = max(1, largest // itemsize)
    for dim in range(len(shape) - 1, -1, -1):
        n = max(1, shape[dim])
        if n > left:
            # A large divisor of the length, if there is one, so that no block is cut off.
            fits = [k for k in range(left, max(0, left // 4), -1) if n % k == 0][:1] if left < 1 << 16 else []
            out[dim] = fits[0] if fits else left
            break
        out[dim], left = n, left // n
    return tuple(out)


def read_by(library: str, what: str, work: Callable[[], T]) -> T:
    """Return the result of `work` by a library that may raise any error for invalid data."""
    try:
        return work()
    except (ChunkwiseError, ImportError, MemoryError):
        raise
    except Exception as e:
        raise DataCorruptionError(f"{library} can't read {what}: {type(e).__name__}: {e}") from e
