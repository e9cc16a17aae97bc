"""Zarr v2 and v3 as GDAL's driver writes it, and what GDAL reads of ours.

``fixtures/gdal.zip`` was written by GDAL 3.6.2, 3.10.3 and 3.12.2, for each array the path
``VERSION/OPTIONS.zarr/DATA_TYPE``; its values are those of `values_of`.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
import zarr

import chunkwise as cw

FILE = Path(__file__).parent / "fixtures" / "gdal.zip"
TYPES = (
    "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64",
    "complex64", "complex128",
)  # fmt: skip


def values_of(dtype):
    values = np.arange(35).reshape(5, 7)
    return (values * (1 + 2j) if dtype.startswith("complex") else values).astype(dtype)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    path = tmp_path_factory.mktemp("gdal")
    ZipFile(FILE).extractall(path)
    return path


def _arrays():
    names = ZipFile(FILE).namelist()
    folders = [name.rpartition("/")[0] for name in names if name.endswith((".zarray", "zarr.json"))]
    paths = sorted(folder for folder in folders if folder.count("/") == 2)
    return {
        incomplete: [p for p in paths if p.startswith("3.10.3/v3") is incomplete]
        for incomplete in (False, True)
    }


@pytest.mark.parametrize("path", _arrays()[False])
def test_what_gdal_wrote(root, tmp_path, same_bits, path):
    """Read, copied to what zarr-python reads, written in place and resized."""
    want = values_of(path.rpartition("/")[2])
    array = cw.open(root / path, read=True, write=True).result()
    same_bits(array.read().result(), want)
    cw.copy(root / path, tmp_path / "copy")
    same_bits(zarr.open_array(tmp_path / "copy", mode="r")[...], want)
    array[1:4, 2:6] = 2 * want[1:4, 2:6]
    changed = want.copy()
    changed[1:4, 2:6] *= 2
    array.resize(exclusive_max=[9, 7]).result()
    same_bits(cw.open(root / path).result()[:5].read().result(), changed)


@pytest.mark.parametrize("path", _arrays()[True])
def test_zarr3_before_gdal_3_11(root, path):
    """Nothing tells in which byte order its elements are; zarr-python and TensorStore refuse it too."""
    with pytest.raises(ValueError, match=r"codecs|array -> bytes codec must be specified"):
        cw.open(root / path).result()


@pytest.mark.slow  # the package is large
@pytest.mark.filterwarnings("ignore::UserWarning")  # that there is no georeference
@pytest.mark.parametrize(
    ("format", "codec"),
    [
        *(("zarr2", codec) for codec in ("none", "zstd", "blosc", "gzip")),
        *(("zarr3", codec) for codec in ("none", "blosc", "gzip")),
    ],
)
def test_both_ways(tmp_path, same_bits, format, codec):
    rasterio = importlib.import_module("rasterio")
    compress = {"COMPRESS": codec.upper(), "FORMAT": f"ZARR_V{format[-1]}"}
    # Before 3.11 it doesn't know the codec `bytes`; what it writes without is refused, as above.
    incomplete = format == "zarr3" and tuple(map(int, rasterio.__gdal_version__.split(".")[:2])) < (3, 11)
    for dtype in TYPES:
        want = values_of(dtype)
        size = {"width": 7, "height": 5, "count": 1, "BLOCKSIZE": "3,4"}
        path = tmp_path / f"{dtype}.zarr"
        with rasterio.open(path, "w", driver="Zarr", dtype=dtype, ARRAY_NAME="a", **size, **compress) as file:
            file.write(want, 1)
        if incomplete:
            with pytest.raises(ValueError, match=r"codecs|array -> bytes codec must be specified"):
                cw.open(path / "a").result()
            continue
        same_bits(cw.open(path / "a").result().read().result(), want)
        ours = tmp_path / f"{dtype}-ours.zarr"
        group = cw.create_group(ours, format=format)
        group.create_array("a", want, chunks=(3, 4), codec=codec, dimension_names=["y", "x"])
        with rasterio.open(ours / "a") as file:
            same_bits(file.read(1), want)
