"""Traits of stores: their best use and their promises, in one record.

Each store and adapter has the member ``traits``.  Every field must be given, so a new field is a type error
in all of them until its value is decided.  A store of a third party may lack the member, and then has
`DEFAULT_TRAITS`; a store that differs in a field or two can use
``DEFAULT_TRAITS._replace(request_concurrency=16)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from chunkwise.core.kvstore.request_limits import Coalescing

if TYPE_CHECKING:
    from chunkwise.core.kvstore.caches import ShardIndexes

__all__ = [
    "DEFAULT_TRAITS",
    "IntoReader",
    "IsCached",
    "OpenIntoReader",
    "OpenWriter",
    "StoreTraits",
    "Writer",
    "traits_of",
]


class Writer(Protocol):
    """Unconditional writes and deletes of one worker, faster than the store's own."""

    def write(self, key: str, value: bytes | bytearray | memoryview) -> None:
        """Replace the value of `key` atomically."""
        ...

    def delete(self, key: str) -> None: ...
    def flush(self) -> None:
        """Return when all writes and deletions are as durable as the store makes them."""
        ...


IntoReader: TypeAlias = Callable[[str, memoryview], "int | None"]
"""``reader(key, out)``: fill `out` with the value of `key`, and return its size in bytes.

The size is one more than `out` holds if the value is longer, None if the key is missing.  For one worker at a
time.
"""

OpenIntoReader: TypeAlias = Callable[[], "IntoReader | None"]
OpenWriter: TypeAlias = Callable[[], Writer]


class IsCached(Protocol):
    """Return True if a reader would get these bytes of `key` without a request."""

    def __call__(self, key: str, start: int = 0, stop: int | None = None) -> bool: ...


def _always(key: str) -> bool:
    return True


class StoreTraits(NamedTuple):
    """The best use of a store, and its promises; by default a store that answers at once and keeps all.

    Attributes
    ----------
    request_concurrency : int or None
        Requests to keep under way, if each takes long; None for a store that answers at once.
    write_concurrency : int or None
        The same for writes, for a store that answers reads at once.
    io_limit : int or None
        Number of threads of one array read or write that may use the store at a time.
    coalescing : Coalescing or None
        Which byte ranges of one value share a request; None lets the caller decide.
    suffix_ranges : bool
        True if the last bytes of a value take one request, False if its size must be requested first.
    conditional_deletes : bool
        False if another writer can interfere between the check of the generation and the deletion.
    conditional_writes : callable
        ``conditional_writes(key)`` is False if the same holds for writes, so that changing a part of a value
        could lose other writers' data.  The first call may make requests.
    why_unsafe : callable
        ``why_unsafe()`` returns the reason, in words that follow "since"; empty if unknown.
    is_cached : IsCached or None
        Whether a value is cached; None if every read is a request, or none is.
    shard_indexes : ShardIndexes or None
        Cache for reads of parts of shards; None if reading an index again costs little.
    open_writer : callable or None
        ``open_writer()`` is a faster way to write many values.
    open_into_reader : callable or None
        ``open_into_reader()`` is a way to read values of known size into the caller's memory.
    current_readers : bool
        True if a reader of any age returns the values that are stored when it is called; False if it may keep
        using the version of the store from its start.
    nodes_only : bool
        True if a key must be a document or a chunk of Zarr v3, chunks follow the document of their array and
        go with it, and no reader sees changes before the caller commits them.
    by_reference : bool
        True if the values are parts of files in other formats, and the metadata is made up to describe them.
    own_generations : bool
        False if the change of a value changes the generations of others, as in an archive.
    """

    request_concurrency: int | None = None
    write_concurrency: int | None = None
    io_limit: int | None = None
    coalescing: Coalescing | None = None
    suffix_ranges: bool = True
    conditional_deletes: bool = True
    conditional_writes: Callable[[str], bool] = _always
    why_unsafe: Callable[[], str] = str
    is_cached: IsCached | None = None
    shard_indexes: ShardIndexes | None = None
    open_writer: OpenWriter | None = None
    open_into_reader: OpenIntoReader | None = None
    current_readers: bool = False
    nodes_only: bool = False
    by_reference: bool = False
    own_generations: bool = True

    def adapted(
        self,
        *,
        rename: Callable[[str], str] | None,
        is_cached: IsCached | None,
        shard_indexes: ShardIndexes | None,
        open_writer: OpenWriter | None,
        open_into_reader: OpenIntoReader | None,
    ) -> StoreTraits:
        """Return the traits of an adapter of one store, which itself has these traits.

        Parameters
        ----------
        rename : callable or None
            From a key of the adapter to the key of the store; None if they are equal.
        is_cached, shard_indexes, open_writer, open_into_reader
            The adapter's own, by its own keys, since these bypass its methods.
        """
        promised = self.conditional_writes
        return self._replace(
            conditional_writes=promised if rename is None else lambda key: promised(rename(key)),
            is_cached=is_cached,
            shard_indexes=shard_indexes,
            open_writer=open_writer,
            open_into_reader=open_into_reader,
            current_readers=False,
        )


DEFAULT_TRAITS = StoreTraits()
"""Traits of a store that answers at once and keeps every promise of the protocol."""


def traits_of(store: object) -> StoreTraits:
    """Return the traits of `store`, which are `DEFAULT_TRAITS` if it doesn't state any.

    Raises
    ------
    TypeError
        If its member ``traits`` is something else.
    """
    traits = getattr(store, "traits", DEFAULT_TRAITS)
    if not isinstance(traits, StoreTraits):
        raise TypeError(f"{type(store).__name__}.traits must be a StoreTraits, got {type(traits).__name__}")
    return traits
