"""``chunkwise.zarr.Store``: a kvstore of chunkwise as a store of zarr-python."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from itertools import islice
from typing import Any, TypeVar

import zarr.abc.store
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import Buffer, default_buffer_prototype

from chunkwise import Context
from chunkwise.errors import OutOfRangeError
from chunkwise.extension import Buffer as Bytes
from chunkwise.extension import ByteRange, KvStoreSpec, Members, kvstores
from chunkwise.extension.inside import (
    MISSING_GENERATION,
    KeyRange,
    Locatable,
    answers_at_once,
    in_background,
    open_size,
    stored_nbytes,
)
from chunkwise.extension.trees import Location, LocationLike, locate, location_of

__all__ = ["Store"]

T = TypeVar("T")

_LISTED_AT_ONCE = 1000  # keys between two turns of the event loop


class Store(zarr.abc.store.Store, Locatable):
    """A kvstore as a store of zarr-python 3: files, object stores, archives, caches, memory.

    Values are written atomically, `set_if_not_exists` is one atomic step, and operations that wait for a disk
    or a network run in threads of chunkwise.  `chunkwise.open` and `chunkwise.open_group` take it too.

    Parameters
    ----------
    kvstore : str, path-like, mapping, KvStore, KvStore.Spec or store object
        Path, URL, spec or its JSON, or open kvstore, as `chunkwise.open_group` takes it.
    read_only : bool
        Refuse writes and deletions.
    context : Context, optional
        Source of shared resources; by default new ones.

    Raises
    ------
    ValueError, TypeError
        If `kvstore` doesn't describe a store.

    Examples
    --------
    >>> import zarr, chunkwise.zarr
    >>> store = chunkwise.zarr.Store("memory://example/")
    >>> zarr.create_array(store, shape=(4,), dtype="int32")[1:3] = [7, 8]
    >>> zarr.open_array(store, mode="r")[:]
    array([0, 7, 8, 0], dtype=int32)
    """

    supports_writes = True
    supports_deletes = True
    supports_listing = True

    def __init__(
        self, kvstore: LocationLike, *, read_only: bool = False, context: Context | None = None
    ) -> None:
        super().__init__(read_only=read_only)
        self._place(locate(kvstore, context))

    def _place(self, location: Location) -> None:
        self._location = location
        self._driver = location.store
        self._prefix = location.path
        self._at_once = answers_at_once(self._driver)

    def _bound_spec(self) -> KvStoreSpec:
        """Return the spec of the keys, or of this object if it refuses writes."""
        if not self.read_only:
            return self._location.kvstore()
        spec: KvStoreSpec = kvstores.find("object").parse(Members({"object": self}))
        return spec

    def with_read_only(self, read_only: bool = False) -> Store:
        """Return a store of the same keys that refuses writes, or doesn't."""
        return type(self)(self._location, read_only=read_only)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Store)
            and self.read_only == other.read_only
            and self._prefix == other._prefix
            and self._driver.identity == other._driver.identity
        )

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, Any]:
        return {"store": self._location.kvstore(), "read_only": self._read_only, "is_open": self._is_open}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__init__(read_only=state["read_only"])
        self._is_open = state["is_open"]
        self._place(location_of(state["store"]))

    def __str__(self) -> str:
        return self._location.url

    def __repr__(self) -> str:
        return f"chunkwise.zarr.Store({self._location.url!r}{', read_only=True' if self.read_only else ''})"

    async def _run(self, work: Callable[[], T]) -> T:
        """Do `work` in a thread, unless it takes less time than starting one."""
        return work() if self._at_once else await in_background(work)

    # -- reading --------------------------------------------------------------------------------------

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """Return the value of `key` or a part of it, None if there is no such key.

        Parameters
        ----------
        key : str
        prototype : zarr.core.buffer.BufferPrototype
        byte_range : RangeByteRequest, OffsetByteRequest or SuffixByteRequest, optional
            A part beyond the end of the value is left out.
        """
        return await self._run(lambda: self.get_sync(key, prototype=prototype, byte_range=byte_range))

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:
        """Return the result of `get`, synchronously."""
        found = self._read(key, byte_range)
        return found if found is None else (prototype or default_buffer_prototype()).buffer.from_bytes(found)

    def _read(self, key: str, byte_range: Any) -> Bytes | None:
        name = self._prefix + key
        if byte_range is None:
            return self._driver.read(name).value
        start, stop = _bounds(byte_range)
        if start != stop:
            try:
                return self._driver.read(name, byte_range=ByteRange(start, stop)).value
            except OutOfRangeError:
                pass
        value = self._driver.read(name).value
        return value if value is None else bytes(memoryview(value)[slice(*_bounds(byte_range))])

    async def get_partial_values(self, prototype: Any, key_ranges: Iterable[tuple[str, Any]]) -> list[Any]:
        """Return the parts of values in the order that they were asked for; None for missing keys."""
        return await asyncio.gather(*(self.get(key, prototype, part) for key, part in key_ranges))

    async def _get_many(self, requests: Iterable[tuple[str, Any, Any]]) -> AsyncIterator[tuple[str, Any]]:
        asked = list(requests)
        found = await asyncio.gather(*(self.get(*request) for request in asked))
        for (key, *_), value in zip(asked, found, strict=True):
            yield key, value

    async def exists(self, key: str) -> bool:
        """Return True if there is a value at `key`, which may be empty."""
        return await self._run(lambda: self._exists(key))

    def _exists(self, key: str) -> bool:
        return self._driver.read(self._prefix + key, byte_range=ByteRange(0, 0)).value is not None

    async def getsize(self, key: str) -> int:
        """Return the size of a value in bytes; raise FileNotFoundError if there is none."""

        def size() -> int:
            name = self._prefix + key
            if not self._exists(key):
                raise FileNotFoundError(self._driver.describe(name))
            return open_size(self._driver)(name)

        return await self._run(size)

    async def getsize_prefix(self, prefix: str) -> int:
        """Return the size of all values whose keys begin with `prefix`, in bytes."""
        return await self._run(lambda: stored_nbytes(self._driver, self._prefix + prefix))

    # -- writing --------------------------------------------------------------------------------------

    async def set(self, key: str, value: Any) -> None:
        """Replace the value of `key`; readers see the old one or the new one."""
        await self._write(key, value)

    async def set_if_not_exists(self, key: str, value: Any) -> None:
        """Write the value of `key` unless there is one, safely against concurrent writers."""
        await self._write(key, value, MISSING_GENERATION)

    async def _write(self, key: str, value: Any, if_equal: bytes | None = None) -> None:
        data = self._checked(value)
        await self._run(lambda: self._driver.write(self._prefix + key, data, if_equal=if_equal))

    def set_sync(self, key: str, value: Any) -> None:
        """Do the same as `set`, synchronously."""
        self._driver.write(self._prefix + key, self._checked(value))

    def _checked(self, value: Any) -> memoryview:
        self._check_writable()
        if not isinstance(value, Buffer):
            raise TypeError(f"a value must be a Buffer of zarr-python, got {type(value).__name__}")
        return memoryview(value.as_numpy_array()).cast("B")

    async def delete(self, key: str) -> None:
        """Delete `key`; a missing key is not an error."""
        await self._run(lambda: self.delete_sync(key))

    def delete_sync(self, key: str) -> None:
        """Do the same as `delete`, synchronously."""
        self._check_writable()
        self._driver.delete(self._prefix + key)

    async def delete_dir(self, prefix: str) -> None:
        """Delete all keys below the directory `prefix`; all of the store if it is empty."""
        self._check_writable()
        keys = KeyRange.of_prefix(self._directory(prefix))
        await self._run(lambda: self._driver.delete_range(keys.start, keys.stop))

    # -- listing --------------------------------------------------------------------------------------

    def _directory(self, prefix: str) -> str:
        below = prefix.strip("/")
        return f"{self._prefix}{below}/" if below else self._prefix

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield the keys that begin with `prefix`, whole."""
        keys = KeyRange.of_prefix(self._prefix + prefix)
        found = await self._run(lambda: iter(self._driver.list(keys.start, keys.stop)))
        while some := await self._run(lambda: list(islice(found, _LISTED_AT_ONCE))):
            for key in some:
                yield key[len(self._prefix) :]

    def list(self) -> AsyncIterator[str]:
        """Yield all keys."""
        return self.list_prefix("")

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names directly below the directory `prefix`, of keys and of directories, once each."""
        below = self._directory(prefix)
        found = await self._run(lambda: self._driver.list_children(below))
        for name in dict.fromkeys([*found.keys, *found.prefixes]):
            yield name[len(below) :]

    async def is_empty(self, prefix: str) -> bool:
        """Return True if no key lies below the directory `prefix`."""
        keys = KeyRange.of_prefix(self._directory(prefix))
        return await self._run(lambda: next(iter(self._driver.list(keys.start, keys.stop)), None) is None)


def _bounds(byte_range: Any) -> tuple[int, int | None]:
    """Return the first byte of a request, negative from the end, and the one after its last."""
    if isinstance(byte_range, RangeByteRequest):
        return byte_range.start, max(byte_range.start, byte_range.end)
    if isinstance(byte_range, OffsetByteRequest):
        return byte_range.offset, None
    if isinstance(byte_range, SuffixByteRequest):
        # All but the last none are no bytes, and so are those from the end on.
        return (-byte_range.suffix, None) if byte_range.suffix else (0, 0)
    raise ValueError(
        "Unexpected byte_range, got "
        f"{byte_range!r}; expected a RangeByteRequest, an OffsetByteRequest or a SuffixByteRequest"
    )
