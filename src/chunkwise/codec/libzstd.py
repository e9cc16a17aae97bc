"""Zstandard's own function for decoding a buffer into memory that is already there.

The package ``zstandard`` gives new bytes with each call, and NumCodecs makes a context for each.  The
extension module of NumCodecs exports the library's functions on Linux and macOS, so that a context that
is kept can fill the caller's memory.  The call releases the GIL.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

import numcodecs.zstd

from chunkwise.codec.pointer import address, writable_address
from chunkwise.codec.protocol import Buffer

__all__ = ["open_decompressor"]


def open_decompressor() -> Callable[[Buffer, memoryview], bool] | None:
    """Return ``decompress(encoded, out)`` for one worker, or None where the library can't be called.

    It returns True if `encoded` is nothing but sound frames that fill `out`, neither being empty; if not,
    `out` may have been overwritten in part.
    """
    library = _library()
    if library is None:
        return None
    context = library.ZSTD_createDCtx()
    if not context:
        raise MemoryError
    call = library.ZSTD_decompressDCtx

    def decompress(encoded: Buffer, out: memoryview) -> bool:
        n = len(out)
        # errors are sizes larger than any memory
        return call(context, writable_address(out), n, address(encoded), len(encoded)) == n  # type: ignore[no-any-return]

    weakref.finalize(decompress, library.ZSTD_freeDCtx, context)
    return decompress


@cache
def _library() -> Any | None:
    try:
        library = ctypes.CDLL(numcodecs.zstd.__file__)
        size, pointer = ctypes.c_size_t, ctypes.c_void_p
        library.ZSTD_createDCtx.restype = pointer
        library.ZSTD_freeDCtx.argtypes = [pointer]
        library.ZSTD_decompressDCtx.argtypes = [pointer, pointer, size, pointer, size]
        library.ZSTD_decompressDCtx.restype = size
    except (AttributeError, OSError):
        return None
    return library
