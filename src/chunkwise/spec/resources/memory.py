"""``memory_key_value_store``: the storage of the kvstore ``memory``; the resource is the storage."""

from __future__ import annotations

from dataclasses import dataclass

from chunkwise.kvstore.memory import MemoryStore
from chunkwise.spec.resources.kind import ObjectResource

__all__ = ["MemoryKeyValueStore"]


@dataclass(frozen=True)
class MemoryKeyValueStore(ObjectResource):
    """``{}``."""

    def create(self) -> MemoryStore:
        """Return an empty storage."""
        return MemoryStore()
