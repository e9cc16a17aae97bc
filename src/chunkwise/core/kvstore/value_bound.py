"""Values of stores within the bounds of `chunkwise.core.base.size_bound`.

A part of a value, with a given end, is as large as its reader wants, so only whole values have a bound other
than memory.
"""

from __future__ import annotations

from typing import Any

from chunkwise.core.base.size_bound import DOCUMENT, bounded, held, largest_value, too_large
from chunkwise.core.kvstore.protocol import ByteRange, Readable, Stamped
from chunkwise.errors import StorageError

__all__ = ["PageInsteadError", "check_claim", "check_size", "read_bounded", "read_own"]


class PageInsteadError(StorageError):
    """A web server sent a page in place of a value: a login, an error, or a list of a directory."""


def check_size(size: int, name: str, start: int = 0, stop: int | None = None) -> None:
    """Raise if a value, or the part ``[start, stop)`` of it, must not be read; `name` is its URL or path."""
    is_part = stop is not None or start < 0
    if size > largest_value(is_part=is_part):
        raise too_large(f"Failed to read {name}: it is said to have {size} bytes", is_part=is_part)


def check_claim(size: int, name: str, start: int = 0, stop: int | None = None) -> None:
    """Like `check_size`, where a size that exceeds the memory is compared with the stored value."""
    if held() is not None:
        check_size(size, name, start, stop)


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
