"""Images, plates and containers of which a part is missing or wrong: what is there is given."""

import json
import shutil

import numpy as np
import pytest
import z5py
import zarr
from ome_trees import image_attributes, write_group, write_image, write_plate

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.images.multiscale.metadata import Channel
from chunkwise.images.server.forms import first_shown
from chunkwise.images.server.sources import sources_of
from chunkwise.napari.reader import get_reader

VALUES = np.arange(6 * 10 * 8, dtype="uint16").reshape(6, 10, 8)  # z, y, x


def _n5(path, values, **attributes):
    root, _, key = str(path).partition(".n5/")
    dataset = z5py.File(f"{root}.n5", "a").create_dataset(
        key, data=values, chunks=(4, 4, 4), compression="gzip"
    )
    dataset.attrs.update(attributes)


def _attributes(path, **attributes):
    path.mkdir(parents=True, exist_ok=True)
    file = path / "attributes.json"
    file.write_text(json.dumps({**(json.loads(file.read_text()) if file.exists() else {}), **attributes}))


def _layers(path):
    return get_reader(str(path))(str(path))


# -- axes of N5 ----------------------------------------------------------------------------------

RECORDS = [
    ({"resolution": [4, 4, 0.04], "units": ["nm", "nm", "um"]}, (4, 4, 0.04), ("nm", "nm", "um")),
    (
        {"pixelResolution": {"dimensions": [4, 4, 40], "unit": "nm"}, "resolution": [4, 4, 0.04],
         "units": ["nm", "nm", "um"]},
        (4, 4, 0.04), ("nm", "nm", "um"),
    ),
    (
        {"pixelResolution": {"dimensions": [4, 4, 40], "unit": "nm"}, "units": ["nm"] * 3},
        (4, 4, 40), ("nm",) * 3,
    ),
    ({"pixelResolution": [4, 4, 40], "units": ["nm", "nm", "nm"]}, (4, 4, 40), ("nm",) * 3),
    ({"pixelResolution": {"dimensions": [4, 4, 40], "unit": "pixel"}}, (4, 4, 40), ("",) * 3),
    ({"resolution": [4, 4, 40], "unit": "nm"}, (4, 4, 40), ("nm",) * 3),
    ({"units": ["nm", "nm", "um"]}, (1, 1, 1), ("nm", "nm", "um")),
    ({}, (1, 1, 1), ("",) * 3),
]  # fmt: skip


@pytest.mark.parametrize("where", ["group", "array"])
@pytest.mark.parametrize(("record", "sizes", "units"), RECORDS)
def test_axes_of_n5_are_a_record_for_each_axis(tmp_path, where, record, sizes, units):
    """In a group or at its first array; each size with the unit that is beside it."""
    _n5(tmp_path / "a.n5/v/s0", VALUES, **(record if where == "array" else {}))
    _attributes(tmp_path / "a.n5/v", **(record if where == "group" else {}))
    image = cw.open_multiscale(tmp_path / "a.n5/v")
    assert image.scales == (sizes,) and tuple(axis.unit for axis in image.axes) == units
    assert main(["info", str(tmp_path / "a.n5/v")]) == 0


def test_names_of_axes_are_those_of_the_group(tmp_path):
    """A fourth axis t is time, not a channel; sizes along space leave it alone."""
    with z5py.File(str(tmp_path / "a.n5"), "a") as file:
        file.create_dataset(
            "v/s0", data=np.zeros((2, 4, 4, 4), "u1"), chunks=(1, 4, 4, 4), compression="gzip"
        )
    _attributes(
        tmp_path / "a.n5/v",
        axes=["x", "y", "z", "t"],
        pixelResolution={"unit": "um", "dimensions": [1, 2, 3]},
    )
    image = cw.open_multiscale(tmp_path / "a.n5/v")
    assert [(a.name, a.type, a.unit) for a in image.axes][2:] == [("z", "space", "um"), ("t", "time", "")]
    assert image.scales[0] == (1.0, 2.0, 3.0, 1.0)


@pytest.mark.parametrize(
    "wrong", [{"units": ["nm"]}, {"axes": ["x", "y"]}, {"axes": ["x", "x", "y"]}, {"resolution": [1, 2]}]
)
def test_lists_of_a_wrong_length_are_named(tmp_path, wrong):
    _n5(tmp_path / "a.n5/v/s0", VALUES)
    _attributes(tmp_path / "a.n5/v", **wrong)
    with pytest.raises(ValueError, match=rf"v/attributes.json.*{next(iter(wrong))}: "):
        cw.open_multiscale(tmp_path / "a.n5/v")


