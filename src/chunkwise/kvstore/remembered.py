"""What the users of a store have learned about its values: such as the index of a shard.

It may be old; who uses it has to find out from the generation that comes with the next answer.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from chunkwise.fork import new_lock, put_in_order_in_child

__all__ = ["Remembered"]


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
        self._lock = new_lock()
        put_in_order_in_child(self)

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

    def after_fork(self) -> None:
        """Count again what another thread was about to change."""
        self._n_bytes = sum(n_bytes for _, n_bytes in self._items.values())
