"""OME-Zarr images that are copied to N5 as viewers take them: what is where, how large, and which values."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest
import z5py
import zarr

import chunkwise as ts
from chunkwise.cli.main import main

SIZES = {"t": "3 s", "c": None, "z": "40 nm", "y": "8 nm", "x": "4 nm"}


def _image(path, names, *, convention="ome-ngff-0.5", method="mean", labels=False, levels=2, **options):
    shape = {"t": 2, "c": 3, "z": 12, "y": 20, "x": 33}
    values = np.random.default_rng(1).integers(0, 60000, [shape[n] for n in names]).astype("uint16")
    ts.downsample_pyramid(
        ts.array(values),
        path,
        convention=convention,
        axes=list(names),
        units=[SIZES[n] for n in names],
        chunks=[{"t": 1, "c": 1, "z": 5, "y": 7, "x": 9}[n] for n in names],
        method=method,
        labels=labels,
        levels=levels,
        **options,
    ).result()
    return [zarr.open_array(path / str(i), mode="r")[...] for i in range(levels + 1)]


def _attributes(path):
    return json.loads((path / "attributes.json").read_text())


def _copy(*arguments):
    return main(["cp", "-r", "--quiet", *map(str, arguments)])


def _n5_viewer_place(attributes):
    """Scale and translation of a dataset, as n5-viewer works them out."""
    size = np.array(attributes["pixelResolution"]["dimensions"])
    factors = np.array(attributes.get("downsamplingFactors", [1] * len(size)))
    affine = np.array(attributes.get("affineTransform", np.eye(3, 4)))[: len(size)]
    assert np.array_equal(affine[:, : len(size)], np.eye(len(size)))
    return factors * size, 0.5 * (factors - 1) * size + affine[:, 3]


def _ngff_places(path, names):
    own = json.loads((path / "zarr.json").read_text())["attributes"]["ome"]["multiscales"][0]
    dims = [names.index(n) for n in names if n in "xyz"][::-1]
    out = []
    for dataset in own["datasets"]:
        scale, translation = (entry[entry["type"]] for entry in dataset["coordinateTransformations"])
        out.append(([scale[d] for d in dims], [translation[d] for d in dims]))
    return out


@pytest.mark.each_once
@pytest.mark.parametrize("names", ["yx", "zyx", "czyx", "tzyx", "tczyx"])
@pytest.mark.parametrize("method", ["mean", "stride"])
def test_n5_viewer(tmp_path, names, method):
    """Values, sizes and places are those of the source, also where n5-viewer has none."""
    source, copy = tmp_path / "a.ome.zarr", tmp_path / "b.n5"
    levels = _image(source, names, method=method)
    lossless = 0 if "t" not in names else 3  # the distance of times has no place
    assert _copy(source, copy, "--layout", "n5-viewer", "--verify") == lossless
    file = z5py.File(str(copy), mode="r")
    n_space = sum(n in "xyz" for n in names)
    for t in range(2) if "t" in names else [None]:
        for c in range(3) if "c" in names else [None]:
            group = "/".join(f"{n}{i}" for n, i in (("c", c), ("t", t)) if i is not None)
            index = tuple(i for i in (t, c) if i is not None)
            for k, (values, (scale, at)) in enumerate(zip(levels, _ngff_places(source, names), strict=True)):
                dataset = copy / group / f"s{k}"
                np.testing.assert_array_equal(file[f"{group}/s{k}".lstrip("/")][...], values[index])
                attributes = _attributes(dataset)
                assert attributes["dimensions"] == list(values.shape[::-1][:n_space])
                assert all(np.less_equal(attributes["blockSize"], [9, 7, 5][:n_space]))
                assert attributes["axes"] == ["x", "y", "z"][:n_space]
                assert attributes["pixelResolution"]["unit"] == "nm"
                found = _n5_viewer_place(attributes)
                np.testing.assert_allclose(found[0], scale)
                np.testing.assert_allclose(found[1], at)
                assert ("affineTransform" in attributes) == (method == "stride" and k > 0)
                units = ts.open({"driver": "n5", "kvstore": f"file://{dataset}/"}).result().dimension_units
                known = ["4 nm", "8 nm", "40 nm"][:n_space] if k == 0 else [None] * n_space
                assert [unit and str(unit) for unit in units] == known
            own = _attributes(copy / group)
            assert own["resolution"] == [4, 8, 40][:n_space] and own["scales"][0] == [1] * n_space
    assert _attributes(copy)["name"] == "a" and _attributes(copy)["n5"]


@pytest.mark.parametrize("convention", ["ome-ngff-0.4", "ome-ngff-0.5"])
def test_bdv(tmp_path, convention):
    source, copy = tmp_path / "a.zarr", tmp_path / "brain.n5"
    levels = _image(source, "tczyx", convention=convention)
    assert _copy(source, copy, "--layout", "bdv") == 3
    file = z5py.File(str(copy), mode="r")
    for c in range(3):
        setup = _attributes(copy / f"setup{c}")
        assert setup == {"downsamplingFactors": [[1, 1, 1], [2, 1, 1], [4, 2, 1]], "dataType": "uint16"}
        for t in range(2):
            assert _attributes(copy / f"setup{c}/timepoint{t}") == {
                "multiScale": True,
                "resolution": [4, 8, 40],
            }
            for k, values in enumerate(levels):
                path = f"setup{c}/timepoint{t}/s{k}"
                np.testing.assert_array_equal(file[path][...], values[t, c])
                assert _attributes(copy / path)["downsamplingFactors"] == setup["downsamplingFactors"][k]
    root = ElementTree.parse(tmp_path / "brain.xml").getroot()
    loader = root.find("SequenceDescription/ImageLoader")
    assert loader.get("format") == "bdv.n5" and loader.find("n5").get("type") == "relative"
    assert (tmp_path / root.find("BasePath").text / loader.find("n5").text).samefile(copy)
    setups = root.findall("SequenceDescription/ViewSetups/ViewSetup")
    assert [(s.find("id").text, s.find("size").text) for s in setups] == [
        (f"{c}", "33 20 12") for c in range(3)
    ]
    assert {s.find("voxelSize/unit").text for s in setups} == {"nm"}
    assert {s.find("voxelSize/size").text for s in setups} == {"4.0 8.0 40.0"}
    times = root.find("SequenceDescription/Timepoints")
    assert (times.get("type"), times.find("first").text, times.find("last").text) == ("range", "0", "1")
    views = root.findall("ViewRegistrations/ViewRegistration")
    assert {(v.get("setup"), v.get("timepoint")) for v in views} == {
        (f"{c}", f"{t}") for c in range(3) for t in range(2)
    }
    for view in views:
        affine = np.array(view.find("ViewTransform/affine").text.split(), float).reshape(3, 4)
        np.testing.assert_array_equal(affine, np.diag([4.0, 8.0, 40.0, 0])[:3])


def test_paintera(tmp_path):
    source, copy = tmp_path / "a.zarr", tmp_path / "b.n5"
    levels = _image(source, "czyx")
    document = json.loads((source / "zarr.json").read_text())
    document["attributes"]["ome"]["multiscales"][0]["coordinateTransformations"] = [
        {"type": "scale", "scale": [1, 2, 2, 2]},
        {"type": "translation", "translation": [0, 30, 20, 10]},
    ]
    document["attributes"]["lab"] = {"stain": "uranyl"}
    (source / "zarr.json").write_text(json.dumps(document))
    assert _copy(source, copy, "--layout", "paintera") == 0
    assert _attributes(copy)["lab"] == {"stain": "uranyl"}
    for c in range(3):
        assert _attributes(copy / f"c{c}") == {"painteraData": {"type": "raw"}}
        own = {"multiScale": True, "resolution": [8, 16, 80], "offset": [10, 20, 30], "unit": "nm"}
        assert _attributes(copy / f"c{c}/data") == own
        for k, values in enumerate(levels):
            attributes = _attributes(copy / f"c{c}/data/s{k}")
            assert attributes["downsamplingFactors"] == [[1, 1, 1], [2, 1, 1], [4, 2, 1]][k]
            found = ts.open({"driver": "n5", "kvstore": f"file://{copy}/c{c}/data/s{k}/"}).result()
            np.testing.assert_array_equal(found, values[c].T)


def test_images_without_z_get_one_where_the_viewer_has_no_others(tmp_path, capsys):
    (values, *_) = _image(tmp_path / "a.zarr", "yx", levels=0)
    assert _copy(tmp_path / "a.zarr", tmp_path / "b.n5", "--layout", "bdv") == 0
    assert "no z" in capsys.readouterr().err
    found = z5py.File(str(tmp_path / "b.n5"), mode="r")["setup0/timepoint0/s0"][...]
    np.testing.assert_array_equal(found, values[None])


def test_labels_of_paintera_and_what_is_beside_the_levels(tmp_path, capsys):
    _image(tmp_path / "a.zarr", "zyx", levels=1)
    _image(tmp_path / "a.zarr/labels/cells", "zyx", levels=1, method="mode", labels=True)
    assert _copy(tmp_path / "a.zarr", tmp_path / "b.n5", "--layout", "paintera") == 3
    assert "labels: is left out" in capsys.readouterr().err
    assert _copy(tmp_path / "a.zarr/labels/cells", tmp_path / "c.n5", "--layout", "paintera") == 0
    assert (
        "painteraData" not in _attributes(tmp_path / "c.n5")
        and _attributes(tmp_path / "c.n5/data")["multiScale"]
    )


def test_levels_that_lie_elsewhere_are_told(tmp_path, capsys):
    _image(tmp_path / "a.zarr", "zyx", levels=1, method="stride")
    assert _copy(tmp_path / "a.zarr", tmp_path / "b.n5", "--layout", "bdv") == 0
    assert "s1 lies -2, 0, 0 nm" in capsys.readouterr().err


def test_a_copy_is_gone_on_with_or_begun_again(tmp_path, capsys):
    levels = _image(tmp_path / "a.zarr", "zyx")
    copy = tmp_path / "b.n5"
    assert _copy(tmp_path / "a.zarr", copy, "--layout", "bdv", "--codec", "gzip:1") == 0
    assert _attributes(copy / "setup0/timepoint0/s1")["compression"]["type"] == "gzip"
    assert _copy(tmp_path / "a.zarr", copy, "--layout", "bdv") == 1
    (copy / "setup0/timepoint0/s1/attributes.json").unlink()
    (tmp_path / "b.xml").unlink()
    assert _copy(tmp_path / "a.zarr", copy, "--layout", "bdv", "--codec", "gzip:1", "--resume") == 1
    assert _copy(tmp_path / "a.zarr", copy, "--layout", "bdv", "--overwrite") == 0
    (tmp_path / "b.xml").unlink()
    assert _copy(tmp_path / "a.zarr", copy, "--layout", "bdv", "--resume") == 0
    assert (tmp_path / "b.xml").exists()
    found = z5py.File(str(copy), mode="r")["setup0/timepoint0/s2"][...]
    np.testing.assert_array_equal(found, levels[2])


def _edited(path, change):
    document = json.loads((path / "zarr.json").read_text())
    change(document["attributes"]["ome"]["multiscales"])
    (path / "zarr.json").write_text(json.dumps(document))


def _level(**change):
    return lambda m: m[0]["datasets"][1]["coordinateTransformations"][0].update(change)


REFUSED = {
    "no image": (lambda m: m.clear(), "expected a list of images"),
    "two": (lambda m: m.append(m[0]), "2 images"),
    "factor": (_level(scale=[1, 40, 8, 6.0]), "whole factors"),
    "rank": (_level(scale=[1, 1]), "expected 4 positive"),
    "zero": (_level(scale=[1, 0, 1, 1]), "positive"),
    "path": (lambda m: m[0]["datasets"][1].update(path="nothing"), "but there is nothing"),
    "kind": (lambda m: m[0]["axes"][0].update(type="lifetime"), "expected space, time or channel"),
    "axes": (lambda m: m[0]["axes"].pop(), "expected 3 positive numbers"),
    "channels of space": (lambda m: m[0]["axes"][0].update(type="space"), "2 or 3 axes of space"),
    "units": (lambda m: m[0]["axes"][1].update(unit="inch"), "one unit"),
    "affine": (
        lambda m: m[0]["datasets"][1]["coordinateTransformations"].append({"type": "affine"}),
        "expected scale or translation",
    ),
}


@pytest.mark.each_once
@pytest.mark.parametrize("layout", ["n5-viewer", "paintera", "bdv"])
@pytest.mark.parametrize("case", REFUSED)
def test_what_no_viewer_takes_is_refused_before_anything_is_written(tmp_path, capsys, layout, case):
    change, text = REFUSED[case]
    _image(tmp_path / "a.zarr", "czyx", levels=1)
    _edited(tmp_path / "a.zarr", change)
    assert _copy(tmp_path / "a.zarr", tmp_path / "b.n5", "--layout", layout) == 1
    assert text in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.zarr"]


def test_other_refusals(tmp_path, capsys):
    values = np.zeros((4, 4), bool)
    ts.downsample_pyramid(ts.array(values), tmp_path / "bool.zarr", levels=0).result()
    assert _copy(tmp_path / "bool.zarr", tmp_path / "b.n5", "--layout", "bdv") == 1
    assert "--dtype" in capsys.readouterr().err and not (tmp_path / "b.n5").exists()
    assert _copy(tmp_path / "bool.zarr", tmp_path / "b.n5", "--layout", "bdv", "--dtype", "uint8") == 0
    (tmp_path / "c.xml").write_text("mine")
    _image(tmp_path / "a.zarr", "zyx", levels=0)
    assert _copy(tmp_path / "a.zarr", tmp_path / "c.n5", "--layout", "bdv") == 1
    assert (tmp_path / "c.xml").read_text() == "mine" and not (tmp_path / "c.n5").exists()
    assert _copy(tmp_path / "a.zarr", tmp_path / "b.n5/inside", "--layout", "bdv") == 1
    assert "whole container" in capsys.readouterr().err
    assert _copy(tmp_path / "a.zarr", tmp_path / "d.zarr", "--layout", "bdv", "--format", "zarr3") == 2
    assert _copy(tmp_path / "a.zarr/0", tmp_path / "d.n5", "--layout", "bdv") == 2
    assert main(["cp", str(tmp_path / "a.zarr/0"), str(tmp_path / "d.n5"), "--layout", "bdv"]) == 2
    assert not (tmp_path / "d.n5").exists() and not (tmp_path / "d.zarr").exists()


@pytest.mark.each_once
@pytest.mark.parametrize("to", ["", "inside", ".."])
@pytest.mark.parametrize("layout", [[], ["--layout", "n5-viewer"]])
def test_a_source_is_never_deleted_to_make_room(tmp_path, to, layout):
    source = tmp_path / "all/a.zarr"
    levels = _image(source, "zyx", levels=1)
    assert _copy(source, source / to, "--overwrite", *layout) == 1
    np.testing.assert_array_equal(zarr.open_array(source / "1", mode="r")[...], levels[1])


@pytest.mark.parametrize("on", ["processes:2", "threads:2"])
def test_layouts_on_executors(tmp_path, capsys, on):
    """Workers make what one process makes; a dry run writes nothing."""
    source, copy = tmp_path / "a.ome.zarr", tmp_path / "b.n5"
    _image(source, "czyx")
    capsys.readouterr()
    how = ("--layout", "n5-viewer", "--on", on, "--memory", "1MB")
    assert _copy(source, copy, *how, "--dry-run", "--json") == 0
    planned = json.loads(capsys.readouterr().out)
    plans = [f"c{c}/s{level}" for c in range(3) for level in range(planned["arrays"] // 3)]
    assert len(plans) == planned["arrays"] and set(planned["larger_arrays"]) <= set(plans)
    assert not copy.exists()
    command = ("cp", "-r", str(source), str(copy), *how, "--verify", "--keep-fingerprint", "--json")
    assert main(list(command)) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["arrays"] == len(plans)
    last = json.loads(err.splitlines()[-1])
    assert (last["event"], last["workers"], last["tasks"]) == ("end", 2, last["total_tasks"])
    assert _copy(source, tmp_path / "c.n5", "--layout", "n5-viewer") == 0
    ours, plain = (z5py.File(str(path), mode="r") for path in (copy, tmp_path / "c.n5"))
    for path in plans:
        assert np.array_equal(ours[path][:], plain[path][:])
        assert "chunkwise_fingerprint" in json.loads((copy / path / "attributes.json").read_text())
    for part, is_made in (("1/2", False), ("2/2", True), ("1/2", True)):
        assert _copy(source, tmp_path / "d.n5", "--layout", "bdv", "--part", part) == 0
        assert (tmp_path / "d.xml").exists() == is_made


@pytest.mark.parametrize("version", ["0.1", "0.2", "0.3"])
def test_levels_of_old_versions_have_their_sizes(tmp_path, version):
    group = ts.create_group(tmp_path / "a.zarr", format="zarr2")
    for number, n in enumerate((32, 16)):
        group.create_array(str(number), np.zeros((1, 1, 4, n, n), "u1"))
    axes = {"axes": list("tczyx")} if version == "0.3" else {}
    datasets = [{"path": "0"}, {"path": "1"}]
    group.attrs["multiscales"] = [{"version": version, **axes, "datasets": datasets}]
    ts.copy_tree(tmp_path / "a.zarr", tmp_path / "a.n5", layout="n5-viewer")
    assert ts.open_array(tmp_path / "a.n5/c0/t0/s1").attrs["downsamplingFactors"] == [2, 2, 1]


@pytest.mark.parametrize("convention", ["n5-viewer", "cosem", None])
def test_the_name_of_an_image_is_kept(tmp_path, convention):
    """As an option, and as the name of the image that the levels are made of; otherwise there is none."""
    values = np.zeros((8, 8, 8), "u1")
    of = ts.downsample_pyramid(ts.array(values), tmp_path / "of.zarr", levels=1, name="em").result()
    assert ts.open_multiscale(tmp_path / "of.zarr").name == "em" and of
    for number, (source, given) in enumerate(
        ((ts.array(values), {"name": "em"}), (tmp_path / "of.zarr", {}), (ts.array(values), {}))
    ):
        place = tmp_path / (f"{number}.zarr" if convention is None else f"{number}.n5")
        ts.downsample_pyramid(source, place, levels=1, convention=convention, **given).result()
        assert ts.open_multiscale(place).name == (
            "em" if number < 2 else place.stem if convention is None else place.name
        )
        assert ("name" in ts.open_group(place).attrs) == (number < 2 and convention is not None)
