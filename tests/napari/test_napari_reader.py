"""Layers of napari: data, order of axes, positions, channels and labels; the manifest that announces them."""

import shutil
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.errors import NotFoundError
from chunkwise.napari.reader import get_reader

FIXTURES = Path(__file__).parents[1] / "multiscale" / "fixtures"
MANIFEST = Path(cw.__file__).parent / "napari.yaml"


@pytest.fixture(scope="module")
def manager():
    """Return the plugin manager, which knows this plugin."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it is built on is deprecated by its own dependency
        from npe2 import PluginManager, PluginManifest

        manifest = PluginManifest.from_file(MANIFEST)
        manifest.validate_imports()
        manager = PluginManager.instance()
        if "chunkwise" not in manager:
            manager.register(manifest)
    return manager


def _read(manager, path):
    from npe2.io_utils import read

    return read([str(path)], stack=False, plugin_name="chunkwise")


def test_the_manifest_is_announced():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["napari.manifest"] == {"chunkwise": "chunkwise:napari.yaml"}


def _values(*shape):
    return (np.arange(np.prod(shape)) % 251).reshape(shape).astype("uint8")


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_channels_and_labels(manager, version):
    image, labels = _read(manager, FIXTURES / f"ome-zarr-py-{version}.zarr")
    data, options, kind = image
    assert kind == "image" and options["multiscale"] and options["channel_axis"] == 0
    assert options["name"] == ["DAPI", "GFP"] and options["colormap"] == ["#0000FF", "#00FF00"]
    assert options["contrast_limits"] == [(5, 200), (0, 100)] and options["visible"] == [True, True]
    assert options["scale"] == [0.5, 0.25, 0.25] and options["units"] == ["micrometer"] * 3
    assert options["axis_labels"] == ["z", "y", "x"]
    np.testing.assert_array_equal(data[0][1, 2:], _values(2, 4, 16, 24)[1, 2:])
    np.testing.assert_array_equal(np.asarray(data[0]), _values(2, 4, 16, 24))
    assert [level.shape for level in data] == [(2, 4, 16, 24), (2, 4, 8, 12)]
    assert data[1].dtype == np.uint8 and data[1].ndim == 4 and len(data[1]) == 2 and data[1].size == 768
    data, options, kind = labels
    assert kind == "labels" and options["name"] == "nuclei" and options["colormap"][3] == [1, 0, 0, 1]
    np.testing.assert_array_equal(data[0][-1], _values(4, 16, 24)[-1])


def test_archives_and_places(manager):
    ((data, options, kind),) = _read(manager, FIXTURES / "ngff-zarr-0.5.ozx")
    assert kind == "image" and options["translate"] == [0, 4, 8]
    np.testing.assert_array_equal(data[0][0, :3], _values(4, 16, 24)[0, :3])


@pytest.mark.parametrize("over", ["files", "http"])
def test_contrast_without_windows_is_that_of_the_values(manager, tmp_path, over):
    """The coarsest level is looked at; a layer without limits would be all white."""
    scan = np.random.default_rng(0).integers(100, 300, (2, 8, 32, 32)).astype("uint16")
    scan[1] *= 10
    cw.downsample_pyramid(
        cw.array(scan), tmp_path / "i.zarr", axes=list("czyx"), levels=1, method="stride"
    ).result()
    cw.downsample_pyramid(
        cw.array(scan[0].astype("u4")), tmp_path / "l.zarr", axes=list("zyx"), levels=0, labels=True
    ).result()
    with cw.serve(tmp_path / "i.zarr", tmp_path / "l.zarr") as server:
        base = f"{server.url}zarr3" if over == "http" else tmp_path
        ((data, options, _),) = _read(manager, f"{base}/i.zarr")
        np.testing.assert_array_equal(data[0][1, 3], scan[1, 3])
        wanted = [np.percentile(channel, (0.5, 99.8)) for channel in np.asarray(data[1])]
        np.testing.assert_allclose(options["contrast_limits"], wanted)
        ((_, options, kind),) = _read(manager, f"{base}/l.zarr")
        assert kind == "labels" and "contrast_limits" not in options


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int16", "uint16", "int64", "uint64", "float16", "float32"]
)
def test_every_type_has_limits_that_are_not_those_of_the_last_mean(manager, tmp_path, dtype):
    """A pyramid goes on to one element, whose value would make all that is brighter white."""
    low, high = (0, 1) if dtype == "bool" else (0, 90)
    scan = np.random.default_rng(0).integers(low, high, (64, 64), endpoint=True).astype(dtype)
    method = "stride" if dtype == "bool" else "mean"
    cw.downsample_pyramid(
        cw.array(scan), tmp_path / "i.zarr", axes=["y", "x"], levels=6, method=method
    ).result()
    ((data, options, _),) = _read(manager, tmp_path / "i.zarr")
    assert data[-1].shape == (1, 1)
    wanted = np.percentile(np.asarray(data[1]).astype(float), (0.5, 99.8))
    np.testing.assert_allclose(options["contrast_limits"], wanted)
    assert wanted[1] > high * 0.8


def test_groups_of_arrays_over_http(manager, tmp_path):
    """What is in them is told by the document of the group, since a web server does not list."""
    group = cw.create_group(tmp_path / "a.zarr")
    group.create_array("one", np.arange(12).reshape(3, 4))
    group.create_array("two", np.ones((2, 2)))
    with cw.serve(tmp_path / "a.zarr") as server:
        with pytest.warns(UserWarning, match="taken as y,x"):
            layers = _read(manager, f"{server.url}zarr3/a.zarr")
        assert [options["name"] for _, options, _ in layers] == ["one", "two"]
        assert layers[0][0][1].tolist() == [4, 5, 6, 7]
        assert layers[0][1]["contrast_limits"] == pytest.approx((0.055, 10.978))


def test_a_level_that_cant_be_read_has_no_limits(manager, tmp_path):
    cw.create_array(tmp_path / "a.zarr", np.ones((4, 4)), codec="gzip:1", chunks=(4, 4))
    (tmp_path / "a.zarr/c/0/0").write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="taken as y,x"):
        ((_, options, _),) = _read(manager, tmp_path / "a.zarr")
    assert "contrast_limits" not in options


def test_wells(manager):
    ((data, options, _),) = _read(manager, FIXTURES / "plate-0.5.zarr" / "A" / "1")
    assert options["name"] == "1/0" and data.shape == (8, 8) and not options["multiscale"]
    ((whole, options, _),) = _read(manager, FIXTURES / "plate-0.5.zarr")
    assert whole.shape == (8, 16) and options["axis_labels"] == ["y", "x"]
    np.testing.assert_array_equal(np.asarray(whole)[:, :8], np.asarray(data))


def test_n5_has_its_last_axis_first(manager, tmp_path):
    scan = np.random.default_rng(0).integers(0, 200, (8, 12, 20)).astype("uint16")
    cw.downsample_pyramid(
        cw.array(scan), tmp_path / "a.n5/em", axes=list("zyx"), units=["40 nm", "8 nm", "4 nm"], levels=1
    ).result()
    ((data, options, _),) = _read(manager, tmp_path / "a.n5/em")
    assert options["scale"] == [40, 8, 4] and options["axis_labels"] == ["z", "y", "x"]
    np.testing.assert_array_equal(data[0][3], scan[3])


def test_plain_arrays_and_groups_of_them(manager, tmp_path):
    group = cw.create_group(tmp_path / "a.zarr")
    group.create_array("one", np.arange(12).reshape(3, 4))
    group.create_array("two", np.ones((2, 2)))
    group.create_array("text", ["a", "b"])
    with pytest.warns(UserWarning, match="taken as y,x"):
        layers = _read(manager, tmp_path / "a.zarr")
    assert [options["name"] for _, options, _ in layers] == ["one", "two"]
    with pytest.warns(UserWarning, match="taken as y,x"):
        ((data, _, _),) = _read(manager, tmp_path / "a.zarr" / "one")
    assert data[1].tolist() == [4, 5, 6, 7]


def test_what_is_something_else_is_left_to_others(tmp_path):
    (tmp_path / "a.xml").write_text("<a/>")
    (tmp_path / "empty").mkdir()
    assert get_reader(str(tmp_path / "a.xml")) is None
    assert get_reader(str(tmp_path / "empty")) is None
    assert get_reader([]) is None
    assert get_reader([str(FIXTURES / "ngff-zarr-0.4.zarr"), str(tmp_path / "empty")]) is None
    assert len(get_reader([str(FIXTURES / "ngff-zarr-0.4.zarr")])([])) == 1


def test_what_is_listed_but_not_stored_takes_nothing_else_away(tmp_path):
    """A field of a well, a channel of N5, an image of labels; if nothing is left, that is an error."""
    well = cw.create_group(tmp_path / "w.zarr", attributes={})
    well.attrs["ome"] = {"version": "0.5", "well": {"images": [{"path": "0"}, {"path": "1"}]}}
    field = cw.array(np.ones((8, 8), "u1"))
    cw.downsample_pyramid(field, tmp_path / "w.zarr/1", levels=0, sync=False).result()
    labels = tmp_path / "w.zarr/1/labels/cells"
    cw.downsample_pyramid(field, labels, levels=0, sync=False, labels=True).result()
    reader = get_reader(str(tmp_path / "w.zarr"))
    with pytest.warns(UserWarning, match="names 0.*the other images are shown"):
        assert [kind for _, _, kind in reader(None)] == ["image", "labels"]
    shutil.rmtree(labels)
    with pytest.warns(UserWarning, match="the other images are shown"):
        assert [kind for _, _, kind in get_reader(str(tmp_path / "w.zarr"))(None)] == ["image"]
    shutil.rmtree(tmp_path / "w.zarr/1")
    with pytest.raises(NotFoundError, match="names 0"):
        get_reader(str(tmp_path / "w.zarr"))(None)
    container = cw.open_group(tmp_path / "c.n5", "a", format="n5")
    container.create_array("c0/s0", np.ones((8, 8), "u1"))
    container.create_group("c1").create_group("s0")
    with pytest.warns(UserWarning, match="the other images are shown"):
        assert len(get_reader(str(tmp_path / "c.n5"))(None)) == 1
