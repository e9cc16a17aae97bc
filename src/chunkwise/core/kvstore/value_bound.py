"""Values of stores within the bounds of `chunkwise.core.base.size_bound`.

A part of a value, with a given end, is as large as its reader wants, so only whole values have a bound other
than memory.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from chunkwise.core.base.size_bound import DOCUMENT, bounded, largest_value, too_large
from chunkwise.core.kvstore.protocol import ByteRange, Readable, Stamped
from chunkwise.errors import StorageError

__all__ = ["PageInsteadError", "check_size", "read_bounded", "read_own"]


class PageInsteadError(StorageError):
    """A web server sent a page in place of a value: a login, what is missing, or a list of a directory."""


def check_size(size: int, name: str, start: int = 0, stop: int | None = None) -> None:
    """Raise if a value, or the part ``[start, stop)`` of it, must not be read; `name` is its URL or path."""
    with bounded(None) if stop is not None or start < 0 else nullcontext():
        if size > largest_value():
            raise too_large(f"Failed to read {name}: it is said to have {size} bytes")


def read_bounded(
    store: Readable, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
) -> Stamped:
    """Return a metadata document, or a part; raise StorageError if it is too large for one."""
    options: dict[str, Any] = {}
    if byte_range is not None:
        options["byte_range"] = byte_range
    if if_not_equal is not None:
        options["if_not_equal"] = if_not_equal
    with bounded(DOCUMENT):
        return store.read(key, **options)


def read_own(store: Readable, key: str, **options: Any) -> Stamped:
    """Return a value that a store needs to find others, such as a table of its keys."""
    with bounded(None):
        return store.read(key, **options)
