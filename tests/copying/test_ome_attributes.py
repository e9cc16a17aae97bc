"""Images with labels, plates and collections stay what they are in the other Zarr format."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import yaozarrs
import zarr

import chunkwise as cw
from chunkwise.cli.main import main

OTHER = {"0.4": "zarr3", "0.5": "zarr2"}
AXES = [{"name": n, "type": "space", "unit": "micrometer"} for n in "yx"]
WAYS = {
    "copy_tree": lambda source, copy, format: cw.copy_tree(source, copy, format=format),
    "cp -r": lambda source, copy, format: main(
        ["cp", "-r", str(source), str(copy), "--format", format, "--quiet"]
    ),
    "Group.copy": lambda source, copy, format: cw.open_group(copy.parent, "a", format=format).copy(
        cw.open_group(source), copy.name
    ),
}


def _group(path: Path, version: str, members: dict) -> None:
    attributes = members if version == "0.4" else {"ome": {"version": version, **members}}
    zarr.open_group(path, mode="a", zarr_format=2 if version == "0.4" else 3).attrs.update(attributes)


def _image(path: Path, version: str, **members) -> None:
    image = {"axes": AXES, "datasets": []}
    for k in range(2):
        steps = [{"type": "scale", "scale": [2.0**k] * 2}]
        image["datasets"].append({"path": f"s{k}", "coordinateTransformations": steps})
    own = {"version": version} if version == "0.4" else {}
    _group(path, version, {"multiscales": [{**own, **image}], **members})
    for k in range(2):
        values = np.arange(64, dtype="i4").reshape(8, 8)[:: 2**k, :: 2**k]
        names = ["y", "x"] if version == "0.5" else None
        form = {"zarr_format": 2} if version == "0.4" else {"zarr_format": 3, "dimension_names": names}
        zarr.create_array(path / f"s{k}", data=values, chunks=(4, 4), **form)


def _labelled(path: Path, version: str) -> list[str]:
    channels = [{"label": "a", "color": "FF0000", "window": {"min": 0, "max": 9, "start": 0, "end": 9}}]
    _image(path, version, omero={"channels": channels})
    _group(path / "labels", version, {"labels": ["cells"]})
    own = {"version": version} if version == "0.4" else {}
    label = {**own, "colors": [{"label-value": 1, "rgba": [1, 2, 3, 4]}], "source": {"image": "../../"}}
    _image(path / "labels/cells", version, **{"image-label": label})
    return ["", "labels/cells"]


def _plate(path: Path, version: str) -> list[str]:
    own = {"version": version} if version == "0.4" else {}
    wells = [{"path": "A/1", "rowIndex": 0, "columnIndex": 0}]
    _group(
        path, version, {"plate": {**own, "rows": [{"name": "A"}], "columns": [{"name": "1"}], "wells": wells}}
    )
    _group(path / "A", version, {})
    _group(path / "A/1", version, {"well": {**own, "images": [{"path": "0"}]}})
    _image(path / "A/1/0", version)
    return ["A/1/0"]


def _series(path: Path, version: str) -> list[str]:
    _group(path, version, {"bioformats2raw.layout": 3})
    _group(path / "OME", version, {"series": ["0", "1"]})
    for n in "01":
        _image(path / n, version)
    return ["0", "1"]


def _check(path: Path, images: list[str], version: str) -> None:
    for image in images:
        found = cw.open_multiscale(path / image)
        assert found.convention == f"ome-ngff-{version}" and found.scales == ((1, 1), (2, 2))
        np.testing.assert_array_equal(found.levels[1], np.arange(64).reshape(8, 8)[::2, ::2])
        if version == "0.5":
            document = json.loads((path / image / found.paths[1] / "zarr.json").read_text())
            assert document["dimension_names"] == ["y", "x"]
    if version == "0.5":
        for file in path.rglob("zarr.json"):
            attributes = json.loads(file.read_text()).get("attributes", {})
            assert set(attributes) <= {"ome"} and '"version":"0.4"' not in file.read_text().replace(" ", "")
    yaozarrs.validate_zarr_store(str(path))


@pytest.mark.each_once
@pytest.mark.parametrize(("version", "way"), [*product(OTHER, WAYS), ("0.4", "migrate")])
@pytest.mark.parametrize("make", [_labelled, _plate, _series])
def test_the_version_of_the_other_format(tmp_path, make, version, way):
    images = make(tmp_path / "a.zarr", version)
    if way == "migrate":
        cw.migrate(tmp_path / "a.zarr", apply=True)
        _check(tmp_path / "a.zarr", images, "0.5")
        return
    above = tmp_path / "b.zarr"
    if way == "Group.copy":
        cw.create_group(above, format=OTHER[version])
    assert WAYS[way](tmp_path / "a.zarr", above / "c", OTHER[version]) in (0, None) or way != "cp -r"
    other = "0.5" if version == "0.4" else "0.4"
    _check(above / "c", images, other)
    if make is _labelled:
        image = cw.open_multiscale(above / "c")
        assert [channel.label for channel in image.channels] == ["a"] and list(image.labels) == ["cells"]
        assert image.labels["cells"].label_colors == {1: (1, 2, 3, 4)}
        cw.copy_tree(above / "c", tmp_path / "d.zarr", format="zarr2" if version == "0.4" else "zarr3")
        # The copy of 0.4 has names of dimensions, from the axes.
        what = {one.what for one in cw.diff(tmp_path / "a.zarr", tmp_path / "d.zarr")}
        assert what <= ({"dimension_names"} if version == "0.4" else set())


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("a", {"multiscales": [{"datasets": [{"path": "0", "level": 0}], "type": "reduce"}]}),
        ("a", {"multiscales": [{"version": "0.3", "axes": ["y"], "datasets": [{"path": "0"}]}]}),
        (
            "a",
            {"multiscales": [{"version": "0.4-dev-spatialdata", "axes": AXES, "datasets": [{"path": "0"}]}]},
        ),
        ("a", {"multiscales": [{"axes": AXES, "datasets": [{"path": "0"}]}], "ome": {"of": "another"}}),
        ("a", {"labels": ["x", "y"]}),
        ("labels", {"labels": {"x": 1}}),
        ("a", {"plate": "A7", "well": {"images": 3}, "omero": {}, "series": ["0"]}),
    ],
)
def test_members_that_only_look_alike_stay(tmp_path, name, attributes):
    cw.create_group(tmp_path / f"a.zarr/{name}", format="zarr2", attributes=attributes)
    cw.copy_tree(tmp_path / f"a.zarr/{name}", tmp_path / f"b.zarr/{name}", format="zarr3")
    assert cw.open_group(tmp_path / f"b.zarr/{name}").attrs.asdict() == attributes
