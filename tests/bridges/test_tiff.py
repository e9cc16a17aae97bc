"""TIFF and OME-TIFF files as arrays and images, with tifffile's values."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

import chunkwise as ts
from chunkwise.errors import ChunkwiseError, DataCorruptionError, UnsupportedError

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 999, (90, 130)).astype("u2")
COLOUR = RNG.integers(0, 255, (90, 130, 3)).astype("u1")
STRIPS: dict[str, Any] = {"rowsperstrip": 32}
TILES: dict[str, Any] = {"tile": (32, 48)}

PREDICTED: dict[str, Any] = {**TILES, "predictor": True}

FILES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "plain": (GREY, {}, ""),
    "strips": (GREY, STRIPS, ""),
    "tiles": (GREY, TILES, ""),
    "big_endian": (GREY, {**TILES, "byteorder": ">"}, ""),
    "bigtiff": (GREY, {**TILES, "bigtiff": True, "compression": "deflate"}, ""),
    **{
        f"{name}_{form}": (GREY, {**how, "compression": name}, "")
        for name in ("deflate", "lzw", "zstd", "lzma", "packbits")
        for form, how in (("strips", STRIPS), ("tiles", TILES))
    },
    "predictor": (GREY, {**TILES, "compression": "deflate", "predictor": True}, ""),
    "predictor_strips": (GREY, {**STRIPS, "compression": "zstd", "predictor": True}, ""),
    "predictor_colour": (COLOUR, {**PREDICTED, "compression": "lzw", "photometric": "rgb"}, ""),
    "predictor_big": (GREY, {**PREDICTED, "compression": "lzw", "byteorder": ">"}, "predictor"),
    "float_predictor": (
        GREY.astype("f4"),
        {**TILES, "compression": "deflate", "predictor": 3},
        "predictor 3",
    ),
    "planar": (COLOUR.transpose(2, 0, 1), {**TILES, "photometric": "rgb", "planarconfig": "separate"}, ""),
    "colour": (COLOUR, {**STRIPS, "photometric": "rgb"}, ""),
    "jpeg": (COLOUR, {**TILES, "compression": "jpeg", "photometric": "rgb"}, "compression JPEG"),
    "bits": (GREY > 500, {"photometric": "miniswhite"}, ""),
    "stack": (
        np.stack([GREY, GREY + 1, GREY + 2]),
        {**TILES, "compression": "deflate", "photometric": "minisblack"},
        "",
    ),
    "imagej": (np.stack([GREY, GREY + 1]), {"imagej": True}, ""),
    "complex": (GREY.astype("c8"), STRIPS, ""),
}


@pytest.mark.parametrize("name", FILES)
def test_values_of_tifffile(tmp_path: Path, name: str) -> None:
    """Found by its content, whole and in part; `explain` says what tifffile decodes."""
    values, options, why = FILES[name]
    path = tmp_path / "x.tif"
    tifffile.imwrite(path, values, **options)
    expected = tifffile.imread(path)
    array = ts.open(path).result()
    np.testing.assert_array_equal(array.read().result(), expected)
    part: Any = (slice(1, 2), slice(5, 70), slice(0, 2))
    if expected.ndim == 2:
        part = (slice(3, 80, 7), slice(40, 41))
    np.testing.assert_array_equal(array[part].read().result(), expected[part])
    text = str(array.explain())
    if name != "bits":
        assert ("decoded by tifffile" in text) == bool(why)
    assert why in text


def _write_ome(path: Path, *, levels: int = 3) -> Any:
    values = RNG.integers(0, 999, (4, 2, 64, 96)).astype("u2")
    metadata = {"axes": "ZCYX", "PhysicalSizeX": 0.5, "PhysicalSizeY": 0.25, "PhysicalSizeZ": 2.0}
    with tifffile.TiffWriter(path, ome=True) as tiff:
        how: dict[str, Any] = {"tile": (32, 32), "compression": "zlib"}
        tiff.write(values, subifds=levels - 1, metadata=metadata, **how)
        for n in range(1, levels):
            tiff.write(values[..., :: 2**n, :: 2**n], subfiletype=1, **how)
    return values


def test_a_pyramid_is_a_multiscale_image(tmp_path: Path) -> None:
    """Axes in the order of OME-Zarr, sizes with units, all levels."""
    path = tmp_path / "x.ome.tif"
    values = _write_ome(path)
    image = ts.open_multiscale(path)
    assert [level.shape for level in image.levels] == [(2, 4, 64, 96), (2, 4, 32, 48), (2, 4, 16, 24)]
    assert image.scales == ((1.0, 2.0, 0.25, 0.5), (1.0, 2.0, 0.5, 1.0), (1.0, 2.0, 1.0, 2.0))
    assert [axis.name for axis in image.axes] == ["c", "z", "y", "x"]
    assert str(image.levels[0].dimension_units[1]) == "2 um"
    for n, level in enumerate(image.levels):
        expected = values[..., :: 2**n, :: 2**n].transpose(1, 0, 2, 3)
        np.testing.assert_array_equal(level.read().result(), expected)
    np.testing.assert_array_equal(
        ts.open(f"{path}|tiff-images:1").result()[1, 2].read().result(), values[2, 1, ::2, ::2]
    )


def test_copies(tmp_path: Path) -> None:
    """`cp` to OME-Zarr and N5, checked by other readers."""
    import zarr

    path = tmp_path / "x.ome.tif"
    values = _write_ome(path).transpose(1, 0, 2, 3)
    command = [sys.executable, "-m", "chunkwise", "cp", "--quiet"]
    subprocess.run([*command, "-r", str(path), str(tmp_path / "y.ome.zarr")], check=True, capture_output=True)
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "y.ome.zarr", mode="r")["0"][...], values)
    image = ts.open_multiscale(tmp_path / "y.ome.zarr")
    assert len(image.levels) == 3
    assert image.scales[0] == (1.0, 2.0, 0.25, 0.5)
    command += [f"{path}|tiff-images:0", str(tmp_path / "y.n5")]
    subprocess.run(command, check=True, capture_output=True)
    np.testing.assert_array_equal(ts.open(tmp_path / "y.n5").result().read().result(), values)


def test_several_images_and_writing(tmp_path: Path) -> None:
    """The others are groups; nothing is written."""
    path = tmp_path / "x.tif"
    with tifffile.TiffWriter(path) as tiff:
        tiff.write(GREY, **TILES)
        tiff.write(COLOUR, photometric="rgb")
    group = ts.open_group(path)
    assert sorted(group) == ["0", "image1"]
    np.testing.assert_array_equal(group["image1/0"].read().result(), COLOUR)
    before = path.read_bytes()
    with pytest.raises(UnsupportedError, match='"tiff_images" can only be read'):
        ts.open(path).result()[0, 0] = 1
    assert path.read_bytes() == before


def test_planes_in_other_files_are_refused(tmp_path: Path) -> None:
    """They would be read as zeros otherwise."""
    path = tmp_path / "x.ome.tif"
    tifffile.imwrite(path, np.stack([GREY, GREY]), ome=True, metadata={"axes": "ZYX"}, **TILES)
    with tifffile.TiffFile(path) as tiff:
        text = tiff.ome_metadata
    assert text is not None
    part = (
        '<TiffData FirstZ="{0}" PlaneCount="1" IFD="{0}"><UUID FileName="{1}">urn:uuid:{2}</UUID></TiffData>'
    )
    parts = part.format(0, "x.ome.tif", "a" * 8) + part.format(1, "/etc/hostname", "b" * 8)
    begin, end = text.index("<TiffData"), text.index("</Pixels>")
    tifffile.tiffcomment(path, (text[:begin] + parts + text[end:]).encode())
    with pytest.raises(ChunkwiseError, match=r'several files, 2: "x\.ome\.tif", "/etc/hostname"; exp'):
        ts.open(path).result().read().result()


def _entries(content: bytearray) -> list[tuple[int, int]]:
    """Return tag and position of the entries of the first table of a small little-endian file."""
    start = int.from_bytes(content[4:8], "little")
    n = int.from_bytes(content[start : start + 2], "little")
    places = range(start + 2, start + 2 + 12 * n, 12)
    return [(int.from_bytes(content[at : at + 2], "little"), at) for at in places]


def test_tables_that_are_cyclic_or_lie(tmp_path: Path) -> None:
    """Errors that name the file, in bounded time and memory."""
    path = tmp_path / "x.tif"
    tifffile.imwrite(path, GREY, compression="deflate", **STRIPS)
    content = bytearray(path.read_bytes())
    start = int.from_bytes(content[4:8], "little")
    entries = _entries(content)
    after = entries[-1][1] + 12
    began = time.process_time()

    cyclic = bytearray(content)
    cyclic[after : after + 4] = start.to_bytes(4, "little")
    path.write_bytes(bytes(cyclic))
    try:  # the first table is a valid image; tifffile leaves what comes again
        np.testing.assert_array_equal(ts.open(path).result().read().result(), GREY)
    except ChunkwiseError as e:
        assert "x.tif" in str(e)

    for tag, at in entries:
        for value in (0, 1, 0x7FFFFFFF, 0xFFFFFFFF):
            changed = bytearray(content)
            changed[at + 8 : at + 12] = value.to_bytes(4, "little")
            path.write_bytes(bytes(changed))
            try:
                array = ts.open(path).result()
                if array.size < 1 << 24:
                    array.read().result()
                else:
                    array[:1, :1].read().result()
            except ChunkwiseError as e:
                assert "x.tif" in str(e), (tag, value)
    for size in (4, 8, start + 1, after, len(content) // 2):
        path.write_bytes(bytes(content[:size]))
        with pytest.raises(DataCorruptionError, match=r"x\.tif"):
            ts.open(path).result().read().result()
    assert time.process_time() - began < 20


def test_references_of_tifffile(tmp_path: Path) -> None:
    """What tifffile writes for fsspec is a reference file like others."""
    path = tmp_path / "x.tif"
    tifffile.imwrite(path, GREY, compression="lzw", **TILES)
    with tifffile.imread(path, aszarr=True) as store:
        store.write_fsspec(tmp_path / "x.json", tmp_path.as_uri())
    assert json.loads((tmp_path / "x.json").read_text())
    array = ts.open(f"{tmp_path}/x.json|reference:").result()
    np.testing.assert_array_equal(array.read().result(), GREY)
