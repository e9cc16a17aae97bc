"""Functions of C libraries that are called directly, by ctypes: libdeflate and c-blosc.

They are those of extension modules of other packages (``deflate``, ``numcodecs``), which export them on Linux
and macOS.  Where they don't, `libdeflate` and `blosc` return None, and the callers do the same with the
packages' own functions.  All calls release the interpreter lock.

libdeflate
    encodes two to three times as fast as zlib at every level, to slightly fewer bytes, and decodes a fifth
    to a third faster than ISA-L, since contexts are kept and it decodes into the caller's memory.
c-blosc
    has two functions that keep no state.  NumCodecs calls them from worker threads only; from the main
    thread it goes through a global context with a lock and threads of its own, which for chunks of 64 KiB
    to 1 MiB takes 1.3 to 2.5 times as long, and the switch for that is a global of NumCodecs that belongs
    to the application.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from chunkwise.codec.protocol import Buffer

__all__ = ["BloscLibrary", "Compress", "Framing", "Libdeflate", "blosc", "libdeflate"]

Framing: TypeAlias = Literal["gzip", "zlib"]

Compress: TypeAlias = "Callable[[Buffer], Buffer | None]"
"""Returns a chunk, valid until the next call; None if it can't be made."""

_MAX_OVERHEAD = 16  # what incompressible data grows by in Blosc: the header, in bytes
_cell = ctypes.c_char.from_buffer
_byref, _frombuffer = ctypes.byref, np.frombuffer


def _address(buffer: Buffer) -> Any:
    """Return what ctypes passes as the address of `buffer`, which must not be empty."""
    # ctypes takes the address of bytes itself, and of what may be written; for the rest NumPy finds it.
    if type(buffer) is bytes:
        return buffer
    if type(buffer) is memoryview and buffer.readonly:
        return _frombuffer(buffer, np.uint8).ctypes.data
    return _byref(_cell(buffer))


def _writable_address(view: memoryview) -> Any:
    """Return the same for memory that may be written."""
    return _byref(_cell(view))


def _free_with(user: Callable[..., Any], free: Callable[[Any], Any], context: Any) -> None:
    """Call ``free(context)`` when `user` has gone."""
    # Not when Python ends: a thread may be using it then, and the memory goes with the process.
    weakref.finalize(user, free, context).atexit = False


class Libdeflate:
    """libdeflate's functions, which `library` exports."""

    def __init__(self, library: Any) -> None:
        size, pointer, number = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
        self.alloc_decompressor, self.free_decompressor = (
            library.libdeflate_alloc_decompressor,
            library.libdeflate_free_decompressor,
        )
        self.alloc_compressor, self.free_compressor = (
            library.libdeflate_alloc_compressor,
            library.libdeflate_free_compressor,
        )
        self.alloc_decompressor.restype = self.alloc_compressor.restype = pointer
        self.alloc_compressor.argtypes = [number]
        for free in (self.free_decompressor, self.free_compressor):
            free.argtypes, free.restype = [pointer], None
        self.decompress: dict[str, Any] = {}
        self.compress: dict[str, Any] = {}
        self.bound: dict[str, Any] = {}
        for framing in ("gzip", "zlib"):
            decompress = getattr(library, f"libdeflate_{framing}_decompress_ex")
            decompress.argtypes = [pointer, pointer, size, pointer, size, pointer, pointer]
            decompress.restype = number
            compress = getattr(library, f"libdeflate_{framing}_compress")
            compress.argtypes, compress.restype = [pointer, pointer, size, pointer, size], size
            bound = getattr(library, f"libdeflate_{framing}_compress_bound")
            bound.argtypes, bound.restype = [pointer, size], size
            self.decompress[framing], self.compress[framing], self.bound[framing] = (
                decompress,
                compress,
                bound,
            )

    def open_decoder(self) -> Callable[[Framing, Buffer, memoryview], bool]:
        """Return ``decode(framing, encoded, out)``, for one worker."""
        # It returns True if `encoded` is one sound stream, with nothing behind it, that fills
        # `out`, which must not be empty; if not, `out` may have been overwritten in part.
        context = self.alloc_decompressor()
        if not context:
            raise MemoryError
        n_read, n_written = ctypes.c_size_t(), ctypes.c_size_t()
        read, written = ctypes.byref(n_read), ctypes.byref(n_written)
        functions = self.decompress

        def decode(framing: Framing, encoded: Buffer, out: memoryview) -> bool:
            n, room = len(encoded), len(out)
            status = functions[framing](
                context, _address(encoded), n, _writable_address(out), room, read, written
            )
            return status == 0 and n_read.value == n and n_written.value == room

        _free_with(decode, self.free_decompressor, context)
        return decode

    def open_encoder(self, framing: Framing, level: int) -> Callable[[Buffer], Buffer]:
        """Return an encoder for one worker; what it returns is valid until its next call."""
        context = self.alloc_compressor(level)
        if not context:
            raise MemoryError
        compress, bound = self.compress[framing], self.bound[framing]
        out, room, most = memoryview(b""), 0, -1

        def encode(decoded: Buffer) -> Buffer:
            nonlocal out, room, most
            view = memoryview(decoded).cast("B") if type(decoded) is not bytes else decoded
            n = len(view)
            if n > most:
                most, room = n, bound(context, n)
                out = np.empty(room, np.uint8).data
            written = compress(context, _address(view) if n else None, n, _writable_address(out), room)
            assert 0 < written <= room, "libdeflate needs more room than it said"
            return out[:written]

        _free_with(encode, self.free_compressor, context)
        return encode


@cache
def libdeflate() -> Libdeflate | None:
    """Return libdeflate's own functions, or None where the package ``deflate`` doesn't export them."""
    try:
        from deflate import _deflate

        return Libdeflate(ctypes.CDLL(_deflate.__file__))
    except (AttributeError, ImportError, OSError):
        return None


class BloscLibrary(NamedTuple):
    """c-blosc, by one way or the other."""

    # ``decompress(encoded, out)`` fills a writable view; returns the number of bytes, or a negative
    # number if the data is corrupt. The header must have been checked against both sizes.
    decompress: Callable[[Buffer, memoryview], int]
    # ``open_compressor(cname, clevel, shuffle, blocksize, typesize)`` returns a :data:`Compress` for
    # one worker.
    open_compressor: Callable[[str, int, int, int, int], Compress]


@cache
def blosc() -> BloscLibrary | None:
    """Return c-blosc's own functions, or None where NumCodecs doesn't export them."""
    import numcodecs.blosc  # not before it is used: gzip needs none of it

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
        return decompress_ctx(_address(encoded), _writable_address(out), len(out), 1)  # type: ignore[no-any-return]

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
            source = _address(decoded) if n else None
            written = compress_ctx(*how, n, source, target, room, name, block, threads)
            return memory[:written] if written > 0 else None

        return compress

    return BloscLibrary(decompress, open_compressor)
