"""OME-Zarr images, labels, plates and series: what metadata mean, how little is read, what is an error."""

import json
import pickle
import re

import numpy as np
import pytest
from ome_trees import SIZES, image_attributes, write_group, write_image, write_plate
from tests.trace_store import TraceStore

import chunkwise as cw
from chunkwise.core.trees.location import locate

VERSIONS = ["0.4", "0.5"]


@pytest.mark.each_once
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("names", ["yx", "czyx", "tczyx"])
def test_levels(tmp_path, version, names):
    """Values, labels, units, scales and translations are those that the metadata say."""
    values = write_image(tmp_path / "a.zarr", names, version)
    image = cw.open_multiscale(tmp_path / "a.zarr")
    assert image.convention == f"ome-ngff-{version}" and image.name == "cells" and not image.is_labels
    assert [(a.name, a.type, a.unit) for a in image.axes][-2:] == [("y", "space", "nm"), ("x", "space", "nm")]
    assert len(image.levels) == 2 and image.paths == ("0", "1")
    for level, expected in zip(image.levels, values, strict=True):
        np.testing.assert_array_equal(level.read().result(), expected)
        assert level.domain.labels == tuple(names) and set(level.origin) == {0}
    assert [str(u) for u in image.levels[0].dimension_units[-2:]] == ["8 nm", "4 nm"]
    assert [str(u) for u in image.levels[1].dimension_units[-2:]] == ["16 nm", "8 nm"]
    if "c" in names:
        assert image.levels[0].dimension_units[names.index("c")] is None
    assert image.scales[1][-2:] == (16.0, 8.0) and image.translations[1][-2:] == (4.0, 2.0)
    assert image.levels[0][..., 2:5].dimension_units == image.levels[0].dimension_units
    assert [level.shape for level in image.levels[:]] == [v.shape for v in values]


@pytest.mark.parametrize("version", VERSIONS)
def test_transformations_of_levels_come_before_those_of_the_image(tmp_path, version):
    attributes = image_attributes("yx", version)
    attributes["multiscales"][0]["coordinateTransformations"] = [
        {"type": "scale", "scale": [10.0, 10.0]},
        {"type": "translation", "translation": [800.0, 400.0]},
    ]
    write_image(tmp_path / "a.zarr", "yx", version)
    write_group(tmp_path / "a.zarr", attributes, version)
    image = cw.open_multiscale(tmp_path / "a.zarr")
    assert image.scales == ((80.0, 40.0), (160.0, 80.0))
    assert image.translations == ((800.0, 400.0), (840.0, 420.0))
    assert [level.origin for level in image.levels] == [(10, 10), (5, 5)]


def test_units_of_levels_go_through_pickles(tmp_path):
    write_image(tmp_path / "a.zarr", "yx", "0.4")
    level = cw.open_multiscale(tmp_path / "a.zarr").levels[1][2:4]
    again = pickle.loads(pickle.dumps(level))
    assert again.dimension_units == level.dimension_units and again.domain == level.domain
    np.testing.assert_array_equal(again, level)


@pytest.mark.parametrize(
    ("scale", "number"), [(1, 0), (8, 0), (15.9, 0), (16, 1), ("16 nm", 1), ("1 um", 2), ("0.017 um", 1)]
)
def test_level_for(tmp_path, scale, number):
    write_image(tmp_path / "a.zarr", "yx", n_levels=3)
    assert cw.open_multiscale(tmp_path / "a.zarr").level_for(scale) == number


def test_level_for_says_what_is_wrong(tmp_path):
    write_image(tmp_path / "a.zarr", "yx")
    image = cw.open_multiscale(tmp_path / "a.zarr")
    for scale, text in ((0, "positive"), ("3 s", "nm"), ("1 furlong", "furlong")):
        with pytest.raises(ValueError, match=text):
            image.level_for(scale)


@pytest.mark.parametrize("version", VERSIONS)
def test_channels(tmp_path, version):
    window = {"min": 0, "max": 4095, "start": 10, "end": 1000.5}
    channels = [
        {"label": "DAPI", "color": "0000ff", "window": window, "active": False},
        {"color": "00FF00", "window": {"min": 0, "max": 1}},
    ]
    write_image(tmp_path / "a.zarr", "cyx", version, omero={"channels": channels, "rdefs": {}})
    first, second = cw.open_multiscale(tmp_path / "a.zarr").channels
    assert (first.label, first.color, first.active) == ("DAPI", "0000FF", False)
    assert (first.window.min, first.window.max, first.window.start, first.window.end) == (0, 4095, 10, 1000.5)
    assert (second.label, second.active, second.window.start) == ("", True, None)


