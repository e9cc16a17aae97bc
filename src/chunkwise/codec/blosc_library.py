"""The two functions of c-blosc that keep no state: decompress and compress with a context of their own.

NumCodecs calls the stateless functions from worker threads only.  From the main thread it goes through
a global context with a lock and threads of its own, which for chunks of 64 KiB to 1 MiB is 1.5 to 2.5
times slower, and the switch for it is a global of NumCodecs that belongs to the application.  Its
extension module exports c-blosc's functions, so they are called directly where that is so, which is on
Linux and macOS; elsewhere NumCodecs is called.  Both ways release the GIL.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numcodecs.blosc
import numpy as np

from chunkwise.codec.pointer import address, writable_address
from chunkwise.codec.protocol import Buffer

__all__ = ["MAX_OVERHEAD", "BloscLibrary", "direct_library", "numcodecs_library", "open_library"]

MAX_OVERHEAD = 16
"""What incompressible data grows by: the header, in bytes."""


class BloscLibrary(NamedTuple):
    """c-blosc, by one way or the other.

    Attributes
    ----------
    decompress : callable
        ``decompress(encoded, out)`` fills a writable view; returns the number of bytes, or a negative
        number if the data is corrupt.  The header must have been checked against both sizes.
    compress : callable
        ``compress(decoded, out, cname, clevel, shuffle, blocksize, typesize)`` fills the beginning of a
        writable view that has :data:`MAX_OVERHEAD` bytes more than `decoded`; returns the number of bytes.
    """

    decompress: Callable[[Buffer, memoryview], int]
    compress: Callable[[Buffer, memoryview, str, int, int, int, int], int]


def open_library() -> BloscLibrary:
    """Return the faster way that there is on this platform."""
    return direct_library() or numcodecs_library()


@cache
def direct_library() -> BloscLibrary | None:
    """Return c-blosc's own functions, or None where the extension module does not export them."""
    try:
        library = ctypes.CDLL(numcodecs.blosc.__file__)
        decompress_ctx, compress_ctx = library.blosc_decompress_ctx, library.blosc_compress_ctx
    except (AttributeError, OSError):
        return None
    size, pointer, number = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
    decompress_ctx.restype = compress_ctx.restype = number
    decompress_ctx.argtypes = [pointer, pointer, size, number]
    compress_ctx.argtypes = [
        number, number, size, size, pointer, pointer, size, ctypes.c_char_p, size, number
    ]  # fmt: skip

    def decompress(encoded: Buffer, out: memoryview) -> int:
        return decompress_ctx(address(encoded), writable_address(out), len(out), 1)  # type: ignore[no-any-return]

    def compress(
        decoded: Buffer,
        out: memoryview,
        cname: str,
        clevel: int,
        shuffle: int,
        blocksize: int,
        typesize: int,
    ) -> int:
        source, n = address(decoded) if len(decoded) else None, len(decoded)
        target, room = writable_address(out), len(out)
        return compress_ctx(  # type: ignore[no-any-return]
            clevel, shuffle, typesize, n, source, target, room, cname.encode(), blocksize, 1
        )

    return BloscLibrary(decompress, compress)


def numcodecs_library() -> BloscLibrary:
    """Return c-blosc as NumCodecs offers it."""

    def decompress(encoded: Buffer, out: memoryview) -> int:
        try:
            numcodecs.blosc.decompress(encoded, out)
        except (RuntimeError, ValueError):
            return -1
        return len(out)

    def compress(
        decoded: Buffer,
        out: memoryview,
        cname: str,
        clevel: int,
        shuffle: int,
        blocksize: int,
        typesize: int,
    ) -> int:
        # The item size of the buffer is the type size, in every version of NumCodecs.
        whole = typesize > 1 and len(decoded) % typesize == 0
        source = np.frombuffer(decoded, np.dtype((np.void, typesize)) if whole else np.uint8)
        encoded = numcodecs.blosc.compress(source, cname.encode(), clevel, shuffle, blocksize)
        out[: len(encoded)] = encoded
        return len(encoded)

    return BloscLibrary(decompress, compress)
