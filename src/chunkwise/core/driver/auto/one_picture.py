"""Detection of TIFF files that are a single picture, which TensorStore's driver ``tiff`` opens.

Only the tables of the file are read.  All other files are images of any type and number of pages, and so is a
picture with a scale: OME-XML, ImageJ's metadata, or a resolution in inches or centimetres.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

__all__ = ["is_one_picture"]

Read: TypeAlias = Callable[[int, int], bytes]  # returns bytes, from a position and a number

_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC = 256, 257, 258, 259, 262
_FILL_ORDER, _ORIENTATION, _SAMPLES, _PLANAR, _PREDICTOR, _EXTRA, _FORMAT = 266, 274, 277, 284, 317, 338, 339
_DESCRIPTION, _RESOLUTION_UNIT = 270, 296
_TAKEN = (
    _WIDTH,
    _HEIGHT,
    _BITS,
    _COMPRESSION,
    _PHOTOMETRIC,
    _FILL_ORDER,
    _ORIENTATION,
    _SAMPLES,
    _PLANAR,
    _PREDICTOR,
    _EXTRA,
    _FORMAT,
    _RESOLUTION_UNIT,
)
_COMPRESSIONS = (1, 5, 7, 8, 32773, 32946, 50000)  # none, LZW, JPEG, Deflate, PackBits, Deflate, Zstandard
_COLOURS = {1: 1, 2: 3, 6: 3}  # samples of grey, RGB and YCbCr; of others, Pillow changes the values
_ALPHA = 2  # the only further sample that Pillow neither drops nor divides by
_PREDICTED = (5, 8, 32946, 50000)  # other compressions have no predictor, whatever the tag says
_SIZES = {1: "B", 3: "H", 4: "I", 16: "Q"}
_UNITS = (2, 3)  # inch, centimetre
_ASCII = 2
_MOST_ENTRIES = 1000
_DESCRIPTION_NBYTES = 4096  # OME-XML and ImageJ identify themselves before that
_MOST_PIXELS = 1 << 26  # larger pictures are read by tiles


def is_one_picture(read: Read) -> bool:
    """Return True for one page of ``uint8`` that isn't large; False for a damaged file too."""
    try:
        tags = _only_page(read)
    except struct.error:
        return False
    if tags is None or not 0 < tags.get(_WIDTH, 0) * tags.get(_HEIGHT, 0) <= _MOST_PIXELS:
        return False
    n_samples = tags.get(_SAMPLES, 1)
    n_colours = _COLOURS.get(tags.get(_PHOTOMETRIC, -1), -1)
    return (
        (n_samples == n_colours or (n_samples == n_colours + 1 and tags.get(_EXTRA) == _ALPHA))
        and tags.get(_BITS, 1) == 8
        and tags.get(_ORIENTATION, 1) == 1
        and tags.get(_FORMAT, 1) == 1
        and tags.get(_FILL_ORDER, 1) == 1
        and tags.get(_COMPRESSION, 1) in _COMPRESSIONS
        and (tags.get(_PREDICTOR, 1) == 1 or tags.get(_COMPRESSION, 1) in _PREDICTED)
        and (n_samples == 1 or tags.get(_PLANAR, 1) == 1)
        and tags.get(_RESOLUTION_UNIT) not in _UNITS
        and _DESCRIPTION not in tags
    )


def _only_page(read: Read) -> dict[int, int] | None:
    """Return the first values of the only page's tags, including the description if it has a scale."""
    # Return None for several pages.
    head = read(0, 16)
    order = "<" if head[:2] == b"II" else ">"
    is_big = struct.unpack_from(order + "H", head, 2)[0] == 43
    if is_big and order == ">":
        return None  # Pillow can't read it
    count, size, offset = ("Q", 20, "Q") if is_big else ("H", 12, "I")
    (start,) = struct.unpack_from(order + offset, head, 8 if is_big else 4)
    width = struct.calcsize(count)
    (n,) = struct.unpack(order + count, read(start, width))
    if n > _MOST_ENTRIES:
        return None
    table = read(start + width, n * size + struct.calcsize(offset))
    (following,) = struct.unpack_from(order + offset, table, n * size)
    return None if following else _tags(read, table[: n * size], order, size)


def _tags(read: Read, table: bytes, order: str, size: int) -> dict[int, int]:
    count, room = ("Q", 8) if size == 20 else ("I", 4)
    found = {}
    for at in range(0, len(table), size):
        tag, kind, n = struct.unpack_from(f"{order}HH{count}", table, at)
        if tag == _DESCRIPTION and kind == _ASCII and n > room:
            (place,) = struct.unpack(order + ("Q" if room == 8 else "I"), table[at + size - room : at + size])
            text = read(place, min(n, _DESCRIPTION_NBYTES))
            if text.startswith(b"ImageJ=") or b"<OME" in text:
                found[_DESCRIPTION] = 1
            continue
        if tag not in _TAKEN or kind not in _SIZES or n == 0:
            continue
        one, value = order + _SIZES[kind], table[at + size - room : at + size]
        if n * struct.calcsize(one) > room:
            (place,) = struct.unpack(order + ("Q" if room == 8 else "I"), value)
            value = read(place, struct.calcsize(one))
        (found[tag],) = struct.unpack_from(one, value)
    return found
