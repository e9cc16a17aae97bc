"""Tools of the page in a browser: labels, lengths, playing, colour maps, positions, pictures, loading."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driven_page import PIXELS, keep, pixels, show, wait

import chunkwise
from chunkwise.images.multiscale.sampling import contrast_of
from chunkwise.images.server.image import image_of
from chunkwise.images.server.tiles import find_labels

CROSS = "[...window.chunkwise.view.cross]"


def _image(place: Path, values: np.ndarray, **options: Any) -> None:
    chunkwise.downsample_pyramid(chunkwise.array(values), place, levels=0, **options).result()


def test_unread_parts_are_neither_black_nor_silent(tmp_path: Path, page: Any) -> None:
    chunkwise.create_array(tmp_path / "a.zarr", np.zeros((64, 64), "u1"), chunks=(64, 64))
    with chunkwise.serve(tmp_path / "a.zarr") as server:
        held: list[Any] = []
        page.route("**/api/tile*", lambda route: held.append(route))
        page.goto(f"{server.url}#path=a.zarr&channels=1_ffffff_0_200")
        page.locator("#loading").wait_for(state="visible")
        page.wait_for_function("window.chunkwise?.view?.tiles.asked.size")
        page.wait_for_function("document.getElementById('loading').textContent === 'Reading, 1 to come'")
        keep(page, "loading")
        seen = np.array(page.evaluate(PIXELS, [0, [[5, 5], [50, 20]]]))
        assert (seen.min(-1) > 40).all()
        held[0].continue_()
        wait(page)
        page.locator("#loading").wait_for(state="hidden")
        assert page.evaluate(PIXELS, [0, [[5, 5], [50, 20]]]) == [[0, 0, 0], [0, 0, 0]]


def test_one_hot_pixel_does_not_make_the_histogram_one_bar(tmp_path: Path, page: Any) -> None:
    values = np.random.default_rng(1).integers(200, 600, (100, 100)).astype("u2")
    values[3, 4] = 65_535
    known = contrast_of(chunkwise.array(values), {})
    assert known["range"][1] == 65_535 and known["span"][1] < 800
    assert np.count_nonzero(known["histogram"]) > 30
    assert contrast_of(chunkwise.array(values), {}, over=(0, 1000))["span"] == [0, 1250]
    chunkwise.create_array(tmp_path / "a.zarr", values)
    with chunkwise.serve(tmp_path / "a.zarr") as server:
        show(page, server, "a.zarr")
        channel = "window.chunkwise.view.channels[0]"
        assert page.evaluate(f"{channel}.histogram.filter((n) => n > 0).length") > 30
        page.get_by_label("white in values").fill("300")
        page.get_by_label("white in values").press("Enter")
        page.wait_for_function(f"{channel}.span[1] < 350 && {channel}.window[1] === 300")
        wait(page)
        before = page.locator("#fourth").screenshot()
        page.get_by_label("counts as logarithms").uncheck()
        page.wait_for_function("location.hash.includes('log=0')")
        wait(page)
        assert page.locator("#fourth").screenshot() != before
        keep(page, "hot-pixels")


def _labels() -> np.ndarray:
    labels = np.zeros((4, 40, 60), "u8")
    labels[:, :20, :30], labels[1:, 25:35, 40:50], labels[3, 38:, 58:] = 7, 2**63 + 5, 12
    return labels


@pytest.mark.parametrize("step", [1, 2])
def test_labels_are_listed_by_size_with_a_place_in_each(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    from chunkwise.images.server import tiles

    labels = _labels()
    monkeypatch.setattr(tiles, "_MOST_LABELLED", labels.size // (step**3 - (step > 1)))
    found = find_labels(image_of(chunkwise.array(labels)), [0, 0, 0]).read()
    names = [name for name, _, _ in found["labels"]]
    assert names[:2] == ["7", str(2**63 + 5)] and found["sampled"] == (step > 1)
    for name, part, at in found["labels"]:
        assert str(labels[tuple(at)]) == name and 0 < part < 1
    assert [
        row[0] for row in find_labels(image_of(chunkwise.array(labels)), [0, 0, 0], "7").read()["labels"]
    ] == ["7"]
    with pytest.raises(ValueError, match="number of a label"):
        find_labels(image_of(chunkwise.array(labels)), [0, 0, 0], "x")
    with pytest.raises(NotImplementedError, match="integers"):
        find_labels(image_of(chunkwise.array(np.zeros((3, 3)))), [0, 0])


def test_a_label_is_picked_from_the_list_and_by_key(tmp_path: Path, page: Any) -> None:
    labels = _labels()
    _image(tmp_path / "l.zarr", labels, axes=list("zyx"), labels=True)
    with chunkwise.serve(tmp_path / "l.zarr") as server:
        show(page, server, "l.zarr")
        whole = pixels(page, 0, (40, 60))
        page.get_by_text("List of labels").click()
        entry = page.locator(f".labels button[data-label='{2**63 + 5}']")
        entry.click()
        wait(page)
        assert labels[tuple(page.evaluate(CROSS))] == 2**63 + 5
        keep(page, "picked")
        seen = pixels(page, 0, (40, 60))
        assert (seen[27, 42] == whole[27, 42]).all() and (seen[5, 5] < whole[5, 5]).all()
        assert entry.get_attribute("aria-pressed") == "true"
        page.wait_for_function(f"location.hash.includes('label={2**63 + 5}')")
        page.locator("#panel-0").focus()
        page.keyboard.press("k")  # again: all
        page.wait_for_function("!location.hash.includes('label=')")
        wait(page)
        assert (pixels(page, 0, (40, 60))[5, 5] == whole[5, 5]).all()
        page.get_by_label("number of a label").fill("99")
        page.get_by_text("There is no label 99.").wait_for()


def test_a_line_tells_its_length_in_units(tmp_path: Path, page: Any) -> None:
    chunkwise.create_array(
        tmp_path / "a.zarr",
        np.zeros((30, 40), "u1"),
        dimension_names=["y", "x"],
        dimension_units=["2 um", "2 um"],
    )
    with chunkwise.serve(tmp_path / "a.zarr") as server:
        show(page, server, "a.zarr", "&line=0,3,4,6,8")
        length = "((v) => v.length(v.panels[0], window.chunkwise.fourth.line.ends))(window.chunkwise.view)"
        assert page.evaluate(length) == [10.0, "µm"]
        keep(page, "length")


def test_positions_are_played_and_gone_to(tmp_path: Path, page: Any) -> None:
    values = np.zeros((5, 30, 40), "u1")
    names = {"dimension_names": ["t", "y", "x"], "dimension_units": ["0.5 s", "2 um", "2 um"]}
    chunkwise.create_array(tmp_path / "a.zarr", values, **names)
    with chunkwise.serve(tmp_path / "a.zarr") as server:
        show(page, server, "a.zarr", "&at=0,0,0&as=planes")
        button = page.get_by_label("play through t")
        button.click()
        for t in (1, 3, 0):  # and from the beginning again
            page.wait_for_function(f"window.chunkwise.view.cross[0] === {t}")
        button.click()
        assert button.get_attribute("aria-pressed") == "false"
        for text, wanted in (
            ("4, 3, 2", [4, 3, 2]),
            ("t = 1.5 s; x=0.02 mm", [3, 3, 10]),
            ("y=40um, t=500 ms", [1, 20, 10]),
        ):
            page.keyboard.press("j")
            page.keyboard.type(text)
            page.keyboard.press("Enter")
            page.wait_for_function(f"String({CROSS}) === '{','.join(map(str, wanted))}'")
            page.keyboard.press("Escape")
        for text, wrong in (
            ("1, 2", "expected 3 numbers"),
            ("q=1", "there is no axis q"),
            ("t=5", "t goes from 0 to 4"),
            ("t=1 um", "t has the unit s"),
            ("x=a", "expected a number"),
        ):
            page.locator("#jump").fill(text)
            page.locator("#jump").press("Enter")
            page.wait_for_function(f"document.getElementById('message').textContent.includes({wrong!r})")
            assert page.evaluate(CROSS) == [1, 20, 10]


def test_a_colour_map_colours_slices_and_projection(tmp_path: Path, page: Any) -> None:
    values = np.zeros((8, 16, 16), "u1")
    values[:, :, 8:] = 200
    chunkwise.create_array(tmp_path / "a.zarr", values)
    with chunkwise.serve(tmp_path / "a.zarr") as server:
        show(page, server, "a.zarr", "&channels=1_ffffff_0_200&turn=0,0,1")
        page.get_by_label("colour map of values").select_option("viridis")
        page.wait_for_function("location.hash.includes('channels=1_viridis_0_200')")
        wait(page)
        dark, bright = [0x44, 0x01, 0x54], [0xFD, 0xE7, 0x25]
        assert page.evaluate(PIXELS, [0, [[2, 2], [2, 12]]]) == [dark, bright]
        middle = (
            "((c, d) => [0.4, 0.6].map((x) => [...d.getImageData(c.width * x, c.height / 2 + 9, 1, 1).data]))"
            "(document.getElementById('fourth'), document.getElementById('fourth').getContext('2d'))"
        )
        found = np.array(page.evaluate(middle))[:, :3]
        np.testing.assert_allclose(found, [dark, bright], atol=4)
        url = page.url
        page.goto("about:blank")
        page.goto(url)
        wait(page)
        assert page.evaluate(PIXELS, [0, [[2, 12]]]) == [bright]
        keep(page, "viridis")


def test_a_picture_of_the_panes_is_saved(tmp_path: Path, page: Any) -> None:
    from PIL import Image

    values = np.full((8, 40, 60), 100, "u1")
    chunkwise.create_array(tmp_path / "a.zarr", values)
    with chunkwise.serve(tmp_path / "a.zarr") as server:
        show(page, server, "a.zarr", "&channels=1_ff0000_0_100")
        with page.expect_download() as got:
            page.keyboard.press("i")
        assert got.value.suggested_filename == "a.zarr.png"
        got.value.save_as(tmp_path / "o.png")
    picture = np.asarray(Image.open(io.BytesIO((tmp_path / "o.png").read_bytes())).convert("RGB"))
    assert (picture == (255, 0, 0)).all(-1).mean() > 0.2
    box = page.locator("#panels").bounding_box()
    assert picture.shape[1] == round(box["width"])
