"""A base class for stores of third parties: five methods to write; the rest is derived from them."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator

from chunkwise.core.base.binding import dump
from chunkwise.core.base.threads import Lock, new_lock
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.protocol import (
    MISSING_GENERATION,
    Buffer,
    ByteRange,
    Reader,
    Stamped,
    digest_generation,
)
from chunkwise.core.kvstore.store_base import StoreBase
from chunkwise.core.kvstore.traits import DEFAULT_TRAITS, StoreTraits
from chunkwise.core.kvstore.value import slice_range

__all__ = ["PluginStore"]

_locks: dict[Hashable, Lock] = {}  # by identity, since an unpickled store has the same storage
_making = new_lock()


class PluginStore(StoreBase, ABC):
    """Keys and values in a storage of your own.

    A subclass has `identity`, `get`, `put`, `remove` and `keys`.  Keys are ``str`` without restriction; bytes
    that are not UTF-8 appear as surrogates.  Several threads may call any method at once.  A failure raises
    an error of `chunkwise.errors`, or an OSError.

    Attributes
    ----------
    request_concurrency : int or None
        Requests to keep under way, if each takes long; None, the default, for a storage that answers at once.
    single_writer : bool
        True if no other process writes while this one does; then a lock of this process makes conditional
        writes safe.
    compares : bool
        True if `put_if` is overridden, and compares and writes in one step even beside other writers.

    Notes
    -----
    A generation is a digest of the value.  With neither `single_writer` nor `compares`, changing a part of a
    chunk is refused, since it could lose other writers' data.

    Examples
    --------
    >>> from chunkwise.extension import PluginStore
    >>> class Dictionary(PluginStore):
    ...     single_writer = True
    ...     def __init__(self):
    ...         self.values, self.name = {}, object()
    ...     @property
    ...     def identity(self):
    ...         return "dictionary", self.name
    ...     def get(self, key):
    ...         return self.values.get(key)
    ...     def put(self, key, value):
    ...         self.values[key] = value
    ...     def remove(self, key):
    ...         self.values.pop(key, None)
    ...     def keys(self, prefix):
    ...         return [key for key in list(self.values) if key.startswith(prefix)]
    >>> import chunkwise
    >>> store = Dictionary()
    >>> spec = {"driver": "zarr3", "kvstore": {"driver": "object", "object": store}}
    >>> array = chunkwise.open(spec, create=True, dtype="uint8", shape=[3]).result()
    >>> array[1] = 7
    >>> sorted(store.values)
    ['c/0', 'zarr.json']
    """

    request_concurrency: int | None = None
    single_writer: bool = False
    compares: bool = False

    @property
    @abstractmethod
    def identity(self) -> Hashable:
        """Equal for two stores exactly if they have the same storage."""

    @abstractmethod
    def get(self, key: str) -> Buffer | None:
        """Return the value of `key`; None if it is missing."""

    @abstractmethod
    def put(self, key: str, value: bytes) -> None:
        """Replace the value of `key`, so that readers see the old one or the new one."""

    @abstractmethod
    def remove(self, key: str) -> None:
        """Remove `key`; a missing key is not an error."""

    @abstractmethod
    def keys(self, prefix: str) -> Iterable[str]:
        """Return the keys that begin with `prefix`, in any order."""

    # -- may be overridden ---------------------------------------------------------------------------

    def get_range(self, key: str, start: int, stop: int | None) -> Buffer | None:
        """Return a part of a value, like `slice_range`; None if it is missing.

        A `start` below 0 counts from the end, without a `stop`.  A part that extends beyond the value is an
        OutOfRangeError.
        """
        value = self.get(key)
        return None if value is None else slice_range(value, start, stop)

    @staticmethod
    def generation_of(value: Buffer | None) -> bytes:
        """Return the generation of a value, or of a missing one if None."""
        return digest_generation(value)

    def put_if(self, key: str, value: bytes | None, generation: bytes) -> bool:
        """Replace the value of `key`, or remove it with None, if its generation is the one given."""
        with self._lock():
            if digest_generation(self.get(key)) != generation:
                return False
            if value is None:
                self.remove(key)
            else:
                self.put(key, value)
            return True

    def describe(self, key: str) -> str:
        """Return the name of `key` in messages."""
        return f"{type(self).__name__} {dump(key)}"

    # -- derived -------------------------------------------------------------------------------------

    @property
    def traits(self) -> StoreTraits:
        """Best use and promises of the store."""
        safe = self.compares or self.single_writer
        return DEFAULT_TRAITS._replace(
            request_concurrency=self.request_concurrency,
            conditional_deletes=safe,
            conditional_writes=lambda _: safe,
            why_unsafe=lambda: f"{type(self).__name__} is neither a single_writer nor compares",
            current_readers=True,
        )

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Return the value of `key` or a part of it, with its generation."""
        now = time.time()
        value = self.get(key)
        generation = digest_generation(value)
        if value is None or generation == if_not_equal:
            return Stamped(None, generation, now)
        return Stamped(value if byte_range is None else slice_range(value, *byte_range), generation, now)

    def open_reader(self) -> Reader:
        """Return a reader of values."""

        def read(key: str, start: int = 0, stop: int | None = None) -> Buffer | None:
            return self.get(key) if start == 0 and stop is None else self.get_range(key, start, stop)

        return read

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Replace the value of `key`; return its generation, None if the current is not `if_equal`."""
        new = bytes(memoryview(value).cast("B"))
        if if_equal:
            return digest_generation(new) if self.put_if(key, new, if_equal) else None
        with self._lock():
            self.put(key, new)
        return digest_generation(new)

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Delete `key`; return None if `if_equal` is not the current generation."""
        if if_equal:
            return MISSING_GENERATION if self.put_if(key, None, if_equal) else None
        with self._lock():
            self.remove(key)
        return MISSING_GENERATION

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        """Yield the keys in ``[start, stop)``."""
        wanted = KeyRange.between(start, stop)
        if not wanted.empty:
            yield from (key for key in self.keys(wanted.common_directory()) if key in wanted)

    def _lock(self) -> Lock:
        with _making:
            return _locks.setdefault(self.identity, new_lock())
