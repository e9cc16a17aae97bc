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
from typing import NamedTuple, TypeAlias

import numcodecs.blosc
import numpy as np

from chunkwise.codec.pointer import address, writable_address
from chunkwise.codec.protocol import Buffer

__all__ = ["BloscLibrary", "Compress", "direct_library", "numcodecs_library", "open_library"]

# What incompressible data grows by: the header, in bytes.
_MAX_OVERHEAD = 16

Compress: TypeAlias = "Callable[[Buffer], Buffer | None]"
"""Returns a chunk, valid until the next call; None if it can't be made."""


class BloscLibrary(NamedTuple):
    """c-blosc, by one way or the other.

    Attributes
    ----------
    decompress : callable
        ``decompress(encoded, out)`` fills a writable view; returns the number of bytes, or a negative
        number if the data is corrupt.  The header must have been checked against both sizes.
    open_compressor : callable
        ``open_compressor(cname, clevel, shuffle, blocksize, typesize)`` returns a :data:`Compress` for one
        worker.
    """

    decompress: Callable[[Buffer, memoryview], int]
    open_compressor: Callable[[str, int, int, int, int], Compress]


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

    def open_compressor(cname: str, clevel: int, shuffle: int, blocksize: int, typesize: int) -> Compress:
        # What doesn't change is made ready once: for chunks of some KiB that is a third of the call.
        how = number(clevel), number(shuffle), size(typesize)
        name, block, threads = ctypes.c_char_p(cname.encode()), size(blocksize), number(1)
        memory, target, room = memoryview(b""), pointer(), size(0)

        def compress(decoded: Buffer) -> Buffer | None:
            nonlocal memory, target, room
            n = decoded.nbytes if type(decoded) is memoryview else len(decoded)
            if n + _MAX_OVERHEAD > len(memory):
                array = np.empty(n + _MAX_OVERHEAD, np.uint8)
                memory, target, room = array.data, pointer(array.ctypes.data), size(array.nbytes)
            source = address(decoded) if n else None
            written = compress_ctx(*how, n, source, target, room, name, block, threads)
            return memory[:written] if written > 0 else None

        return compress

    return BloscLibrary(decompress, open_compressor)


def numcodecs_library() -> BloscLibrary:
    """Return c-blosc as NumCodecs offers it."""

    def decompress(encoded: Buffer, out: memoryview) -> int:
        try:
            numcodecs.blosc.decompress(encoded, out)
        except (RuntimeError, ValueError):
            return -1
        return len(out)

    def open_compressor(cname: str, clevel: int, shuffle: int, blocksize: int, typesize: int) -> Compress:
        item, name = np.dtype((np.void, typesize)), cname.encode()

        def compress(decoded: Buffer) -> Buffer | None:
            # The item size of the buffer is the type size, in every version of NumCodecs.
            raw = np.frombuffer(decoded, np.uint8)
            source = raw.view(item) if typesize > 1 and len(raw) % typesize == 0 else raw
            encoded: bytes = numcodecs.blosc.compress(source, name, clevel, shuffle, blocksize)
            return encoded

        return compress

    return BloscLibrary(decompress, open_compressor)
