"""What a pyramid keeps of the image that its source is a level of: sizes, places, names, channels."""

import json

import numpy as np
import pytest
import tifffile
import yaozarrs
import z5py
import zarr

import chunkwise as cw
from chunkwise.cli.main import main

CHANNELS = [
    {"label": "DAPI", "color": "0000FF", "window": {"min": 0, "max": 255, "start": 3, "end": 200}},
    {"label": "GFP", "color": "00FF00", "window": {"min": 0, "max": 255, "start": 0, "end": 99}},
]
VALUES = np.random.default_rng(0).integers(0, 200, (2, 8, 12, 20)).astype("uint8")
AXES = [
    {"name": "c", "type": "channel"},
    *({"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"),
]


def _image(path, version, *, levels=1, **members):
    """Write an image with zarr-python whose transformation is divided between level and image."""
    format = 3 if version == "0.5" else 2
    group = zarr.create_group(path, zarr_format=format, attributes={"microscope": "one"})
    datasets = []
    for k in range(levels):
        values = VALUES[..., :: 2**k, :: 2**k]
        separator = {} if format == 3 else {"chunk_key_encoding": {"name": "v2", "separator": "/"}}
        group.create_array(str(k), data=values, chunks=(1, 4, 6, 10), **separator)
        scale = [1.0, 2.0, 0.5 * 2**k, 0.5 * 2**k]
        datasets.append({"path": str(k), "coordinateTransformations": [{"type": "scale", "scale": scale}]})
    whole = [{"type": "translation", "translation": [0.0, 10.0, 20.0, 30.0]}]
    entry = {"name": "scan", "axes": AXES, "datasets": datasets, "coordinateTransformations": whole}
    own = {"multiscales": [entry], "omero": {"channels": CHANNELS, "id": 7}, **members}
    if version == "0.4":
        entry["version"] = version
        group.attrs.update(own)
    else:
        group.attrs["ome"] = {"version": version, **own}
    return path


def _own(path):
    attributes = dict(zarr.open_group(path, mode="r").attrs)
    return attributes, attributes.get("ome", attributes)


@pytest.mark.parametrize("version", ["0.4", "0.5"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_more_levels_beside_a_level_change_nothing_else(tmp_path, version, overwrite):
    other = {"name": "other", "version": "0.4", "axes": AXES, "datasets": [{"path": "other"}]}
    path = _image(tmp_path / "a.zarr", version, levels=2 if overwrite else 1)
    group = zarr.open_group(path)
    own = group.attrs.get("ome", group.attrs)
    listed = {"multiscales": [*own["multiscales"], other]}
    group.attrs.update(listed if version == "0.4" else {"ome": {**own, **listed}})
    before = cw.open_multiscale(path)
    arguments = ["pyramid", f"{path}/0", "--levels", "1", "--quiet", *(["--overwrite"] if overwrite else [])]
    assert main(arguments) == 0
    image = cw.open_multiscale(path)
    assert (image.name, image.axes, image.channels) == ("scan", before.axes, before.channels)
    assert image.scales == ((1.0, 2.0, 0.5, 0.5), (1.0, 2.0, 1.0, 1.0))
    assert image.translations == ((0.0, 10.0, 20.0, 30.0), (0.0, 10.0, 20.25, 30.25))
    attributes, own = _own(path)
    assert attributes["microscope"] == "one" and own["omero"]["id"] == 7 and own["multiscales"][1] == other
    np.testing.assert_array_equal(image.levels[0], VALUES)


def test_a_pyramid_that_was_stopped_leaves_an_image(tmp_path):
    """While its lower levels are written again, the image is as it was."""
    path = _image(tmp_path / "a.zarr", "0.5", levels=2)

    def stop(progress):
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        cw.downsample_pyramid(f"{path}/0", levels=1, overwrite=True, progress=stop).result()
    image = cw.open_multiscale(path)
    assert image.paths == ("0", "1") and image.scales[0][1] == 2.0 and image.channels[0].label == "DAPI"
    assert image.levels[1].shape == (2, 8, 6, 10)
    cw.downsample_pyramid(f"{path}/0", levels=1, resume=True).result()
    assert cw.open_multiscale(path).translations[1] == (0.0, 10.0, 20.25, 30.25)


@pytest.mark.each_once
@pytest.mark.parametrize("version", ["0.4", "0.5"])
@pytest.mark.parametrize("convention", ["ome-ngff-0.4", "ome-ngff-0.5"])
@pytest.mark.parametrize("source", ["path", "array", "view"])
def test_a_new_place(tmp_path, version, convention, source):
    """Also by the array alone, and by a view of it, whose channels are those that it has."""
    path = _image(tmp_path / "a.zarr", version)
    array = cw.open(f"{path}/0").result()
    place = {"path": f"{path}/0", "array": array, "view": array[1:, 2:, ::2, 4:]}[source]
    cw.downsample_pyramid(place, tmp_path / "b.zarr", convention=convention, levels=1).result()
    image = cw.open_multiscale(tmp_path / "b.zarr")
    assert [axis.unit for axis in image.axes] == ["", "um", "um", "um"] and image.name == "scan"
    attributes, own = _own(tmp_path / "b.zarr")
    yaozarrs.validate_ome_object(own)
    assert attributes["microscope"] == "one"
    if source == "view":
        assert image.scales[0] == (1.0, 2.0, 1.0, 0.5)
        assert image.translations[0][1:] == (14.0, 20.0, 32.0)
        assert own["omero"] == {"channels": CHANNELS[1:], "id": 7}
    else:
        assert image.scales[0] == (1.0, 2.0, 0.5, 0.5) and image.translations[0][1:] == (10.0, 20.0, 30.0)
        assert own["omero"] == {"channels": CHANNELS, "id": 7}


def test_what_n5_has_no_place_for_is_named(tmp_path, capsys):
    path = _image(tmp_path / "a.zarr", "0.5")
    source = cw.open(f"{path}/0").result()[0]
    with pytest.warns(UserWarning, match=r"channels are left out.*DAPI"):
        made = cw.downsample_pyramid(source, tmp_path / "b.n5", levels=1).result()
    assert len(made.left_out) == 1
    image = cw.open_multiscale(tmp_path / "b.n5")
    assert image.scales[0] == (0.5, 0.5, 2.0) and image.translations[0] == (30.0, 20.0, 10.0)
    np.testing.assert_allclose(image.translations[1], (30.25, 20.25, 10.0))
    assert json.loads((tmp_path / "b.n5/attributes.json").read_text())["microscope"] == "one"
    arguments = ["pyramid", f"{path}/0", f"{tmp_path}/c.n5", "--region", "0", "--levels", "1", "--quiet"]
    assert main(arguments) == 3 and "DAPI" in capsys.readouterr().err


def test_labels_are_known_by_the_image(tmp_path):
    label = {"colors": [{"label-value": 3, "rgba": [255, 0, 0, 255]}], "properties": [{"label-value": 3}]}
    path = _image(tmp_path / "a.zarr", "0.5", **{"image-label": label})
    cw.downsample_pyramid(f"{path}/0", tmp_path / "b.zarr", levels=1).result()
    _, own = _own(tmp_path / "b.zarr")
    assert own["image-label"] == label and own["multiscales"][0]["type"] == "mode"


def test_an_ome_tiff(tmp_path):
    metadata = {
        "axes": "CZYX", "PhysicalSizeX": 0.25, "PhysicalSizeY": 0.5, "PhysicalSizeZ": 2.0,
        "Channel": {"Name": ["DAPI", "GFP"], "Color": [65535, 16711935]},
    }  # fmt: skip
    tifffile.imwrite(tmp_path / "a.ome.tif", VALUES, photometric="minisblack", metadata=metadata)
    source = cw.open_multiscale(tmp_path / "a.ome.tif")
    expected = ([(c.label, c.color) for c in source.channels], ((1.0, 2.0, 0.5, 0.25),))
    for name, place in (
        ("b", f"{tmp_path}/a.ome.tif|tiff-images:0"),
        ("c", cw.open(tmp_path / "a.ome.tif").result()),
    ):
        cw.downsample_pyramid(place, tmp_path / f"{name}.zarr", levels=0).result()
        image = cw.open_multiscale(tmp_path / f"{name}.zarr")
        assert ([(c.label, c.color) for c in image.channels], image.scales) == expected
        assert image.channels[0].label == "DAPI" and 150 < image.channels[0].window.end < 200
        yaozarrs.validate_zarr_store(str(tmp_path / f"{name}.zarr"))
        np.testing.assert_array_equal(image.levels[0], VALUES)
    assert main(["cp", "-r", "--quiet", f"{tmp_path}/a.ome.tif", f"{tmp_path}/d.ome.zarr"]) == 0
    image = cw.open_multiscale(tmp_path / "d.ome.zarr")
    assert ([(c.label, c.color) for c in image.channels], image.scales) == expected


@pytest.mark.parametrize("unit", ["um", "nm"])
def test_units_of_each_axis_become_one(tmp_path, unit):
    """An image of [4 nm, 4 nm, 0.04 um] is 40 nm along z, and not halved there before it is a cube."""
    path = tmp_path / "a.n5"
    z5py.File(str(path), "a").create_dataset("v/s0", data=VALUES[0], chunks=(4, 6, 10), compression="gzip")
    size = 0.04 if unit == "um" else 40.0
    attributes = {"axes": ["x", "y", "z"], "units": ["nm", "nm", unit], "resolution": [4, 4, size]}
    (path / "v/attributes.json").write_text(json.dumps(attributes))
    made = cw.downsample_pyramid(path / "v/s0", levels=1).result()
    assert made.factors == ((1, 1, 1), (2, 2, 1))
    image = cw.open_multiscale(path / "v")
    assert image.scales == ((4.0, 4.0, 40.0), (8.0, 8.0, 40.0)) and {a.unit for a in image.axes} == {"nm"}


@pytest.mark.parametrize("resolution", ["pixelResolution", "resolution", "units", "coordinates"])
@pytest.mark.parametrize("format", [2, 3])
def test_arrays_with_sizes_of_their_own(tmp_path, resolution, format):
    """Attributes and coordinates beside an array give names, sizes and the place."""
    names = {"dimension_names": ["z", "y", "x"]} if format == 3 else {}
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=format)
    array = group.create_array("v", data=VALUES[0], chunks=(4, 6, 10), **names)
    if format == 2:
        array.attrs["_ARRAY_DIMENSIONS"] = ["z", "y", "x"]
    start = (0.0, 0.0, 0.0)
    if resolution == "pixelResolution":
        array.attrs["pixelResolution"] = {"unit": "nm", "dimensions": [4, 4, 40]}
    elif resolution == "coordinates":
        start = (400.0, -8.0, 100.0)
        for name, n, size, at in zip("zyx", VALUES.shape[1:], (40, 4, 4), start, strict=True):
            kept = {"dimension_names": [name]} if format == 3 else {}
            group.create_array(name, data=at + size * np.arange(n, dtype="f8"), **kept).attrs["units"] = "nm"
    else:
        array.attrs.update({"resolution": [40, 4, 4], "units": ["nm"] * 3})
    made = cw.downsample_pyramid(tmp_path / "a.zarr/v", tmp_path / "b.zarr", levels=1).result()
    assert made.factors == ((1, 1, 1), (1, 2, 2))
    image = cw.open_multiscale(tmp_path / "b.zarr")
    assert [(axis.name, axis.unit) for axis in image.axes] == [("z", "nm"), ("y", "nm"), ("x", "nm")]
    assert image.scales[0] == (40.0, 4.0, 4.0) and image.translations[0] == start


def test_coordinates_that_are_not_regular_are_named(tmp_path):
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=3)
    group.create_array("v", data=VALUES[0, 0], chunks=(6, 10), dimension_names=["y", "x"])
    group.create_array("x", data=np.arange(20.0) ** 2, dimension_names=["x"])
    with pytest.warns(UserWarning, match="coordinates of x are left out"):
        cw.downsample_pyramid(tmp_path / "a.zarr/v", tmp_path / "b.zarr", levels=1).result()


def test_an_image_whose_metadata_are_wrong_gets_no_levels(tmp_path):
    """Its sizes would be lost; elsewhere it is told that they are not known."""
    path = _image(tmp_path / "a.zarr", "0.5")
    group = zarr.open_group(path)
    own = group.attrs["ome"]
    own["multiscales"][0]["datasets"][0]["coordinateTransformations"] = [{"type": "affine"}]
    group.attrs["ome"] = own
    before = (path / "zarr.json").read_bytes()
    with pytest.raises(NotImplementedError, match=r"zarr.json.*affine"):
        cw.downsample_pyramid(path / "0", levels=1)
    assert (path / "zarr.json").read_bytes() == before and not (path / "1").exists()
    array = cw.open(path / "0").result()[0]
    with pytest.warns(UserWarning, match="affine"):
        cw.downsample_pyramid(array, tmp_path / "b.zarr", levels=1).result()
