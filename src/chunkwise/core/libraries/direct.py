"""Functions of C libraries that are called directly, by ctypes: libdeflate, c-blosc and libzstd.

The functions are exported by extension modules of other packages (``deflate``, ``numcodecs``), or by
libraries that these are linked with (``imagecodecs``), on Linux and macOS. If they are not exported, or
another library of the same name may be mixed with them, `libdeflate`, `blosc` and `zstd` raise ImportError,
and `chunkwise.core.libraries` uses other packages' functions.  All calls release the interpreter lock.

libdeflate
    encodes two to three times as fast as zlib at every level, to slightly fewer bytes.  It decodes a fifth to
    a third faster than ISA-L, since contexts are kept and the output is the caller's memory.
c-blosc
    has two functions without state.  NumCodecs calls them only from worker threads.  On the main thread it
    uses a global context with a lock and its own threads, which takes 1.3 to 2.5 times as long for chunks of
    64 KiB to 1 MiB; the switch for that is a global of NumCodecs and belongs to the application.
libzstd
    keeps a context for each worker, while NumCodecs makes one for each call, and decodes any frames into
    memory whose size limits them.
"""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from collections.abc import Callable
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias

import numpy as np

from chunkwise.core.libraries.library import (
    LARGEST_KEPT,
    MOST_KEPT,
    BloscLibrary,
    Buffer,
    Compress,
    ZstdLibrary,
)
from chunkwise.errors import DataCorruptionError

__all__ = ["Framing", "Libdeflate", "blosc", "libdeflate", "zstd"]

Framing: TypeAlias = Literal["gzip", "zlib"]

_TOO_SMALL = 70  # ZSTD_error_dstSize_tooSmall
_LEVEL, _CHECKSUM = 100, 201  # ZSTD_c_compressionLevel, ZSTD_c_checksumFlag
_MAX_OVERHEAD = 16  # bytes that Blosc adds to incompressible data: the header
_cell = ctypes.c_char.from_buffer
_byref, _frombuffer = ctypes.byref, np.frombuffer


def _load(package: str, module: str, symbol: str) -> Any:
    """Return the library of an extension module that exports `symbol`, without importing its package."""
    package_spec = find_spec(package)
    folders = package_spec.submodule_search_locations if package_spec else None
    spec = PathFinder.find_spec(f"{package}.{module}", list(folders or ()))
    if spec is None or spec.origin is None:
        raise ImportError(f"no module {package}.{module}")
    try:
        return _open(spec.origin, symbol)
    except (OSError, AttributeError) as e:
        raise ImportError(str(e)) from e


@cache
def _open(path: str, symbol: str) -> Any:
    """Return a library whose functions call each other, not functions of the same name in another library."""
    # If an application, or OpenGL, has loaded another version of libzstd with global symbols, the linker
    # prefers those inside this library too: contexts of one version, used by the other, decode to wrong
    # values.  With RTLD_DEEPBIND a library prefers its own symbols.  If it was already linked without that
    # flag, a copy is loaded with it.
    if sys.platform != "linux":
        return ctypes.CDLL(path)
    try:
        library = ctypes.CDLL(path, os.RTLD_NOLOAD)  # fails unless it is loaded already
    except OSError:
        if hasattr(os, "RTLD_DEEPBIND"):
            return ctypes.CDLL(path, os.RTLD_DEEPBIND)
        library = ctypes.CDLL(path)
    own, other = getattr(library, symbol), getattr(ctypes.CDLL(None), symbol, None)
    if other is None or _same_address(own, other):
        return library
    if hasattr(os, "RTLD_DEEPBIND") and hasattr(os, "memfd_create"):
        return ctypes.CDLL(_copy_of(_file_of(own) or path), os.RTLD_DEEPBIND)
    raise ImportError(f"{symbol} of {path} may be mixed with that of another library")


def _same_address(one: Any, other: Any) -> bool:
    pointer = ctypes.c_void_p
    return ctypes.cast(one, pointer).value == ctypes.cast(other, pointer).value


