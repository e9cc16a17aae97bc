"""Zstandard's own functions, which work in memory that is already there.

The package ``zstandard`` gives new bytes with each call, and NumCodecs makes a context for each.  Extension
modules of both export the library's functions on Linux and macOS, so that a context that is kept can fill
the caller's memory, or its own; compressing 64³ to 128³ elements of ``uint16`` takes a fifth less than with
new memory for each chunk.  The calls release the GIL.

NumCodecs has zstd 1.5.6 and decodes some 5 % faster; zstandard has 1.5.7, which encodes up to 128 KiB 8 to
13 % faster.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from chunkwise.codec.context import free_with
from chunkwise.codec.pointer import address, address_number, writable_address
from chunkwise.codec.protocol import Buffer

__all__ = ["open_compressor", "open_compressor_into", "open_decompressor", "open_row_decompressor"]

_LEVEL, _CHECKSUM = 100, 201  # parameters of a context
_SMALL = 1 << 17  # bytes of the largest block of a frame
_MOST_SPARE = 16
_FOR_SMALL, _FOR_ALL = "zstandard._cffi", "numcodecs.zstd"


def open_compressor(level: int, *, checksum: bool) -> Callable[[Buffer], Buffer | None] | None:
    """Return ``compress(data)`` for one worker, or None where the library can't be called.

    It returns a frame that tells its size, valid until the next call; None if that can't be made, as of
    no data.
    """
    library, compress_into = _library(_FOR_ALL), open_compressor_into(level, checksum=checksum)
    if library is None or compress_into is None:
        return None
    memory, most = memoryview(b""), 0

    def compress(data: Buffer) -> Any:
        nonlocal memory, most
        n = data.nbytes if type(data) is memoryview else len(data)
        if n > most:
            most = n
            memory = np.empty(library.ZSTD_compressBound(n), np.uint8).data  # most of it is never touched
        size = compress_into(data, memory)
        return memory[:size] if size else None

    return compress


def open_compressor_into(level: int, *, checksum: bool) -> Callable[[Buffer, memoryview], int] | None:
    """Return ``compress(data, out)`` for one worker, or None where the library can't be called.

    It puts a frame that tells its size at the start of `out` and returns the number of its bytes; 0 if that
    can't be done, as with no data or little room, and then `out` may have been overwritten in part.
    """
    general = _library(_FOR_ALL)
    if general is None:
        return None
    call, context = general.ZSTD_compress2, None
    contexts: list[Any] = []

    def start(n: int) -> None:
        nonlocal call, context
        library = (_library(_FOR_SMALL) if n <= _SMALL else None) or general
        call, context = library.ZSTD_compress2, library.ZSTD_createCCtx()
        if not context:
            raise MemoryError
        contexts.append((library.ZSTD_freeCCtx, context))
        for parameter, value in ((_LEVEL, level), (_CHECKSUM, int(checksum))):
            library.ZSTD_CCtx_setParameter(context, parameter, value)

    def compress(data: Buffer, out: memoryview) -> int:
        n = data.nbytes if type(data) is memoryview else len(data)
        room = len(out)
        if n == 0 or room == 0:
            return 0
        if context is None:  # chunks have one size as a rule, so the first one decides
            start(n)
        size: int = call(context, writable_address(out), room, address(data), n)
        return size if size <= room else 0  # errors are sizes larger than any memory

    free_with(compress, _free, contexts)
    return compress


def _free(contexts: list[Any]) -> None:
    for free, context in contexts:
        free(context)


def open_decompressor() -> Callable[[Buffer, memoryview], bool] | None:
    """Return ``decompress(encoded, out)`` for one worker, or None where the library can't be called.

    It returns True if `encoded` is nothing but sound frames that fill `out`, neither being empty; if not,
    `out` may have been overwritten in part.
    """
    library = _library(_FOR_ALL)
    if library is None:
        return None
    context = _context(library)
    call = library.ZSTD_decompressDCtx

    def decompress(encoded: Buffer, out: memoryview) -> bool:
        n = len(out)
        # errors are sizes larger than any memory
        return call(context, writable_address(out), n, address(encoded), len(encoded)) == n  # type: ignore[no-any-return]

    free_with(decompress, _give_back, context)
    return decompress


def open_row_decompressor(nbytes: int) -> Callable[[Buffer, list[int], memoryview], bool] | None:
    """Return ``decompress(encoded, lengths, out)`` for one worker, or None where the library can't be called.

    It decodes chunks that follow each other, of the given `lengths`, with one call, which passes the GIL
    once.  It returns True if each of them begins with the header of a frame with `nbytes` bytes of content,
    not 0, and all are nothing but sound frames that fill `out`; if not, `out` may have been overwritten in
    part.  So none has eaten up another's header: there would be a frame too few.
    """
    library, content_size = _library(_FOR_ALL), _content_size(_FOR_ALL)
    if library is None or content_size is None:
        return None
    context = _context(library)
    call = library.ZSTD_decompressDCtx
    header, n_header = b"", 1  # of one such chunk; others mostly have the same

    def decompress(encoded: Buffer, lengths: list[int], out: memoryview) -> bool:
        nonlocal header, n_header
        first, at = address_number(encoded), 0
        for length in lengths:
            if encoded[at : at + n_header] != header or length < n_header:
                if content_size(first + at, length) != nbytes:
                    return False
                n_header = _header_nbytes(encoded[at + 4])
                header = bytes(encoded[at : at + n_header])
            at += length
        n = len(out)
        return at == len(encoded) and call(context, writable_address(out), n, first, at) == n

    free_with(decompress, _give_back, context)
    return decompress


_spare: list[Any] = []  # contexts that nobody uses


def _context(library: Any) -> Any:
    """Return a context to decompress with, a spare one if there is one.

    Each is 160 KiB, which the system would give and take back for each read.
    """
    try:
        return _spare.pop()
    except IndexError:
        pass
    context = library.ZSTD_createDCtx()
    if not context:
        raise MemoryError
    return context


def _give_back(context: Any) -> None:
    if len(_spare) < _MOST_SPARE:
        _spare.append(context)
    else:
        _library(_FOR_ALL).ZSTD_freeDCtx(context)  # type: ignore[union-attr]


def _header_nbytes(descriptor: int) -> int:
    """Return the size of a frame's header, by its fifth byte (RFC 8878, section 3.1.1.1)."""
    single = descriptor >> 5 & 1
    content = (single, 2, 4, 8)[descriptor >> 6]
    return 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3] + content


@cache
def _content_size(module: str) -> Any | None:
    """Return the function that finds the size of a frame's content; it keeps the GIL."""
    found = find_spec(module)
    if found is None or found.origin is None:
        return None
    try:
        call = ctypes.PyDLL(found.origin).ZSTD_getFrameContentSize
    except (AttributeError, OSError):
        return None
    call.restype, call.argtypes = ctypes.c_ulonglong, [ctypes.c_void_p, ctypes.c_size_t]
    return call


@cache
def _library(module: str) -> Any | None:
    try:
        found = find_spec(module)
        if found is None or found.origin is None:
            return None
        library = ctypes.CDLL(found.origin)
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
    except (AttributeError, ImportError, OSError):
        return None
    return library
