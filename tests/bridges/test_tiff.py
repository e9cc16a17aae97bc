"""TIFF and OME-TIFF files as arrays and images, with tifffile's values."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import yaozarrs
import zarr

import chunkwise as ts
from chunkwise.cli.main import main
from chunkwise.errors import ChunkwiseError, DataCorruptionError, PermissionDeniedError, UnsupportedError

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
        for form, how in (("strips", STRIPS), ("tiles", TILES), ("big", {**TILES, "byteorder": ">"}))
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
    one_picture = name in ("predictor_colour", "colour", "jpeg")  # as TensorStore opens it
    array = ts.open(f"{path}|tiff-images:0" if one_picture else path).result()
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


def _two_images(path: Path, kind: str) -> Path:
    named: dict[str, Any] = {"axes": "CYX", "Channel": {"Name": ["a", "b"]}} if kind == "ome" else {}
    with tifffile.TiffWriter(path) as tiff:
        for one in (GREY, GREY[:20]):
            one = np.stack([one, one + 1]) if kind == "ome" else one
            tiff.write(one, photometric="minisblack", metadata=named)
    return path


FIRST_ALONE: dict[str, Any] = {
    "read": lambda path, to: ts.read(path),
    "to_dask": lambda path, to: ts.to_dask(path),
    "copy": lambda path, to: ts.copy(path, to),
    "copy to a volume": lambda path, to: ts.copy(path, to, format="neuroglancer_precomputed"),
    "downsample_pyramid": lambda path, to: ts.downsample_pyramid(path, to, levels=0).result(),
}
COMMANDS = {
    "cp {path} {to} --quiet": 3,
    "cp {path} {to} --quiet --format neuroglancer_precomputed": 3,
    "cp -r {path} {to} --quiet --format neuroglancer_precomputed": 3,
    "pyramid {path} {to} --quiet --levels 0": 3,
    "pyramid {path} {to} --quiet --levels 0 --convention neuroglancer_precomputed": 3,
    "slice {path} --npy {to}.npy": 0,
}


@pytest.mark.parametrize("kind", ["ome", "plain"])
def test_images_beside_the_first_are_named(kind: str, tmp_path: Path, capsys: Any) -> None:
    """Whatever takes one image of a file warns of the others, and a command that copies one ends with 3."""
    path = _two_images(tmp_path / ("x.ome.tif" if kind == "ome" else "x.tif"), kind)
    for number, call in enumerate(FIRST_ALONE.values()):
        with pytest.warns(UserWarning, match=r"left out of 2 images.*image1"):
            call(path, tmp_path / f"{number}.zarr")
    for number, (command, status) in enumerate(COMMANDS.items()):
        assert main(command.format(path=path, to=tmp_path / f"c{number}").split()) == status, command
        assert "image1" in capsys.readouterr().err, command
    assert "image1" in ts.open_multiscale(path).problems[0]


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_channels_in_a_copied_tree_are_whole(format: str, tmp_path: Path) -> None:
    """OME-Zarr demands a colour and a window of each."""
    path = _two_images(tmp_path / "x.ome.tif", "ome")
    assert main(["cp", "-r", str(path), str(tmp_path / "y.zarr"), "--format", format, "--quiet"]) == 0
    yaozarrs.validate_zarr_store(str(tmp_path / "y.zarr"))
    for name in ("", "image1"):
        attributes = dict(zarr.open_group(tmp_path / "y.zarr" / name, mode="r").attrs)
        channels = attributes.get("ome", attributes)["omero"]["channels"]
        assert [channel["label"] for channel in channels] == ["a", "b"]
        assert all(len(one["color"]) == 6 and one["window"]["max"] > 0 for one in channels)


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_each_image_of_a_file_is_one_of_ome_zarr(format: str, tmp_path: Path) -> None:
    """Colours come first, also in the thumbnail of a slide."""
    with tifffile.TiffWriter(tmp_path / "x.ome.tif") as tiff:
        for one, name in ((COLOUR, "slide"), (COLOUR[::8, ::8], "thumb")):
            tiff.write(one, photometric="rgb", metadata={"axes": "YXS", "Name": name})
    ts.copy_tree(tmp_path / "x.ome.tif", tmp_path / "y.zarr", format=format)
    for name, expected in (("", COLOUR), ("image1", COLOUR[::8, ::8])):
        yaozarrs.validate_zarr_store(str(tmp_path / "y.zarr" / name))
        found = zarr.open_group(tmp_path / "y.zarr" / name, mode="r")["0"]
        np.testing.assert_array_equal(found[...], expected.transpose(2, 0, 1))


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
        ts.open(f"{path}|tiff-images:0").result()[0, 0] = 1
    assert path.read_bytes() == before
    for open_first in (ts.open, ts.open_array, ts.read):
        with pytest.warns(UserWarning, match="2 images in the file, of which this is the first.*image1"):
            open_first(path)


def _write_ome_files(folder: Path, names: list[str], values: Any, **options: Any) -> None:
    """Write a file for each value of the second dimension, and OME-XML that names all into each of them."""
    shape, uuid = values.shape, "urn:uuid:00000000-0000-0000-0000-{:012}"
    planes = "".join(
        f'<TiffData FirstZ="{z}" FirstC="{c}" IFD="{z}" PlaneCount="1">'
        f'<UUID FileName="{name}">{uuid.format(c)}</UUID></TiffData>'
        for c, name in enumerate(names)
        for z in range(shape[0])
    )
    for c, name in enumerate(names):
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        text = (
            '<?xml version="1.0" encoding="UTF-8"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/'
            f'2016-06" UUID="{uuid.format(c)}"><Image ID="Image:0" Name="cells"><Pixels ID="Pixels:0" '
            f'DimensionOrder="XYZCT" Type="uint16" SizeX="{shape[3]}" SizeY="{shape[2]}" SizeZ="{shape[0]}" '
            f'SizeC="{shape[1]}" SizeT="1" PhysicalSizeX="0.5"><Channel ID="Channel:0" SamplesPerPixel="1"/>'
            f"{planes}</Pixels></Image></OME>"
        )
        with tifffile.TiffWriter(folder / name) as tiff:
            for z in range(shape[0]):
                own = text.encode() if z == 0 else None
                tiff.write(values[z, c], description=own, metadata=None, contiguous=False, **options)


@pytest.mark.parametrize("how", [{}, {**TILES, "compression": "zlib"}, {"compression": "jpeg2000"}])
def test_planes_in_several_files(tmp_path: Path, how: dict[str, Any]) -> None:
    """One array, as tifffile reads it, from any of them; they may have been moved together."""
    values = RNG.integers(0, 999, (3, 2, 64, 96)).astype("u2")
    _write_ome_files(tmp_path, ["x_c0.ome.tif", "sub/x c1.ome.tif"], values, **how)
    expected = tifffile.imread(tmp_path / "x_c0.ome.tif")
    np.testing.assert_array_equal(expected, values.transpose(1, 0, 2, 3))
    array = ts.open(tmp_path / "x_c0.ome.tif").result()
    np.testing.assert_array_equal(array.read().result(), expected)
    np.testing.assert_array_equal(array[1, 2, 5:40, ::7].read().result(), expected[1, 2, 5:40, ::7])
    image = ts.open_multiscale(tmp_path / "x_c0.ome.tif")
    assert [axis.name for axis in image.axes] == ["c", "z", "y", "x"]
    assert image.scales == ((1.0, 1.0, 1.0, 0.5),)
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("x_c0.ome.tif", "sub"):
        (tmp_path / name).rename(moved / name)
    np.testing.assert_array_equal(ts.open(moved / "x_c0.ome.tif").result().read().result(), expected)
    (moved / "x_c0.ome.tif").rename(moved / "renamed.tif")
    np.testing.assert_array_equal(ts.open(moved / "renamed.tif").result().read().result(), expected)
    (moved / "sub" / "x c1.ome.tif").unlink()
    with pytest.raises(ChunkwiseError, match=r"x c1\.ome\.tif.* is missing"):
        ts.open(moved / "renamed.tif").result()


OUTSIDE = ["/etc/hostname", "../x.tif", "sub/../../x.tif", "..\\x.tif", "C:x.tif", "//host/x.tif", "", "a//b"]
OUTSIDE += ["http://127.0.0.1/x.tif", "./x.tif"]


@pytest.mark.parametrize("name", OUTSIDE)
def test_names_that_lead_out_of_the_directory(tmp_path: Path, name: str) -> None:
    """OME-XML is somebody else's: no file outside of the directory is looked at."""
    inside = tmp_path / "inside"
    values = RNG.integers(0, 999, (1, 2, 32, 32)).astype("u2")
    _write_ome_files(inside, ["x.ome.tif", "y.ome.tif"], values)
    (inside / "y.ome.tif").rename(tmp_path / "x.tif")
    text = tifffile.tiffcomment(inside / "x.ome.tif")
    assert isinstance(text, str)
    tifffile.tiffcomment(inside / "x.ome.tif", text.replace("y.ome.tif", name).encode())
    with pytest.raises(PermissionDeniedError, match=r"an OME-TIFF image names is refused"):
        ts.open(inside / "x.ome.tif").result()