class _Location(ctypes.Structure):
    """Dl_info of dlfcn.h."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _file_of(function: Any) -> str | None:
    """Return the path of the library that has `function`: the one opened, or one that it is linked with."""
    found = _Location()
    if not ctypes.CDLL(None).dladdr(function, ctypes.byref(found)) or not found.file:
        return None
    return os.fsdecode(found.file)


def _copy_of(path: str) -> str:
    """Return the path of a copy in memory, which the linker considers another library."""
    # The linker knows libraries by their paths too, so the descriptor is never closed and its number not
    # reused.
    import shutil  # imports every compressor of the standard library, and is rarely needed

    descriptor = os.memfd_create(os.path.basename(path))
    with open(path, "rb") as source, open(descriptor, "wb", closefd=False) as copy:
        shutil.copyfileobj(source, copy)
    return f"/proc/self/fd/{descriptor}"


def _address(buffer: Buffer) -> Any:
    """Return the address of `buffer`, which must not be empty, for ctypes."""
    # ctypes takes the address of bytes and of writable memory itself; for the rest NumPy does.
    if type(buffer) is bytes:
        return buffer
    if type(buffer) is memoryview and buffer.readonly:
        return _frombuffer(buffer, np.uint8).ctypes.data
    return _byref(_cell(buffer))


def _free_with(user: Callable[..., Any], free: Callable[[Any], Any], context: Any) -> None:
    """Call ``free(context)`` when `user` is garbage collected."""
    # Not when Python ends: a thread may still use the context then, and the process frees its memory anyway.
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
        # It returns True if `encoded` is one valid stream, with nothing after it, that fills `out`, which
        # must not be empty.  Otherwise `out` may have been overwritten in part.
        context = self.alloc_decompressor()
        if not context:
            raise MemoryError
        n_read, n_written = ctypes.c_size_t(), ctypes.c_size_t()
        read, written = ctypes.byref(n_read), ctypes.byref(n_written)
        functions = self.decompress

        def decode(framing: Framing, encoded: Buffer, out: memoryview) -> bool:
            n, room = len(encoded), len(out)
            status = functions[framing](
                context, _address(encoded), n, _byref(_cell(out)), room, read, written
            )
            return status == 0 and n_read.value == n and n_written.value == room

        _free_with(decode, self.free_decompressor, context)
        return decode

    def open_encoder(self, framing: Framing, level: int) -> Callable[[Buffer], Buffer]:
        """Return an encoder for one worker; its result is valid until its next call."""
        context = self.alloc_compressor(level)
        if not context:
            raise MemoryError
        compress, bound = self.compress[framing], self.bound[framing]
        out, most = memoryview(b""), -1

        def encode(decoded: Buffer) -> Buffer:
            nonlocal out, most
            view = memoryview(decoded).cast("B") if type(decoded) is not bytes else decoded
            n = len(view)
            if n > most:
                most, out = n, np.empty(bound(context, n), np.uint8).data
            written = compress(context, _address(view) if n else None, n, _byref(_cell(out)), len(out))
            assert 0 < written <= len(out), "libdeflate needs more room than it said"
            return out[:written]

        _free_with(encode, self.free_compressor, context)
        return encode


def libdeflate() -> Libdeflate:
    """Return libdeflate's own functions."""
    library = _load("deflate", "_deflate", "libdeflate_alloc_decompressor")
    try:
        return Libdeflate(library)
    except AttributeError as e:
        raise ImportError(str(e)) from e


def blosc(package: str = "numcodecs", module: str = "blosc") -> BloscLibrary:
    """Return c-blosc's own functions, which an extension module of `package` exports or is linked with."""
    library = _load(package, module, "blosc_decompress_ctx")
    try:
        decompress_ctx, compress_ctx = library.blosc_decompress_ctx, library.blosc_compress_ctx
        list_compressors = library.blosc_list_compressors
    except AttributeError as e:
        raise ImportError(str(e)) from e
    size, pointer, number = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
    decompress_ctx.restype = compress_ctx.restype = number
    decompress_ctx.argtypes = [pointer, pointer, size, number]
    compress_ctx.argtypes = [
        number, number, size, size, pointer, pointer, size, ctypes.c_char_p, size, number
    ]  # fmt: skip

    def decompress(encoded: Buffer, out: memoryview) -> int:
        return decompress_ctx(_address(encoded), _byref(_cell(out)), len(out), 1)  # type: ignore[no-any-return]

    def open_compressor(cname: str, clevel: int, shuffle: int, blocksize: int, typesize: int) -> Compress:
        # Arguments that don't change are converted once: for chunks of a few KiB that is a third of the call.
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

    list_compressors.restype, list_compressors.argtypes = ctypes.c_char_p, []
    return BloscLibrary(decompress, open_compressor, frozenset(list_compressors().decode().split(",")))


