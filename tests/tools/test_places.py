"""What a place names is the same in every command and function that reads: a table of places and entries."""

import json

import fsspec
import h5py
import numpy as np
import pytest
import tifffile
import zarr
from PIL import Image

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.napari.reader import get_reader
from chunkwise.server.image import first_image
from chunkwise.server.sources import sources_of

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
    _, image = first_image(sources_of(place))
    np.testing.assert_array_equal(image.levels[0].view, expected)
    axes = ["--axes", "x,y,z,c"] if name == "pre" else ["--axes", "z,y,x"]
    assert main(["pyramid", place, "b.zarr", "--levels", "1", "--quiet", *axes]) == 0
    made = cw.downsample_pyramid(place, "c.zarr", levels=1, axes=axes[1].split(",")).result()
    whole = VALUES[None] if name == "pre" else VALUES
    for path in ("b.zarr/0", "c.zarr/0"):
        np.testing.assert_array_equal(zarr.open_array(path, mode="r")[...], whole)
    assert made.levels[1].shape[-1] == 15
    (layer,) = get_reader(place)(place)
    data = layer[0][0] if isinstance(layer[0], list) else layer[0]
    assert sorted(np.asarray(data).shape)[-3:] == [4, 20, 30]
    checked = 1 if name.startswith(("pre", "view", "planes")) else 0
    assert main(["verify", place, "--quiet"]) == checked


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
    _, image = first_image(sources_of(place))
    np.testing.assert_array_equal(image.levels[0].view, VALUES)


def test_files_of_several_arrays_say_which(tmp_path, capsys):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["one"], file["g/two"] = VALUES, VALUES
    assert main(["slice", str(tmp_path / "a.h5")]) == 1
    error = capsys.readouterr().err
    assert "a.h5|hdf5:one" in error and "a.h5|hdf5:g/two" in error


def test_pictures_are_planes(tmp_path, capsys):
    """In the order of their numbers, with a glob that the shell has expanded too."""
    for z, plane in enumerate(VALUES.astype("uint8")):
        Image.fromarray(plane).save(tmp_path / f"z{z + 8}.png")
    layers = [str(tmp_path / f"z{z}.png") for z in range(8, 12)]
    for given in ([str(tmp_path / "z*.png")], layers, [str(tmp_path)]):
        assert main(["stack", str(tmp_path / "s.json"), *given, "--check"]) == 0
        assert "4 × 20 × 30 × 1" in capsys.readouterr().out
    store = cw.open_multiscale(tmp_path / "z*.png").levels[0]
    assert store.domain.labels == ("z", "y", "x", "c")
    np.testing.assert_array_equal(store[..., 0], VALUES.astype("uint8"))
    Image.fromarray(VALUES[0, :5].astype("uint8")).save(tmp_path / "z12.png")
    assert main(["slice", str(tmp_path)]) == 1 and "z12.png" in capsys.readouterr().err
    tifffile.imwrite(tmp_path / "a.tif", VALUES[0])
    assert main(["slice", str(tmp_path)]) == 1 and "*.png" in capsys.readouterr().err
    assert main(["slice", str(tmp_path / "q*.png")]) == 1 and "no file matches" in capsys.readouterr().err


def test_nothing_to_verify_is_no_good_news(tmp_path, capsys):
    cw.create_group(tmp_path / "a.zarr")
    assert main(["verify", str(tmp_path / "a.zarr"), "--quiet"]) == 1
    assert "nothing to verify" in capsys.readouterr().out
