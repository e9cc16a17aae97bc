"""Protocols of kvstores; a store implements those that its storage allows.

Keys are ``str`` (byte keys that are not UTF-8 come as surrogate escapes), relative to the store.
A missing key is a value (None); failure is an exception.  A write is atomic for its key.  The
generation of a key is an opaque ``bytes`` that changes with every write: ``b""`` is unknown,
`MISSING_GENERATION` says that the key does not exist.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeGuard, TypeVar

if TYPE_CHECKING:
    import numpy as np

    from chunkwise.core.kvstore.traits import StoreTraits

__all__ = [
    "MISSING_GENERATION",
    "MOST_LOST",
    "UNKNOWN_GENERATION",
    "Buffer",
    "ByteRange",
    "Children",
    "EntryListable",
    "KvStoreDriver",
    "ListEntry",
    "Listable",
    "ManyReadable",
    "OpenValue",
    "RangeReadable",
    "Readable",
    "Reader",
    "SizeReadable",
    "Stamped",
    "SyncedLater",
    "TypedAttributes",
    "ValueOpenable",
    "WithDirectories",
    "Writable",
    "describe",
    "digest_generation",
    "is_store",
    "missing_members",
    "offers",
]

Buffer: TypeAlias = bytes | bytearray | memoryview

UNKNOWN_GENERATION = b""
MISSING_GENERATION = b"\x02"
MOST_LOST = 100
"""Attempts at a value that others replace or remove, before that is an error."""
# Each is lost only to a write that ends while it is under way, and writing takes longer than reading: so many
# in a row mean that something else is wrong.

P = TypeVar("P")


class ByteRange(NamedTuple):
    """Part of a value, in bytes: ``start`` may be negative (from the end) when ``stop`` is None."""

    start: int = 0
    stop: int | None = None


class Stamped(NamedTuple):
    """A value with its version.

    Attributes
    ----------
    value : bytes-like or None
        None if the key is missing, or if `generation` is the one that the caller has already.
    generation : bytes
        MISSING_GENERATION for a missing key.
    time : float
        Seconds since the epoch at which this was known to be current.
    """

    value: Buffer | None
    generation: bytes
    time: float


class Children(NamedTuple):
    """A level of a listing: the keys directly below a prefix, and the prefixes (without the final "/")."""

    keys: list[str]
    prefixes: list[str]

    @classmethod
    def of(cls, prefix: str, below: Iterable[str]) -> Children:
        """Return the level below `prefix` of all keys that begin with it, in their order."""
        keys: list[str] = []
        prefixes: dict[str, None] = {}
        for key in below:
            name, slash, _ = key[len(prefix) :].partition("/")
            if slash:
                prefixes[prefix + name] = None
            else:
                keys.append(key)
        return cls(keys, list(prefixes))


def describe(store: object, key: str) -> str:
    """Return the name of `key` in `store`, or the quoted key if it has none."""
    own = getattr(store, "describe", None)
    return own(key) if own is not None else f'"{key}"'


Reader: TypeAlias = Callable[..., "Buffer | None"]
"""``reader(key, start=0, stop=None)``: the bytes, or None if the key is missing.

What it returns is valid until its next call: the reader may own the memory.  One worker at a time.
"""


class Readable(Protocol):
    """A store that values can be read from."""

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Return the value of `key` or a part of it, with its generation.

        Raises
        ------
        OutOfRangeError
            If `byte_range` does not lie inside the value.
        """
        ...

    def open_reader(self) -> Reader:
        """Return a fast reader without generations, for the use of one worker."""
        ...


class RangeReadable(Readable, Protocol):
    """A store that serves several byte ranges of one key for one request."""

    def read_ranges(self, key: str, starts: Sequence[int], stops: Sequence[int]) -> list[Buffer] | None: ...


class OpenValue(Protocol):
    """A value that is open, until `close`: all that is read of it is of one generation.

    Attributes
    ----------
    size : int
        In bytes.
    stamp : hashable or None
        Equal for two of one key only if the values are; None if that can't be told.
    """

    @property
    def size(self) -> int: ...
    @property
    def stamp(self) -> Hashable | None: ...

    def read(
        self, starts: Sequence[int], stops: Sequence[int], memory: memoryview | None = None
    ) -> list[memoryview]:
        """Return the bytes of each range, which may lie in `memory`.

        Raises
        ------
        OutOfRangeError
            If one does not lie inside the value, before memory is taken for any.
        """
        ...

    def changed(self) -> bool:
        """Return True if somebody has written to the value in place since it was opened."""
        ...

    def close(self) -> None:
        """Let go of the value; what was read of it stays."""
        ...


