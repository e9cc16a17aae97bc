"""Base of the adapters of one store that have the same keys and the same storage.

Derived classes define how to read, write and delete.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from chunkwise.core.kvstore.protocol import Children, KvStoreDriver
from chunkwise.core.kvstore.store_base import StoreBase
from chunkwise.core.kvstore.traits import StoreTraits, traits_of

__all__ = ["SameKeysStore"]


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
