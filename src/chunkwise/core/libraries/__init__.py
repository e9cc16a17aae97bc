"""C libraries behind the codecs: one entry point for each, whichever installed package provides it.

No package is imported before its library is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from chunkwise.core.libraries.library import BloscLibrary, Library, ZstdLibrary

if TYPE_CHECKING:
    from chunkwise.core.libraries.direct import Libdeflate

__all__ = ["LIBRARIES", "Library", "blosc", "crc32c", "deflate", "zstd"]


def _direct(name: str) -> Callable[[], Any]:
    def load() -> Any:
        from chunkwise.core.libraries import direct

        return getattr(direct, name)()

    return load


def _numcodecs_blosc() -> BloscLibrary:
    from chunkwise.core.libraries.c_blosc import numcodecs_library

    return numcodecs_library()


def _standard_zstd() -> ZstdLibrary:
    from chunkwise.core.libraries.zstd_streams import standard_library

    return standard_library()


def _zstandard() -> ZstdLibrary:
    from chunkwise.core.libraries.zstd_streams import zstandard_library

    return zstandard_library()


def _fastcrc() -> Callable[[memoryview], int]:
    from fastcrc.crc32 import iscsi

    return iscsi  # type: ignore[no-any-return, unused-ignore]


def _google_crc32c() -> Callable[[memoryview], int]:
    import numpy as np
    from google_crc32c import value

    # The extension doesn't accept a memoryview; an array over the same memory avoids a copy.
    return lambda view: value(np.frombuffer(view, np.uint8))


deflate: Library[Libdeflate | None] = Library(
    "gzip and zlib", "deflate", {"deflate (libdeflate)": _direct("libdeflate"), "zlib and isal": lambda: None}
)
zstd: Library[ZstdLibrary] = Library(
    "zstd",
    "zstandard",
    {
        "numcodecs (libzstd)": _direct("zstd"),
        "zstandard": _zstandard,
        "compression.zstd": _standard_zstd,
    },
)
blosc: Library[BloscLibrary] = Library(
    "blosc", "numcodecs", {"numcodecs (c-blosc)": _direct("blosc"), "numcodecs": _numcodecs_blosc}
)
crc32c: Library[Callable[[memoryview], int]] = Library(
    "crc32c", "fastcrc", {"fastcrc": _fastcrc, "google-crc32c": _google_crc32c}
)
LIBRARIES: tuple[Library[Any], ...] = (deflate, zstd, blosc, crc32c)
