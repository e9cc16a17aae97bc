"""What a place names is the same in every command and function that reads: a table of places and entries."""

import json
import threading
import warnings
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import fsspec
import h5py
import numpy as np
import pytest
import tifffile
import xarray as xr
import zarr
from PIL import Image

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.errors import InvalidArgumentError, NotFoundError
from chunkwise.images.server.forms import first_shown
from chunkwise.images.server.sources import sources_of
from chunkwise.napari.reader import get_reader

VALUES = np.arange(4 * 20 * 30, dtype="uint16").reshape(4, 20, 30)  # z, y, x


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of every kind, all with the same values."""
    path = tmp_path_factory.mktemp("places")
    zarr.create_array(path / "a.zarr", data=VALUES, chunks=(4, 20, 20), dimension_names=["z", "y", "x"])
    zarr.create_array(path / "a2.zarr", data=VALUES, chunks=(4, 20, 20), zarr_format=2)
    tifffile.imwrite(path / "a.tif", VALUES, photometric="minisblack", metadata={"axes": "ZYX"})
    tifffile.imwrite(path / "a.ome.tif", VALUES, metadata={"axes": "ZYX", "PhysicalSizeX": 0.5})
    for name in ("a.h5", "a.nc"):
        with h5py.File(path / name, "w") as file:
            file["d"] = VALUES
    assert main(["zip", str(path / "a.zarr"), str(path / "a.zip"), "--quiet"]) == 0
    (path / "front.zip").write_bytes(b"#!/bin/sh\n" + (path / "a.zip").read_bytes())
    volume = {
        "driver": "neuroglancer_precomputed",
        "kvstore": f"file://{path}/pre/",
        "multiscale_metadata": {"data_type": "uint16", "num_channels": 1, "type": "image"},
        "scale_metadata": {
            "size": [30, 20, 4], "encoding": "raw", "chunk_size": [30, 20, 4], "resolution": [4, 4, 40],
        },
    }  # fmt: skip
    cw.open(volume, create=True).result()[..., 0] = VALUES.T
    (path / "view.json").write_text(json.dumps({"driver": "auto", "kvstore": f"file://{path}/a.zarr/"}))
    (path / "planes").mkdir()
    for z, plane in enumerate(VALUES):
        tifffile.imwrite(path / f"planes/z{z + 8}.tif", plane)  # z10 comes after z9
    return path


PLACES = [
    "a.zarr", "a.tif", "a.ome.tif", "a.h5", "a.zip", "pre", "view.json", "planes", "URL a.tif",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("a2.zarr", "a.h5|hdf5:d", "a.nc", "a.zip|zip:", "planes/z*.tif", "URL a.zarr")
    ),
]  # fmt: skip


def _place(folder, name):
    return f"file://{folder}/{name[4:]}" if name.startswith("URL ") else f"{folder}/{name}"


@pytest.mark.parametrize("name", PLACES)
def test_all_entries_take_all_places(folder, tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = _place(folder, name)
    expected = VALUES.T[..., None] if name == "pre" else VALUES
    np.testing.assert_array_equal(cw.open_multiscale(place).levels[0], expected)
    assert main(["slice", place, "--npy", "a.npy"]) == 0
    np.testing.assert_array_equal(np.load("a.npy"), expected)
    assert main(["info", place]) == 0
    assert main(["view", place, "--headless", "a.png"]) == 0
    assert main(["stack", "s.json", place]) == 0
    spec = json.loads((tmp_path / "s.json").read_text())
    np.testing.assert_array_equal(cw.open(spec).result(), expected)
    _, image = first_shown(sources_of(place))
    np.testing.assert_array_equal(image.levels[0].view, expected)
    axes = ["--axes", "x,y,z,c"] if name == "pre" else ["--axes", "z,y,x"]
    assert main(["pyramid", place, "b.zarr", "--levels", "1", "--quiet", *axes]) == 0
    made = cw.downsample_pyramid(place, "c.zarr", levels=1, axes=axes[1].split(",")).result()
    whole = VALUES[None] if name == "pre" else VALUES
    for path in ("b.zarr/0", "c.zarr/0"):
        np.testing.assert_array_equal(zarr.open_array(path, mode="r")[...], whole)
    assert made.levels[1].shape[-1] == 15
    np.testing.assert_array_equal(cw.read(place), expected)
    assert cw.plan_copy(place, "f.zarr", format="zarr3").nbytes == VALUES.nbytes
    assert cw.copy(place, "f.zarr", format="zarr3", verify=True).verified
    np.testing.assert_array_equal(zarr.open_array("f.zarr", mode="r")[...], expected)
    assert cw.diff(place, place) == []
    assert not any(report.bad for report in cw.verify(place))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(pictures|the dimensions of the source) are taken as")
        (layer,) = get_reader(place)(place)
    data = layer[0][0] if isinstance(layer[0], list) else layer[0]
    assert sorted(np.asarray(data).shape)[-3:] == [4, 20, 30]
    _test_reading_commands(place, name, tmp_path)


IS_NODE = ("a.", "a2.", "URL", "HTTP a.", "front.zip", "view.json", "HTTP view.json")
"""Places of an array or group; the others are arrays that only a driver of their own opens."""


def _test_reading_commands(place, name, tmp_path):
    """What the place holds is shown, compared, copied and verified, or an error says why not."""
    is_node = name.startswith(IS_NODE)
    in_file = is_node and any(kind in name for kind in (".tif", ".h5", ".nc")) and "|" not in name
    assert main(["tree", place]) == main(["plan", place]) == 0
    assert main(["attrs", place]) == (0 if is_node else 2)
    assert main(["diff", place, place]) == 0
    assert main(["verify", place, "--quiet"]) == 0
    volume = name.endswith("pre")
    assert main(["cp", place, "d.zarr", "--quiet"]) == 0
    values = zarr.open_array(tmp_path / "d.zarr", mode="r")[...]
    np.testing.assert_array_equal(values, VALUES.T[..., None] if volume else VALUES)
    if in_file:
        assert main(["cp", "-r", place, "tree.zarr", "--quiet"]) == 0
        name_inside = "0" if name.endswith(".tif") else "d"
        np.testing.assert_array_equal(
            zarr.open_array(tmp_path / "tree.zarr" / name_inside, mode="r")[...], VALUES
        )
    if volume or (in_file and name.endswith(".tif")):
        assert main(["cp", "-r", place, "e.zarr", "--quiet", "--layout", "ome-zarr"]) == 0
        np.testing.assert_array_equal(
            cw.open_multiscale("e.zarr").levels[0].read().result().squeeze(), VALUES
        )
    elif not is_node:  # there is nothing else in it
        assert main(["cp", "-r", place, "e.zarr", "--quiet"]) == 0
        np.testing.assert_array_equal(zarr.open_array(tmp_path / "e.zarr", mode="r")[...], VALUES)
    for function in (cw.open_group, partial(xr.open_dataset, engine="chunkwise"), _open_datatree):
        if in_file:
            assert list(function(place))
        else:
            with pytest.raises(InvalidArgumentError, match=r"not a group.*chunkwise\.open"):
                function(place)

    if in_file or name.endswith("pre"):
        assert cw.copy_tree(place, "g.zarr", format="zarr3").n_arrays == 1
    else:
        with pytest.raises(InvalidArgumentError, match=r"not a group; chunkwise\.copy copies arrays"):
            cw.copy_tree(place, "g.zarr", format="zarr3")


def _open_datatree(place):
    return xr.open_datatree(place, engine="chunkwise").to_dataset()


@pytest.mark.parametrize(
    "name",
    [
        "HTTP a.tif",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("HTTP a.zarr", "HTTP a.h5", "HTTP a.zip", "HTTP pre", "HTTP view.json", "front.zip")
        ),
    ],
)
def test_reading_commands_take_the_web(folder, web, tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _test_reading_commands(
        f"{web}/{name[5:]}" if name.startswith("HTTP ") else f"{folder}/{name}", name, tmp_path
    )


@pytest.fixture(scope="module")
def web(folder):
    """URL of a server of the files."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_groups_in_archives_are_the_same_in_every_entry(tmp_path, capsys):
    """With bytes in front of the archive, too."""
    group = zarr.create_group(tmp_path / "g.zarr")
    group.create_array("v", data=VALUES, dimension_names=["z", "y", "x"])
    assert main(["zip", str(tmp_path / "g.zarr"), str(tmp_path / "g.zip"), "--quiet"]) == 0
    (tmp_path / "front.zip").write_bytes(b"#!/bin/sh\n" + (tmp_path / "g.zip").read_bytes())
    for place in (str(tmp_path / "g.zip"), str(tmp_path / "front.zip")):
        assert list(cw.open_group(place)) == ["v"]
        np.testing.assert_array_equal(xr.open_dataset(place, engine="chunkwise").v, VALUES)
        assert list(xr.open_datatree(place, engine="chunkwise").data_vars) == ["v"]
        np.testing.assert_array_equal(cw.open(f"{place}|zip:v").result(), VALUES)
        assert main(["tree", place]) == 0 and "v" in capsys.readouterr().out
        assert main(["diff", place, str(tmp_path / "g.zarr")]) == 0