HOSTILE = {
    'SizeT="1"': ['SizeT="0"', 'SizeT="99999999"', 'SizeT="-1"', 'SizeT="9999999999999999999999"'],
    'IFD="0"': ['IFD="7"', 'IFD="999999999"', 'IFD="x"'],
    'FirstC="1"': ['FirstC="2"', 'FirstC="999999999"'],
    'PlaneCount="1"': ['PlaneCount="999999999"', 'PlaneCount="2"', 'PlaneCount="0"'],
    'SizeX="32"': ['SizeX="31"', 'SizeX="999999999"'],
    'DimensionOrder="XYZCT"': ['DimensionOrder="XYZCC"', 'DimensionOrder=""', 'DimensionOrder="CZTXY"'],
    'SamplesPerPixel="1"': ['SamplesPerPixel="3"', 'SamplesPerPixel="999999999"'],
}


@pytest.mark.parametrize("found", HOSTILE)
def test_ome_xml_that_lies_about_planes(tmp_path: Path, found: str) -> None:
    """Typed errors, or an array of what is there, in little time and memory."""
    values = RNG.integers(0, 999, (1, 2, 32, 32)).astype("u2")
    _write_ome_files(tmp_path, ["x.ome.tif", "y.ome.tif"], values)
    path = tmp_path / "x.ome.tif"
    text = tifffile.tiffcomment(path)
    assert isinstance(text, str)
    began = time.process_time()
    for put in HOSTILE[found]:
        assert found in text
        tifffile.tiffcomment(path, text.replace(found, put).encode())
        try:
            assert ts.open(path).result().read().result().nbytes <= values.nbytes
        except ChunkwiseError as e:
            assert "x.ome.tif" in str(e), put
    assert time.process_time() - began < 5


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


