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
from typing import Any, NamedTuple, TypeAlias

import numcodecs.blosc
import numpy as np
import numpy.typing as npt

from chunkwise.codec.pointer import address, writable_address
from chunkwise.codec.protocol import Buffer
from chunkwise.errors import UnsupportedError
from chunkwise.extras import needs

__all__ = [
    "BloscLibrary",
    "Compress",
    "direct_library",
    "imagecodecs_library",
    "numcodecs_library",
    "open_library",
]

# What incompressible data grows by: the header, in bytes.
_MAX_OVERHEAD = 16

Compress: TypeAlias = "Callable[[Buffer], Buffer | None]"
"""Returns a chunk, valid until the next call; None if it can't be made."""


class BloscLibrary(NamedTuple):
    """c-blosc, by one way or the other."""

    # ``decompress(encoded, out)`` fills a writable view; returns the number of bytes, or a negative
    # number if the data is corrupt. The header must have been checked against both sizes.
    decompress: Callable[[Buffer, memoryview], int]
    # ``open_compressor(cname, clevel, shuffle, blocksize, typesize)`` returns a :data:`Compress` for
    # one worker.
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
        name = cname.encode()

        def compress(decoded: Buffer) -> Buffer | None:
            encoded: bytes = numcodecs.blosc.compress(
                _items(decoded, typesize), name, clevel, shuffle, blocksize
            )
            return encoded

        return compress

    return BloscLibrary(decompress, open_compressor)


def imagecodecs_library(cname: str) -> BloscLibrary:
    """Return c-blosc as imagecodecs has it, built with Snappy."""
    try:
        import imagecodecs
    except ImportError:
        imagecodecs = None
    if imagecodecs is None or not imagecodecs.BLOSC.available:
        raise UnsupportedError(needs(f'"blosc" codec with {cname!r}', "imagecodecs"))

    def decompress(encoded: Buffer, out: memoryview) -> int:
        try:
            imagecodecs.blosc_decode(encoded, numthreads=1, out=out)
        except (RuntimeError, ValueError):
            return -1
        return len(out)

    def open_compressor(cname: str, clevel: int, shuffle: int, blocksize: int, typesize: int) -> Compress:
        how = {"compressor": cname, "shuffle": shuffle, "blocksize": blocksize, "numthreads": 1}

        def compress(decoded: Buffer) -> Buffer | None:
            encoded: bytes = imagecodecs.blosc_encode(_items(decoded, typesize), clevel, **how)
            return encoded

        return compress

    return BloscLibrary(decompress, open_compressor)


def _items(decoded: Buffer, typesize: int) -> npt.NDArray[Any]:
    """Return bytes as items of `typesize`, which is what both packages take the type size from."""
    raw = np.frombuffer(decoded, np.uint8)
    return raw.view(f"V{typesize}") if typesize > 1 and len(raw) % typesize == 0 else raw
