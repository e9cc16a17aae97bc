"""c-blosc from NumCodecs or from imagecodecs."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.extras import needs
from chunkwise.core.libraries.direct import blosc
from chunkwise.core.libraries.library import BloscLibrary, Buffer, Compress
from chunkwise.errors import UnsupportedError

__all__ = ["imagecodecs_library", "numcodecs_library"]


def numcodecs_library() -> BloscLibrary:
    """Return c-blosc from NumCodecs."""
    import numcodecs.blosc  # importing it takes as long as encoding a hundred chunks

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

    return BloscLibrary(decompress, open_compressor, frozenset(numcodecs.blosc.list_compressors()))


def imagecodecs_library(cname: str) -> BloscLibrary:
    """Return c-blosc from imagecodecs, which is built with Snappy."""
    imagecodecs: Any
    try:
        imagecodecs = import_module("imagecodecs")
    except ImportError:
        imagecodecs = None
    if imagecodecs is None or not imagecodecs.BLOSC.available:
        raise UnsupportedError(needs(f'"blosc" codec with {cname!r}', "imagecodecs"))
    direct = _linked_with_imagecodecs()
    if direct is not None:
        return direct

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


@cache
def _linked_with_imagecodecs() -> BloscLibrary | None:
    # If NetCDF's plugins were loaded first, the package's own functions call the c-blosc of those.
    with suppress(ImportError):
        return blosc("imagecodecs", "_blosc")
    return None


def _items(decoded: Buffer, typesize: int) -> npt.NDArray[Any]:
    """Return bytes as items of `typesize`; both packages take the type size from the item size."""
    raw = np.frombuffer(decoded, np.uint8)
    return raw.view(f"V{typesize}") if typesize > 1 and len(raw) % typesize == 0 else raw
