"""A store whose process dies: nothing is read or changed any more from a certain change on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NoReturn

__all__ = ["Died", "DyingStore"]


class Died(Exception):
    """Raised in place of the end of the process."""


def _raise() -> NoReturn:
    raise Died


class DyingStore:
    """Hands everything to another store, and dies before one of the changes.

    Ranges are deleted key by key, as on servers; there is no faster way to write.

    Parameters
    ----------
    kv : KvStoreDriver
    n_changes : int
        How many keys may be written or deleted.
    die : callable
        What happens instead of the next one, and of all else that is asked for afterwards.
    """

    def __init__(self, kv: Any, n_changes: int, die: Callable[[], NoReturn] = _raise) -> None:
        self.kv = kv
        self.left = n_changes
        self._die = die
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        if name not in ("read", "open_reader", "list", "list_children", "identity", "describe"):
            raise AttributeError(name)
        if self.left < 0 and name != "describe":
            self._die()
        return getattr(self.kv, name)

    def _change(self) -> None:
        with self._lock:
            self.left -= 1
            if self.left < 0:
                self.left = -1
                self._die()

    def write(self, key: str, value: Any, *, if_equal: bytes | None = None) -> bytes | None:
        self._change()
        generation: bytes | None = self.kv.write(key, value, if_equal=if_equal)
        return generation

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        self._change()
        generation: bytes | None = self.kv.delete(key, if_equal=if_equal)
        return generation

    def delete_range(self, start: str = "", stop: str = "") -> None:
        for key in sorted(self.kv.list(start, stop)):
            self.delete(key)
