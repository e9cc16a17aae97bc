"""What the users of a store have learned about its values: such as the index of a shard.

It may be old; who uses it has to find out from the generation that comes with the next answer.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from typing import Any

__all__ = ["Remembered"]

_all: weakref.WeakSet[Remembered] = weakref.WeakSet()


class Remembered:
    """A few things by name, the least recently used of them forgotten first.

    Parameters
    ----------
    limit : int
        Bytes of all of them together.
    """

    def __init__(self, limit: int = 1 << 26) -> None:
        self.limit = limit
        self._n_bytes = 0
        self._items: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()
        _all.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Remembered, (self.limit,)

    def get(self, name: str) -> Any | None:
        """Return what is known under `name`, None if nothing."""
        with self._lock:
            found = self._items.get(name)
            if found is None:
                return None
            self._items.move_to_end(name)
            return found[0]

    def put(self, name: str, item: Any, n_bytes: int) -> None:
        """Remember an item that takes `n_bytes`."""
        self.drop(name)
        with self._lock:
            self._items[name] = item, n_bytes
            self._n_bytes += n_bytes
            while self._n_bytes > self.limit and self._items:
                self._n_bytes -= self._items.popitem(last=False)[1][1]

    def drop(self, name: str) -> None:
        """Forget an item."""
        with self._lock:
            self._n_bytes -= self._items.pop(name, (None, 0))[1]


def _new_locks() -> None:
    for memory in _all:
        memory._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_locks)
