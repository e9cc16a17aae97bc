"""What nothing says is printed where it is assumed, and an option says otherwise."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest
import tifffile
from PIL import Image as pillow

import chunkwise as cw
from chunkwise.cli.main import main, make_parser
from chunkwise.cli.serve import start
from chunkwise.napari.reader import get_reader


def _pictures(at: Path, *names: str) -> Path:
    at.mkdir()
    for value, name in enumerate(names):
        tifffile.imwrite(at / name, np.full((16, 12), value, "u1"))
    return at


GRID = [f"img_t{t:02}_c{c}.tif" for c in (1, 0) for t in (0, 2, 10)]


@pytest.mark.parametrize("door", ["pyramid", "slice", "cp", "cp to a volume", "info", "stack", "view"])
def test_two_numbers_in_names_are_two_axes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], door: str
) -> None:
    place = str(_pictures(tmp_path / "p", *GRID))
    commands = {
        "pyramid": ["pyramid", place, str(tmp_path / "o.zarr"), "--levels", "1"],
        "slice": ["slice", place, "--npy", str(tmp_path / "o.npy")],
        "cp": ["cp", place, str(tmp_path / "o.zarr")],
        "cp to a volume": ["cp", place, f"{tmp_path}/o|neuroglancer-precomputed:", "--region", "0,..."],
        "view": ["view", place, "--headless", str(tmp_path / "o.png")],
        "info": ["info", place],
        "stack": ["stack", str(tmp_path / "o.json"), f"{place}/*.tif"],
    }
    assert main(commands[door]) == 0
    said = capsys.readouterr().err
    assert "pictures are taken as t (3) x c (2), by the numbers in their names" in said
    expected = np.array([[GRID.index(f"img_t{t:02}_c{c}.tif") for c in (0, 1)] for t in (0, 2, 10)], "u1")
    if door == "pyramid":
        image = cw.open_multiscale(tmp_path / "o.zarr")
        assert [(axis.name, axis.type) for axis in image.axes][:2] == [("t", "time"), ("c", "channel")]
        np.testing.assert_array_equal(image.levels[0][..., 0, 0].read().result(), expected)
    elif door in ("stack", "cp"):
        out = cw.open(tmp_path / ("o.json" if door == "stack" else "o.zarr")).result()
        assert out.domain.labels == ("t", "c", "y", "x")
        np.testing.assert_array_equal(out[..., 0, 0].read().result(), expected)


def test_viewers_say_what_is_assumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(_pictures(tmp_path / "p", *GRID))
    bare = str(tmp_path / "a.zarr")
    cw.create_array(bare, np.ones((5, 40, 30), "uint16"))
    said = {
        place: "pictures are taken as t (3) x c (2)",
        bare: "the dimensions of the source are taken as z,y,x",
    }
    for path, note in said.items():
        assert note in cw.open_multiscale(path).assumed[0]
        reader = get_reader(path)
        assert reader is not None
        with pytest.warns(match=re.escape(note)):
            reader(path)
        with start(make_parser().parse_args(["serve", path]), [path]) as server:
            name = next(iter(server.sources))
            answer = urlopen(f"{server.url}api/image?path={name}").read()
            assert note in json.loads(answer)["image"]["metadata"]["assumed"]
        assert note in capsys.readouterr().err


def test_numbers_that_leave_doubts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = _pictures(tmp_path / "missing", *GRID[:-1])
    with pytest.raises(ValueError, match=r"t \(3\) x c \(2\), so some are missing"):
        cw.downsample_pyramid(missing, tmp_path / "o.zarr")
    several = _pictures(tmp_path / "several", "s1_z0.tif", "s1_z1.tif", "s2_z0.tif", "s2_z1.tif")
    with pytest.raises(ValueError, match="differ in several numbers"):
        cw.open_multiscale(several)
    for name, place in (("s", f"{several}/s1_*.tif"), ("z", f"{several}/*_z0.tif")):
        assert cw.open_multiscale(place).levels[0].shape == (2, 16, 12), name
    assert (
        main(["stack", str(tmp_path / "o.json"), f"{several}/*.tif", "--stack", "0", "--axes", "t,y,x"]) == 0
    )
    capsys.readouterr()
    assert cw.open_multiscale(tmp_path / "o.json").axes[0].type == "time"
    unknown = _pictures(tmp_path / "unknown", "20260101_001.tif", "20260101_002.tif", "20260102_001.tif")
    assert main(["pyramid", str(unknown), str(tmp_path / "u.zarr"), "--levels", "1"]) == 0
    assert "3 pictures are taken as planes along z: their names differ in several" in capsys.readouterr().err
    stamped = _pictures(tmp_path / "stamped", "z1_1707.tif", "z0_1833.tif", "z2_1904.tif")
    assert cw.open_multiscale(stamped).levels[0][:, 0, 0].read().result().tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("shape", "dtype", "names"),
    [
        ((40, 30), "uint8", "y,x"),
        ((20, 40, 30), "uint8", "z,y,x"),
        ((40, 30, 3), "uint8", "y,x,c"),
        ((40, 30, 4), "uint8", "y,x,c"),
        ((5, 40, 30, 3), "uint8", "z,y,x,c"),
        ((40, 30, 3), "uint16", "z,y,x"),
    ],
)
def test_axes_without_a_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shape: tuple[int, ...], dtype: str, names: str
) -> None:
    place, out = tmp_path / "a.zarr", tmp_path / "o.zarr"
    values = np.random.default_rng(0).integers(0, 99, shape).astype(dtype)
    cw.create_array(place, values, chunks=[16] * len(shape))
    assert [axis.name for axis in cw.open_multiscale(place).axes] == names.split(",")
    for how in ([], ["--dry-run"], ["--json"]):
        assert main(["pyramid", str(place), str(out), "--levels", "1", "--overwrite", *how]) == 0
        assert f"taken as {names}; --axes, or axes=, names them" in capsys.readouterr().err
    image = cw.open_multiscale(out)
    assert sorted(axis.name for axis in image.axes) == sorted(names.split(","))
    if "c" in names:  # colours are not averaged
        np.testing.assert_array_equal(image.levels[0].read().result(), np.moveaxis(values, -1, 0))
        assert image.levels[1].shape[0] == shape[-1]
    letters = "qzyx"[-len(shape) :] if len(shape) < 4 else "tzyx"
    assert main(["pyramid", str(place), str(out), "--axes", ",".join(letters), "--overwrite", "--json"]) == 0
    told = capsys.readouterr()
    assert "taken as" not in told.err and json.loads(told.out)["assumed"] == []
    assert [axis.name for axis in cw.open_multiscale(out).axes] == list(letters)


COLORS = [("red", "FF0000"), ("green", "00FF00"), ("blue", "0000FF")]


@pytest.mark.parametrize("kind", ["png", "jpg", "tif", "folder of png", "folder of tif", "array", "stack"])
def test_pixels_in_colour_keep_their_colours(tmp_path: Path, kind: str) -> None:
    """Red is red in the image, in views of it, and in a pyramid of it."""
    pixels = np.random.default_rng(1).integers(0, 256, (16, 12, 3)).astype("u1")

    def save(path: Path) -> str:
        if path.suffix == ".tif":
            tifffile.imwrite(path, pixels, photometric="rgb")
        else:
            pillow.fromarray(pixels).save(path)
        return str(path)

    if kind == "array":
        source: object = cw.array(pixels)
    elif kind == "stack":
        source = cw.stack([cw.open(save(tmp_path / name)).result() for name in ("a.png", "b.png")])
    elif kind.startswith("folder"):
        for number in range(2):
            (tmp_path / "in").mkdir(exist_ok=True)
            save(tmp_path / "in" / f"p{number}.{kind[-3:]}")
        source = str(tmp_path / "in")
    else:
        source = save(tmp_path / f"p.{kind}")
    image = cw.open_multiscale(source)
    assert [(channel.label, channel.color) for channel in image.channels] == COLORS
    assert [channel.label for channel in cw.open_multiscale(image.levels[0][..., ::-1]).channels] == [
        "blue", "green", "red",
    ]  # fmt: skip
    assert [channel.label for channel in cw.open_multiscale(image.levels[0][..., 1]).channels] == ["green"]
    cw.downsample_pyramid(source, tmp_path / "o.zarr", levels=1).result()
    made = cw.open_multiscale(tmp_path / "o.zarr")
    assert [(channel.label, channel.color) for channel in made.channels] == COLORS
    channel = [axis.name for axis in made.axes].index("c")
    values = np.moveaxis(made.levels[0].translate_to[0].read().result(), channel, -1)
    if kind == "jpg":
        pixels = np.asarray(pillow.open(str(source)))
    np.testing.assert_array_equal(values, np.broadcast_to(pixels, values.shape))


def test_bytes_that_are_no_pixels_have_no_colours(tmp_path: Path) -> None:
    named = cw.create_array(tmp_path / "a.zarr", np.zeros((8, 8, 3), "u1"), dimension_names=["z", "y", "x"])
    for array in (named, cw.array(np.zeros((8, 8, 3), "u2")), cw.array(np.zeros((8, 8, 5), "u1"))):
        assert cw.open_multiscale(array).channels == ()


VALUES = np.arange(3 * 6 * 8).reshape(3, 6, 8).astype("u2")
ADDED: dict[str, Any] = {  # views of z, y, x in Zarr, and the names of their dimensions
    "planes by number": (lambda a: a[[2, 0, 1]], "zyx"),
    "rows by number": (lambda a: a[:, [5, 0, 3]], "zyx"),
    "columns by number": (lambda a: a[:, :, [5, 0]], "zyx"),
    "some planes": (lambda a: a[np.array([True, False, True])], "zyx"),
    "one more in front": (lambda a: a[None], "czyx"),
    "one more behind": (lambda a: a[..., None], "zyxc"),
    "one plane": (lambda a: a[1][None], "zyx"),
    "turned": (lambda a: a.T, "xyz"),
    "turned, planes by number": (lambda a: a.T[:, :, [2, 0]], "xyz"),
    "one more, cast": (lambda a: cw.cast(a[None], "float32"), "czyx"),
    "one more, at half the size": (lambda a: cw.downsample(a[None], [1, 1, 2, 2], "mean"), "czyx"),
    "planes by number, at half the size": (lambda a: cw.downsample(a[[2, 0]], [1, 2, 2], "mean"), "zyx"),
    "points": (lambda a: a.vindex[[0, 1], [2, 3]], "yx"),
}


OF_N5 = {"zyx": "xyz", "xyz": "zyx", "yx": "xy"}


@pytest.mark.parametrize(
    ("name", "format"),
    [
        (name, format)
        for name in ADDED
        for format in ("zarr3", "n5")
        if format == "zarr3" or "one" not in name
    ],
)
def test_dimensions_of_views_have_the_names_of_those_that_they_show(
    name: str, format: str, tmp_path: Path
) -> None:
    """In N5 the other way round.  A new one, or one of numbers, is not next to the elements of a row."""
    view, names = ADDED[name]
    part = view(cw.create_array(tmp_path / "a", VALUES, format=format))
    image = cw.open_multiscale(part)
    assert "".join(axis.name for axis in image.axes) == (names if format == "zarr3" else OF_N5[names])
    assert (image.levels[0].read().result() == part.read().result()).all()


def test_numbers_written_in_two_ways_are_in_one_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever order the file system lists them in."""
    place = _pictures(tmp_path / "p", "img001.tif", "img01.tif", "img1.tif", "img2.tif")
    listdir, found = os.listdir, []
    for reverse in (False, True):
        monkeypatch.setattr(
            os, "listdir", lambda path, reverse=reverse: sorted(listdir(path), reverse=reverse)
        )
        found.append(cw.read(place)[:, 0, 0].tolist())
    assert found == [[0, 1, 2, 3]] * 2