@pytest.mark.parametrize("version", VERSIONS)
def test_labels(tmp_path, version):
    path = tmp_path / "a.zarr"
    write_image(path, "czyx", version)
    assert dict(cw.open_multiscale(path).labels) == {}
    write_group(path / "labels", {"labels": ["cells", "nuclei"]}, version)
    colors = [{"label-value": 3, "rgba": [255, 0, 10, 128]}, {"label-value": 4}]
    values = write_image(
        path / "labels" / "cells", "zyx", version, dtype="uint32", **{"image-label": {"colors": colors}}
    )
    labels = cw.open_multiscale(path).labels
    assert list(labels) == ["cells", "nuclei"] and "cells" in labels and "other" not in labels
    cells = labels["cells"]
    assert cells.is_labels and cells.label_colors == {3: (255, 0, 10, 128)}
    np.testing.assert_array_equal(cells.levels[0], values[0])
    with pytest.raises(FileNotFoundError, match=r"nuclei"):
        labels["nuclei"]
    with pytest.raises(KeyError):
        labels["other"]
    collection = cw.open_multiscale(path / "labels")
    assert list(collection) == ["cells", "nuclei"] and collection["cells"].is_labels


@pytest.mark.parametrize("version", VERSIONS)
def test_a_large_plate_is_opened_by_its_own_document(tmp_path, version):
    """Of 7,000 positions those are read that are looked up."""
    path = tmp_path / "plate.zarr"
    write_plate(path, 50, 70, version, wells=["B/3"])
    trace = TraceStore(locate(str(path)).store)
    prefix = locate(str(path)).path

    def asked():
        keys = [request.key.removeprefix(prefix) for request in trace.requests]
        trace.requests.clear()
        return keys

    plate = cw.open_multiscale(locate(str(path))._replace(store=trace))
    assert len(plate.wells) == 3500 and plate.name == "screen"
    assert plate.rows[:2] == ("A", "B") and plate.columns[-1] == "70"
    keys = asked()
    assert len(keys) <= 8 and all("/" not in key for key in keys), keys
    well = plate.wells["B/3"]
    keys = asked()
    assert len(keys) <= 3 and all(key.startswith("B/3/") for key in keys), keys
    assert list(well.fields) == ["0", "1"] and well.acquisitions == {"0": 0, "1": 0} and asked() == []
    image = well.fields["1"]
    assert len(asked()) <= 3
    assert image.levels[1].shape == (2, 6, 10)
    assert [key for key in asked() if not key.startswith("B/3/1/1/")] == []
    assert plate.fields["B/3/1"] is image and asked() == []
    with pytest.raises(KeyError):
        plate.fields["B/3/7"]
    with pytest.raises(KeyError):
        plate.wells["ZZ/1"]


def test_the_paths_of_wells_are_looked_at_when_they_are_needed(tmp_path):
    """Else a plate of 7,000 wells would take far longer than its document."""
    path = tmp_path / "plate.zarr"
    write_plate(path, 3, 4, "0.5", wells=[])
    group = cw.open_group(path, "r+")
    ome = group.attrs["ome"]
    ome["plate"]["wells"][5] = {"path": "A-1"}
    group.attrs["ome"] = ome
    plate = cw.open_multiscale(path)
    assert plate.rows == ("A", "B", "C") and "12 wells" in repr(plate)
    assert len(plate.wells) == 11 and "A-1" not in plate.wells
    assert re.search(r'zarr.json": ome/plate: wells\[5\]: path: .*"A-1"', plate.problems[0])


def test_wells_and_fields(tmp_path):
    write_plate(tmp_path / "p.zarr", 1, 2, wells=["A/1", "A/2"])
    plate = cw.open_multiscale(tmp_path / "p.zarr")
    assert list(plate.fields) == ["A/1/0", "A/1/1", "A/2/0", "A/2/1"] and len(plate.fields) == 4
    well = cw.open_multiscale(tmp_path / "p.zarr" / "A" / "2")
    assert isinstance(well, cw.Well) and list(well.fields) == ["0", "1"]


