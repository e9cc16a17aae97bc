"""Formats of shards: the shard of a key, the place of its value there, and the layout of a whole shard.

A format reads parts of a shard through a `ShardReader`, which notices when the shard is replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from chunkwise.core.kvstore.compare_and_swap import ReplacedError
from chunkwise.core.kvstore.protocol import Buffer, ByteRange, KvStoreDriver, Stamped
from chunkwise.errors import DataCorruptionError, OutOfRangeError

__all__ = ["EntryIndex", "Place", "ShardFormat", "ShardReader"]


class Place(NamedTuple):
    """Location of the value of a key."""

    shard: str  # the shard's key, without the path of the store
    part: int  # number of the shard's index with the entry
    entry: int  # number of the entry; in the order of keys


class ShardReader:
    """Parts of one shard, all of the same generation."""

    def __init__(self, base: KvStoreDriver, key: str, generation: bytes | None = None) -> None:
        self._base = base
        self._key = key
        self.generation = generation  # None until something is read
        self.time = 0.0  # time at which the shard had that generation

    def __call__(self, start: int, stop: int | None) -> Buffer | None:
        """Return the part of a `ByteRange`; None if there is no shard; raise if it was replaced."""
        try:
            part = self._base.read(self._key, byte_range=ByteRange(start, stop))
        except OutOfRangeError as e:
            if self.generation is None:
                raise DataCorruptionError(f"the shard is shorter than its index: {e.message}") from e
            self._look()
            raise DataCorruptionError(f"bytes {start} to {stop} are not in the shard: {e.message}") from e
        self._see(part)
        return part.value

    def confirm(self) -> None:
        """Raise ReplacedError if nothing was read and the shard has another generation now."""
        if not self.time:
            self._look()

    def _look(self) -> None:
        self._see(self._base.read(self._key, byte_range=ByteRange(0, 0), if_not_equal=self.generation))

    def _see(self, part: Stamped) -> None:
        if self.generation not in (None, part.generation):
            raise ReplacedError
        self.generation, self.time = part.generation, part.time


class EntryIndex(Protocol):
    """Bounds of the entries of a shard, or of a part of them."""

    @property
    def nbytes(self) -> int:
        """Size in memory, in bytes."""
        ...

    def find(self, entry: int) -> tuple[int, int] | None:
        """Return the byte range of an entry in the shard; None if it is not stored."""
        ...


class ShardFormat(Protocol):
    """A format of shards; hashable, and equal to others exactly if they are the same format.

    Attributes
    ----------
    stored_as_is : bool
        True if the bytes of an entry are those of its value.
    """

    @property
    def stored_as_is(self) -> bool: ...
    def place(self, key: str) -> Place:
        """Return the location of the value of `key`; raise InvalidArgumentError for an invalid key."""
        ...

    def key(self, entry: int) -> str:
        """Return the key of an entry."""
        ...

    def describe(self, place: Place) -> str:
        """Return the name of an entry in messages."""
        ...

    def shards(self, names: Callable[[], Iterable[str]]) -> Iterable[str]:
        """Return the names of all possible shards; `names` lists the existing values."""
        ...

    def read_index(self, part: int, read: ShardReader) -> EntryIndex | None:
        """Return one of the indexes of a shard; None if there is no shard."""
        ...

    def read_entries(self, read: ShardReader) -> Iterable[int]:
        """Return the numbers of all entries of a shard, in order if the shard has them in order."""
        ...

    def decode_shard(self, shard: Buffer) -> Mapping[int, Buffer]:
        """Return all entries of a shard in their stored form."""
        ...

    def encode_shard(self, entries: Mapping[int, Buffer]) -> Buffer:
        """Return the shard with the given entries, at least one."""
        ...

    def decode(self, stored: Buffer) -> Buffer:
        """Return the value with the stored form `stored`."""
        ...

    def encode(self, value: Buffer) -> bytes:
        """Return the stored form of a value."""
        ...
