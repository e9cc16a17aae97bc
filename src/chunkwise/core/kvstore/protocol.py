"""Protocols of kvstores; a store implements those that its storage allows.

Keys are ``str`` (byte keys that are not UTF-8 come as surrogate escapes), relative to the store.
A missing key is returned as None; failure is an exception.  A write is atomic for its key.  The generation of
a key is an opaque ``bytes`` that changes with every write: ``b""`` is unknown, `MISSING_GENERATION` means
that the key does not exist.
"""

from __future__ import annotations

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
    "FewListable",
    "KvStoreDriver",
    "ListEntry",
    "Listable",
    "ManyReadable",
    "OpenValue",
    "RangeReadable",
    "Readable",
    "Reader",
    "SelectiveDeletable",
    "SizeReadable",
    "Stamped",
    "SyncedLater",
    "TypedAttributes",
    "ValueOpenable",
    "WithDirectories",
    "WithLinks",
    "Writable",
    "delete_where",
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
"""Attempts at a value that others keep replacing or removing, before an error is raised."""
# An attempt fails only if a write ends while it is under way, and writing takes longer than reading: so many
# in a row mean that something else is wrong.

P = TypeVar("P")


class ByteRange(NamedTuple):
    """Part of a value, in bytes: ``start`` may be negative (from the end) if ``stop`` is None."""

    start: int = 0
    stop: int | None = None


class Stamped(NamedTuple):
    """A value with its version.

    Attributes
    ----------
    value : bytes-like or None
        None if the key is missing, or if the caller already has `generation`.
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
        """Return the level below `prefix` from all keys that begin with it, in their order."""
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

A result is valid until the next call, since the reader may own the memory.  For one worker at a time.
"""


class Readable(Protocol):
    """A store that can be read."""

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
        """Return a fast reader without generations, for one worker."""
        ...


class RangeReadable(Readable, Protocol):
    """A store that returns several byte ranges of one key for one request."""

    def read_ranges(self, key: str, starts: Sequence[int], stops: Sequence[int]) -> list[Buffer] | None: ...


class OpenValue(Protocol):
    """An open value: until `close`, all reads are of one generation.

    Attributes
    ----------
    size : int
        In bytes.
    stamp : hashable or None
        Equal for two open values of a key only if the values are equal; None if unknown.
    """

    @property
    def size(self) -> int: ...
    @property
    def stamp(self) -> Hashable | None: ...

    def read(
        self, starts: Sequence[int], stops: Sequence[int], memory: memoryview | None = None
    ) -> list[memoryview]:
        """Return the bytes of each range, which may be in `memory`.

        Raises
        ------
        OutOfRangeError
            If a range is not inside the value, before memory is allocated.
        """
        ...

    def changed(self) -> bool:
        """Return True if the value was written in place since it was opened."""
        ...

    def close(self) -> None:
        """Close the value; bytes already read stay valid."""
        ...


class ValueOpenable(Readable, Protocol):
    """A store that opens a value once for several reads."""

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
        """Return the values of the first `keys`, at least one, None for missing ones."""
        ...


class Writable(Protocol):
    """A store that can be written."""

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Replace the value of `key` atomically; return the new generation.

        With `if_equal`, writes only if that is the current generation, and otherwise returns None.
        """
        ...

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Delete `key`; a missing key is not an error.  Conditions and result are as for `write`."""
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
    """A store that can recognize a directory without listing its parent."""

    def is_directory(self, path: str) -> bool:
        """Return True if `path`, without the final "/", is a directory, perhaps an empty one."""
        ...


class WithLinks(WithDirectories, Protocol):
    """A store in which symbolic links lead to directories; a link itself is a key."""

    def linked_directories(self, prefix: str) -> Sequence[str]:
        """Return the links directly below `prefix` that lead to directories, but not to those above them."""
        ...


class FewListable(Listable, Protocol):
    """A store that lists a directory with one request if it has few members."""

    def few_children(self, prefix: str) -> Children | None:
        """List one level below `prefix`; None if that takes more than one request."""
        ...


class ListEntry(NamedTuple):
    """A key, with the size of its value in bytes, and its ETag if the listing has it."""

    key: str
    size: int
    e_tag: str | None


class EntryListable(Listable, Protocol):
    """A store whose listings contain more than keys."""

    def list_entries(self, start: str = "", stop: str = "") -> Iterator[ListEntry]:
        """Yield the entries of the keys in ``[start, stop)``."""
        ...


class SelectiveDeletable(Protocol):
    """A store that deletes only some of the keys in a range as fast as all of them."""

    def delete_where(self, start: str, stop: str, wanted: Callable[[str], bool]) -> None:
        """Delete the keys in ``[start, stop)`` that are `wanted`, like ``delete_range``."""
        ...


class SyncedLater(Protocol):
    """A store that can wait for the disk after writing many values."""

    def unsynced(self) -> KvStoreDriver | None:
        """Return the same store with writes that don't wait for the disk; None if its own don't wait."""
        ...

    def sync(
        self, keys: Iterable[str], prefix: str, each: Callable[[Callable[[str], None], Sequence[str]], object]
    ) -> None:
        """Wait until the values of `keys` and all names below `prefix`, a directory, are on disk.

        ``each(function, arguments)`` calls a function with each of the arguments, perhaps in threads.
        For deleted keys, it waits until the deletion is on disk.
        """
        ...


class TypedAttributes(Protocol):
    """A store over a file of another format, whose attributes can't all be expressed in JSON."""

    def number_types(self, prefix: str) -> Mapping[str, np.dtype[Any]]:
        """Return the types of the numeric attributes of the node at `prefix`."""
        ...

    def left_out(self, prefix: str) -> Mapping[str, str]:
        """Return the attributes of a node that JSON lacks or changes, and why."""
        ...


class KvStoreDriver(Readable, Writable, Listable, Protocol):
    """A store that can read, write and list.

    Attributes
    ----------
    identity : hashable
        Equal for two drivers exactly if they have the same storage, also later: an ``id()`` is none, since
        another storage may have it afterwards.
    traits : StoreTraits
        Its best use and its promises.  A store of a third party may lack it: see
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
    """Return a digest of a value as its generation, for a store without generations."""
    from hashlib import blake2b  # loads OpenSSL

    return MISSING_GENERATION if value is None else b"\0" + blake2b(value, digest_size=16).digest()


def offers(value: object, protocol: Callable[..., P]) -> TypeGuard[P]:
    """Return True if `value` has all members of `protocol` without a default."""
    # Not isinstance: since Python 3.12 it ignores members from __getattr__.
    return all(hasattr(value, name) for name in _members(protocol))


def delete_where(store: KvStoreDriver, start: str, stop: str, wanted: Callable[[str], bool]) -> None:
    """Delete the keys in ``[start, stop)`` that are `wanted`, and no key that is made meanwhile unseen."""
    if offers(store, SelectiveDeletable):
        store.delete_where(start, stop, wanted)
    else:
        for key in [key for key in store.list(start, stop) if wanted(key)]:
            store.delete(key)


@cache
def _members(protocol: Any) -> tuple[str, ...]:
    return tuple(name for name in dir(protocol) if not name.startswith("_") and name != "traits")


def missing_members(store: object) -> tuple[str, ...]:
    """Return the names of the required members that a store lacks."""
    return tuple(name for name in _members(KvStoreDriver) if not hasattr(store, name))


def is_store(value: object) -> TypeGuard[KvStoreDriver]:
    """Return True if `value` has all required members of a store and is not a class."""
    return not isinstance(value, type) and offers(value, KvStoreDriver)
