"""Libraries that compress and compute checksums, from the first installed package that provides one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from chunkwise.core.base.extras import check_shortage, needs

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
"""Number of idle contexts that are kept of each kind, and the most bytes of one."""
# The system provides the memory of a new context page by page, which takes 0.2 ms for encoding, and each read
# and write opens several.


class BloscLibrary(NamedTuple):
    """c-blosc, whichever package provides it."""

    # ``decompress(encoded, out)`` fills a writable view; returns the number of bytes, or a negative
    # number if the data is corrupt. The header must have been checked against both sizes.
    decompress: Callable[[Buffer, memoryview], int]
    # ``open_compressor(cname, clevel, shuffle, blocksize, typesize)`` returns a `Compress` for
    # one worker.
    open_compressor: Callable[[str, int, int, int, int], Compress]
    cnames: frozenset[str] = frozenset()  # the compressors that it was built with


class ZstdLibrary(NamedTuple):
    """Zstandard, whichever package provides it."""

    # ``open_decoder()`` returns ``decode(encoded, out)`` for one worker, which decodes all frames and
    # returns the number of bytes, or None if `out` is too small for them.
    open_decoder: Callable[[], Callable[[Buffer, memoryview], int | None]]
    # ``open_encoder(level, checksum)`` returns an encoder for one worker; its result is one frame with its
    # content size, valid until the next call.
    open_encoder: Callable[[int, bool], Callable[[Buffer], Buffer]]
    # ``frame_nbytes(address, nbytes)`` returns the size of the first frame at that address, and
    # ``content_nbytes(address, nbytes)`` that of its content; an impossible number if the size is unknown.
    # None if the library lacks the function.
    frame_nbytes: Callable[[int, int], int] | None = None
    content_nbytes: Callable[[int, int], int] | None = None


class Library(Generic[T]):
    """A library from the first available implementation; calling the object returns it."""

    def __init__(self, work: str, package: str, implementations: dict[str, Callable[[], T]]) -> None:
        # An unavailable implementation raises ImportError; if all do, `package` is the one to install.
        self.work, self.package, self.implementations = work, package, implementations
        self._found: tuple[str, T] | None = None

    def __call__(self) -> T:
        return (self._found or self._find())[1]

    @property
    def used(self) -> str:
        """The name of the implementation."""
        return (self._found or self._find())[0]

    def _find(self) -> tuple[str, T]:
        errors: list[ImportError] = []
        for name, load in self.implementations.items():
            try:
                self._found = name, load()
            except ImportError as e:
                errors.append(e)
                continue
            return self._found
        for error in errors:
            check_shortage(error)
        raise ImportError(needs(self.work, self.package))