RAW_TAGS = [
    (fill_order, predictor, options)
    for fill_order in (1, 2)
    for predictor in (1, 2)
    for options in (
        {},
        {"tile": (16, 16)},
        {"rowsperstrip": 7},
        {"planarconfig": "separate", "photometric": "rgb"},
        {"photometric": "rgb", "planarconfig": "contig"},
    )
]


@pytest.mark.each_once
@pytest.mark.parametrize(("fill_order", "predictor", "options"), RAW_TAGS)
@pytest.mark.parametrize("dtype", ["|u1", ">u2"])
def test_tags_that_change_raw_data(
    tmp_path: Path, fill_order: int, predictor: int, options: dict[str, Any], dtype: str
) -> None:
    """Data without compression, whole or in pieces: reverse bits, differences."""
    shape = {"separate": (3, 20, 30), "contig": (20, 30, 3)}.get(options.get("planarconfig", ""), (2, 20, 30))
    values = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    path = tmp_path / "x.tif"
    order = ">" if dtype[0] == ">" else "<"
    # tifffile writes neither tag without compression, so that they get other numbers first.
    numbers = {65000: (266, fill_order), 65001: (317, predictor)}
    tags = [(number, "H", 1, value, False) for number, (_, value) in numbers.items()]
    options = {"photometric": "minisblack", **options}
    tifffile.imwrite(path, values, byteorder=order, extratags=tags, metadata=None, **options)
    content = path.read_bytes()
    for number, (wanted, _) in numbers.items():
        head = struct.pack(f"{order}HHI", number, 3, 1)
        assert head in content
        content = content.replace(head, struct.pack(f"{order}HHI", wanted, 3, 1))
    path.write_bytes(content)
    # tifffile's own `imread` adds up the samples of a pixel where they are interleaved and not compressed.
    expected = values
    if fill_order == 2:
        octets = np.unpackbits(np.frombuffer(values.tobytes(), "u1").reshape(-1, 1), axis=1)
        expected = np.packbits(octets[:, ::-1], axis=1).ravel().view(dtype).reshape(shape)
    if predictor == 2:
        along = -2 if options.get("planarconfig") == "contig" else -1
        pieces = np.split(expected, [16], axis=along) if "tile" in options else [expected]
        native = np.dtype(dtype).newbyteorder("=")
        expected = np.concatenate([np.cumsum(part, axis=along, dtype=native) for part in pieces], axis=along)
    np.testing.assert_array_equal(ts.open(str(path)).result().read().result(), expected)
