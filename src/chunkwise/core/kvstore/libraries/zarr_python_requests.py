"""Synchronous requests to a store of zarr-python, with errors of chunkwise.

Coroutines run on zarr-python's own event loop, since connections that zarr-python has opened belong to that
loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from chunkwise.core.base.binding import dump
from chunkwise.core.base.size_bound import held, largest_value
from chunkwise.core.kvstore.libraries.foreign_failure import is_failure, raise_failure
from chunkwise.core.kvstore.request_limits import DEFAULT_CONCURRENCY
from chunkwise.core.kvstore.value_bound import check_size
from chunkwise.errors import (
    InvalidArgumentError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from zarr.abc.store import Store

__all__ = ["ZarrPythonRequests"]

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