def test_series(tmp_path):
    write_group(tmp_path / "a.zarr", {"bioformats2raw.layout": 3}, "0.5")
    for i in range(3):
        write_image(tmp_path / "a.zarr" / str(i), "yx")
    assert list(cw.open_multiscale(tmp_path / "a.zarr")) == ["0", "1", "2"]
    write_group(tmp_path / "a.zarr" / "OME", {"series": ["2", "0"]}, "0.5")
    series = cw.open_multiscale(tmp_path / "a.zarr")
    assert list(series) == ["2", "0"] and series["2"].levels[0].shape == (SIZES["y"], SIZES["x"])


def _draft(**changes):
    system = {"name": "um", "axes": [{"name": n, "type": "space", "unit": "micrometer"} for n in "yx"]}
    steps = [{"type": "scale", "scale": [2, 3]}, {"type": "translation", "translation": [10, 30]}]
    whole = {"type": "sequence", "transformations": steps, "input": {"path": "0"}, "output": {"name": "um"}}
    image = {
        "coordinateSystems": [{**system, "name": "world"}, system],
        "datasets": [{"path": "0", "coordinateTransformations": [whole]}],
        "coordinateTransformations": [
            {"type": "rotation", "input": {"name": "um"}, "output": {"name": "world"}}
        ],
        **changes,
    }
    return {"multiscales": [image]}


def test_drafts_are_read_if_asked_for(tmp_path):
    write_image(tmp_path / "a.zarr", "yx")
    write_group(tmp_path / "a.zarr", _draft(), "0.6.dev4")
    with pytest.raises(NotImplementedError, match=r"zarr.json\": ome/version: .*drafts=True"):
        cw.open_multiscale(tmp_path / "a.zarr")
    image = cw.open_multiscale(tmp_path / "a.zarr", drafts=True)
    assert image.convention == "ome-ngff-0.6" and image.levels[0].origin == (5, 10)
    assert (image.scales, image.translations) == (((2.0, 3.0),), ((10.0, 30.0),))
    assert [axis.unit for axis in image.axes] == ["um", "um"]
    write_group(tmp_path / "a.zarr", _draft(coordinateSystems=[{"name": "x", "axes": []}]), "0.6.dev4")
    with pytest.raises(ValueError, match=r'coordinateSystems: expected one called "um"'):
        cw.open_multiscale(tmp_path / "a.zarr", drafts=True)


@pytest.mark.parametrize("suffix", [".ozx", ".zip"])
def test_archives(tmp_path, suffix):
    from chunkwise.cli.main import main

    values = write_image(tmp_path / "a.zarr", "zyx")
    archive = tmp_path / f"a{suffix}"
    assert main(["zip", str(tmp_path / "a.zarr"), str(archive), "--quiet"]) == 0
    for place in (archive, archive.as_uri(), f"{archive}|zip:"):
        image = cw.open_multiscale(place)
        np.testing.assert_array_equal(image.levels[1], values[1])


def test_images_of_several_are_chosen_by_name(tmp_path):
    write_image(tmp_path / "a.zarr", "yx")
    attributes = image_attributes("yx", "0.5")
    other = json.loads(json.dumps(attributes["multiscales"][0]))
    other["name"], other["datasets"] = "half", other["datasets"][1:]
    attributes["multiscales"].append(other)
    write_group(tmp_path / "a.zarr", attributes, "0.5")
    assert cw.open_multiscale(tmp_path / "a.zarr").name == "cells"
    assert cw.open_multiscale(tmp_path / "a.zarr", name="half").paths == ("1",)
    with pytest.raises(ValueError, match=r'multiscales: .*"third".*"cells", "half"'):
        cw.open_multiscale(tmp_path / "a.zarr", name="third")


def _without(member):
    return lambda image: image.pop(member)


def _set(path, value):
    def change(image):
        *way, last = path
        for name in way:
            image = image[name]
        image[last] = value

    return change