def test_damaged_pictures_of_a_stack_are_bad(folder, tmp_path, capsys):
    for path in (folder / "planes").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes()[: -100 if path.name == "z9.tif" else None])
    assert main(["verify", str(tmp_path), "--quiet"]) == 1
    assert "z9.tif" in capsys.readouterr().out


def test_differences_of_what_is_no_node(folder, tmp_path, capsys):
    changed = VALUES.copy()
    changed[1, 2, 3] += 1
    for z, plane in enumerate(changed):
        tifffile.imwrite(tmp_path / f"z{z}.tif", plane)
    assert main(["diff", str(folder / "planes"), str(tmp_path)]) == 1
    assert "1 of 2,400 differ" in capsys.readouterr().out
    assert main(["diff", str(folder / "planes"), str(folder / "a.zarr")]) == 0


@pytest.mark.parametrize("kind", ["zarr", "fsspec", "spec", "kvstore", "path", "location"])
def test_functions_take_stores_and_specs(folder, tmp_path, kind):
    place = {
        "zarr": lambda: zarr.storage.LocalStore(folder / "a.zarr"),
        "fsspec": lambda: fsspec.get_mapper(f"file://{folder}/a.zarr"),
        "spec": lambda: {"driver": "zarr3", "kvstore": f"file://{folder}/a.zarr/"},
        "kvstore": lambda: cw.KvStore.open(f"file://{folder}/a.zarr/").result(),
        "path": lambda: folder / "a.zarr",
        "location": lambda: cw.open(folder / "a.zarr").result(),
    }[kind]()
    np.testing.assert_array_equal(cw.open_multiscale(place).levels[0], VALUES)
    cw.downsample_pyramid(place, tmp_path / "a.zarr", levels=1).result()
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "a.zarr/0", mode="r")[...], VALUES)
    _, image = first_shown(sources_of(place))
    np.testing.assert_array_equal(image.levels[0].view, VALUES)


