"""``slice``: regions as text, ``.npy`` and pictures."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_arrays import DRIVERS, Run, make
from PIL import Image

import chunkwise as cw

VALUES = np.arange(6 * 7 * 8, dtype="i4").reshape(6, 7, 8)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make(tmp_path / "a.zarr", "zarr3", VALUES, (4, 4, 4))
    return tmp_path / "a.zarr"


@pytest.mark.parametrize(
    ("region", "index"),
    [
        ("2:5,3,:", np.s_[2:5, 3, :]),
        ("[ 2:5 , 3 , : ]", np.s_[2:5, 3, :]),
        ("...,1", np.s_[..., 1]),
        ("5", np.s_[5]),
        ("::2, 1:7:3", np.s_[::2, 1:7:3]),
        ("1,2,3", np.s_[1, 2, 3]),
        ("...", np.s_[...]),
        ("3:3", np.s_[3:3]),
        ("::-1,0,0", np.s_[::-1, 0, 0]),
        ("-1", np.s_[-1]),
        ("-6,-1,-8", np.s_[-6, -1, -8]),
        ("-2:,:-1,-3:-1", np.s_[-2:, :-1, -3:-1]),
        ("-1:-4:-1,...,-1", np.s_[-1:-4:-1, ..., -1]),
        ("..., -5::2", np.s_[..., -5::2]),
    ],
)
def test_regions(run: Run, path: Path, region: str, index: object) -> None:
    result = run("slice", path, "--region", region, "--json")
    assert result.status == 0, result.err
    assert result.json["values"] == VALUES[index].tolist()  # type: ignore[index]


@pytest.mark.parametrize(
    "region", ["x", "1:2:3:4", "1,,2", "...,...", "1.5", "::0", "1;2", "0x10", "1,2,3,4"]
)
def test_malformed_regions(run: Run, path: Path, region: str) -> None:
    result = run("slice", path, "--region", region)
    assert result.status == 2 and "region" in result.err and not result.out


@pytest.mark.parametrize("region", ["6", "-7", "-7:", "0:9", "4:2"])
def test_regions_outside_the_array(run: Run, path: Path, region: str) -> None:
    result = run("slice", path, "--region", region)
    assert result.status == 1 and result.err.startswith("chunkwise: ") and not result.out


def test_negative_numbers_are_positions_where_there_are_some(run: Run, path: Path, tmp_path: Path) -> None:
    """In a view whose domain goes below 0, -1 is the element there and not the last one."""
    spec = {"driver": "zarr3", "kvstore": f"file://{path}/"}
    view = cw.open(spec).result()[:, 0, 0].translate_by[-2]
    (tmp_path / "view.json").write_text(json.dumps(view.spec().to_json()))
    assert run("slice", tmp_path / "view.json", "--region", "-1", "--json").json["values"] == VALUES[1, 0, 0]
    values = run("slice", tmp_path / "view.json", "--region", "-2:1", "--json").json["values"]
    assert values == VALUES[:3, 0, 0].tolist()


def test_printing(run: Run, path: Path) -> None:
    assert run("slice", path, "--region", "0,0,0:3").out == "[0 1 2]\n"
    assert run("slice", path, "--region", "1,1,1").out.strip() == str(VALUES[1, 1, 1])
    make(path.parent / "f", "zarr2", np.array([np.nan, -np.inf, 1.5]), (2,))
    assert run("slice", path.parent / "f", "--json").json["values"] == ["NaN", "-Infinity", 1.5]
    make(path.parent / "c", "zarr2", np.array([1 + 2j]), (2,))
    assert run("slice", path.parent / "c", "--json").json["values"] == [[1, 2]]


@pytest.mark.parametrize("format", list(DRIVERS))
def test_npy(run: Run, tmp_path: Path, format: str) -> None:
    make(tmp_path / "a", format, VALUES.astype("f4"), (4, 4, 4))
    out = tmp_path / "out.npy"
    assert run("slice", tmp_path / "a", "--region", "1:6,:,3", "--npy", out).status == 0
    found = np.load(out)
    assert found.dtype == "f4" and np.array_equal(found, VALUES[1:6, :, 3])
    assert run("slice", tmp_path / "a", "--region", "1,2,3", "--npy", out).status == 0
    assert np.load(out).shape == () and np.load(out) == VALUES[1, 2, 3]
    assert run("slice", tmp_path / "a", "--region", "1:1", "--npy", out).status == 0
    assert np.load(out).shape == (0, 7, 8)
    assert list(tmp_path.glob("*.part")) == []


def test_output_that_cannot_be_written(run: Run, path: Path) -> None:
    for option in ("--npy", "--png"):
        result = run("slice", path, "--region", "0", option, path.parent / "missing" / "x")
        assert result.status == 1 and "missing" in result.err


def picture(path: Path) -> np.ndarray:
    image = Image.open(path)
    image.verify()
    return np.array(Image.open(path))


def test_png_has_one_pixel_for_each_element(run: Run, path: Path) -> None:
    out = path.parent / "out.png"
    assert run("slice", path, "--region", "2", "--png", out, "--contrast", "0,100").status == 0
    pixels = picture(out)
    assert pixels.shape == (7, 8) and pixels.dtype == np.uint8
    values = VALUES[2].astype(float)
    expected = np.rint((values - values.min()) / (values.max() - values.min()) * 255)
    assert np.array_equal(pixels, expected)
    arguments = ["slice", path, "--region", "2", "--png", out, "--depth", "16", "--contrast", "0,100"]
    assert run(*arguments).status == 0
    assert np.abs(picture(out) / 257.0 - expected).max() <= 0.51


def test_n5_is_drawn_with_its_first_dimension_to_the_right(run: Run, tmp_path: Path) -> None:
    values = np.arange(12, dtype="u1").reshape(3, 4)
    make(tmp_path / "a.n5", "n5", values, (3, 4))
    make(tmp_path / "named.n5", "n5", values, (3, 4), metadata={"axes": ["y", "x"]})
    out = tmp_path / "out.png"
    run("slice", tmp_path / "a.n5", "--png", out, "--contrast", "0,100")
    assert picture(out).shape == (4, 3) and picture(out)[0, 2] > picture(out)[1, 0]
    run("slice", tmp_path / "named.n5", "--png", out)
    assert picture(out).shape == (3, 4)


def test_colours_stay_as_they_are(run: Run, tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 256, (5, 6, 3), "u1")
    make(tmp_path / "a", "zarr3", values, (5, 6, 3))
    assert run("slice", tmp_path / "a", "--png", tmp_path / "out.png").status == 0
    assert np.array_equal(picture(tmp_path / "out.png"), values)
    named = cw.open(str(tmp_path / "a")).result()
    assert named.shape == (5, 6, 3)


def test_not_a_number_is_black(run: Run, tmp_path: Path) -> None:
    values = np.linspace(0, 1, 20).reshape(4, 5)
    values[1, 1], values[2, 2] = np.nan, np.inf
    make(tmp_path / "a", "zarr3", values, (4, 5))
    run("slice", tmp_path / "a", "--png", tmp_path / "out.png", "--contrast", "0,100")
    pixels = picture(tmp_path / "out.png")
    assert pixels[1, 1] == 0 and pixels[2, 2] == 255 and pixels[0, 0] == 0 and pixels[3, 4] == 255


def test_orthogonal(run: Run, tmp_path: Path) -> None:
    z, y, x = np.ogrid[:20, :30, :40]
    values = ((x - 20) ** 2 + (y - 15) ** 2 + (2 * (z - 10)) ** 2 < 100).astype("u2") * 1000
    out = tmp_path / "out.png"
    options = {"domain": cw.IndexDomain(shape=values.shape, labels=["z", "y", "x"])}
    make(tmp_path / "a", "zarr3", values, (8, 8, 8), dimension_units=["2 um", "1 um", "1 um"], **options)
    assert run("slice", tmp_path / "a", "--orthogonal", "--png", out).status == 0
    pixels = picture(out)
    assert pixels.ndim == 3
    # The ball is round in physical units: each panel shows a disc as wide as it is high.
    white = (pixels > 200).all(axis=2)
    panel = white[32 : 32 + 315, 12 : 12 + 420]
    rows, columns = np.flatnonzero(panel.any(axis=1)), np.flatnonzero(panel[:250].any(axis=0))
    assert abs(len(columns) - np.count_nonzero(panel[:, columns.mean().astype(int) + 40])) < 40 and len(rows)
    # Titles, legend and scale bar are there; the letters that the font lacks don't change them.
    texts = pixels[:30, 12:432], pixels[380:460, 444:], pixels[32 + 285 : 32 + 315, 12 + 200 : 12 + 420]
    assert all((text > 120).any(axis=2).sum() > 100 for text in texts)
    micro = ["2 µm", "1 µm", "1 µm"]
    make(tmp_path / "a", "zarr3", values, (8, 8, 8), dimension_units=micro, delete_existing=True, **options)
    assert run("slice", tmp_path / "a", "--orthogonal", "--png", out).status == 0
    np.testing.assert_array_equal(picture(out), pixels)
    five = np.zeros((2, 3, 4, 5, 6), "u1")
    make(tmp_path / "five", "zarr3", five, (2, 3, 4, 5, 6))
    assert run("slice", tmp_path / "five", "--orthogonal", "--png", out).status == 0


@pytest.mark.parametrize(
    "options",
    [
        ["--orthogonal"],
        ["--png", "x.png"],
        ["--png", "x.png", "--region", "0,0"],
        ["--png", "x.png", "--orthogonal", "--region", "0"],
        ["--png", "x.png", "--region", "0", "--contrast", "5"],
        ["--png", "x.png", "--region", "0", "--contrast", "9,2"],
        ["--png", "x.png", "--npy", "y.npy"],
        ["--png", "x.png", "--region", "0,2:2"],
        ["--png", "x.png", "--region", "0", "--depth", "12"],
    ],
)
def test_wrong_options(run: Run, path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    monkeypatch.chdir(path.parent)
    assert run("slice", path, *options).status == 2
    assert not (path.parent / "x.png").exists()


def test_outliers_of_an_orthogonal_picture_are_white(run: Run, tmp_path: Path) -> None:
    values = np.zeros((6, 7, 5000))
    values[:, :, 1:] = np.arange(4999) / 4999
    values[3, 3, 399], values[3, 3, 600] = 1e300, np.nan
    make(tmp_path / "a", "zarr3", values, (6, 7, 5000))
    assert run("slice", tmp_path / "a", "--orthogonal", "--png", tmp_path / "out.png").status == 0
    row = picture(tmp_path / "out.png")[32 + 11, 12 : 12 + 420, 0]
    assert row[399 * 420 // 5000] == 255 and row[600 * 420 // 5000] == 0 and row[300 * 420 // 5000] < 60


def test_pictures_have_a_title(run: Run, path: Path) -> None:
    assert run("slice", path, "--region", "2", "--png", path.parent / "größer.png").status == 0
    with Image.open(path.parent / "größer.png") as image:
        assert image.text == {"Title": f"{path.parent.name}/{path.name}", "Software": "chunkwise"}  # type: ignore[attr-defined]


def test_colours_have_8_bits(run: Run, tmp_path: Path) -> None:
    make(tmp_path / "a", "zarr3", np.zeros((5, 6, 3), "u2"), (5, 6, 3))
    result = run("slice", tmp_path / "a", "--png", tmp_path / "out.png", "--depth", "16")
    assert result.status == 2 and "--depth of 8" in result.err
    assert run("slice", tmp_path / "a", "--png", tmp_path / "out.png").status == 0


def test_without_pillow_an_error_says_how_to_install_it(
    run: Run, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    result = run("slice", path, "--region", "2", "--png", path.parent / "out.png")
    assert result.status == 2 and not (path.parent / "out.png").exists()
    assert result.err == 'chunkwise: --png needs Pillow: pip install "chunkwise[cli]"\n'
    assert run("slice", path, "--region", "2", "--npy", path.parent / "out.npy").status == 0
