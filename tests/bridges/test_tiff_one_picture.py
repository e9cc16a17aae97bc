"""TIFF files of one page of `uint8` are opened as TensorStore opens them; all others are images."""

from __future__ import annotations

import struct
from io import BytesIO
from typing import Any

import numpy as np
import pytest
import tensorstore
import tifffile

import chunkwise as ts
from chunkwise.core.driver.auto import is_one_picture

GREY = np.arange(20 * 30, dtype="u1").reshape(20, 30)
COLOUR = np.stack([GREY, GREY + 1, GREY + 2], axis=-1)
LARGEST = 1 << 26
SCALED = ("pixels an inch", "ImageJ", "OME")  # TensorStore's picture has no units

FILES: dict[str, tuple[Any, dict[str, Any], bool]] = {
    "grey": (GREY, {}, True),
    "colour": (COLOUR, {"photometric": "rgb"}, True),
    "tiles": (GREY, {"tile": (16, 16)}, True),
    "big endian": (GREY, {"byteorder": ">"}, True),
    "BigTIFF": (COLOUR, {"bigtiff": True, "photometric": "rgb"}, True),
    "predictor": (GREY, {"compression": "lzw", "predictor": True}, True),
    **{name: (GREY, {"compression": name}, True) for name in ("lzw", "deflate", "zstd", "packbits", "jpeg")},
    "lzma": (GREY, {"compression": "lzma"}, False),
    "planes": (COLOUR.transpose(2, 0, 1), {"photometric": "rgb", "planarconfig": "separate"}, False),
    "pages": (np.stack([GREY, GREY]), {"photometric": "minisblack"}, False),
    "bits": (GREY > 9, {}, False),
    "described": (GREY, {"description": "a picture by somebody"}, True),
    "pixels an inch": (GREY, {"resolution": (300, 300), "resolutionunit": "INCH"}, False),
    "ImageJ": (GREY, {"imagej": True, "metadata": {"unit": "um"}, "resolution": (2, 2)}, False),
    "OME": (GREY, {"ome": True, "metadata": {"axes": "YX", "PhysicalSizeX": 0.5}}, False),
    **{name: (GREY.astype(name), {}, False) for name in ("i1", "u2", "f4")},
}


@pytest.mark.parametrize("name", FILES)
def test_by_content_as_tensorstore(name):
    values, options, is_picture = FILES[name]
    file = BytesIO()
    tifffile.imwrite(file, values, **options)
    opened = []
    for library in (tensorstore, ts):
        context = library.Context()
        library.KvStore.open("memory://", context=context).result()["x"] = file.getvalue()
        if library is ts or is_picture:
            opened.append(library.open("memory://x", context=context).result())
        elif name not in SCALED:
            with pytest.raises((ValueError, NotImplementedError)):
                library.open("memory://x", context=context).result()
    ours = opened[-1]
    image = ts.open("memory://x|tiff-images:0", context=context).result()
    np.testing.assert_array_equal(image.read().result(), tifffile.imread(BytesIO(file.getvalue())))
    if is_picture:
        theirs = opened[0]
        assert ours.spec().to_json() == theirs.spec().to_json()
        np.testing.assert_array_equal(ours.read().result(), theirs.read().result())
    else:
        assert ours.domain == image.domain
        assert any(ours.dimension_units) == (name in SCALED)
        assert ours.spec() == image.spec()


@pytest.mark.parametrize(("width", "expected"), [(LARGEST // 20, True), (LARGEST // 20 + 1, False)])
def test_large_pictures_are_read_by_tiles(width, expected):
    file = BytesIO()
    tifffile.imwrite(file, GREY)
    old, new = (struct.pack("<HHII", 256, 4, 1, n) for n in (30, width))
    short = struct.pack("<HHIHH", 256, 3, 1, 30, 0)
    content = file.getvalue()
    assert (old in content) != (short in content)
    content = content.replace(old, new).replace(short, new)
    assert is_one_picture(lambda at, n: content[at : at + n]) == expected


def test_damaged_tables():
    file = BytesIO()
    tifffile.imwrite(file, GREY)
    content = file.getvalue()
    parts = [content[:length] for length in range(len(content) + 1)]
    found = [is_one_picture(lambda at, n, part=part: part[at : at + n]) for part in parts]
    whole_table = found.index(True)  # the pixels behind it don't count
    assert whole_table > 8 and not any(found[:whole_table]) and all(found[whole_table:])


CHANGED_BY_PILLOW = {
    "0 is white": (GREY, {"photometric": "miniswhite"}),
    "0 is white, JPEG": (GREY, {"photometric": "miniswhite", "compression": "jpeg"}),
    **{f"orientation {n}": (GREY, {"extratags": [(274, 3, 1, n, True)]}) for n in range(2, 9)},
    "orientation 6 in colour": (COLOUR, {"photometric": "rgb", "extratags": [(274, 3, 1, 6, True)]}),
    **{
        f"{name}, {len(colours)} samples": (
            np.stack([*colours, GREY[::-1]], axis=-1),
            {"photometric": kind, "planarconfig": "contig", "extrasamples": [name]},
        )
        for name in ("assocalpha", "unspecified")
        for kind, colours in (("minisblack", [GREY]), ("rgb", [GREY, GREY + 1, GREY + 2]))
    },
    "three samples of grey": (COLOUR, {"photometric": "minisblack", "planarconfig": "contig"}),
}


@pytest.mark.parametrize("name", CHANGED_BY_PILLOW)
def test_values_are_those_stored(name, tmp_path):
    """By content; and by the driver ``tiff`` as by TensorStore, or an error where it reads other samples."""
    values, options = CHANGED_BY_PILLOW[name]
    tifffile.imwrite(path := tmp_path / "a.tif", values, metadata=None, **options)
    stored = tifffile.imread(path)
    np.testing.assert_array_equal(ts.open(path).result().read().result(), stored)
    spec = {"driver": "tiff", "kvstore": f"file://{path}"}
    if "samples" in name:
        with pytest.raises(ts.errors.ChunkwiseError, match=r"open the file without it|only supports|TIFF"):
            ts.open(spec).result()
    else:
        theirs = tensorstore.open(spec).result().read().result()
        np.testing.assert_array_equal(ts.open(spec).result().read().result(), theirs)
        np.testing.assert_array_equal(theirs.squeeze(), stored)
