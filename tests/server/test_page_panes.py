"""The panes of the page in a real browser: colours of NaN, units, fitting, the fourth pane, lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driven_page import keep, pixels, show, wait

import chunkwise
from chunkwise.errors import InvalidArgumentError, UnsupportedError
from chunkwise.images.multiscale.sampling import NAN_COLOR
from chunkwise.images.server import tiles
from chunkwise.images.server.forms import draw_first_view, label_color
from chunkwise.images.server.image import image_of

BLOCKS = np.random.default_rng(5).integers(0, 255, (4, 5, 6)).astype("u1")  # each is 8 elements wide
VOLUME = BLOCKS.repeat(8, 0).repeat(8, 1).repeat(8, 2)

# The colours in the fourth pane at places of the box's plane, given in its own units, the middle being 0.
AT = """([per, points]) => {
    const canvas = document.getElementById('fourth'), context = canvas.getContext('2d');
    return points.map(([x, y]) => [...context.getImageData(
        Math.floor(canvas.width / 2 + x * per), Math.floor(canvas.height / 2 + y * per), 1, 1,
    ).data.slice(0, 3)]);
}"""


@pytest.mark.parametrize("dtype", ["float32", "complex64", "datetime64[ns]"])
def test_what_is_no_number_has_a_colour_that_the_legend_tells(tmp_path: Path, page: Any, dtype: str) -> None:
    values = np.arange(20 * 30).reshape(20, 30).astype("i8" if dtype[0] == "d" else dtype).astype(dtype)
    values[5:9, 3:20] = "NaT" if dtype[0] == "d" else np.nan
    array = chunkwise.create_array(tmp_path / "t" / "a", values, chunks=(20, 30))
    chunkwise.create_array(tmp_path / "t" / "whole", np.arange(600).reshape(20, 30).astype("u2"))
    with chunkwise.serve(tmp_path / "t") as server:
        show(page, server, "t/a", "&channels=1_ffffff_0_1000")
        keep(page, f"nan-{dtype}")
        found = pixels(page, 0, (20, 30))
        there = np.zeros((20, 30), bool)
        there[5:9, 3:20] = True
        there[10], there[:, 15] = False, False  # the crosshair
        assert (found[there] == NAN_COLOR).all()
        assert not (found[~np.isnan(values)] == NAN_COLOR).all(-1).any()
        legend = page.locator("#contrast .legend")
        assert legend.inner_text() == ("NaT: no time" if dtype[0] == "d" else "NaN: no number")
        show(page, server, "t/whole")
        assert legend.count() == 0
    picture = np.asarray(draw_first_view(image_of(array))[0])
    assert (picture == NAN_COLOR).all(-1).sum() > 4 * 17 * 50


def test_the_contrast_of_integers_is_whole_numbers(tmp_path: Path, page: Any) -> None:
    values = np.random.default_rng(0).integers(0, 4_000_000_000, (40, 50)).astype("u4")
    chunkwise.create_array(tmp_path / "a.zarr", values)
    with chunkwise.serve(tmp_path / "a.zarr") as server:
        show(page, server, "a.zarr")
        black, white = page.get_by_label("black in values"), page.get_by_label("white in values")
        low, high = np.percentile(values, (0.5, 99.8))
        assert (black.input_value(), white.input_value()) == (f"{np.floor(low):.0f}", f"{np.ceil(high):.0f}")
        black.fill("12.7")
        black.press("Enter")
        assert black.input_value() == "12"
        # The pane below a plane is the histogram, where the window can be dragged.
        keep(page, "histogram")
        box = page.locator("#fourth").bounding_box()
        half = box["x"] + (46 + box["width"] - 10) / 2, box["y"] + 60
        page.mouse.move(half[0] + 100, half[1])
        page.mouse.down()
        page.mouse.move(*half)
        page.mouse.up()
        wait(page)
        middle = (float(values.min()) + float(values.max())) / 2
        assert abs(float(white.input_value()) - middle) < 0.01 * values.max()
        assert float(white.input_value()).is_integer() and black.input_value() == "12"


def test_each_pane_fits_by_itself_and_units_are_written_as_people_do(tmp_path: Path, page: Any) -> None:
    values = np.ones((6, 120, 300), "u1")
    chunkwise.downsample_pyramid(
        chunkwise.array(values),
        tmp_path / "i.zarr",
        axes=list("zyx"),
        units=["2 um", "0.5 um", "0.5 um"],
        levels=0,
    ).result()
    used = """() => { const view = window.chunkwise.view; return view.panels.map((panel) => Math.max(
        view.shape[panel.across] * view.pixels(panel, 'across') / panel.canvas.clientWidth,
        view.shape[panel.down] * view.pixels(panel, 'down') / panel.canvas.clientHeight)); }"""
    with chunkwise.serve(tmp_path / "i.zarr") as server:
        show(page, server, "i.zarr")
        keep(page, "fitting")
        assert page.evaluate(used) == pytest.approx([0.94] * 3)
        captions = page.locator("figcaption").all_inner_texts()
        assert captions == [
            "xy at z 3 (6 µm)",
            "zy at x 150 (75 µm)",
            "xz at y 60 (30 µm), z stretched 1.6:1",
        ]
        sliders = page.locator("label:has(input[type=range])")  # which are in voxels, so without a unit
        assert [text.strip() for text in sliders.all_inner_texts()] == ["x", "y", "z"]
        page.keyboard.press("+")
        assert page.evaluate(used) == pytest.approx([0.94 * 1.25] * 3)
        page.keyboard.press("0")
        assert page.evaluate(used) == pytest.approx([0.94] * 3)


def _without_webgl(route: Any) -> None:
    """Answer with the script after one that takes WebGL away."""
    answer = route.fetch()
    before = (
        "const get = HTMLCanvasElement.prototype.getContext; HTMLCanvasElement.prototype.getContext = "
        "function (kind, ...more) { return kind === 'webgl2' ? null : get.call(this, kind, ...more); };"
    )
    route.fulfill(response=answer, body=before + answer.text())


@pytest.mark.parametrize("engine", ["webgl2", "plain"])
def test_the_fourth_pane_projects_a_volume(tmp_path: Path, page: Any, engine: str) -> None:
    if engine == "plain":
        page.route("**/main.js", _without_webgl)
    group = chunkwise.open_group(tmp_path / "t", "w")
    group.create_array("grey", VOLUME, chunks=(16, 16, 16))
    labels = chunkwise.array(np.where(VOLUME > 120, VOLUME, 0).astype("u8"))
    chunkwise.downsample_pyramid(
        labels, tmp_path / "t/labels", labels=True, levels=0, chunks=(16, 16, 16)
    ).result()
    depth, height, width = (8 * n for n in BLOCKS.shape)
    with chunkwise.serve(tmp_path / "t") as server:

        def seen(path: str, yaw: int, shape: tuple[int, int]) -> np.ndarray:
            more = "" if path == "labels" else "&channels=1_ffffff_0_255"
            # The crosshair is drawn above, where it isn't in the middle of a block.
            show(page, server, f"t/{path}", f"&turn={yaw},0,1&at=16,16,16{more}")
            keep(page, f"projection-{engine}-{path}-{yaw}")
            canvas = page.locator("#fourth").bounding_box()
            w, h = canvas["width"], canvas["height"]
            per = 0.98 * min(w, h) / float(np.hypot(np.hypot(depth, height), width))
            if engine == "plain":
                per = 0.94 * min(w / width, h / height)
            points = [
                (8 * c + 4 - 4 * shape[1], 8 * r + 4 - 4 * shape[0])
                for r in range(shape[0])
                for c in range(shape[1])
            ]
            return np.array(page.evaluate(AT, [per, points])).reshape(*shape, 3)

        wanted = BLOCKS.max(0)
        assert np.abs(seen("grey", 0, wanted.shape) - wanted[..., None].astype(int)).max() <= 1
        labels = np.where(BLOCKS > 120, BLOCKS, 0)
        first = np.take_along_axis(labels, (labels > 0).argmax(0)[None], 0)[0]
        colors = np.array([[label_color(int(n)) if n else (0, 0, 0) for n in row] for row in first])
        assert np.abs(seen("labels", 0, wanted.shape) - colors).max() <= 1
        if engine == "webgl2":  # from the side; x goes away from the eye
            wanted = BLOCKS.max(2).T[:, ::-1]
            assert np.abs(seen("grey", 90, wanted.shape) - wanted[..., None].astype(int)).max() <= 1
            page.locator("#fourth").focus()
            page.keyboard.press("ArrowRight")
            page.wait_for_function("location.hash.includes('turn=95%2C0%2C1')")


def test_values_along_a_line_and_under_the_pointer(tmp_path: Path, page: Any) -> None:
    values = np.random.default_rng(0).normal(0, 9, (30, 40, 50)).astype("f4")
    values[15, 20, 7] = np.nan
    chunkwise.create_array(tmp_path / "a.zarr", values, chunks=(10, 20, 25))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    line = "window.chunkwise?.fourth?.profile?.lines[0]?.values"
    with chunkwise.serve(tmp_path / "a.zarr") as server:
        show(page, server, "a.zarr")
        page.keyboard.press("l")  # at first through the crosshair
        page.wait_for_function(f"{line}?.length === 50")
        wait(page)
        keep(page, "line")
        found = page.evaluate(line)
        assert found[7] is None and np.allclose([n or 0 for n in found], np.nan_to_num(values[15, 20]))
        place = """([number, row, column]) => {
            const view = window.chunkwise.view, panel = view.panels[number];
            const box = panel.canvas.getBoundingClientRect();
            return [box.x + view.screen(panel, 'across', column + 0.5, panel.canvas.clientWidth),
                    box.y + view.screen(panel, 'down', row + 0.5, panel.canvas.clientHeight)]; }"""
        page.mouse.move(*page.evaluate(place, [2, 3, 4]))
        page.mouse.down()
        page.mouse.move(*page.evaluate(place, [2, 13, 24]), steps=3)
        page.mouse.up()
        page.wait_for_function(f"{line}?.length === 21")
        rows, columns = np.rint(np.linspace(3, 13, 21)).astype(int), np.arange(4, 25)
        assert np.allclose(page.evaluate(line), values[rows, 20, columns])
        page.wait_for_function("location.hash.includes('line=2%2C3%2C4%2C13%2C24')")
        url = page.url
        page.keyboard.press("l")
        assert page.evaluate("window.chunkwise.fourth.line") is None
        page.mouse.move(*page.evaluate(place, [0, 3, 4]))
        page.wait_for_function("document.getElementById('pointer').textContent.includes(' = ')")
        page.keyboard.press("v")
        page.wait_for_function("document.getElementById('message').textContent.startsWith('Copied')")
        assert page.evaluate("navigator.clipboard.readText()") == str(values[15, 3, 4])
        # Pages of other machines have no such clipboard.
        page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
        page.locator("#share").click()
        page.wait_for_function("document.getElementById('message').textContent.startsWith('The URL')")
        page.goto("about:blank")
        page.goto(url)
        page.wait_for_function(f"{line}?.length === 21")


def test_a_phone_has_no_empty_strip_and_all_buttons(tmp_path: Path, page: Any) -> None:
    chunkwise.create_array(tmp_path / "a.zarr", VOLUME)
    page.set_viewport_size({"width": 390, "height": 760})
    with chunkwise.serve(tmp_path / "a.zarr") as server:
        show(page, server, "a.zarr")
        header = page.locator("header").bounding_box()
        parts = [b for b in (one.bounding_box() for one in page.locator("header > *").all()) if b]
        assert len(parts) == page.locator("header > *:not(#pointer)").count()  # Share too, but nothing empty
        assert all(b["x"] >= 0 and b["x"] + b["width"] <= 390 for b in parts)
        bottom = max(b["y"] + b["height"] for b in parts)
        assert header["y"] + header["height"] - bottom < 10
        panes = [one.bounding_box() for one in page.locator("#panels figure").all()]
        assert len(panes) == 4 and max(b["y"] + b["height"] for b in panes) > 750
        before = panes[0]
        page.locator("#panel-0").click()
        page.wait_for_function("document.getElementById('pointer').textContent.includes(' = ')")
        assert page.locator("#panels figure").first.bounding_box() == before  # pictures don't jump


def test_volumes_are_made_small_and_lines_stay_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(size=(5, 3, 9, 7)).astype("f4")
    values[1, 0, 0, 0] = np.nan
    store = chunkwise.array(values)[chunkwise.d[:].label["x", "c", "y", "z"]]
    image = image_of(store)
    monkeypatch.setattr(tiles, "_MOST_VOXELS", 60)
    found = tiles.find_volume(image, [0, 2, 0, 0])
    voxels, whole = found.read(), values[:, 2].transpose(2, 1, 0)
    assert voxels.size <= 60
    for at, value in np.ndenumerate(voxels):
        part = whole[tuple(slice(i * f, (i + 1) * f) for i, f in zip(at, found.factors, strict=True))]
        assert value == np.nanmax(part)
    monkeypatch.setattr(tiles, "_MOST_READ", 200)
    with pytest.raises(UnsupportedError, match="315 elements, of at most 200"):
        tiles.find_volume(image, [0, 2, 0, 0])
    with pytest.raises(UnsupportedError, match="three dimensions"):
        tiles.find_volume(image_of(chunkwise.array(values[0, 0])), [0, 0])
    for at in ([0, 0, 0], [0, 3, 0, 0]):
        with pytest.raises(InvalidArgumentError, match="at"):
            tiles.find_volume(image, at)
    np.testing.assert_array_equal(
        tiles.find_line(store, (2, 0), [0, 1, 0, 6], [0, 4, 8, 0]).read(),
        values[np.rint(np.linspace(4, 0, 9)).astype(int), 1, np.arange(9), 6],
    )
    for dims, ends in (
        ((2, 0), [0, 0, 9, 0]),
        ((2, 0), [0, -1, 3, 0]),
        ((2, 2), [0, 0, 1, 1]),
        ((4, 0), [0, 0, 1, 1]),
    ):
        with pytest.raises(InvalidArgumentError, match=r"line|dims"):
            tiles.find_line(store, dims, [0, 1, 0, 6], ends)