@pytest.mark.parametrize("name", ["a.zarr", "a.tif", "a.ome.tif", "a.h5|hdf5:d", "a.zip", "view.json"])
def test_layers_are_places_that_open_takes(folder, name):
    """As text, as a path, as the JSON of a spec."""
    place = f"{folder}/{name}"
    given = [place, folder / name, cw.open(place).result().spec().to_json()]
    for layer in given:
        np.testing.assert_array_equal(cw.stack([layer, place]), [VALUES, VALUES])
        np.testing.assert_array_equal(cw.concat([layer, place], axis=0), np.concatenate([VALUES] * 2))
        np.testing.assert_array_equal(cw.overlay([layer]), VALUES)


def test_wrong_layers_say_what_is_expected(folder):
    with pytest.raises(TypeError, match=r"several layers.*one place"):
        cw.stack(f"{folder}/a.zarr")
    with pytest.raises(ValueError, match=r"Layer 1: .*missing"):
        cw.stack([f"{folder}/a.zarr", f"{folder}/missing"])
    with pytest.raises(TypeError, match="TensorStore, an array, a Spec, a path"):
        cw.stack([5])
    for function in (lambda place: cw.cast(place, "f4"), lambda place: cw.downsample(place, [1], "mean")):
        with pytest.raises(TypeError, match=r"open it first, with chunkwise\.open"):
            function(f"{folder}/a.zarr")


