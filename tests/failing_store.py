"""A store of which every call can fail: the k-th one, or all from the k-th on."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from chunkwise.core.kvstore.places import staging
from chunkwise.core.kvstore.places.staging import APPEND, COMPLETE, is_staging
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.kvstore.store_base import SameKeysStore
from chunkwise.core.trees.location import Location, locate

CALLS = (
    "read",
    "write",
    "delete",
    "delete_range",
    "delete_where",
    "write_all",
    "list",
    "list_children",
    "move_directory",
    "exchange_directories",
    "delete_directory",
    "link_keys",
)


class FailingStore(SameKeysStore):
    """Has the abilities of its base, unless `plain`: then those of a store that changes keys one by one."""

    def __init__(
        self,
        base: KvStoreDriver,
        fail: Callable[[], object],
        at: int,
        *,
        always: bool = False,
        plain: bool = False,
    ) -> None:
        super().__init__(base)
        self._fail, self._at, self._always, self._plain = fail, at, always, plain
        self.n_calls = 0
        self.calls: list[tuple[str, str]] = []  # with the key or prefix of each

    def __getattribute__(self, name: str) -> Any:
        if name in CALLS:
            plain = object.__getattribute__(self, "_plain")
            base = object.__getattribute__(self, "base")
            if plain and name in ("write_all", "modify", *CALLS[-4:]):
                raise AttributeError(name)
            return self._counted(getattr(base, name))
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or (
            self._plain and name in ("can_exchange", "write_all", "modify", *CALLS[-4:])
        ):
            raise AttributeError(name)
        return getattr(self.base, name)

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            self.n_calls += 1
            self.calls.append((call.__name__, str(next(iter(arguments), ""))))
            if self.n_calls == self._at or (self._always and self.n_calls > self._at > 0):
                self._fail()
            return call(*arguments, **options)

        return counted


@cache
def _ended() -> int:
    """Return the number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return process.pid


@contextlib.contextmanager
def ending_process() -> Iterator[None]:
    """Let leases and staging places that are made in the block be those of a process that has ended."""

    class Os:
        def __getattr__(self, name: str) -> Any:
            return _ended if name == "getpid" else getattr(os, name)

    staging.os = Os()  # type: ignore[attr-defined]
    try:
        yield
    finally:
        staging.os = os  # type: ignore[attr-defined]


def contents(store: KvStoreDriver) -> dict[str, bytes]:
    """Return all that is in a store."""
    found = {key: store.read(key).value for key in store.list()}
    return {key: bytes(value) for key, value in found.items() if value is not None}


def place_in(store: KvStoreDriver, path: str) -> Location:
    """Return a location in an open store."""
    return locate(store).at(path)


def replaced_or_not(
    new_store: Callable[[], KvStoreDriver],
    fill: Callable[[KvStoreDriver], object],
    act: Callable[[KvStoreDriver], object],
    fail: Callable[[], object],
    errors: tuple[type[BaseException], ...],
    *,
    plain: bool = False,
    step: int = 1,
) -> set[str]:
    """Let `act` fail at each call of a store that `fill` has filled, and return what was found afterwards.

    That is ``old`` or ``new`` if the store is as it was, or as `act` makes it.  In a `plain` store it may be
    ``beside``: what was there is gone in part, and all of the new is declared complete beside it.  Anything
    else is an assertion error.
    """
    store = new_store()
    fill(store)
    old = contents(store)
    counted = FailingStore(store, lambda: None, 0, plain=plain)
    act(counted)
    new = contents(store)
    found = set()
    for at in range(1, counted.n_calls + 1, step):
        store = new_store()
        for key, value in old.items():
            store.write(key, value)
        with contextlib.suppress(errors):
            act(FailingStore(store, fail, at, plain=plain))
        is_now = contents(store)
        staged = {key for key in is_now if any(map(is_staging, key.split("/")))}
        # The document that excludes others may stay when its process is killed; the next takes it over.
        rest = {k: value for k, value in is_now.items() if k not in staged and not k.endswith(APPEND)}
        if rest in (old, new):
            found.add("old" if rest == old else "new")
            continue
        assert plain, (at, sorted(set(old.items()) ^ set(rest.items())))
        assert any(key.endswith(COMPLETE) for key in staged), at
        written = {value for key, value in new.items() if old.get(key) != value}
        assert written <= {is_now[key] for key in staged}, at
        found.add("beside")
    return found
