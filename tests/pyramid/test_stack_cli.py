"""``chunkwise stack`` and ``chunkwise pyramid``, and what other commands make of their files."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorstore
from PIL import Image

import chunkwise as ts
from chunkwise.cli.main import main


@pytest.fixture
def tiles(tmp_path, monkeypatch):
    """Four overlapping tiles of a picture in three formats, in the working directory."""
    monkeypatch.chdir(tmp_path)
    picture = np.random.default_rng(0).integers(0, 4000, (60, 90)).astype("uint16")
    places = {
        "a.zarr": ("zarr3", 0, 0),
        "b.zarr": ("zarr", 0, 40),
        "c.n5/s0": ("n5", 30, 0),
        "d.zarr": ("zarr3", 30, 40),
    }
    for name, (driver, y, x) in places.items():
        tile = picture[y : y + 30 + 6 * (y == 0), x : x + 50]
        spec = {"driver": driver, "kvstore": {"driver": "file", "path": f"{tmp_path}/{name}/"}}
        units = {} if driver == "zarr" else {"dimension_units": ["4 nm", "4 nm"]}
        ts.open(spec, create=True, dtype=ts.uint16, shape=tile.shape, **units).result().write(tile).result()
    return picture, [f"{name}@{y},{x}" for name, (_, y, x) in places.items()]


def test_a_mosaic(tiles, capsys):
    """Built, told about, looked at, and opened by both libraries."""
    picture, layers = tiles
    assert main(["stack", "mosaic.json", *layers]) == 0
    out, err = capsys.readouterr()
    assert out == "mosaic.json: 4 layers, uint16 60 × 90 from [0, 0]\n"
    assert "overlaps: 6 pairs of layers, 1,200 elements hidden" in err
    assert "gaps" not in err
    spec = json.loads(Path("mosaic.json").read_text())
    for library in (ts, tensorstore):
        store = library.open(spec).result()
        assert np.array_equal(store.read().result(), picture)
        assert [str(unit) for unit in store.dimension_units] == ["4 nm", "4 nm"]
    assert main(["info", "mosaic.json"]) == 0
    out = capsys.readouterr().out
    assert "stack of 4 layers (2 zarr3, 1 zarr, 1 n5)" in out
    assert "60 × 90" in out
    assert main(["info", "mosaic.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["overlapping_pairs"] == 6
    assert main(["slice", "mosaic.json", "--png", "mosaic.png"]) == 0
    with Image.open("mosaic.png") as image:
        assert image.size == (90, 60)
    assert main(["slice", "mosaic.json", "--region", "29:31, 39:41", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["values"] == picture[29:31, 39:41].tolist()


def test_gaps(tiles, capsys):
    picture, layers = tiles
    assert main(["stack", "gaps.json", layers[0], layers[3], "--no-gaps"]) == 1
    assert "gaps: 2,160 elements in no layer" in capsys.readouterr().err
    assert main(["slice", "gaps.json"]) == 1  # it has not been written
    assert main(["stack", "gaps.json", layers[0], layers[3], "--fill-value", "7", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["missing_elements"] == 2160
    assert report["gaps"] == [[[0, 50], [30, 90]], [[36, 0], [60, 40]]]
    assert main(["slice", "gaps.json", "--npy", "gaps.npy"]) == 0
    values = np.load("gaps.npy")
    assert (values[:30, 50:] == 7).all()
    assert np.array_equal(values[:36, :40], picture[:36, :40])
    assert main(["stack", "gaps.json", layers[0], layers[3], "--no-overlaps", "--check"]) == 1


def test_what_does_not_go_together(tiles, tmp_path, capsys):
    """All layers that differ are named at once, and nothing is written."""
    _, layers = tiles
    for name, dtype, shape in (("f.zarr", "float32", (8, 8)), ("g.zarr", "uint16", (8, 8, 8))):
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{tmp_path}/{name}/"}}
        ts.open(spec, create=True, dtype=dtype, shape=shape).result()
    assert main(["stack", "no.json", layers[0], "f.zarr", "g.zarr"]) == 1
    err = capsys.readouterr().err
    assert "f.zarr is float32, but a.zarr is uint16; --cast TYPE converts" in err
    assert "g.zarr has 3 dimensions, but a.zarr has 2" in err
    assert main(["stack", "no.json", layers[0], "h.zarr", "i.zarr"]) == 1
    err = capsys.readouterr().err
    assert "no array or group at h.zarr" in err
    assert "no array or group at i.zarr" in err
    assert main(["stack", "no.json", "a.zarr@1,2,3"]) == 1
    assert "3 numbers, but there are 2 dimensions" in capsys.readouterr().err
    assert not (tmp_path / "no.json").exists()
    assert main(["stack", "yes.json", "a.zarr", "f.zarr@0,50", "--cast", "float32"]) == 0
    assert ts.open(json.loads(Path("yes.json").read_text())).result().dtype == ts.float32


@pytest.mark.parametrize("arguments", [["no.zarr", "a.zarr"], ["no.json"], ["no.json", "--list", "bad.csv"]])
def test_wrong_command_lines(tiles, arguments):
    Path("bad.csv").write_text("a.zarr,0,left\n")
    assert main(["stack", *arguments]) == 2


def test_lists_that_cannot_be_read(tiles, capsys):
    """The file is named, and what it should have been."""
    Path("binary.csv").write_bytes(b"a.zarr,\xff\n")
    for name in ("none.csv", ".", "binary.csv"):
        assert main(["stack", "no.json", "--list", name]) == 2
        err = capsys.readouterr().err
        assert f"--list {name}: " in err
        assert "expected a CSV file with a path and the origin in each line" in err


def test_lists_and_axes(tiles, capsys):
    """Layers from a file, one after the other, and along a new dimension."""
    picture, layers = tiles
    lines = [layer.replace("@", ",") for layer in layers]
    Path("tiles.csv").write_text("# path, y, x\n" + "\n".join(lines) + "\n")
    assert main(["stack", "a.json", "--list", "tiles.csv"]) == 0
    assert np.array_equal(ts.open(json.loads(Path("a.json").read_text())).result().read().result(), picture)
    assert main(["stack", "b.json", "a.zarr", "b.zarr", "--concat", "-1"]) == 0
    assert ts.open(json.loads(Path("b.json").read_text())).result().shape == (36, 100)
    assert main(["stack", "c.json", "a.zarr", "b.zarr", "--stack", "0"]) == 0
    both = ts.open(json.loads(Path("c.json").read_text())).result()
    assert np.array_equal(both[1].read().result(), picture[:36, 40:])


def test_a_pyramid_of_a_mosaic(tiles, capsys):
    picture, layers = tiles
    assert main(["stack", "mosaic.json", *layers]) == 0
    command = ["pyramid", "mosaic.json", "m.ome.zarr", "--chunk", "16,16", "--levels", "2", "--json"]
    assert main(command) == 0
    out = json.loads(capsys.readouterr().out.partition("\n")[2])
    assert [level["shape"] for level in out["levels"]] == [[60, 90], [30, 45], [15, 23]]
    level = ts.open("m.ome.zarr/1").result()
    assert np.array_equal(level.read().result(), ts.downsample(ts.array(picture), [2, 2], "mean"))
    assert main(command) == 1
    assert "is an array already" in capsys.readouterr().err
    assert main([*command, "--overwrite", "--factors", "2,2;3,1"]) == 0
    assert ts.open("m.ome.zarr/2").result().shape == (10, 45)
    assert main(["pyramid", "mosaic.json"]) == 2


def test_a_pyramid_beside_an_array(tiles, capsys):
    picture, _ = tiles
    assert main(["pyramid", "c.n5/s0", "--levels", "1", "--method", "max", "--units", "4 nm,4 nm"]) == 0
    assert "n5-viewer" in capsys.readouterr().out
    level = ts.open("c.n5/s1").result()
    assert np.array_equal(level.read().result(), picture[30:, :50].reshape(15, 2, 25, 2).max((1, 3)))


def test_spec_files_that_are_none(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for text in ("[", "[]", '{"shape": [3]}'):
        Path("x.json").write_text(text)
        assert main(["info", "x.json"]) == 1
        assert "x.json" in capsys.readouterr().err


def test_names_that_only_attributes_say(tmp_path):
    """Those of Zarr v2; where layers differ in them, none has them."""
    for number in range(3):
        array = ts.create_array(tmp_path / f"{number}.zarr", np.zeros((2, 3)), format="zarr2")
        if number < 2:
            array.attrs["_ARRAY_DIMENSIONS"] = ["z", "y"]
    paths = [str(tmp_path / f"{number}.zarr") for number in range(3)]
    assert main(["stack", str(tmp_path / "o.json"), *paths[:2], "--concat", "z"]) == 0
    assert ts.open(json.loads((tmp_path / "o.json").read_text())).result().domain.labels == ("z", "y")
    assert main(["stack", str(tmp_path / "p.json"), *paths, "--concat", "0"]) == 0
    assert ts.open(json.loads((tmp_path / "p.json").read_text())).result().domain.labels == ("", "")