def test_a_place_of_another_kind_says_what_to_call(folder, tmp_path):
    """Of functions that copy, read and migrate."""
    cw.create_group(tmp_path / "g.zarr")
    view = {"driver": "cast", "dtype": "float32", "base": f"file://{folder}/a.zarr"}
    np.testing.assert_array_equal(cw.read(view), VALUES)
    assert cw.copy(view, tmp_path / "v.zarr").array.dtype == cw.float32
    with pytest.raises(InvalidArgumentError, match=r"is a group.*chunkwise\.open_group"):
        cw.read(tmp_path / "g.zarr")
    with pytest.raises(InvalidArgumentError, match=r"is a group.*chunkwise\.copy_tree"):
        cw.copy(tmp_path / "g.zarr", tmp_path / "h.zarr")
    np.testing.assert_array_equal(
        cw.copy(cw.open(folder / "a.zarr").result(), tmp_path / "h.zarr").array, VALUES
    )
    with pytest.raises(InvalidArgumentError, match="view of an array"):
        cw.open_group(view)
    with pytest.raises(NotFoundError, match="open_multiscale"):
        cw.open_array(f"{folder}/planes/*.tif")
    cw.create_array(tmp_path / "two.zarr", [1, 2], format="zarr2")
    (tmp_path / "two.json").write_text(
        json.dumps({"driver": "zarr", "kvstore": f"file://{tmp_path}/two.zarr/"})
    )
    assert cw.migrate(tmp_path / "two.json", apply=True).applied
    np.testing.assert_array_equal(
        zarr.open_array(tmp_path / "two.zarr", mode="r", zarr_format=3)[...], [1, 2]
    )


def test_files_of_several_arrays_say_which(tmp_path, capsys):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["one"], file["g/two"] = VALUES, VALUES
    assert main(["slice", str(tmp_path / "a.h5")]) == 1
    error = capsys.readouterr().err
    assert "a.h5|hdf5:one" in error and "a.h5|hdf5:g/two" in error
    for function in (cw.read, partial(cw.copy, destination=tmp_path / "b.zarr")):
        with pytest.raises(InvalidArgumentError, match=r"a\.h5\|hdf5:one"):
            function(tmp_path / "a.h5")


def test_pictures_are_planes(tmp_path, capsys):
    """In the order of their numbers, with a glob that the shell has expanded too."""
    for z, plane in enumerate(VALUES.astype("uint8")):
        Image.fromarray(plane).save(tmp_path / f"z{z + 8}.png")
    layers = [str(tmp_path / f"z{z}.png") for z in range(8, 12)]
    for given in ([str(tmp_path / "z*.png")], layers, [str(tmp_path)]):
        assert main(["stack", str(tmp_path / "s.json"), *given, "--check"]) == 0
        assert "4 × 20 × 30 from" in capsys.readouterr().out
    store = cw.open_multiscale(tmp_path / "z*.png").levels[0]
    assert store.domain.labels == ("z", "y", "x")
    np.testing.assert_array_equal(store, VALUES.astype("uint8"))
    Image.fromarray(VALUES[0, :5].astype("uint8")).save(tmp_path / "z12.png")
    assert main(["slice", str(tmp_path)]) == 1 and "z12.png" in capsys.readouterr().err
    tifffile.imwrite(tmp_path / "a.tif", VALUES[0])
    assert main(["slice", str(tmp_path)]) == 1 and "*.png" in capsys.readouterr().err
    assert main(["slice", str(tmp_path / "q*.png")]) == 1 and "no file matches" in capsys.readouterr().err


