"""Zstandard by stream objects: from ``zstandard``, or from the standard library since Python 3.14.

Frames are decoded piece by piece into memory whose size limits them, whatever their headers claim.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from chunkwise.core.libraries.library import LARGEST_KEPT, MOST_KEPT, Buffer, ZstdLibrary
from chunkwise.errors import DataCorruptionError

__all__ = ["open_zstandard_encoder", "standard_library", "zstandard_library"]

# Bytes to feed at once if a frame's output can't be limited: 1 KiB can expand to 32 MiB (4 bytes to a block
# of 128 KiB).
_STEP, _MAX_RATIO = 1024, 32768


def zstandard_library() -> ZstdLibrary:
    """Return Zstandard from the package ``zstandard``."""
    import zstandard

    def open_decoder() -> Callable[[Buffer, memoryview], int | None]:
        context, content_size, error = (
            zstandard.ZstdDecompressor(), zstandard.frame_content_size, zstandard.ZstdError
        )  # fmt: skip

        def decode(encoded: Buffer, out: memoryview) -> int | None:
            # A frame of exactly the expected size is decoded at once, which takes at most the memory of
            # `out`.
            try:
                if content_size(encoded) == len(out):
                    out[:] = context.decompress(encoded, allow_extra_data=False)
                    return len(out)
            except error:
                pass
            step = max(_STEP, len(out) // _MAX_RATIO)
            return _decode(context.decompressobj, error, step, encoded, out)

        return decode

    return ZstdLibrary(open_decoder, open_zstandard_encoder())


def open_zstandard_encoder() -> Callable[[int, bool], Callable[[Buffer], Buffer]]:
    """Return ``open_encoder`` of ``zstandard``; contexts are kept for later."""
    import zstandard

    idle: dict[tuple[int, bool], list[Any]] = {}

    def open_encoder(level: int, checksum: bool) -> Callable[[Buffer], Buffer]:
        kept = idle.setdefault((level, checksum), [])
        try:
            context = kept.pop()
        except IndexError:
            context = zstandard.ZstdCompressor(level=level, write_checksum=checksum, write_content_size=True)
        compress: Callable[[Buffer], Buffer] = context.compress

        def encode(decoded: Buffer) -> Buffer:
            try:
                return compress(decoded)
            except zstandard.ZstdError as e:
                raise MemoryError(str(e)) from e

        weakref.finalize(encode, _keep, kept, context).atexit = False
        return encode

    return open_encoder


def _keep(kept: list[Any], context: Any) -> None:
    if len(kept) < MOST_KEPT and context.memory_size() <= LARGEST_KEPT:
        kept.append(context)


def standard_library() -> ZstdLibrary:
    """Return Zstandard from the standard library."""
    from compression import zstd

    def open_encoder(level: int, checksum: bool) -> Callable[[Buffer], Buffer]:
        parameter = zstd.CompressionParameter
        options = {parameter.compression_level: level, parameter.checksum_flag: int(checksum)}
        context = zstd.ZstdCompressor(options=options)
        # A frame that one call begins and ends stores its content size.
        return lambda decoded: context.compress(decoded, zstd.ZstdCompressor.FLUSH_FRAME)

    def open_decoder() -> Callable[[Buffer, memoryview], int | None]:
        return lambda encoded, out: _decode(
            zstd.ZstdDecompressor, zstd.ZstdError, len(encoded), encoded, out, bounded=True
        )

    return ZstdLibrary(open_decoder, open_encoder)


def _decode(
    open_frame: Callable[[], Any],
    error: type[Exception],
    step: int,
    encoded: Buffer,
    out: memoryview,
    *,
    bounded: bool = False,
) -> int | None:
    """Decode all frames into `out`, fed in pieces of `step`; return the number of bytes, None if too many."""
    rest, total, room = memoryview(encoded), 0, len(out)
    while len(rest):
        frame, at = open_frame(), 0
        while not frame.eof:
            piece = rest[at : at + step]
            at += len(piece)
            try:
                part = frame.decompress(piece, room - total + 1) if bounded else frame.decompress(piece)
            except error as e:
                raise DataCorruptionError(str(e)) from e
            if total + len(part) > room:
                return None
            out[total : total + len(part)] = part
            total += len(part)
            if not len(piece) and not len(part) and not frame.eof:
                raise DataCorruptionError("truncated frame")
        rest = rest[at - len(frame.unused_data) :]
    return total
