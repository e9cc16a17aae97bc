"""A new store that replaces the old data when it is complete."""

from __future__ import annotations

from typing import Any

from chunkwise.core.kvstore.staging import new_owner, staging_name
from chunkwise.extension.trees import Location, Replacement
from chunkwise.hdmf.opening import UNFINISHED
from chunkwise.hdmf.storage.unsynced import UnsyncedStore

__all__ = ["NewStore"]


class NewStore:
    """The place where a new store is written.

    Parameters
    ----------
    location : Location
        Final location; its store may be an `UnsyncedStore`.
    occupied : {"nothing", "keys", "file"}
        What is there.
    chosen : Replacement, optional
        A place that other processes write to as well.
    """

    def __init__(self, location: Location, occupied: str, chosen: Replacement | None) -> None:
        self.location = location
        self._final = _synced(location)
        self._is_file = occupied == "file"
        self._replacement = chosen
        if occupied == "file":
            # Nothing can be written below a file, so the new store is beside it.
            parent = location.parent
            assert parent is not None
            name = staging_name(location.name, new_owner())
            self._replacement = Replacement(self._final, self._final.at(f"{parent.path}{name}/"))
        elif occupied == "keys" and chosen is None:
            self._replacement = Replacement.begin(self._final)
        if self._replacement is not None:
            self.location = location.at(self._replacement.staging.path)
        self._final.store.write(self.location.path + UNFINISHED, b"")

    @property
    def is_pending(self) -> bool:
        """True if the old data has not been replaced yet."""
        return self._replacement is not None

    def commit(self) -> Location:
        """Replace the old data by the new store, and return its location."""
        replacement = self._replacement
        if replacement is not None and self._is_file:
            store: Any = self._final.store
            store.delete(self._final.path[:-1])
            store.move_directory(replacement.staging.path[:-1], self._final.path[:-1])
        elif replacement is not None:
            replacement.commit()
        self._replacement = None
        return self._final

    def discard(self) -> None:
        """Delete the new store; the old data stays."""
        replacement, self._replacement = self._replacement, None
        if replacement is not None:
            replacement.discard()


def _synced(location: Location) -> Location:
    """Return a location whose store waits for each write."""
    store = location.store
    return location._replace(store=store.base) if isinstance(store, UnsyncedStore) else location
