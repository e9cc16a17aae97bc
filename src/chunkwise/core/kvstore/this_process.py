"""Naming the process that holds an object in memory, so that its pickle can't be used in another.

A store of the caller's own is known by its `identity`: if the pickle of one gives another storage, it is
refused in the same way.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, NoReturn
from weakref import WeakValueDictionary

from chunkwise.core.base.extras import is_of
from chunkwise.core.base.threads import new_lock
from chunkwise.core.kvstore.protocol import missing_members
from chunkwise.core.kvstore.traits import DEFAULT_TRAITS
from chunkwise.errors import FailedPreconditionError

__all__ = [
    "AbsentStore",
    "Held",
    "ProcessName",
    "check_process",
    "held_by",
    "itself",
    "process_name",
    "reduced",
    "sent_store",
]

_started = os.urandom(16).hex()
_pickled: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()


class ProcessName(NamedTuple):
    """Identifies a process on any machine; a forked one has its parent's `started`, but its own `pid`."""

    host: str
    pid: int
    started: str


def process_name() -> ProcessName:
    """Return the name of this process."""
    host = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")
    return ProcessName(host, os.getpid(), _started)


def check_process(pickled: ProcessName, what: str) -> None:
    """Raise FailedPreconditionError unless `what` was pickled in this process."""
    here = process_name()
    if pickled != here:
        raise FailedPreconditionError(
            f"{what} is in the memory of process {pickled.pid} on {pickled.host} and can't be used in "
            f"process {here.pid} on {here.host}: keep the array in files or in an object store, "
            "or send its values with chunkwise.array(values)"
        )


def reduced(held: Any, name: Hashable, what: str, make: Callable[..., Any], *options: Any) -> tuple[Any, ...]:
    """Return the pickle of a store whose values are in `held`, an object in the memory of this process.

    Unpickled here, the store is ``make(held, *options)``; elsewhere, an `AbsentStore`.
    """
    _pickled[name] = held
    return _same_memory, (process_name(), what, make, name, *options)


def _same_memory(
    process: ProcessName, what: str, make: Callable[..., Any], name: Hashable, *options: Any
) -> Any:
    held = _pickled.get(name) if process == process_name() else None
    if held is None:
        return AbsentStore(process, what, _same_memory, what, make, name, *options)
    return make(held, *options)


def itself(store: Any) -> Any:
    """Return the store that was pickled; for `reduced`."""
    return store


class Held:
    """Names an object for as long as stores hold this; its address may be another object's afterwards."""

    def __init__(self, held: Any) -> None:
        self.held = held
        self.name = os.urandom(16).hex()


_held: WeakValueDictionary[int, Held] = WeakValueDictionary()
_lock = new_lock()


def held_by(thing: Any) -> Held:
    """Return the name of an object, the same for all stores of it."""
    with _lock:
        found = _held.get(id(thing))
        if found is None:
            found = _held[id(thing)] = Held(thing)
        return found


def sent_store(store: Any) -> Any:
    """Return the object to pickle instead of a store: a third party's may be copied by its pickle."""
    return store if is_of(store, "chunkwise") else _Sent(store)


class _Sent:
    """A third party's store on its way; unpickled, it is the store again."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __reduce__(self) -> tuple[object, ...]:
        identity = self._store.identity
        try:
            pickle.dumps(identity)
        except Exception:  # the code of any class may have run
            return _arrived, (self._store, process_name())
        return _arrived, (self._store, process_name(), identity)


def _arrived(store: Any, process: ProcessName, *identity: Hashable) -> Any:
    if not identity or store.identity == identity[0]:
        return store
    what = f"a store of class {type(store).__name__}"
    return AbsentStore(process, f"{what}, which its pickle copies,", AbsentStore, *identity)


class AbsentStore:
    """A store in another process's memory: it can be unpickled, but not used."""

    # Unpickling must not fail: workers of some executors would end, or hang.
    traits = DEFAULT_TRAITS

    def __init__(self, process: ProcessName, what: str, again: Any, *state: Hashable) -> None:
        self._process, self._what, self._again, self._state = process, what, again, state

    @property
    def identity(self) -> Hashable:
        """That of no other storage."""
        return "absent", self._process, self._state

    def __reduce__(self) -> tuple[object, ...]:
        if self._again is AbsentStore:
            return AbsentStore, (self._process, self._what, AbsentStore, *self._state)
        return self._again, (self._process, *self._state)

    def describe(self, key: str) -> str:
        """Return the name of `key` in messages."""
        return repr(key)

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        if name not in missing_members(None):
            raise AttributeError(name)
        return self._fail

    def _fail(self, *_: object, **__: object) -> NoReturn:
        check_process(self._process, self._what)
        raise FailedPreconditionError(f"{self._what} was unpickled after it had been deleted")
