"""A kvstore in memory: the object is the storage.

Any ``str`` is a key, even the empty one.  The generation of a value is 9 bytes: a zero, then the number of
the write as a 64-bit little-endian integer.

A pickle has the name of the storage, not its values: in the same process, it is unpickled as the same
storage.  In any other process its use is an error, since writes would be lost and reads would find nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, ClassVar

from chunkwise.core.base.threads import new_rlock
from chunkwise.core.kvstore.key_range import KeyRange, encode_key
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, Buffer, ByteRange, Reader, Stamped
from chunkwise.core.kvstore.store_base import StoreBase
from chunkwise.core.kvstore.this_process import itself, reduced
from chunkwise.core.kvstore.traits import DEFAULT_TRAITS, StoreTraits
from chunkwise.core.kvstore.value import slice_range, slice_ranges
from chunkwise.errors import AlreadyExistsError, NotFoundError

__all__ = ["MemoryStore"]


class MemoryStore(StoreBase):
    """Keys and values in a dict, for any number of threads."""

    traits: ClassVar[StoreTraits] = DEFAULT_TRAITS._replace(current_readers=True)

    def __init__(self) -> None:
        self._values: dict[str, tuple[Buffer, bytes]] = {}
        self._next = 0
        self._lock = new_rlock()  # a signal handler may write too
        self._name = os.urandom(16).hex()

    def __reduce__(self) -> tuple[object, ...]:
        return reduced(self, self._name, "a `memory://` store", itself)

    def __copy__(self) -> MemoryStore:
        copied = MemoryStore()
        with self._lock:
            copied._values = {key: (bytes(value), stamp) for key, (value, stamp) in self._values.items()}
            copied._next = self._next
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> MemoryStore:
        return self.__copy__()

    @property
    def identity(self) -> Hashable:
        """A value that is equal only for this storage."""
        return "memory", self._name

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Return the value of `key` or a part of it, with its generation."""
        now = time.time()
        found = self._values.get(key)
        if found is None:
            return Stamped(None, MISSING_GENERATION, now)
        value, generation = found
        if generation == if_not_equal:
            return Stamped(None, generation, now)
        if byte_range is not None:
            value = slice_range(value, *byte_range)
        return Stamped(value, generation, now)

    def open_reader(self) -> Reader:
        """Return a reader of values; its results stay valid."""
        get = self._values.get

        def read(key: str, start: int = 0, stop: int | None = None) -> Buffer | None:
            found = get(key)
            if found is None:
                return None
            value = found[0]
            if start == 0 and stop is None:
                return value
            return slice_range(memoryview(value), start, stop)

        return read

    def read_ranges(self, key: str, starts: Sequence[int], stops: Sequence[int]) -> list[Buffer] | None:
        """Return the bytes of each range of the value of `key`, None if that is missing."""
        found = self._values.get(key)
        return None if found is None else slice_ranges(found[0], starts, stops)

    def write(
        self, key: str, value: Buffer, *, if_equal: bytes | None = None, copy: bool = True
    ) -> bytes | None:
        """Replace the value of `key`; return its new generation, None if the current is not `if_equal`."""
        # Without `copy` the store keeps a reference to `value`, which must not change any more.
        kept = bytes(value) if copy else memoryview(value).cast("B").toreadonly()
        with self._lock:
            while True:
                n = self._next
                if if_equal and self._generation(key) != if_equal:
                    return None
                generation = b"\0" + n.to_bytes(8, "little")
                # A signal handler that writes runs before this comparison or after the assignments.
                if n == self._next:
                    self._next = n + 1
                    self._values[key] = kept, generation
                    return generation

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Delete `key`; return MISSING_GENERATION, None if `if_equal` is not the current generation."""
        with self._lock:
            if if_equal and self._generation(key) != if_equal:
                return None
            self._next += 1
            self._values.pop(key, None)
        return MISSING_GENERATION

    def write_all(
        self,
        values: Mapping[str, Buffer | None],
        *,
        conditions: Mapping[str, bytes],
        deleted: Sequence[KeyRange] = (),
    ) -> str | None:
        """Delete, then write, all at once if all `conditions` hold; return None, or a key that fails."""
        copies = {key: None if value is None else bytes(value) for key, value in values.items()}
        with self._lock:
            for key, generation in conditions.items():
                if self._generation(key) != generation:
                    return key
            gone = [key for key in self._values if any(key in keys for keys in deleted)]
            new = {}
            for key, copy in copies.items():
                if copy is None:
                    gone.append(key)
                else:
                    new[key] = copy, b"\0" + self._next.to_bytes(8, "little")
                    self._next += 1
            self._change(gone, new)
        return None

    def delete_where(self, start: str, stop: str, wanted: Callable[[str], bool]) -> None:
        """Delete the keys in ``[start, stop)`` that are `wanted`, all at once."""
        keys = KeyRange.between(start, stop)
        with self._lock:
            found = [key for key in self._values if keys.unbounded or key in keys]
            self._change([key for key in found if wanted(key)], {})

    def move_directory(self, source: str, target: str) -> None:
        """Rename all keys from ``source/...`` to ``target/...``, all at once."""
        with self._lock:
            if any(key.startswith(target + "/") for key in self._values):
                raise AlreadyExistsError(f"there are keys below {self.describe(target)}")
            moved = self._below(source)
            self._change(moved, {target + key[len(source) :]: found for key, found in moved.items()})

    def delete_directory(self, path: str, wanted: Callable[[str], bool] = lambda key: True) -> None:
        """Delete all keys that begin with ``path/``, or those that are `wanted`, all at once."""
        keys = KeyRange.of_prefix(path + "/")
        self.delete_where(keys.start, keys.stop, wanted)

    def can_exchange(self, path: str) -> bool:
        """Return True."""
        return True

    def exchange_directories(self, new: str, old: str, aside: str) -> bool:
        """Exchange the names of two directories, all at once; return False if `old` no longer exists."""
        with self._lock:
            found = dict(self._values)
            other = {k: v for k, v in found.items() if k.startswith(old + "/")}
            if not other:
                return False
            one = self._below(new)
            changed = {old + key[len(new) :]: value for key, value in one.items()}
            changed |= {new + key[len(old) :]: value for key, value in other.items()}
            self._change([key for key in (*one, *other) if key not in changed], changed)
        return True

    def link_keys(self, keys: Mapping[str, str]) -> None:
        """Share the value of each key with another key, too; an existing value of the other key stays."""
        with self._lock:
            found = {other: self._values.get(key) for key, other in keys.items() if other not in self._values}
            self._change((), {other: value for other, value in found.items() if value is not None})

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        """Yield the keys in ``[start, stop)`` that exist now, in order."""
        keys = KeyRange.between(start, stop)
        with self._lock:
            found = list(self._values)
        return iter(sorted((k for k in found if k in keys), key=encode_key))

    def _below(self, path: str) -> dict[str, tuple[Buffer, bytes]]:
        """Return the items of a directory, which must exist."""
        found = {k: v for k, v in dict(self._values).items() if k.startswith(path + "/")}
        if not found:
            raise NotFoundError(f"there are no keys below {self.describe(path)}")
        return found

    def _change(self, gone: Iterable[str], new: Mapping[str, tuple[Buffer, bytes]]) -> None:
        """Delete keys and put others, by one call, so readers and Ctrl-C come before or after it."""
        # The replaced values are returned, since dropping the last reference to a value may run code.
        list(chain(map(self._values.pop, [*gone, *new], repeat(None)), map(self._values.update, [new])))

    def _generation(self, key: str) -> bytes:
        found = self._values.get(key)
        return MISSING_GENERATION if found is None else found[1]