def test_nothing_to_verify_is_no_good_news(tmp_path, capsys):
    cw.create_group(tmp_path / "a.zarr")
    assert main(["verify", str(tmp_path / "a.zarr"), "--quiet"]) == 1
    assert "nothing to verify" in capsys.readouterr().out


def _grey_planes(path, kind):
    """Write grey planes of `uint8`; return the place and its values."""
    values = np.resize(VALUES.astype("uint8"), (5, 20, 30))
    if kind == "pages":
        tifffile.imwrite(path / "a.tif", values)
        return path / "a.tif", values
    if kind == "pages of Pillow":
        first, *rest = map(Image.fromarray, values)
        first.save(path / "a.tif", save_all=True, append_images=rest)
        return path / "a.tif", values
    if kind == "one page":
        tifffile.imwrite(path / "a.tif", values[0])
        return path / "a.tif", values[0]
    (path / "planes").mkdir()
    for z, plane in enumerate(values):
        Image.fromarray(plane).save(path / f"planes/z{z}.{kind}")
    return path / "planes", values


@pytest.mark.parametrize("kind", ["pages", "pages of Pillow", "one page", "tif", "png"])
def test_grey_planes_have_no_channel(tmp_path, kind, capsys):
    """In a pyramid of them, whose axes are z, y and x."""
    place, values = _grey_planes(tmp_path, kind)
    units = ",".join(["2 um", "0.5 um", "0.5 um"][-values.ndim :])
    to = str(tmp_path / "b.zarr")
    assert main(["pyramid", str(place), to, "--levels", "1", "--units", units, "--quiet"]) == 0
    image = cw.open_multiscale(to)
    assert [axis.name for axis in image.axes] == ["z", "y", "x"][-values.ndim :]
    assert image.scales[0][-2:] == (0.5, 0.5)
    np.testing.assert_array_equal(image.levels[0], values)
    made = cw.downsample_pyramid(place, tmp_path / "c.zarr", levels=1).result()
    assert made.levels[0].shape == values.shape
    wrong = ["pyramid", str(place), to, "--overwrite", "--units", "1 um"]
    assert main(wrong) == 1
    axes = ", ".join(["z", "y", "x"][-values.ndim :])
    assert f"one for each of the axes {axes}, but received 1" in capsys.readouterr().err


@pytest.mark.parametrize("unit", ["none", "None", "", "1"])
def test_voxels_without_a_unit(folder, tmp_path, unit):
    to = str(tmp_path / "a.zarr")
    assert (
        main(["pyramid", f"{folder}/a.zarr", to, "--levels", "1", "--units", f"{unit},1,2", "--quiet"]) == 0
    )
    image = cw.open_multiscale(to)
    assert [axis.unit for axis in image.axes] == ["", "", ""] and image.scales[0] == (1.0, 1.0, 2.0)
    copied = ["cp", f"{folder}/a.zarr", str(tmp_path / "b.zarr"), "--units", f"4 nm,{unit},4 nm", "--quiet"]
    assert main(copied) == 0
    found = cw.open_array(tmp_path / "b.zarr").dimension_units[1]
    assert found is None or found == cw.Unit(1, "")


def test_colour_planes_have_channels(tmp_path):
    for z in range(3):
        Image.fromarray(np.full((8, 9, 3), z, "uint8")).save(tmp_path / f"{z}.png")
    assert cw.open_multiscale(tmp_path).levels[0].domain.labels == ("z", "y", "x", "c")
