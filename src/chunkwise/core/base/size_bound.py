"""The largest value that is worth reading now, so that no server, file or codec exhausts the memory.

Whoever asks for a value knows how large it can be: a chunk from its codecs, a metadata document by a limit.
The bound is valid for everything that this thread does until it is released, so that stores and codecs take
no argument for it.  Without one, a value may be as large as the memory available to this process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import NamedTuple

from chunkwise.core.base.processors import memory_limit
from chunkwise.errors import ChunkwiseError, DataCorruptionError, StorageError, TooLargeError

__all__ = [
    "DOCUMENT",
    "SizeBound",
    "as_document",
    "bounded",
    "chunk_bound",
    "held",
    "hold",
    "largest_value",
    "release",
    "text_bound",
    "too_large",
]


class SizeBound(NamedTuple):
    """The largest size of a value, in bytes, and what to say of a larger one."""

    nbytes: int
    what: str
    error: type[ChunkwiseError]


DOCUMENT = SizeBound(1 << 26, "a metadata document may have", StorageError)
"""See docs/remote.md; consolidated metadata of a hundred thousand arrays is within it."""

_SLACK = 1 << 16  # what headers, checksums and bytes behind a chunk take
_memory = cache(memory_limit)
_now: ContextVar[SizeBound | None] = ContextVar("largest value", default=None)
hold, release, held = _now.set, _now.reset, _now.get
# An interrupt must not leave a bound to all later reads: ``[before] = map(hold, [bound])`` directly before
# ``try`` can't be interrupted halfway.


def chunk_bound(nbytes: int | None) -> SizeBound | None:
    """Return the bound for a chunk whose codecs store `nbytes` bytes at most; None if that is unknown."""
    if nbytes is None:
        return None
    return SizeBound(2 * nbytes + _SLACK, "a chunk of this array may have", DataCorruptionError)


def text_bound(stored: int, n_elements: int = 0) -> SizeBound:
    """Return the bound for a decoded chunk of elements of any length, of which `stored` bytes were read."""
    most = max(DOCUMENT.nbytes, 100 * stored, 1024 * n_elements)
    return SizeBound(most, f"a chunk of {stored} stored bytes may have", DataCorruptionError)


@contextmanager
def bounded(bound: SizeBound | None) -> Iterator[None]:
    """Let values have at most the size `bound` while the context lasts."""
    [before] = map(hold, (bound,))
    try:
        yield
    finally:
        release(before)


def as_document(raw: bytes) -> bytes:
    """Return the text of a document; raise TooLargeError for one that would not be read again."""
    if len(raw) > DOCUMENT.nbytes:
        raise TooLargeError(f"it would have {len(raw)} bytes, and {DOCUMENT.what} {DOCUMENT.nbytes}")
    return raw


def largest_value(*, is_part: bool = False) -> int:
    """Return the largest size, in bytes, of a value, or of a part with a given end, that may be read now."""
    bound = None if is_part else _now.get()
    return _memory() if bound is None else bound.nbytes


def too_large(text: str, *, is_part: bool = False) -> ChunkwiseError:
    """Return the error for a value that is larger; `text` says whose it is, and its size."""
    bound = None if is_part else _now.get()
    if bound is None:
        return StorageError(f"{text}, and this process has memory for {_memory()}")
    return bound.error(f"{text}, and {bound.what} {bound.nbytes}")