def zstd() -> ZstdLibrary:
    """Return libzstd's own functions."""
    library = _load("numcodecs", "zstd", "ZSTD_createDCtx")
    size, pointer, number = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
    try:
        new_decoder, new_encoder = library.ZSTD_createDCtx, library.ZSTD_createCCtx
        free_decoder, free_encoder = library.ZSTD_freeDCtx, library.ZSTD_freeCCtx
        decode_all, encode_all = library.ZSTD_decompressDCtx, library.ZSTD_compress2
        set_parameter, bound = library.ZSTD_CCtx_setParameter, library.ZSTD_compressBound
        is_error, code_of, text_of = (
            library.ZSTD_isError, library.ZSTD_getErrorCode, library.ZSTD_getErrorName
        )  # fmt: skip
    except AttributeError as e:
        raise ImportError(str(e)) from e
    new_decoder.restype = new_encoder.restype = pointer
    for free in (free_decoder, free_encoder):
        free.argtypes = [pointer]
    for function in (decode_all, encode_all):
        function.argtypes, function.restype = [pointer, pointer, size, pointer, size], size
    set_parameter.argtypes, set_parameter.restype = [pointer, number, number], size
    bound.argtypes, bound.restype = [size], size
    text_of.restype = ctypes.c_char_p
    for function in (is_error, code_of, text_of):
        function.argtypes = [size]

    idle_decoders: list[Any] = []
    idle_encoders: dict[tuple[int, bool], list[Any]] = {}
    size_of = library.ZSTD_sizeof_CCtx
    size_of.argtypes, size_of.restype = [pointer], size

    def open_decoder() -> Callable[[Buffer, memoryview], int | None]:
        try:
            context = idle_decoders.pop()
        except IndexError:
            context = new_decoder()
        if not context:
            raise MemoryError

        def decode(encoded: Buffer, out: memoryview) -> int | None:
            n, room = len(encoded), len(out)
            target = _byref(_cell(out)) if room else None
            if n and type(encoded) is memoryview and not encoded.readonly:  # `_address`, inlined
                source: Any = _byref(_cell(encoded))
            else:
                source = _address(encoded) if n else None
            written: int = decode_all(context, target, room, source, n)
            if written <= room:
                return written
            if code_of(written) == _TOO_SMALL:
                return None
            raise DataCorruptionError(text_of(written).decode())

        weakref.finalize(decode, end_decoder, context).atexit = False
        return decode

    def end_decoder(context: Any) -> None:
        if len(idle_decoders) < MOST_KEPT:
            idle_decoders.append(context)
        else:
            free_decoder(context)

    def new_encoder_of(level: int, checksum: bool) -> Any:
        context = new_encoder()
        if not context:
            raise MemoryError
        for parameter, value in ((_LEVEL, level), (_CHECKSUM, int(checksum))):
            if is_error(set_parameter(context, parameter, value)):
                raise ValueError(f"libzstd refuses level {level}")
        return context

    def end_encoder(context: Any, idle: list[Any]) -> None:
        if size_of(context) <= LARGEST_KEPT and len(idle) < MOST_KEPT:
            idle.append(context)
        else:
            free_encoder(context)

    def open_own_encoder(level: int, checksum: bool) -> Callable[[Buffer], Buffer]:
        idle = idle_encoders.setdefault((level, checksum), [])
        try:
            context = idle.pop()
        except IndexError:
            context = new_encoder_of(level, checksum)
        # Not kept with the context: the last result may be in use when the encoder no longer is.
        out, most = memoryview(b""), -1

        def encode(decoded: Buffer) -> Buffer:
            nonlocal out, most
            view = memoryview(decoded).cast("B") if type(decoded) is not bytes else decoded
            n = len(view)
            if n > most:
                most, out = n, np.empty(bound(n), np.uint8).data
            source = _address(view) if n else None
            written: int = encode_all(context, _byref(_cell(out)), len(out), source, n)
            if is_error(written):  # no chunk is refused, but memory may run out
                raise MemoryError(text_of(written).decode())
            return out[:written]

        weakref.finalize(encode, end_encoder, context, idle).atexit = False
        return encode

    @cache
    def encoders() -> Callable[[int, bool], Callable[[Buffer], Buffer]]:
        # NumCodecs' build encodes 512 chunks of 32^3 uint16 in 383 ms, zstandard's in 249.
        try:
            from chunkwise.core.libraries.zstd_streams import open_zstandard_encoder

            return open_zstandard_encoder()
        except ImportError:
            return open_own_encoder

    def open_encoder(level: int, checksum: bool) -> Callable[[Buffer], Buffer]:
        return encoders()(level, checksum)

    # The interpreter lock is kept: reacquiring it would take longer than reading the block headers.
    locked = ctypes.PyDLL(library._name, handle=library._handle)
    frame_nbytes = getattr(locked, "ZSTD_findFrameCompressedSize", None)
    content_nbytes = getattr(locked, "ZSTD_getFrameContentSize", None)
    for told in filter(None, (frame_nbytes, content_nbytes)):
        told.argtypes, told.restype = [pointer, size], ctypes.c_uint64
    return ZstdLibrary(open_decoder, open_encoder, frame_nbytes, content_nbytes)
