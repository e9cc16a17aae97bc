"""Zstandard's own functions, which work in memory that is already there.

The package ``zstandard`` gives new bytes with each call, and NumCodecs makes a context for each.  The
extension module of NumCodecs exports the library's functions on Linux and macOS, so that a context that
is kept can fill the caller's memory, or its own; compressing 64³ to 128³ elements of ``uint16`` takes a
fifth less than with new memory for each chunk.  The calls release the GIL.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numcodecs.zstd

from chunkwise.codec.context import free_with
from chunkwise.codec.pointer import address, writable_address
from chunkwise.codec.protocol import Buffer

__all__ = ["open_compressor", "open_decompressor"]

_LEVEL, _CHECKSUM = 100, 201  # parameters of a context


def open_compressor(level: int, *, checksum: bool) -> Callable[[Buffer], Buffer | None] | None:
    """Return ``compress(data)`` for one worker, or None where the library can't be called.

    It returns a frame that tells its size, valid until the next call; None if that can't be made, as of
    no data.
    """
    library = _library()
    if library is None:
        return None
    context = library.ZSTD_createCCtx()
    if not context:
        raise MemoryError
    for parameter, value in ((_LEVEL, level), (_CHECKSUM, int(checksum))):
        library.ZSTD_CCtx_setParameter(context, parameter, value)
    call, bound = library.ZSTD_compress2, library.ZSTD_compressBound
    memory, room, most = memoryview(b""), 0, 0

    def compress(data: Buffer) -> Any:
        nonlocal memory, room, most
        n = data.nbytes if type(data) is memoryview else len(data)
        if n == 0:
            return None
        if n > most:
            most, room = n, bound(n)
            memory = memoryview(bytearray(room))
        size = call(context, writable_address(memory), room, address(data), n)
        return memory[:size] if size <= room else None  # errors are sizes larger than any memory

    free_with(compress, library.ZSTD_freeCCtx, context)
    return compress


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

    free_with(decompress, library.ZSTD_freeDCtx, context)
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
        library.ZSTD_createCCtx.restype = pointer
        library.ZSTD_freeCCtx.argtypes = [pointer]
        library.ZSTD_CCtx_setParameter.argtypes = [pointer, ctypes.c_int, ctypes.c_int]
        library.ZSTD_CCtx_setParameter.restype = size
        library.ZSTD_compressBound.argtypes = [size]
        library.ZSTD_compressBound.restype = size
        library.ZSTD_compress2.argtypes = [pointer, pointer, size, pointer, size]
        library.ZSTD_compress2.restype = size
    except (AttributeError, OSError):
        return None
    return library