WRONG = [
    (_without("axes"), "axes: expected a list of axes"),
    (_without("datasets"), "datasets: expected a list of levels"),
    (_set(["axes", 1, "name"], "y"), "names must be unique"),
    (_set(["axes", 0, "name"], 7), r"axes\[0\]: name"),
    (_set(["axes", 0, "unit"], 7), r"axes\[0\]"),
    (_set(["datasets", 1, "path"], ""), r"datasets\[1\]: path"),
    (_set(["datasets", 1], []), r"datasets\[1\]: expected an object"),
    (_set(["datasets", 0, "coordinateTransformations"], None), r"datasets\[0\]: coordinateTransformations"),
    (
        _set(["datasets", 0, "coordinateTransformations", 0, "scale"], [1]),
        r"\[0\]: scale: expected 2 positive",
    ),
    (_set(["datasets", 0, "coordinateTransformations", 0, "scale"], [1, 0]), r"\[0\]: scale: expected 2"),
    (_set(["datasets", 0, "coordinateTransformations", 1, "translation"], [1, "a"]), r"\[1\]: translation"),
    (_set(["datasets", 0, "coordinateTransformations", 0], {"type": "affine"}), "affine"),
    (_set(["axes"], [{"name": n} for n in "zyx"]), "expected 3"),
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("change", "text"), WRONG, ids=[text for _, text in WRONG])
def test_wrong_metadata_name_file_and_member(tmp_path, version, change, text):
    """Strictly, that is an error; otherwise a warning, and the arrays are the levels."""
    values = write_image(tmp_path / "a.zarr", "yx", version)
    attributes = image_attributes("yx", version)
    change(attributes["multiscales"][0])
    write_group(tmp_path / "a.zarr", attributes, version)
    file = ".zattrs" if version == "0.4" else "zarr.json"
    with pytest.raises((ValueError, NotImplementedError), match=rf"{file}.*multiscales.*{text}"):
        cw.open_multiscale(tmp_path / "a.zarr")
    with pytest.warns(UserWarning, match=text):
        image = cw.open_multiscale(tmp_path / "a.zarr", strict=False)
    assert image.convention == "raw" and len(image.levels) == 2
    np.testing.assert_array_equal(image.levels[1], values[1])


@pytest.mark.parametrize(
    ("omero", "text"),
    [
        (3, "omero: expected an object"),
        ({"channels": 3}, "omero: channels"),
        ({"channels": [{"color": "red"}]}, r"channels\[0\]: color"),
        ({"channels": [{"window": {"min": "a"}}]}, r"channels\[0\]: window: min"),
        ({"channels": [{"active": "yes"}]}, r"channels\[0\]: active"),
    ],
)
def test_wrong_channels_are_problems(tmp_path, omero, text):
    """They cost neither levels nor sizes, nor what the other members say."""
    write_image(tmp_path / "a.zarr", "yx", omero=omero)
    image = cw.open_multiscale(tmp_path / "a.zarr")
    (problem,) = image.problems
    assert re.search(text, problem) and image.scales[0] == (8.0, 4.0) and image.name == "cells"


def test_levels_that_are_missing_or_of_another_rank(tmp_path):
    write_image(tmp_path / "a.zarr", "yx")
    write_group(tmp_path / "a.zarr", image_attributes("zyx", "0.5", 3), "0.5")
    image = cw.open_multiscale(tmp_path / "a.zarr")
    with pytest.raises(
        ValueError, match=r"zarr.json\": ome/multiscales\[0\]: datasets\[0\]: path: 2 dimensions"
    ):
        image.levels[0]
    with pytest.raises(ValueError, match=r"datasets\[2\]: path: expected an array at .*2"):
        image.levels[2]


def test_what_is_no_image_lists_what_is_near(tmp_path):
    write_group(tmp_path / "a.zarr", {}, "0.5")
    write_image(tmp_path / "a.zarr" / "scan", "yx")
    with pytest.raises(ValueError, match=r"no image.*images below it: scan"):
        cw.open_multiscale(tmp_path / "a.zarr")
    with pytest.raises(FileNotFoundError):
        cw.open_multiscale(tmp_path / "b.zarr")


def test_arrays_and_groups(tmp_path):
    values = write_image(tmp_path / "a.zarr", "yx")
    array = cw.open_multiscale(tmp_path / "a.zarr" / "1")
    assert array.convention == "raw" and len(array.levels) == 1
    np.testing.assert_array_equal(array.levels[0], values[1])
    group = cw.open_group(tmp_path / "a.zarr")
    assert cw.open_multiscale(group).name == "cells"
    assert cw.open_multiscale(group["0"]).levels[0].shape == values[0].shape


def test_consolidated_metadata_are_enough(tmp_path):
    write_image(tmp_path / "a.zarr", "yx")
    cw.open_group(tmp_path / "a.zarr", "r+").consolidate()
    location = locate(str(tmp_path / "a.zarr"))
    trace = TraceStore(location.store)
    image = cw.open_multiscale(location._replace(store=trace))
    assert image.levels[1].dimension_units is not None and len(trace.requests) == 1
