"""Bases of stores, and of the adapters of one store that have the same keys and the same storage."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from chunkwise.core.base.binding import dump
from chunkwise.core.kvstore.key_range import KeyRange, encode_key
from chunkwise.core.kvstore.protocol import Buffer, ByteRange, Children, KvStoreDriver, Reader, delete_where
from chunkwise.core.kvstore.traits import StoreTraits, traits_of
from chunkwise.core.kvstore.value import slice_ranges

__all__ = ["SameKeysStore", "StoreBase"]


class StoreBase:
    """Base of stores; each overrides what its storage does faster than this."""

    def describe(self, key: str) -> str:
        """Return the quoted key."""
        return dump(key)

    def open_reader(self: KvStoreDriver) -> Reader:
        """Return a reader of values; its results stay valid."""

        def read(key: str, start: int = 0, stop: int | None = None) -> Buffer | None:
            part = None if (start, stop) == (0, None) else ByteRange(start, stop)
            return self.read(key, byte_range=part).value

        return read

    def read_ranges(
        self: KvStoreDriver, key: str, starts: Sequence[int], stops: Sequence[int]
    ) -> list[Buffer] | None:
        """Return the bytes of each range of the value of `key`, None if that is missing."""
        value = self.open_reader()(key)
        return None if value is None else slice_ranges(value, starts, stops)

    def delete_range(self: KvStoreDriver, start: str = "", stop: str = "") -> None:
        """Delete the keys in ``[start, stop)`` that exist now."""
        delete_where(self, start, stop, lambda key: True)

    def list_children(self: KvStoreDriver, prefix: str) -> Children:
        """List one level below `prefix`, in order; keys and prefixes are complete."""
        below = KeyRange.of_prefix(prefix)
        return Children.of(prefix, sorted(self.list(below.start, below.stop), key=encode_key))


class SameKeysStore(StoreBase):
    """The part of an adapter that is the same as for `base`."""

    def __init__(self, base: KvStoreDriver) -> None:
        self.base = base

    @property
    def traits(self) -> StoreTraits:
        """The base's traits, but nothing bypasses the methods of the adapter."""
        base = traits_of(self.base)
        return base.adapted(
            rename=None,
            is_cached=base.is_cached,
            shard_indexes=base.shard_indexes,
            open_writer=None,
            open_into_reader=None,
        )

    @property
    def identity(self) -> Hashable:
        """The base's identity, since the storage is the same."""
        return self.base.identity

    def describe(self, key: str) -> str:
        """Name `key` like the base."""
        return self.base.describe(key)

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        """List the base."""
        return self.base.list(start, stop)

    def list_children(self, prefix: str) -> Children:
        """List one level of the base."""
        return self.base.list_children(prefix)