# -- levels that are missing ---------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0, 1])
@pytest.mark.parametrize("how", ["gone", "no document"])
def test_levels_of_n5(tmp_path, missing, how):
    for k in range(3):
        _n5(
            tmp_path / f"a.n5/v/s{k}", VALUES[:, :: 2**k, :: 2**k].copy(), downsamplingFactors=[2**k, 2**k, 1]
        )
    _attributes(tmp_path / "a.n5/v", pixelResolution=[4, 4, 40], units=["nm"] * 3)
    level = tmp_path / f"a.n5/v/s{missing}"
    shutil.rmtree(level) if how == "gone" else (level / "attributes.json").unlink()
    image = cw.open_multiscale(tmp_path / "a.n5/v")
    kept = [k for k in range(3) if k != missing]
    assert image.paths == tuple(f"s{k}" for k in kept)
    assert image.scales == tuple((4.0 * 2**k, 4.0 * 2**k, 40.0) for k in kept)
    (problem,) = image.problems
    assert f"s{missing}" in problem and "attributes.json" in problem
    np.testing.assert_array_equal(image.levels[-1], VALUES[:, ::4, ::4].T)


@pytest.mark.parametrize("missing", [0, 2])
def test_levels_of_ome_zarr(tmp_path, missing):
    """Each level but the missing one can be read, and viewers show these."""
    path = tmp_path / "a.zarr"
    values = write_image(path, "zyx", n_levels=3)
    shutil.rmtree(path / str(missing))
    image = cw.open_multiscale(path)
    (problem,) = image.problems
    assert f"datasets[{missing}]" in problem
    with pytest.raises(ValueError, match=rf"datasets\[{missing}\]"):
        image.levels[missing]
    there = [k for k in range(3) if k != missing]
    assert image.available().scales == tuple(image.scales[k] for k in there)
    ((data, options, _),) = _layers(path)
    assert len(data) == 2 and options["scale"] == list(image.scales[there[0]])
    np.testing.assert_array_equal(data[0], values[there[0]])
    _, served = first_shown(sources_of(str(path)))
    assert served.paths == tuple(map(str, there)) and served.scales[0] == image.scales[there[0]]


def test_an_image_without_any_level_is_an_error(tmp_path):
    write_group(tmp_path / "a.zarr", image_attributes("yx", "0.5"), "0.5")
    with pytest.raises(ValueError, match=r"datasets\[0\]"):
        cw.open_multiscale(tmp_path / "a.zarr").available()


# -- plates --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_plates_with_missing_wells_and_fields(tmp_path, version):
    path = tmp_path / "p.zarr"
    write_plate(path, 2, 2, version, wells=["A/1", "B/2"])
    shutil.rmtree(path / "B/2/0")
    plate = cw.open_multiscale(path)
    assert list(plate.fields) == ["A/1/0", "A/1/1", "B/2/1"] and len(plate.fields) == 3
    assert list(plate) == list(plate.fields) and "A/1/1" in plate and "B/1/0" not in plate
    assert plate["A/1/1"].location == plate.wells["A/1"]["1"].location
    problems = " ".join(plate.problems)
    assert len(plate.problems) == 3 and all(name in problems for name in ("A/2", "B/1", "B/2"))
    assert plate.wells["B/2"].fields["1"].levels[0].size
    layers = _layers(path)
    tile = np.asarray(plate.fields["B/2/1"].levels[0])
    data = layers[0][0]
    whole = np.asarray(data[0] if isinstance(data, list) else data)
    assert whole.shape[-2:] == (2 * tile.shape[-2], 2 * tile.shape[-1])
    np.testing.assert_array_equal(whole[..., tile.shape[-2] :, tile.shape[-1] :], tile)
    assert not whole[..., : tile.shape[-2], tile.shape[-1] :].any()
    assert main(["view", str(path), "--headless", str(tmp_path / "p.png")]) == 0


def test_plates_and_wells_of_nothing(tmp_path):
    names = {"rows": [{"name": "A"}], "columns": [{"name": "1"}]}
    write_group(tmp_path / "p.zarr", {"plate": {**names, "wells": []}}, "0.5")
    write_group(tmp_path / "p.zarr/A/1", {"well": {"images": []}}, "0.5")
    plate = cw.open_multiscale(tmp_path / "p.zarr")
    assert len(plate.wells) == 0 == len(plate.fields) and plate.problems == () and plate.rows == ("A",)
    assert list(cw.open_multiscale(tmp_path / "p.zarr/A/1").fields) == []