class ValueOpenable(Readable, Protocol):
    """A store that opens a value once for all that is read of it."""

    def open_value(self, key: str) -> OpenValue | None:
        """Open the value of `key`, for one worker; None if it is missing."""
        ...


class SizeReadable(Readable, Protocol):
    """A store that knows the size of a value without reading it."""

    def read_size(self, key: str) -> int:
        """Return the size of the value of `key` in bytes; 0 if it is missing."""
        ...


class ManyReadable(Readable, Protocol):
    """A store in which many keys can share a request."""

    def read_many(self, keys: Sequence[str]) -> list[Buffer | None]:
        """Return the values of the first of `keys`, of at least one, None for those that are missing."""
        ...


class Writable(Protocol):
    """A store that values can be written to."""

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Replace the value of `key` atomically; return the new generation.

        With `if_equal`, only if the current generation is that; returns None, writing nothing, if not.
        """
        ...

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Delete `key`; deleting a missing key is no error.  Conditions and result as for `write`."""
        ...

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Delete all keys in ``[start, stop)``, ordered by their UTF-8 bytes; an empty `stop` is no bound."""
        ...


class Listable(Protocol):
    """A store that knows its keys."""

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        """Yield the keys in ``[start, stop)``; the order is not specified."""
        ...

    def list_children(self, prefix: str) -> Children:
        """List one level below `prefix`, which is empty or ends in "/"."""
        ...


class WithDirectories(Listable, Protocol):
    """A store that can tell a directory without looking through what it lies in."""

    def is_directory(self, path: str) -> bool:
        """Return True if `path`, without the final "/", is a directory, perhaps an empty one."""
        ...


class ListEntry(NamedTuple):
    """A key, with the size of its value in bytes, and its ETag if the listing has it."""

    key: str
    size: int
    e_tag: str | None


class EntryListable(Listable, Protocol):
    """A store whose listings tell more than keys."""

    def list_entries(self, start: str = "", stop: str = "") -> Iterator[ListEntry]:
        """Yield the entries of the keys in ``[start, stop)``."""
        ...


class SyncedLater(Protocol):
    """A store whose values can be waited for together, after they were written."""

    def unsynced(self) -> KvStoreDriver | None:
        """Return the same store with writes that don't wait for the disk; None if its own don't."""
        ...

    def sync(
        self, keys: Iterable[str], prefix: str, each: Callable[[Callable[[str], None], Sequence[str]], object]
    ) -> None:
        """Wait until the values of `keys` and all names below `prefix`, a directory, are on disk.

        ``each(function, arguments)`` calls a function with each of the arguments, perhaps in threads.
        Of keys that were deleted it is the absence that is waited for.
        """
        ...


class TypedAttributes(Protocol):
    """A store over a file of another format, whose attributes have more than JSON can say."""

    def number_types(self, prefix: str) -> Mapping[str, np.dtype[Any]]:
        """Return the types of those attributes of the node at `prefix` that are numbers."""
        ...

    def left_out(self, prefix: str) -> Mapping[str, str]:
        """Return the attributes of a node that JSON doesn't have, or not as they are, and why."""
        ...


class KvStoreDriver(Readable, Writable, Listable, Protocol):
    """A store that can do all of it.

    Attributes
    ----------
    identity : hashable
        Equal for two drivers exactly if they are the same storage.
    traits : StoreTraits
        How it is used best, and what it promises.  A store of a third party may lack it: see
        `chunkwise.core.kvstore.traits.traits_of`.
    """

    @property
    def identity(self) -> Hashable: ...
    @property
    def traits(self) -> StoreTraits: ...
    def describe(self, key: str) -> str:
        """Return the name of `key` in messages: ``local file "/data/a/0/0"``."""
        ...


def digest_generation(value: Buffer | None) -> bytes:
    """Return the generation of a value in a store that has no generations of its own: a digest of it."""
    return MISSING_GENERATION if value is None else b"\0" + hashlib.blake2b(value, digest_size=16).digest()


def offers(value: object, protocol: Callable[..., P]) -> TypeGuard[P]:
    """Return True if `value` has all members of `protocol` that have no default."""
    # No isinstance: from Python 3.12 on it does not see what __getattr__ gives.
    return all(hasattr(value, name) for name in _members(protocol))


@cache
def _members(protocol: Any) -> tuple[str, ...]:
    return tuple(name for name in dir(protocol) if not name.startswith("_") and name != "traits")


def missing_members(store: object) -> tuple[str, ...]:
    """Return the names of what a store must have and this one has not."""
    return tuple(name for name in _members(KvStoreDriver) if not hasattr(store, name))


def is_store(value: object) -> TypeGuard[KvStoreDriver]:
    """Return True if `value` has all that a store must have; a class of stores has not."""
    return not isinstance(value, type) and offers(value, KvStoreDriver)
