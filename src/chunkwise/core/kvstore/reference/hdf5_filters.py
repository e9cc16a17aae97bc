"""Filter pipelines of HDF5 as filters of Zarr v2, and chunks without some of the filters.

Specification
-------------
HDF5 File Format, "Filter Pipeline Message"; filter numbers are those registered with The HDF Group.  A filter
that could not make a chunk smaller is skipped, which the chunk's filter mask says.  The missing filters are
applied to such a chunk in a form that does not compress, so that one chain decodes all chunks.
"""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numcodecs
import numpy as np

from chunkwise.core.base.binding import JSON

__all__ = ["Filter", "add_filters", "can_add", "filter_documents", "is_suffix"]

_BLOSC_COMPRESSORS = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
_SHUFFLE = 2
_LITERALS = 32  # bytes of a run in LZF


class Filter(NamedTuple):
    """One filter of a pipeline."""

    number: int
    values: tuple[int, ...]
    name: str


Document: TypeAlias = "Callable[[Sequence[int], int], JSON]"


def _blosc(values: Sequence[int], itemsize: int) -> JSON:
    level = values[4] if len(values) > 4 else 5
    shuffle = values[5] if len(values) > 5 else 1
    compressor = values[6] if len(values) > 6 else 0
    if compressor >= len(_BLOSC_COMPRESSORS) or shuffle > 2 or level > 9:
        return None
    return {
        "id": "blosc",
        "cname": _BLOSC_COMPRESSORS[compressor],
        "clevel": level,
        "shuffle": shuffle,
        "blocksize": 0,
    }


def _szip(values: Sequence[int], itemsize: int) -> JSON:
    if len(values) < 4:
        return None
    names = ("options_mask", "pixels_per_block", "bits_per_pixel", "pixels_per_scanline")
    return {"id": "imagecodecs_szip", **dict(zip(names, values[:4], strict=True)), "header": True}


def _level(values: Sequence[int], default: int) -> int:
    return values[0] if values else default


_DOCUMENTS: dict[int, Document] = {
    1: lambda v, n: {"id": "zlib", "level": min(9, _level(v, 4))},
    2: lambda v, n: {"id": "shuffle", "elementsize": _level(v, n)},
    3: lambda v, n: {"id": "fletcher32"},
    4: _szip,
    307: lambda v, n: {"id": "bz2", "level": min(9, max(1, _level(v, 9)))},
    32000: lambda v, n: {"id": "imagecodecs_lzf", "header": False},
    32001: _blosc,
    32004: lambda v, n: {"id": "imagecodecs_lz4h5"},
    32015: lambda v, n: {"id": "zstd", "level": min(22, _level(v, 3))},
}
_PACKAGES = (4, 32000, 32004)  # filters that imagecodecs provides


def filter_documents(filters: Sequence[Filter], itemsize: int) -> list[JSON] | None:
    """Return the filters in Zarr v2's form; None if only HDF5 itself can undo one of them."""
    out: list[JSON] = []
    for one in filters:
        make = _DOCUMENTS.get(one.number)
        document = None if make is None else make(one.values, itemsize)
        if one.number == _SHUFFLE and out:
            return None  # after others it may get partial elements, which HDF5 leaves unchanged
        if document is None or (one.number in _PACKAGES and not _has_imagecodecs()):
            return None
        out.append(document)
    return out


def _has_imagecodecs() -> bool:
    try:
        import imagecodecs  # noqa: F401
    except ImportError:
        return False
    return True


def can_add(filters: Sequence[Filter]) -> bool:
    """Return True if `add_filters` can make a chunk with these filters."""
    return all(one.number in _ADD for one in filters)


def is_suffix(mask: int, filters: Sequence[Filter]) -> bool:
    """Return True if a chunk lacks only the last filters, all of which `add_filters` can add."""
    missing = [i for i in range(len(filters)) if mask >> i & 1]
    last = list(range(len(filters) - len(missing), len(filters)))
    return missing == last and all(filters[i].number in _ADD for i in missing)


def add_filters(data: bytes, mask: int, filters: Sequence[Filter], itemsize: int) -> bytes:
    """Return a chunk with the skipped filters applied, without compression."""
    for i, one in enumerate(filters):
        if mask >> i & 1:
            data = _ADD[one.number](data, _level(one.values, itemsize))
    return data


def _shuffled(data: bytes, itemsize: int) -> bytes:
    whole = len(data) // itemsize * itemsize
    items = np.frombuffer(data[:whole], np.uint8).reshape(-1, itemsize)
    return items.T.tobytes() + data[whole:]


def _literals(data: bytes, _: int) -> bytes:
    """Return an uncompressed LZF stream: runs, each after its length less one."""
    pieces = (data[i : i + _LITERALS] for i in range(0, len(data), _LITERALS))
    return b"".join(bytes((len(piece) - 1,)) + piece for piece in pieces)


def _checked(data: bytes, _: int) -> bytes:
    out: Any = numcodecs.Fletcher32().encode(data)
    return bytes(out)


def _bz2(data: bytes, _: int) -> bytes:
    return bz2.compress(data, 1)


def _by_numcodecs(codec: Any) -> Callable[[bytes, int], bytes]:
    def add(data: bytes, _: int) -> bytes:
        out: Any = codec.encode(data)
        return bytes(out)

    return add


_ADD: dict[int, Callable[[bytes, int], bytes]] = {
    1: lambda data, _: zlib.compress(data, 0),
    2: _shuffled,
    3: _checked,
    307: _bz2,
    32000: _literals,
    32001: _by_numcodecs(numcodecs.Blosc(clevel=0)),
    32015: _by_numcodecs(numcodecs.Zstd(level=1)),
}
