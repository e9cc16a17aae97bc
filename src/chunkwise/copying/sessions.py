"""Stores that hold nodes and nothing else, and are transactions themselves: sessions of Icechunk.

They have no place for a journal, and accept chunks only after metadata.  A journal isn't needed either:
nobody else sees what is written before the caller commits.  So a copy writes the metadata first, and keeps
its journal in the memory of this process.
"""

from __future__ import annotations

from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.trees.location import Location

__all__ = ["is_session", "journal_location"]


def is_session(store: KvStoreDriver) -> bool:
    """Return True for such a store."""
    return traits_of(store).nodes_only


def journal_location(location: Location) -> Location:
    """Return where the journal of a new copy to a location is."""
    return location._replace(store=MemoryStore()) if is_session(location.store) else location
