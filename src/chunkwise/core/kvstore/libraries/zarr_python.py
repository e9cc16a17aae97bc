"""A store of zarr-python, or another subclass of its ``zarr.abc.store.Store``, used directly.

Coroutines run on zarr-python's own event loop, since connections that zarr-python has opened belong to that
loop.

Compatibility
-------------
Such a store has no generations, so a digest is used, and no conditional writes.  If all values are in this
process (memory, an open archive, a session of Icechunk), conditional writes of chunkwise exclude each other
here; otherwise changing a part of a value is refused unless the caller promises to be the only writer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Sequence
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from chunkwise.core.base.binding import dump
from chunkwise.core.base.limits import bounded, held, largest_value
from chunkwise.core.base.threads import KeyLocks
from chunkwise.core.kvstore.key_range import KeyRange, encode_key
from chunkwise.core.kvstore.objects.failure import is_failure, raise_failure
from chunkwise.core.kvstore.protocol import (
    MISSING_GENERATION,
    Buffer,
    ByteRange,
    Children,
    Reader,
    Stamped,
    digest_generation,
)
from chunkwise.core.kvstore.request_limits import DEFAULT_CONCURRENCY
from chunkwise.core.kvstore.store_base import StoreBase
from chunkwise.core.kvstore.this_process import reduced
from chunkwise.core.kvstore.traits import StoreTraits
from chunkwise.core.kvstore.value import check_range, check_size, slice_range
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, UnsafeWriteError, UnsupportedError

if TYPE_CHECKING:
    from zarr.abc.store import Store

__all__ = ["ZarrPythonStore", "is_zarr_python", "store_class"]

T = TypeVar("T")

_MISSING = (FileNotFoundError, IsADirectoryError, NotADirectoryError, KeyError)
_NO_KEY_OF_ICECHUNK = ("invalid zarr key format", "node not found", "invalid chunk index")
_NO_NODE_OF_ICECHUNK = "bad key prefix"  # of a listing, which can begin at a node only
# Number of names to look up one by one, with two requests each: four rounds of concurrent requests.  Beyond
# that, everything below is listed, a thousand keys a request.
_LARGEST_LEVEL = 2 * DEFAULT_CONCURRENCY


class ZarrPythonRequests:
    """Requests to one store, which is opened first; opening a store `in_memory` awaits nothing."""

    def __init__(self, store: Store, *, in_memory: bool) -> None:
        from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
        from zarr.core.buffer import cpu
        from zarr.core.sync import sync

        self.store = store
        self.synchronous = hasattr(store, "get_sync")  # it has synchronous methods
        self._ranges = RangeByteRequest, OffsetByteRequest, SuffixByteRequest
        self._prototype = cpu.buffer_prototype
        self._wait = sync
        if not getattr(store, "_is_open", True):
            opening = store._ensure_open()
            if in_memory:  # a coroutine on the loop may open it
                with suppress(StopIteration):
                    opening.send(None)
            else:
                sync(opening)

    def describe(self, key: str) -> str:
        """Return the quoted key and the class of the store."""
        return f"{dump(key)} in {type(self.store).__name__}"

    def get(self, key: str, start: int = 0, stop: int | None = None) -> memoryview | None:
        """Return the bytes of a range, which may be fewer; None if `key` is missing."""
        whole = start == 0 and stop is None
        if whole and self.synchronous and held() is not None:
            stop = largest_value() + 1
        request = None if start == 0 and stop is None else self._range(start, stop)
        try:
            if self.synchronous:
                found = self.store.get_sync(key, prototype=self._prototype, byte_range=request)
            else:
                found = self._wait(self.store.get(key, self._prototype, request))
        except BaseException as e:
            if _is_missing(e):
                return None
            self._fail(e, "read", key)
        if found is not None and whole:
            check_size(len(found), self.describe(key))
        return None if found is None else _view(found)

    def get_ranges(
        self, key: str, starts: Sequence[int], stops: Sequence[int]
    ) -> Sequence[memoryview | None]:
        """Return the bytes of each range by one round of requests; None for those to request again."""
        if self.synchronous:
            return [None] * len(starts)

        async def get(start: int, stop: int) -> memoryview | None:
            if start == stop:
                return None
            try:
                found = await self.store.get(key, self._prototype, self._range(start, stop))
            except BaseException as e:
                if not is_failure(e):
                    raise
                return None  # raised again when requested alone
            return None if found is None else _view(found)

        async def get_all() -> list[memoryview | None]:
            return await asyncio.gather(*map(get, starts, stops))

        parts: list[memoryview | None] = self._wait(get_all())
        return parts

    def _range(self, start: int, stop: int | None) -> Any:
        part, offset, suffix = self._ranges
        if stop is not None:
            return part(start, stop)
        return offset(start) if start >= 0 else suffix(-start)

    def set(self, key: str, value: bytes) -> None:
        """Replace the value of `key`."""
        self._change("write", key, "set", self._prototype.buffer.from_bytes(value))

    def delete(self, key: str) -> None:
        """Delete `key`, which may be missing."""
        self._change("delete", key, "delete")

    def _change(self, operation: str, key: str, method: str, *arguments: Any) -> None:
        now = getattr(self.store, f"{method}_sync", None)
        try:
            if now is not None:
                now(key, *arguments)
            else:
                self._wait(getattr(self.store, method)(key, *arguments))
        except BaseException as e:
            if operation == "delete" and _is_missing(e):
                return
            self._fail(e, operation, key)

    def list_keys(self, prefix: str) -> Sequence[str]:
        """Return all keys that begin with `prefix`, a directory, and perhaps others."""
        return self._list(prefix, lambda: self._keys(prefix))

    def list_level(self, prefix: str) -> Sequence[tuple[str, bool, bool]] | None:
        """Return the names below `prefix`, with whether each is a key and a prefix; None for too many."""
        return self._list(prefix, lambda: self._level(prefix))

    def _list(self, prefix: str, request: Callable[[], Awaitable[T]]) -> T | list[Any]:
        if not self.store.supports_listing:
            raise UnsupportedError(f"{self.describe(prefix)} can't be listed: the store has no listings")
        try:
            found: T = self._wait(request())
        except _MISSING:
            return []
        except BaseException as e:
            self._fail(e, "list", prefix)
        return found

    async def _keys(self, prefix: str) -> Sequence[str]:
        above = prefix
        while True:
            try:
                return await _collect(self.store.list_prefix(above))
            except Exception as e:
                if not above or _NO_NODE_OF_ICECHUNK not in str(e):
                    raise
                if above == prefix and await self.store.is_empty(prefix):
                    return []
                above = above.rstrip("/").rpartition("/")[0]

    async def _level(self, prefix: str) -> Sequence[tuple[str, bool, bool]] | None:
        # A name in a listing may be a key, a prefix or both, and `exists` is true for directories too.
        names = {name.rstrip("/").rpartition("/")[2] for name in await _collect(self.store.list_dir(prefix))}
        if len(names) > _LARGEST_LEVEL:
            return None

        async def kind(name: str) -> tuple[str, bool, bool]:
            try:
                is_key = await self.store.get(name, self._prototype) is not None
            except Exception as e:
                if not _is_missing(e):
                    raise
                is_key = False
            return name, is_key, not await self.store.is_empty(name + "/")

        return await asyncio.gather(*(kind(prefix + name) for name in names if name))

    def _fail(self, error: BaseException, operation: str, key: str) -> NoReturn:
        what = f"{operation} {self.describe(key)}"
        if operation == "write" and _is_missing(error):
            raise InvalidArgumentError(f"Invalid key: Failed to {what}: {error}") from error
        raise_failure(error, what)


async def _collect(found: AsyncIterator[str]) -> Sequence[str]:
    return [name async for name in found]


def _view(found: Any) -> memoryview:
    return memoryview(found.as_numpy_array()).cast("B")


def _is_missing(error: BaseException) -> bool:
    """Return True for an error that means a missing key."""
    if isinstance(error, _MISSING):
        return True
    kind = type(error)
    text = str(error) if "icechunk" in f"{kind.__module__}.{kind.__name__}".lower() else ""
    return any(said in text for said in _NO_KEY_OF_ICECHUNK)


_IN_MEMORY = ("zarr.MemoryStore", "zarr.ManagedMemoryStore")
_BY_OBJECT = (*_IN_MEMORY, "zarr.ZipStore")
_OF_ONE_PROCESS = (*_BY_OBJECT, "icechunk.IcechunkStore")
_NEVER_CHANGED = ("virtualizarr.ManifestStore", "tifffile.ZarrTiffStore", "tifffile.ZarrFileSequenceStore")
_locks = KeyLocks()  # locks of all stores, by key, since two stores may have the same storage


def is_zarr_python(value: object) -> bool:
    """Return True if `value` is a store of zarr-python 3 or of a subclass."""
    return any(f"{c.__module__}.{c.__name__}" == "zarr.abc.store.Store" for c in type(value).__mro__)


def store_class(value: object) -> str:
    """Return the package and the name of the class of `value`, such as ``zarr.LocalStore``."""
    kind = type(value)
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def _is_in_memory(store: Any) -> bool:
    """Return True if the values of a store, perhaps below wrappers, are in the memory of this process."""
    within = getattr(store, "_store", None)  # of zarr-python's `WrapperStore`
    return store_class(store) in _IN_MEMORY or (is_zarr_python(within) and _is_in_memory(within))


class ZarrPythonStore(StoreBase):
    """The keys of a store of zarr-python."""

    def __init__(self, store: Store, *, single_writer: bool = False) -> None:
        self.store = store
        self.single_writer = single_writer  # the caller's promise that there is no other writer
        self._kind = store_class(store)
        self._in_memory = self._kind in _IN_MEMORY
        self._fixed = self._kind in _NEVER_CHANGED or (
            self._kind == "icechunk.IcechunkStore" and store.read_only
        )
        self._requests = ZarrPythonRequests(store, in_memory=self._in_memory)

    def __reduce__(self) -> tuple[object, ...]:
        if _is_in_memory(self.store):
            what = "a `MemoryStore` of zarr-python"
            return reduced(self.store, id(self.store), what, _unpickle, self.single_writer)
        return _unpickle, (self.store, self.single_writer)

    @property
    def traits(self) -> StoreTraits:
        """Those of a remote store, unless it answers at once, without conditional requests."""
        return StoreTraits(
            request_concurrency=None if self._requests.synchronous else DEFAULT_CONCURRENCY,
            conditional_deletes=self._excludes,
            conditional_writes=lambda key: self._excludes,
        )

    @property
    def _excludes(self) -> bool:
        return self.single_writer or self._kind in _OF_ONE_PROCESS

    @property
    def identity(self) -> Hashable:
        """The store object; a copy from a pickle is equal if zarr-python says so."""
        return "zarr", _Identity(self.store, by_value=self._kind not in _BY_OBJECT)

    def describe(self, key: str) -> str:
        """Return the quoted key and the class of the store."""
        return self._requests.describe(key)

    # -- reading --------------------------------------------------------------------------------------

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Return the value of `key` or a part of it, with its generation."""
        now = time.time()
        start, stop = byte_range or (0, None)
        if self._fixed:
            value, generation = self._load(key, start, stop), b"\0"
        else:
            with bounded(None) if byte_range else nullcontext():
                value = self._load(key)
            generation = digest_generation(value)
            if value is not None and byte_range is not None:
                value = slice_range(value, start, stop)
        if value is None:
            return Stamped(None, MISSING_GENERATION, now)
        return Stamped(None if generation == if_not_equal else value, generation, now)

    def open_reader(self) -> Reader:
        """Return a reader of values; its results stay valid."""
        return self._load

    def _load(self, key: str, start: int = 0, stop: int | None = None) -> Buffer | None:
        check_range(start, stop)
        if start == 0 and stop is None:
            return self._requests.get(key)
        if start != stop:
            part: Buffer | None
            try:
                part = self._requests.get(key, start, stop)
            except ChunkwiseError:  # some can't return parts, or fail if a part extends too far
                part = b""
            if part is None:
                return None
            if len(part) == (-start if start < 0 else -1 if stop is None else stop - start):
                return part
            if stop is None and start > 0 and len(part):
                return part
        # Empty or too short: the size of the value decides the error for the range.
        value = self._requests.get(key)
        return None if value is None else slice_range(value, start, stop)

    def read_ranges(self, key: str, starts: Sequence[int], stops: Sequence[int]) -> list[Buffer] | None:
        """Return the bytes of each range of the value of `key`, None if it is missing."""
        if not starts:
            return None if self._requests.get(key) is None else []
        out: list[Buffer] = []
        part: Buffer | None
        found = self._requests.get_ranges(key, starts, stops)
        for start, stop, part in zip(starts, stops, found, strict=True):
            if part is None or len(part) != stop - start:
                part = self._load(key, start, stop)
            if part is None:
                return None
            out.append(part)
        return out

    # -- writing --------------------------------------------------------------------------------------

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Replace the value of `key`; return its new generation, None if the current is not `if_equal`."""
        self._check_writable("write", key)
        if if_equal and if_equal != MISSING_GENERATION and not self._excludes:
            raise UnsafeWriteError(
                f"Failed to write {self.describe(key)}: stores of zarr-python have no conditional writes, "
                "so changing a part of a value could lose other writers' data; write whole values, or set "
                '"single_writer" if no other process writes'
            )
        new = bytes(value)
        with _locks.of(key):
            if if_equal and self._generation(key) != if_equal:
                return None
            self._requests.set(key, new)
        return digest_generation(new)

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Delete `key`; return MISSING_GENERATION, None if `if_equal` is not the current generation."""
        self._check_writable("delete", key)
        with _locks.of(key):
            if if_equal and self._generation(key) != if_equal:
                return None
            if not self.store.supports_deletes and self._requests.get(key) is not None:
                raise UnsupportedError(f"{self.describe(key)} can't be deleted: the store has no deletions")
            if self.store.supports_deletes:
                self._requests.delete(key)
        return MISSING_GENERATION

    def _generation(self, key: str) -> bytes:
        return digest_generation(self._requests.get(key))

    def _check_writable(self, operation: str, key: str) -> None:
        if self.store.read_only or not self.store.supports_writes:
            raise UnsupportedError(f"Failed to {operation} {self.describe(key)}: the store is read-only")

    # -- listing --------------------------------------------------------------------------------------

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        """Yield the keys in ``[start, stop)``."""
        keys = KeyRange.between(start, stop)
        if keys.empty:
            return
        yield from (key for key in self._requests.list_keys(keys.common_directory()) if key in keys)

    def list_children(self, prefix: str) -> Children:
        """List one level below `prefix`; keys and prefixes are complete."""
        found = self._requests.list_level(prefix)
        if found is None:
            return super().list_children(prefix)
        keys = [name for name, is_key, _ in found if is_key]
        prefixes = [name for name, _, is_prefix in found if is_prefix]
        return Children(sorted(keys, key=encode_key), sorted(prefixes, key=encode_key))


class _Identity:
    """A store object that can be compared and hashed."""

    def __init__(self, store: Store, *, by_value: bool) -> None:
        self._store = store
        self._by_value = by_value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Identity):
            return NotImplemented
        return other._store is self._store or bool(self._by_value and other._store == self._store)

    def __hash__(self) -> int:
        return hash(type(self._store)) if self._by_value else id(self._store)


def _unpickle(store: Store, single_writer: bool) -> ZarrPythonStore:
    return ZarrPythonStore(store, single_writer=single_writer)
