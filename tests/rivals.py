"""Stores and threads for tests in which a second writer acts at some request of the first."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from failing_store import FailingStore

from chunkwise.core.kvstore.places.staging import APPEND, JOURNAL
from chunkwise.errors import ChunkwiseError, UnsupportedError

__all__ = ["STORES", "Act", "AtOnce", "Fixed", "Slow", "settle", "waits_for_turn"]


class Act(threading.Thread):
    """One of two writers; keeps its error."""

    def __init__(self, run: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._act, self.error = run, None

    def run(self) -> None:
        try:
            self._act()
        except ChunkwiseError as e:
            self.error = e


def waits_for_turn(store: FailingStore) -> bool:
    """Return whether the last calls look at nothing but whose turn it is."""
    return len(store.calls) > 2 and all(key.endswith((APPEND, JOURNAL)) for _, key in store.calls[-3:])


def settle(act: Act, store: FailingStore) -> None:
    """Wait until an act is over, or waits for a turn."""
    end = time.monotonic() + 2
    while act.is_alive() and time.monotonic() < end and not waits_for_turn(store):
        time.sleep(0.002)


class Without(FailingStore):
    """A store that lacks some abilities."""

    lacks: tuple[str, ...] = ()

    def __getattribute__(self, name: str) -> Any:
        if name != "lacks" and name in self.lacks:
            raise AttributeError(name)
        return super().__getattribute__(name)

    def __getattr__(self, name: str) -> Any:
        if name in self.lacks:
            raise AttributeError(name)
        return super().__getattr__(name)


class OneByOne(Without):
    """A store that deletes key after key."""

    lacks = ("delete_where",)


class AtOnce(Without):
    """A store that changes several keys at once, such as an archive."""

    lacks = ("move_directory", "exchange_directories", "delete_directory", "link_keys", "can_exchange")


class Fixed(FailingStore):
    """A store in which one directory can't be renamed, as if a file system were mounted there."""

    fixed: tuple[str, ...]  # how its path may end

    def __getattribute__(self, name: str) -> Any:
        call = super().__getattribute__(name)
        if name not in ("move_directory", "exchange_directories"):
            return call

        def rename(source: str, target: str, *rest: str) -> Any:
            if source.endswith(self.fixed) or target.endswith(self.fixed):
                raise UnsupportedError("on another file system")
            return call(source, target, *rest)

        return rename


class Slow(FailingStore):
    """An object store: it changes key after key, and many requests are made at a time."""

    @property
    def traits(self) -> Any:
        return super().traits._replace(request_concurrency=4)

    def few_children(self, prefix: str) -> Any:
        return self.list_children(prefix)


STORES: dict[str, Callable[..., FailingStore]] = {
    "directories": FailingStore,
    "files": FailingStore,
    "at once": AtOnce,
    "pages": partial(FailingStore, plain=True),
    "keys": partial(OneByOne, plain=True),
}
