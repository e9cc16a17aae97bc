"""Limits on the size of a value, so that no server or file makes this process run out of memory.

A metadata document is parsed as a whole, so it has its own limit, which leaves room for the consolidated
metadata of large trees.  Any other value may be as large as the memory available to this process.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import cache
from typing import Any

from chunkwise.core.base.processors import memory_limit
from chunkwise.core.kvstore.protocol import ByteRange, Readable, Stamped
from chunkwise.errors import StorageError

__all__ = ["LARGEST_DOCUMENT", "PageInsteadError", "check_size", "largest_value", "read_bounded"]

LARGEST_DOCUMENT = 1 << 28  # bytes, see docs/remote.md

_bound: ContextVar[int | None] = ContextVar("largest value", default=None)
_memory = cache(memory_limit)


class PageInsteadError(StorageError):
    """A web server sent a page in place of a value: a login, what is missing, or a list of a directory."""


def largest_value() -> int:
    """Return the largest size, in bytes, of a value that may be read now."""
    bound = _bound.get()
    return _memory() if bound is None else bound


def check_size(size: int, name: str) -> None:
    """Raise StorageError if a value of this size must not be read; `name` is its URL or path."""
    most = largest_value()
    if size > most:
        what = "a metadata document may have" if _bound.get() is not None else "this process has memory for"
        raise StorageError(f"Failed to read {name}: it is said to have {size} bytes, and {what} {most}")


def read_bounded(
    store: Readable, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
) -> Stamped:
    """Return a metadata document, or a part; raise StorageError if it is too large for one."""
    options: dict[str, Any] = {}
    if byte_range is not None:
        options["byte_range"] = byte_range
    if if_not_equal is not None:
        options["if_not_equal"] = if_not_equal
    before = _bound.set(LARGEST_DOCUMENT)
    try:
        return store.read(key, **options)
    finally:
        _bound.reset(before)
