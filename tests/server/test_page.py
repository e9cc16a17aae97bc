"""The page in a real browser: its pixels are the array's, and keyboard, wheel, grid and URL do what they say.

Debian's chromium is driven by playwright.  Where it is missing, the tests fail: a page that nobody opened is
not tested.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from driven_page import PIXELS, keep, pixels, show, wait
from served_data import CHUNKS, DTYPES, FORMATS, SHAPE, has_dtype, write_array, write_tree

import chunkwise
from chunkwise.images.server.forms import label_color


# A chunk is decoded by the server; only the order of axes is N5's own.
@pytest.mark.parametrize(
    "format", [pytest.param(f, marks=() if f in ("zarr3", "n5") else pytest.mark.slow) for f in FORMATS]
)
def test_pixels_are_those_of_the_array(tmp_path: Path, page: Any, format: str) -> None:
    written = write_tree(tmp_path / "tree", format)
    z, y, x = (0, 1, 2) if format != "n5" else (2, 1, 0)
    at = [SHAPE[0] // 2, SHAPE[1] // 2, SHAPE[2] // 2]
    with chunkwise.serve(tmp_path / "tree") as server:
        for dtype in (t for t in DTYPES if has_dtype(format, t)):
            values = written[dtype].transpose(z, y, x)
            middle = values[at[z]]
            limits = np.finfo("f4") if dtype.startswith("float") else None
            low, high = (-100.0, 200.0) if limits else (0.0, float(max(1, int(values.max()) // 2)))
            window = quote(f"{low!r}_{high!r}")  # a plus sign in a URL would be a space
            show(page, server, f"tree/{dtype}", f"&channels=1_ffffff_{window}")
            keep(page, f"{format}-{dtype}")
            seen = pixels(page, 0, middle.shape)
            grey = np.clip((middle.astype("f8") - low) / (high - low), 0, 1) * 255
            wanted = np.repeat(np.floor(grey + 0.5)[..., None], 3, -1)
            # Crosshair, caption and scale bar are drawn above.
            differs = np.abs(seen - wanted).max(-1) > 1
            row, column = SHAPE[y] // 2, SHAPE[x] // 2
            differs[row], differs[:, column] = False, False
            assert differs.mean() < 0.02, (dtype, differs.sum())


def test_keyboard_wheel_and_the_url(tmp_path: Path, page: Any) -> None:
    values = np.arange(30 * 40 * 50, dtype="u2").reshape(30, 40, 50)
    chunkwise.create_array(tmp_path / "a.zarr", values, chunks=(10, 20, 25))
    with chunkwise.serve(tmp_path / "a.zarr") as server:
        show(page, server, "a.zarr")
        cross = lambda: page.evaluate("window.chunkwise.view.cross")  # noqa: E731
        zoom = lambda: page.evaluate("window.chunkwise.view.zoom")  # noqa: E731
        assert cross() == [15, 20, 25]
        page.keyboard.press("1")
        for key in ("ArrowRight", "ArrowDown", "ArrowDown", "PageUp", "Shift+ArrowLeft"):
            page.keyboard.press(key)
        assert cross() == [14, 22, 16]
        told = "document.getElementById('pointer').textContent"
        page.wait_for_function(f"{told}.endsWith('= {values[14, 22, 16]}')")
        page.keyboard.press("2")  # its columns are z
        page.keyboard.press("ArrowRight")
        assert cross() == [15, 22, 16]
        before = zoom()
        page.keyboard.press("+")
        assert zoom() == pytest.approx(1.25 * before)
        page.keyboard.press("0")
        assert zoom() == pytest.approx(before)
        box = page.locator("#panel-0").bounding_box()
        page.mouse.move(box["x"] + 100, box["y"] + 100)
        width = "v.panels[0].canvas.clientWidth"
        under = f"((v) => v.position(v.panels[0], 'across', 100, {width}))(window.chunkwise.view)"
        held = page.evaluate(under)
        page.mouse.wheel(0, -300)
        page.wait_for_function(f"window.chunkwise.view.zoom > {before * 1.1}")
        assert page.evaluate(under) == pytest.approx(held, abs=0.1)  # what is under the pointer stays there
        page.keyboard.press("g")
        wait(page)
        zoomed = "`zoom=${Number(window.chunkwise.view.zoom.toPrecision(5))}&`"
        for part in ("'grid=1'", "'at=15%2C22%2C16'", zoomed):
            page.wait_for_function(f"location.hash.includes({part})")
        url = page.url
        keep(page, "zoomed")
        state = "((v) => [v.cross, v.center, v.zoom, v.grid])(window.chunkwise.view)"
        wanted = page.evaluate(state)
        page.goto("about:blank")
        page.goto(url)
        wait(page)
        found = page.evaluate(state)
        assert found[0] == wanted[0] and found[3] is True
        assert found[1] == pytest.approx(wanted[1], abs=0.01)
        assert found[2] == pytest.approx(wanted[2], rel=1e-4)


def test_chunk_grid_damaged_and_missing_chunks(tmp_path: Path, page: Any) -> None:
    values = np.full((1, 40, 60), 200, "u1")
    chunkwise.create_array(tmp_path / "a.zarr", values, chunks=(1, 20, 20), codec="bz2")
    (tmp_path / "a.zarr/c/0/0/1").write_bytes(b"damaged")
    (tmp_path / "a.zarr/c/0/1/2").unlink()
    with chunkwise.serve(tmp_path / "a.zarr") as server:
        show(page, server, "a.zarr", "&channels=1_ffffff_0_200&grid=1")
        keep(page, "damaged")
        assert "c/0/0/1" in page.locator("#problems").inner_text()
        chunks = page.evaluate("window.chunkwise.view.panels[0].chunks.chunks")
        assert {c["key"]: c["size"] is None for c in chunks} == {
            f"c/0/{i}/{j}": (i, j) == (1, 2) for i in (0, 1) for j in (0, 1, 2)
        }
        assert next(c for c in chunks if c["key"] == "c/0/0/1")["size"] == 7
        seen = pixels(page, 0, (40, 60))
        assert (seen[25, 5] == 255).all()  # the rest goes on
        assert seen[10, 30, 0] > seen[10, 30, 1] + 40  # red


def test_levels_follow_the_zoom_and_channels_add_up(tmp_path: Path, page: Any) -> None:
    image = np.zeros((2, 512, 512), "u1")
    image[0, :, :256], image[1, 128:, :] = 200, 100
    source = chunkwise.array(image)
    chunkwise.downsample_pyramid(source, tmp_path / "i.zarr", axes=list("cyx"), chunks=(1, 64, 64)).result()
    with chunkwise.serve(tmp_path / "i.zarr") as server:
        show(page, server, "i.zarr", "&channels=1_ff0000_0_200,1_00ff00_0_200&zoom=0.24")
        keep(page, "channels")
        level = page.evaluate("window.chunkwise.view.panels[0].level")
        assert level > 0
        seen = page.evaluate(PIXELS, [0, [[64, 64], [300, 64], [300, 400]]])
        assert seen == [[255, 0, 0], [255, 128, 0], [0, 128, 0]]
        page.keyboard.press("1")
        for _ in range(10):
            page.keyboard.press("+")
        wait(page)
        assert page.evaluate("window.chunkwise.view.panels[0].level") == 0


def test_labels_are_drawn_above_their_image(tmp_path: Path, page: Any) -> None:
    image = np.full((4, 64, 64), 100, "u1")
    chunkwise.downsample_pyramid(
        chunkwise.array(image), tmp_path / "i.zarr", axes=list("zyx"), chunks=(1, 32, 32), levels=2
    ).result()
    labels = np.zeros((4, 32, 32), "u4")  # half the resolution of the image
    labels[:, 8:16, 8:24] = 7
    labels[:, 24:, 24:] = 9  # which has a colour in the metadata
    coarse = np.repeat(np.repeat(labels, 2, 1), 2, 2)
    group = chunkwise.open_group(tmp_path / "i.zarr/labels", "w")
    group.attrs["ome"] = {"version": "0.5", "labels": ["cells"]}
    cells = group.create_group("cells")
    cells.create_array("0", labels, chunks=(1, 32, 32))
    scale = [
        {"type": "scale", "scale": [1.0, 2.0, 2.0]},
        {"type": "translation", "translation": [0.0, 0.5, 0.5]},
    ]
    axes = [{"name": name, "type": "space"} for name in "zyx"]
    one = {"axes": axes, "datasets": [{"path": "0", "coordinateTransformations": scale}]}
    cells.attrs["ome"] = {
        "version": "0.5",
        "multiscales": [one],
        "image-label": {
            "source": {"image": "../../"},
            "colors": [{"label-value": 9, "rgba": [9, 99, 199, 255]}],
        },
    }
    with chunkwise.serve(tmp_path / "i.zarr") as server:
        show(page, server, "i.zarr", "&channels=1_ffffff_0_200&overlay=cells&opacity=0.5")
        keep(page, "overlay")
        seen = pixels(page, 0, (64, 64))
        grey, color = np.array([128, 128, 128]), np.array(label_color(7))
        wanted = np.where(coarse[2][..., None] == 7, (grey + color) / 2, grey)
        wanted = np.where(coarse[2][..., None] == 9, (grey + np.array([9, 99, 199])) / 2, wanted)
        differs = np.abs(seen - wanted).max(-1) > 2
        differs[32], differs[:, 32] = False, False
        assert differs.mean() < 0.02
        box = page.get_by_label("labels cells above the image")
        assert box.is_checked()
        page.keyboard.press("1")
        page.keyboard.press("ArrowLeft")
        page.wait_for_function("document.getElementById('pointer').textContent.includes('cells ')")
        box.uncheck()
        wait(page)
        differs = np.abs(pixels(page, 0, (64, 64)) - grey).max(-1) > 2
        differs[32], differs[:, 31:33] = False, False
        assert differs.mean() < 0.02
        page.wait_for_function("!location.hash.includes('overlay')")


def test_the_tree_is_searched_and_chosen_from_by_keyboard_on_a_phone(tmp_path: Path, page: Any) -> None:
    group = chunkwise.open_group(tmp_path / "t", "w")
    for name in ("em/raw", "em/mask", "light/gfp"):
        group.create_array(name, np.ones((8, 9, 10), "u1"))
    page.set_viewport_size({"width": 390, "height": 760})
    with chunkwise.serve(tmp_path / "t") as server:
        show(page, server, "t/em/raw")
        keep(page, "phone")
        assert page.locator("#panels canvas").count() == 4
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.keyboard.press("/")
        page.keyboard.type("light")
        assert page.locator("#tree li:visible").count() == 2
        page.keyboard.press("Tab")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        page.locator("#tree li[data-path='t/light/gfp']").wait_for(state="attached")
        page.locator("#search").fill("gfp")
        page.locator("#tree button:visible", has_text="gfp").focus()
        page.keyboard.press("Enter")
        page.wait_for_function("window.chunkwise.view && window.chunkwise.view.path === 't/light/gfp'")


@pytest.mark.parametrize(
    "format", [f if f in ("zarr3", "n5") else pytest.param(f, marks=pytest.mark.slow) for f in FORMATS]
)
def test_neuroglancer_shows_what_is_served(tmp_path: Path, page: Any, format: str) -> None:
    import neuroglancer

    dtypes = [t for t in DTYPES if has_dtype(format, t)]
    halves = {t: (0, 1) if t == "bool" else (25, 75) for t in dtypes}
    for dtype in dtypes:
        values = np.full((32, 32, 32), halves[dtype][0], dtype)
        x = slice(16, None)
        values[(x, ...) if format in ("n5", "zarr3") else (..., x)] = halves[dtype][1]
        write_array(tmp_path / "tree", format, dtype, values)
    with chunkwise.serve(tmp_path / "tree") as server:
        neuroglancer.set_server_bind_address("127.0.0.1")
        viewer = neuroglancer.Viewer()
        space = "precomputed" if format != "zarr3" else "viewer"
        scheme = "precomputed" if format != "zarr3" else "zarr3"
        with viewer.txn() as state:
            for dtype in dtypes:
                most = 1 if dtype == "bool" else 100
                control = f"#uicontrol invlerp normalized(range=[0, {most}])\n"
                state.layers[dtype] = neuroglancer.ImageLayer(
                    source=f"{scheme}://{server.url}{space}/tree/{dtype}",
                    shader=control + "void main() { emitGrayscale(normalized()); }",
                )
            panels = [neuroglancer.LayerGroupViewer(layers=[t], layout="xy") for t in dtypes]
            rows = [neuroglancer.row_layout(panels[at : at + 4]) for at in range(0, len(panels), 4)]
            state.layout = neuroglancer.column_layout(rows)
            state.show_axis_lines = state.show_scale_bar = False
        page.goto(viewer.get_viewer_url())
        wanted = [[0, 255] if t == "bool" else [64, 191] for t in dtypes]
        seen: Any = None
        for _ in range(80):
            seen = _sides(page, len(dtypes))
            if seen is not None and np.abs(np.array(seen) - wanted).max() <= 2:
                break
            page.wait_for_timeout(250)
        keep(page, f"neuroglancer-{format}")
        neuroglancer.stop()
        assert seen is not None, "neuroglancer shows no panels"
        assert dict(zip(dtypes, seen, strict=True)) == {
            t: pytest.approx(two, abs=2) for t, two in zip(dtypes, wanted, strict=True)
        }


def _sides(page: Any, n: int) -> list[list[int]] | None:
    """Return the grey left and right of the middle of each panel; None before all panels are there."""
    from io import BytesIO

    from PIL import Image

    panels = page.locator(".neuroglancer-rendered-data-panel").all()
    if len(panels) != n:
        return None
    picture = Image.open(BytesIO(page.screenshot())).convert("L")
    out = []
    for panel in panels:
        box = panel.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        out.append([int(picture.getpixel((int(x + side), int(y + 6)))) for side in (-8, 8)])
    return out


def test_the_first_view_is_drawn_without_a_browser(tmp_path: Path) -> None:
    from PIL import Image

    from chunkwise.cli.main import main

    values = np.zeros((30, 40, 50), "u1")
    values[:, :, 30:] = 255
    chunkwise.create_array(tmp_path / "a.zarr", values, chunks=CHUNKS)
    assert main(["view", str(tmp_path / "a.zarr"), "--headless", str(tmp_path / "o.png")]) == 0
    picture = np.asarray(Image.open(tmp_path / "o.png"))
    top = picture[22 + 100]  # a row of the first slice, 420 pixels for 50 elements
    assert top[10 + 100].tolist() == [0, 0, 0]
    assert top[10 + 400].tolist() == [255, 255, 255]
    assert main(["view", str(tmp_path / "a.zarr"), "--headless", str(tmp_path / "o.jpg")]) == 1
    assert not (tmp_path / "o.jpg").exists()


def test_the_search_finds_what_the_tree_has_not_opened(tmp_path: Path, page: Any) -> None:
    group = chunkwise.open_group(tmp_path / "t", "w")
    group.create_array("a/b/c/deep", np.ones((8, 9), "u1"))
    group.create_array("a/b/other", np.ones((8, 9), "u1"))
    with chunkwise.serve(tmp_path / "t") as server:
        show(page, server, "t/a/b/other")
        page.keyboard.press("/")
        page.keyboard.type("DEEP")
        page.locator("#found button").wait_for()
        assert page.locator("#found button").all_inner_texts() == ["t/a/b/c/deep 8×9 uint8"]
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_function("window.chunkwise.view?.path === 't/a/b/c/deep'")
        page.locator("#search").fill("")
        page.locator("#tree li[data-path='t/a/b/c/deep'] > button[aria-current='true']").wait_for()