# -- members that say how an image is shown ------------------------------------------------------


@pytest.mark.parametrize(
    ("member", "color"),
    [
        ({"color": "#FF0000"}, "FF0000"),
        ({"color": "ff0000ff"}, "FF0000"),
        ({"color": "00FF00", "active": None}, "00FF00"),
        ({"color": "00FF00", "window": None}, "00FF00"),
        ({"color": None}, None),
        ({"color": ""}, None),
    ],
)
def test_colours_as_programs_write_them(tmp_path, member, color):
    write_image(tmp_path / "a.zarr", "yx", omero={"channels": [{"label": "a", **member}]})
    image = cw.open_multiscale(tmp_path / "a.zarr")
    assert image.problems == () and image.channels == (Channel("a", color, None, True),)


def test_wrong_colours_of_labels_are_problems(tmp_path):
    colors = [{"label-value": 1, "rgba": [1, 2]}, {"label-value": 2, "rgba": [1, 2, 3, 4]}, 7]
    write_image(tmp_path / "a.zarr", "yx", dtype="uint32", **{"image-label": {"colors": colors}})
    image = cw.open_multiscale(tmp_path / "a.zarr")
    assert image.is_labels and image.label_colors == {2: (1, 2, 3, 4)} and len(image.problems) == 2


# -- versions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["0.1", "0.2", "0.3"])
def test_versions_without_sizes(tmp_path, version):
    """Sizes of levels follow from their shapes, odd ones too, and levels lie in the middle of their cells."""
    values = np.zeros((5, 11, 9) if version == "0.3" else (1, 1, 5, 11, 9), "u1")
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=2)
    group.create_array("0", data=values, chunks=values.shape)
    group.create_array("1", data=np.ascontiguousarray(values[..., :5, :4]), chunks=values.shape)
    axes = {"axes": ["z", "y", "x"]} if version == "0.3" else {}
    group.attrs["multiscales"] = [{"version": version, "datasets": [{"path": "0"}, {"path": "1"}], **axes}]
    image = cw.open_multiscale(tmp_path / "a.zarr")
    assert [axis.name for axis in image.axes][-3:] == list(
        "zyx"
    ) and image.convention == f"ome-ngff-{version}"
    assert image.scales[1][-3:] == (1.0, 2.0, 2.0) and image.translations[1][-3:] == (0.0, 0.5, 0.5)
    assert main(["view", str(tmp_path / "a.zarr"), "--headless", str(tmp_path / "a.png")]) == 0


@pytest.mark.parametrize(
    ("stored", "version", "read"),
    [("0.4", "0.4-dev-spatialdata", "0.4"), ("0.5", "0.5-dev-spatialdata", "0.5"), ("0.5", None, "0.5")],
)
def test_versions_of_spatialdata_and_none(tmp_path, stored, version, read):
    write_image(tmp_path / "a.zarr", "cyx", stored)
    attributes = image_attributes("cyx", stored)
    image = attributes["multiscales"][0]
    image["coordinateTransformations"] = [
        {"type": "affine", "affine": [[1, 0]], "input": {"name": "cyx"}, "output": {"name": "aligned"}},
        {"type": "identity", "input": {"name": "cyx"}, "output": {"name": "global"}},
    ]
    if stored == "0.4":
        image["version"] = version
        zarr.open_group(tmp_path / "a.zarr").attrs.update(attributes)
    else:
        named = {} if version is None else {"version": version}
        zarr.open_group(tmp_path / "a.zarr").attrs["ome"] = {**named, **attributes}
    image = cw.open_multiscale(tmp_path / "a.zarr")
    assert image.convention == f"ome-ngff-{read}" and image.problems == ()
    assert image.scales == cw.open_multiscale(tmp_path / "a.zarr").scales
    assert main(["view", str(tmp_path / "a.zarr"), "--headless", str(tmp_path / "a.png")]) == 0


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_properties_of_labels_are_features_in_napari(tmp_path, version):
    rows = [
        {"label-value": 7, "class": "nucleus"},
        {"label-value": 3, "area": 2.5, "class": None},
        {"a": 1},
        5,
    ]
    write_image(tmp_path / "a.zarr", "zyx", version, **{"image-label": {"properties": rows}})
    ((_, options, kind),) = _layers(tmp_path / "a.zarr")
    assert kind == "labels"
    assert options["features"] == {"index": [7, 3], "class": ["nucleus", None], "area": [None, 2.5]}
