"""What TIFF files say of sizes, places, channels and axes, with files that tifffile writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import yaozarrs
import zarr

import chunkwise as ts
from chunkwise.cli.main import main

RNG = np.random.default_rng(0)


def test_levels_of_a_pyramid_lie_in_the_middle_of_their_cells(tmp_path: Path) -> None:
    """Also where sizes are odd: the factor is a whole number."""
    path = tmp_path / "x.ome.tif"
    values = RNG.integers(0, 999, (61, 95)).astype("u2")
    metadata = {"axes": "YX", "PhysicalSizeX": 0.5, "PhysicalSizeY": 0.25}
    with tifffile.TiffWriter(path, ome=True) as tiff:
        tiff.write(values, subifds=1, metadata=metadata, tile=(32, 32))
        tiff.write(values[:60:2, :94:2], subfiletype=1, tile=(32, 32))
    image = ts.open_multiscale(path)
    assert image.scales == ((0.25, 0.5), (0.5, 1.0)) and image.translations == ((0.0, 0.0), (0.125, 0.25))


@pytest.mark.parametrize("byteorder", ["<", ">"])
def test_imagej(tmp_path: Path, byteorder: str) -> None:
    """Sizes, unit, windows and colours; axes in the order of OME-Zarr."""
    path = tmp_path / "x.tif"
    values = RNG.integers(0, 999, (2, 3, 2, 20, 30)).astype("u2")
    ramp = np.arange(256, dtype="u1")
    tables = [np.stack([ramp, ramp * 0, ramp]), np.stack([ramp[::-1]] * 3)]
    tifffile.imwrite(
        path,
        values,
        imagej=True,
        byteorder=byteorder,
        resolution=(2.5, 5.0),
        metadata={
            "axes": "TZCYX", "unit": "um", "spacing": 0.7, "finterval": 1.5, "mode": "composite",
            "Ranges": (0.0, 100.0, 5.0, 2000.0), "LUTs": tables,
        },
    )  # fmt: skip
    image = ts.open_multiscale(path)
    assert [(axis.name, axis.unit) for axis in image.axes] == [
        ("t", "s"), ("c", ""), ("z", "um"), ("y", "um"), ("x", "um"),
    ]  # fmt: skip
    np.testing.assert_allclose(image.scales[0], (1.5, 1.0, 0.7, 0.2, 0.4))
    np.testing.assert_array_equal(image.levels[0].read().result(), values.transpose(0, 2, 1, 3, 4))
    assert [channel.color for channel in image.channels] == ["FF00FF", None]
    windows = [channel.window for channel in image.channels]
    assert [(w.start, w.end, w.max) for w in windows] == [(0, 100, 65535), (5, 2000, 65535)]


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({"resolution": (254, 127), "resolutionunit": 2}, ((200.0, "um"), (100.0, "um"))),
        ({"resolution": (100, 100), "resolutionunit": 3}, ((100.0, "um"), (100.0, "um"))),
        ({"resolution": (1, 1), "resolutionunit": 1}, ((1.0, ""), (1.0, ""))),
        ({"resolution": (0, 0), "resolutionunit": 2}, ((1.0, ""), (1.0, ""))),
    ],
)
def test_tags_of_resolution(tmp_path: Path, options: dict[str, Any], size: Any) -> None:
    tifffile.imwrite(tmp_path / "x.tif", np.zeros((4, 5), "u1"), **options)
    image = ts.open_multiscale(tmp_path / "x.tif")
    assert [(s, axis.unit) for s, axis in zip(image.scales[0], image.axes, strict=True)] == list(size)
    units = ts.open(tmp_path / "x.tif").result().dimension_units[:2]  # a picture without a scale has channels
    assert [unit and unit.multiplier for unit in units] == [s if unit else None for s, unit in size]


def test_names_and_colours_of_ome_xml_go_along(tmp_path: Path) -> None:
    """`open` has names and units of dimensions; a copy is an image of OME-Zarr that others take for one."""
    path = tmp_path / "x.ome.tif"
    metadata = {
        "axes": "CYX", "PhysicalSizeX": 0.5, "PhysicalSizeXUnit": "nm",
        "Channel": {"Name": ["DAPI", "GFP"], "Color": [65535, -16776961]},
    }  # fmt: skip
    tifffile.imwrite(path, np.zeros((2, 8, 9), "u2"), photometric="minisblack", metadata=metadata)
    array = ts.open(path).result()
    assert array.domain.labels == ("c", "y", "x") and str(array.dimension_units[2]) == "0.5 nanometer"
    assert [(c.label, c.color) for c in ts.open_multiscale(path).channels] == [
        ("DAPI", "0000FF"),
        ("GFP", "FF0000"),
    ]
    for format, version in (("zarr2", "0.4"), ("zarr3", "0.5")):
        copy = tmp_path / f"{format}.ome.zarr"
        assert main(["cp", "-r", "--quiet", str(path), str(copy), "--format", format]) == 0
        image = ts.open_multiscale(copy)
        assert [(c.label, c.color) for c in image.channels] == [("DAPI", "0000FF"), ("GFP", "FF0000")]
        assert image.convention == f"ome-ngff-{version}"
        attributes = dict(zarr.open_group(copy, mode="r").attrs)
        with tifffile.TiffFile(path) as tiff:  # so nothing that it says is lost
            assert attributes.pop("OME-XML") == tiff.ome_metadata
        own = dict(attributes.get("ome", attributes))
        if format == "zarr2":  # a window is demanded, which OME-XML doesn't have
            del own["omero"]
        yaozarrs.validate_ome_object(own)


@pytest.mark.parametrize("axes", ["QYX", "IYX"])
def test_axes_that_ome_zarr_has_no_name_for_are_a_stack_of_planes(tmp_path: Path, axes: str) -> None:
    values = RNG.integers(0, 255, (4, 20, 30)).astype("u1")
    if axes == "QYX":
        tifffile.imwrite(tmp_path / "x.tif", values, photometric="minisblack")
    else:
        with tifffile.TiffWriter(tmp_path / "x.tif") as tiff:
            for plane in values:
                tiff.write(plane, contiguous=False, metadata=None)
    image = ts.open_multiscale(tmp_path / "x.tif")
    assert [axis.type for axis in image.axes] == ["other", "space", "space"]
    np.testing.assert_array_equal(image.levels[0].read().result(), values)
    made = ts.downsample_pyramid(tmp_path / "x.tif", tmp_path / "y.zarr", levels=1).result()
    assert made.factors[1] == (1, 2, 2)


def test_colours_of_samples(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "x.tif", np.zeros((4, 5, 3), "u1"), photometric="rgb")
    channels = ts.open_multiscale(tmp_path / "x.tif").channels
    assert [channel.color for channel in channels] == ["FF0000", "00FF00", "0000FF"]


@pytest.mark.parametrize(
    ("unit", "expected"),
    [("dm", "dm"), ("hm", "hm"), ("Å", "angstrom"), ("ft", "foot"), ("thou", "thou"), ("pixel", "")],
)
def test_units_of_ome_tiff(tmp_path, unit, expected):
    """Each unit of OME-XML is kept; a size in pixels has none."""
    metadata = {"axes": "ZYX", "PhysicalSizeZ": 2.0, "PhysicalSizeZUnit": unit}
    tifffile.imwrite(tmp_path / "a.ome.tif", np.zeros((3, 4, 5), "u1"), metadata=metadata)
    image = ts.open_multiscale(tmp_path / "a.ome.tif")
    assert image.scales[0][0] == 2 and image.axes[0].unit == expected
