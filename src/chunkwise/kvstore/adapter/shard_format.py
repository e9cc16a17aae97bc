"""What a format of shards tells: which shard has a key, where its value lies, how a shard is put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from chunkwise.kvstore.protocol import Buffer

__all__ = ["EntryIndex", "Place", "ReadPart", "ShardFormat"]

ReadPart: TypeAlias = "Callable[[int, int | None], Buffer | None]"
"""``read(start, stop)``: bytes of a shard, a range as in `ByteRange`; None if there is no shard.

All calls are about the same shard: it raises if the shard was replaced since the first one.
"""


class Place(NamedTuple):
    """Where the value of a key is."""

    shard: str  # the shard's key, without the path of the store
    part: int  # which of the shard's indexes has the entry
    entry: int  # number of the entry; those of a store have the order of keys


class EntryIndex(Protocol):
    """Bounds of the entries of a shard, or of a part of them."""

    @property
    def nbytes(self) -> int:
        """Size in memory, in bytes."""
        ...

    def find(self, entry: int) -> tuple[int, int] | None:
        """Return where in the shard an entry begins and ends; None if it is not stored."""
        ...


class ShardFormat(Protocol):
    """A format of shards; hashable, and equal to another one exactly if both are the same format.

    Attributes
    ----------
    stored_as_is : bool
        True if the bytes of an entry are those of its value.
    """

    @property
    def stored_as_is(self) -> bool: ...
    def place(self, key: str) -> Place:
        """Return where the value of `key` is; raise InvalidArgumentError if that is no key."""
        ...

    def key(self, entry: int) -> str:
        """Return the key of an entry."""
        ...

    def describe(self, place: Place) -> str:
        """Return how messages name an entry of a shard."""
        ...

    def shards(self, names: Callable[[], Iterable[str]]) -> Iterable[str]:
        """Return the names of all shards that there may be; `names` lists what there is."""
        ...

    def read_index(self, part: int, read: ReadPart) -> EntryIndex | None:
        """Return one of the indexes of a shard; None if there is no shard."""
        ...

    def read_entries(self, read: ReadPart) -> Iterable[int]:
        """Return the numbers of all entries of a shard, in order if the shard has them in order."""
        ...

    def decode_shard(self, shard: Buffer) -> Mapping[int, Buffer]:
        """Return all entries of a shard as they are stored in it."""
        ...

    def encode_shard(self, entries: Mapping[int, Buffer]) -> Buffer:
        """Return the shard with the given entries, at least one."""
        ...

    def decode(self, stored: Buffer) -> Buffer:
        """Return the value that is stored as `stored`."""
        ...

    def encode(self, value: Buffer) -> bytes:
        """Return what is stored for a value."""
        ...
