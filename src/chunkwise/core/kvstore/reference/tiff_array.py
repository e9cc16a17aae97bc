"""Levels of images in TIFF files as arrays of Zarr v2: a document, and the location of each tile or strip.

Codecs decode Deflate, LZW, Zstandard, LZMA and PackBits, with or without the horizontal predictor.
Everything else, for example JPEG, tifffile decodes from the bytes of the tile, in several threads at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, NamedTuple

import numcodecs
import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.core.kvstore.reference.table import BLOCK_NBYTES, Part, Reference, blocks_of, read_by
from chunkwise.errors import DataCorruptionError, UnsupportedError

__all__ = ["Source", "TiffArray", "describe_level"]

_LARGEST = 1 << 31  # largest decoded tile or strip, in bytes
_COMPRESSORS: dict[int, JSON] = {
    5: {"id": "imagecodecs_lzw"},
    8: {"id": "zlib", "level": 6},
    32946: {"id": "zlib", "level": 6},
    32773: {"id": "imagecodecs_packbits"},
    34925: {"id": "lzma"},
    50000: {"id": "zstd", "level": 3},
}

ReadBytes = Callable[[int, int], bytes]


class Source(NamedTuple):
    """A file with pages."""

    url: str  # empty for the file that was opened
    part: ReadBytes
    size: int


class TiffArray(NamedTuple):
    """A level of an image."""

    document: dict[str, JSON]
    axes: str  # a letter for each dimension
    grid: tuple[int, ...]
    find: Callable[[tuple[int, ...]], Reference | None]
    by_tifffile: str  # why tifffile decodes it; empty if not


class _Pages(NamedTuple):
    """The pages of a level, in the order of the leading dimensions."""

    lead: tuple[int, ...]
    offsets: npt.NDArray[np.int64]  # a row for each page; 0 for missing ones
    sizes: npt.NDArray[np.int64]
    sources: list[Source]  # file of each page


def describe_level(level: Any, sources: Mapping[int, Source], axes: str) -> TiffArray:
    """Return a level of a series of tifffile as an array, with its leading axes in the order of `axes`.

    `sources` are the files of its pages, by the identity of tifffile's.
    """
    page = level.keyframe
    if page.dtype is None:
        raise UnsupportedError(
            f"TIFF image of {page.bitspersample} bits in sample format {page.sampleformat}"
        )
    stored = np.dtype(page.parent.byteorder + page.dtype.char)
    shape, own = tuple(map(int, level.shape)), str(level.axes)
    # Contiguous data may still have bits in reverse order, or differences instead of values.
    final = bool(page.is_final)
    n_inner = len(page.shape)
    moved = sorted(axes) == sorted(own) and axes != own and axes[-n_inner:] == own[-n_inner:]
    piece = level.dataoffset is not None and final  # the whole series is contiguous
    one = piece and not moved
    inner = shape if one else tuple(map(int, page.shape))
    lead = shape[: len(shape) - len(inner)]
    if shape[len(lead) :] != inner:
        raise UnsupportedError(f"TIFF series of shape {shape} with pages of shape {inner}")
    order = tuple(range(len(lead)))
    if not one and sorted(axes) == sorted(own) and axes[len(lead) :] == own[len(lead) :]:
        order = tuple(own.index(letter) for letter in axes[: len(lead)])
        own = axes
    fill = page.nodata if isinstance(page.nodata, int | float) else 0
    whole = piece or final
    pages = _pages(level, sources, lead, one, whole, stored.itemsize * prod(inner))
    if whole:
        chunks = blocks_of(inner, stored.itemsize, BLOCK_NBYTES)
    else:
        chunks = tuple(map(int, page.chunks))
        chunks = (1,) * (len(inner) - len(chunks)) + chunks  # samples in separate planes
        if len(pages.offsets[0]) != prod(-(-n // c) for n, c in zip(inner, chunks, strict=True)):
            raise DataCorruptionError(
                f"TIFF page of shape {inner} has {len(pages.offsets[0])} tiles or strips of shape {chunks}"
            )
    nbytes = prod(chunks) * stored.itemsize
    if nbytes > _LARGEST:
        raise UnsupportedError(f"TIFF tile or strip of {nbytes} bytes, expected at most {_LARGEST}")
    compressor, filters, why = (None, [], "") if whole else _codecs(page, stored, chunks)
    inner_grid = tuple(-(-n // c) for n, c in zip(inner, chunks, strict=True))

    def find(cell: tuple[int, ...]) -> Reference | None:
        at = [0] * len(lead)
        for i, dim in zip(cell, order, strict=False):
            at[dim] = i
        row = int(np.ravel_multi_index(tuple(at), lead)) if lead else 0
        place = cell[len(lead) :]
        if whole:
            return _block(pages, row, place, chunks, inner, stored.itemsize)
        index = int(np.ravel_multi_index(place, inner_grid))
        offset, count = int(pages.offsets[row, index]), int(pages.sizes[row, index])
        if offset <= 0 or count <= 0:
            return None
        source = pages.sources[row]
        if offset + count > source.size:
            raise DataCorruptionError(f"TIFF tile or strip ends at byte {offset + count} of {source.size}")
        is_cut = any(c * (i + 1) > n for i, c, n in zip(place, chunks, inner, strict=True))
        if not why and not (is_cut and not page.is_tiled):
            return Part(source.url, offset, offset + count)
        return lambda: _decoded(
            page, source.part(offset, offset + count), index, chunks, stored, filters, compressor
        )

    grid = tuple(lead[dim] for dim in order) + inner_grid
    return TiffArray(
        {
            "chunks": [1] * len(lead) + [max(1, n) for n in chunks],
            "compressor": compressor,
            "dtype": stored.str,
            "fill_value": fill or None,
            "filters": filters or None,
            "order": "C",
            "shape": [lead[dim] for dim in order] + list(inner),
            "zarr_format": 2,
        },
        own,
        grid,
        find,
        why,
    )


def _pages(
    level: Any, sources: Mapping[int, Source], lead: tuple[int, ...], one: bool, whole: bool, nbytes: int
) -> _Pages:
    if one:
        place = np.array([[level.dataoffset]], np.int64), np.array([[nbytes]], np.int64)
        return _Pages((), *place, [sources[id(level.keyframe.parent)]])
    if level.dataoffset is not None:
        offsets_of_pages = level.dataoffset + nbytes * np.arange(prod(lead), dtype=np.int64)
        source = sources[id(level.keyframe.parent)]
        sizes_of_pages = np.full((prod(lead), 1), nbytes, np.int64)
        return _Pages(lead, offsets_of_pages[:, None], sizes_of_pages, [source] * prod(lead))
    if len(level.pages) != prod(lead):
        raise UnsupportedError(f"TIFF series with {len(level.pages)} pages for dimensions {lead}")
    offsets, sizes, n = [], [], len(level.keyframe.dataoffsets)
    for page in level.pages:
        if page is None:
            offsets.append((0,) * n)
            sizes.append((0,) * n)
            continue
        if len(page.dataoffsets) != n or len(page.databytecounts) != n:
            raise DataCorruptionError(
                f"TIFF page {page.index} has {len(page.dataoffsets)} offsets and {len(page.databytecounts)} "
                f"sizes of tiles or strips, expected {n}"
            )
        offsets.append(tuple(page.dataoffsets))
        sizes.append(tuple(page.databytecounts))
    table = np.array([offsets, sizes], np.float64)
    if table.size and (table.min() < 0 or table.max() > 1 << 62):
        raise DataCorruptionError("TIFF offsets or sizes are out of range")
    of = [sources[id((level.keyframe if page is None else page).parent)] for page in level.pages]
    out = _Pages(lead, np.array(offsets, np.int64), np.array(sizes, np.int64), of)
    return _Pages(lead, out.offsets[:, :1], out.sizes[:, :1] * 0 + nbytes, of) if whole else out


def _block(
    pages: _Pages,
    row: int,
    place: tuple[int, ...],
    chunks: tuple[int, ...],
    shape: tuple[int, ...],
    itemsize: int,
) -> Reference | None:
    """Return a block of a page or series that is contiguous and uncompressed."""
    offset, source = int(pages.offsets[row, 0]), pages.sources[row]
    if offset <= 0:
        return None
    start, count = 0, itemsize
    for i, c, n in zip(place, chunks, shape, strict=True):
        start = start * n + i * c
        count *= min(c, n - i * c)
    first, nbytes = offset + start * itemsize, prod(chunks) * itemsize
    if first + count > source.size:
        raise DataCorruptionError(f"TIFF image ends at byte {first + count} of {source.size}")
    if count == nbytes:
        return Part(source.url, first, first + count)
    return lambda: source.part(first, first + count).ljust(nbytes, b"\0")


def _codecs(page: Any, stored: np.dtype[Any], chunks: tuple[int, ...]) -> tuple[JSON, list[JSON], str]:
    """Return compressor and filters of Zarr v2, and why tifffile has to decode, if so."""
    compression, predictor = int(page.compression), int(page.predictor)
    if compression != 1 and compression not in _COMPRESSORS:
        return None, [], f"compression {getattr(page.compression, 'name', compression)}"
    if int(page.fillorder) != 1:
        return None, [], "bits in reverse order"
    bits = page.bitspersample
    if bits != stored.itemsize * 8:
        return None, [], f"{bits} bits for each sample"
    if predictor not in (1, 2) or (predictor == 2 and (stored.str[0] == ">" or stored.kind not in "iu")):
        return None, [], f"predictor {predictor}"
    if page.jpegtables is not None or getattr(page, "is_subsampled", False):
        return None, [], "subsampled colours"
    compressor = _COMPRESSORS.get(compression)
    if predictor == 1:
        return compressor, [], ""
    axis = -2 if page.axes.endswith("S") else -1
    delta = {"id": "imagecodecs_delta", "shape": list(chunks), "dtype": stored.str, "axis": axis}
    return compressor, [delta], ""


def _decoded(
    page: Any,
    data: bytes,
    index: int,
    chunks: tuple[int, ...],
    stored: np.dtype[Any],
    filters: list[JSON],
    compressor: JSON,
) -> Buffer:
    """Return a tile or strip decoded by tifffile, in the encoding of the others."""
    found, _, shape = read_by(
        "tifffile", f"tile or strip {index}", lambda: page.decode(data, index, jpegtables=page.jpegtables)
    )
    out = np.zeros(chunks, stored)
    if found is not None:
        # tifffile returns depth, length, width and samples; a page may have fewer dimensions.
        extents = dict(zip(page.axes[-len(chunks) :], chunks, strict=True))
        target = out.reshape([extents.get(letter, 1) for letter in "ZYXS"])
        if found.ndim != 4 or any(a > b for a, b in zip(found.shape, target.shape, strict=True)):
            raise DataCorruptionError(f"tile or strip {index} has shape {shape}, expected {target.shape}")
        target[tuple(slice(n) for n in found.shape)] = found
    encoded: Any = out
    for codec in filters:
        encoded = _codec(codec).encode(encoded)
    encoded = bytes(encoded)
    return encoded if compressor is None else bytes(_codec(compressor).encode(encoded))


def _codec(document: JSON) -> Any:
    from imagecodecs.numcodecs import register_codecs

    register_codecs(verbose=False)
    return numcodecs.get_codec(dict(document))
