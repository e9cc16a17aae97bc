"""Libraries that compress and check: which of the packages that have one does the work here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from chunkwise.core.base.extras import needs

__all__ = [
    "LARGEST_KEPT",
    "MOST_KEPT",
    "BloscLibrary",
    "Buffer",
    "Compress",
    "Library",
    "ZstdLibrary",
]

Buffer: TypeAlias = bytes | bytearray | memoryview

Compress: TypeAlias = "Callable[[Buffer], Buffer | None]"
"""Returns a chunk, valid until the next call; None if it can't be made."""

T = TypeVar("T")

MOST_KEPT, LARGEST_KEPT = 8, 1 << 22
"""Contexts of a kind that are kept for later, and bytes of one."""
# The memory of a new context comes page by page from the system, which takes 0.2 ms for encoding, and each
# read and write opens some.


class BloscLibrary(NamedTuple):
    """c-blosc, by one way or the other."""

    # ``decompress(encoded, out)`` fills a writable view; returns the number of bytes, or a negative
    # number if the data is corrupt. The header must have been checked against both sizes.
    decompress: Callable[[Buffer, memoryview], int]
    # ``open_compressor(cname, clevel, shuffle, blocksize, typesize)`` returns a `Compress` for
    # one worker.
    open_compressor: Callable[[str, int, int, int, int], Compress]
    cnames: frozenset[str] = frozenset()  # the compressors inside that it was built with


class ZstdLibrary(NamedTuple):
    """Zstandard, by one way or the other."""

    # ``open_decoder()`` returns ``decode(encoded, out)`` for one worker, which decodes all frames and
    # returns the number of bytes, or None if `out` is too small for them.
    open_decoder: Callable[[], Callable[[Buffer, memoryview], int | None]]
    # ``open_encoder(level, checksum)`` returns an encoder for one worker; what it returns is one frame
    # with its content size, valid until the next call.
    open_encoder: Callable[[int, bool], Callable[[Buffer], Buffer]]
    # ``frame_nbytes(address, nbytes)`` returns the size of the first frame of what lies there, and
    # ``content_nbytes`` of the same that of its content; numbers that none has where they can't be told.
    # None if the library doesn't tell.
    frame_nbytes: Callable[[int, int], int] | None = None
    content_nbytes: Callable[[int, int], int] | None = None


class Library(Generic[T]):
    """A library, by the first of several implementations that is there; calling it returns the library."""

    def __init__(self, work: str, package: str, implementations: dict[str, Callable[[], T]]) -> None:
        # An implementation that isn't there raises ImportError; where there is none, `package` brings one.
        self.work, self.package, self.implementations = work, package, implementations
        self._found: tuple[str, T] | None = None

    def __call__(self) -> T:
        return (self._found or self._find())[1]

    @property
    def used(self) -> str:
        """The name of the implementation."""
        return (self._found or self._find())[0]

    def _find(self) -> tuple[str, T]:
        for name, load in self.implementations.items():
            try:
                self._found = name, load()
            except ImportError:
                continue
            return self._found
        raise ImportError(needs(self.work, self.package))
