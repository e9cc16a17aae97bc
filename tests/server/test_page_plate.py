"""The page of a plate in a real browser: wells, fields, labels above them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from driven_page import PLATE_IDLE, keep, wait
from tests.trace_store import TraceStore

import chunkwise
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.images.server.answer import Computed
from chunkwise.images.server.forms import label_color
from chunkwise.images.server.page_api import page_content
from chunkwise.images.server.sources import sources_of


def _write_plate(place: Path) -> None:
    """Write a plate of 2 by 3 wells, of which one is empty and one damaged, with 2 fields of 2 channels."""
    names = ["A/1", "A/2", "A/3", "B/1", "B/3"]
    rows, columns = [{"name": n} for n in "AB"], [{"name": n} for n in "123"]
    wells = [{"path": n, "rowIndex": "AB".index(n[0]), "columnIndex": int(n[2]) - 1} for n in names]
    plate = {"rows": rows, "columns": columns, "wells": wells, "field_count": 2, "name": "screen"}
    group = chunkwise.open_group(place, "w")
    group.attrs["ome"] = {"version": "0.5", "plate": plate}
    for number, name in enumerate(names):
        well = group.create_group(name)
        well.attrs["ome"] = {"version": "0.5", "well": {"images": [{"path": "first"}, {"path": "2"}]}}
        for field, factor in (("first", 1), ("2", 2)):
            image = np.zeros((2, 64, 64), "u1")
            image[0, :, :32], image[1, 32:] = 20 * (number + 1) * factor, 100
            chunkwise.downsample_pyramid(
                chunkwise.array(image), place / name / field, axes=list("cyx"), chunks=(1, 64, 64), levels=0
            ).result()
    (place / "A/3/first/0/c/0/0/0").write_bytes(b"damaged")


_WELL = """(path) => {
    const canvas = window.chunkwise.plate.wells.get(path).canvas, context = canvas.getContext('2d');
    const n = canvas.width;
    return [[1, 1], [1, n - 2], [n - 2, 1], [n - 2, n - 2]].map(
        ([r, c]) => [...context.getImageData(c, r, 1, 1).data.slice(0, 3)]);
}"""


def test_a_plate_is_a_grid_of_wells_with_fields_by_name(tmp_path: Path, page: Any) -> None:
    _write_plate(tmp_path / "p.zarr")
    with chunkwise.serve(tmp_path / "p.zarr") as server:
        page.goto(f"{server.url}#path=p.zarr&channels=1_ff0000_0_200,1_00ff00_0_200")
        page.wait_for_function(PLATE_IDLE)
        keep(page, "plate")
        assert page.get_by_role("gridcell").count() == 5
        for number, name in enumerate(("A/1", "A/2", None, "B/1", "B/3"), 1):
            if name is not None:
                red = round(20 * number / 200 * 255)
                quarters = [[red, 0, 0], [0, 0, 0], [red, 128, 0], [0, 128, 0]]
                assert np.abs(np.array(page.evaluate(_WELL, name)) - quarters).max() <= 1, name
        assert "A/3" in page.locator("#problems").inner_text()
        assert page.locator(".wells p").all_inner_texts() == [
            "not in the plate: 1",
            "can't be read whole: 1",
        ]
        assert page.locator(".plate .none").get_attribute("title") == "B/2 is not in the plate"
        page.get_by_label("show channel 1").uncheck()
        page.wait_for_function(PLATE_IDLE)
        assert page.evaluate(_WELL, "B/1")[3] == [0, 0, 0]
        page.locator("#sliders select").select_option("2")
        page.wait_for_function(PLATE_IDLE)
        page.wait_for_function(f"({_WELL})('B/1')[0][0] === {round(160 / 200 * 255)}")
        assert page.locator("#problems").is_hidden()  # what is damaged is the first field
        page.wait_for_function("location.hash.includes('field=2')")
        # By keyboard: from A/3 past the empty well to B/3, open it, change the field, go back.
        page.get_by_role("gridcell", name="well A/2").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowLeft")
        assert page.evaluate("document.activeElement.dataset.well") == "B/1"
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        page.wait_for_function("window.chunkwise.view?.path === 'p.zarr/B/3/2'")
        page.wait_for_function("document.activeElement.id === 'panel-0'")
        wait(page)
        assert not page.get_by_label("show channel 1").is_checked()  # as it was on the plate
        page.get_by_label("field of view").select_option("first")
        page.wait_for_function("window.chunkwise.view?.path === 'p.zarr/B/3/first'")
        wait(page)
        page.locator("#panel-0").focus()
        page.keyboard.press("p")
        page.wait_for_function(PLATE_IDLE)
        page.wait_for_function("document.activeElement.dataset.well === 'B/3'")
        page.goto(f"{server.url}#path=p.zarr/A/1")  # a well is its first field
        page.wait_for_function("window.chunkwise.view?.path === 'p.zarr/A/1/first'")


def _write_cells(place: Path) -> np.ndarray:
    """Write labels, at half the resolution, that begin at (16, 16); one number has a colour."""
    labels = np.zeros((24, 24), "u4")
    labels[:12, :12], labels[12:, 12:] = 7, 9
    group = chunkwise.open_group(place / "labels", "w")
    group.attrs["ome"] = {"version": "0.5", "labels": ["cells"]}
    cells = group.create_group("cells")
    cells.create_array("0", labels, chunks=(24, 24))
    transformations = [
        {"type": "scale", "scale": [2.0, 2.0]},
        {"type": "translation", "translation": [16.5, 16.5]},
    ]
    axes = [{"name": name, "type": "space"} for name in "yx"]
    one = {"axes": axes, "datasets": [{"path": "0", "coordinateTransformations": transformations}]}
    colors = [{"label-value": 9, "rgba": [9, 99, 199, 255]}]
    cells.attrs["ome"] = {"version": "0.5", "multiscales": [one], "image-label": {"colors": colors}}
    whole = np.zeros((64, 64), "u4")
    whole[16:, 16:] = np.repeat(np.repeat(labels, 2, 0), 2, 1)
    return whole


_CANVAS = """(path) => {
    const canvas = window.chunkwise.plate.wells.get(path).canvas, context = canvas.getContext('2d');
    return [canvas.height, canvas.width, [...context.getImageData(0, 0, canvas.width, canvas.height).data]];
}"""


def _canvas(page: Any, well: str) -> np.ndarray:
    rows, columns, data = page.evaluate(_CANVAS, well)
    return np.array(data).reshape(rows, columns, 4)[..., :3]


def test_labels_are_drawn_above_the_wells_of_a_plate(tmp_path: Path, page: Any) -> None:
    _write_plate(tmp_path / "p.zarr")
    whole = _write_cells(tmp_path / "p.zarr/A/2/first")  # the first well has none
    _write_cells(tmp_path / "p.zarr/B/1/first")
    _write_cells(tmp_path / "p.zarr/B/3/first")
    (tmp_path / "p.zarr/B/3/first/labels/cells/0/c/0/0").write_bytes(b"damaged")
    with chunkwise.serve(tmp_path / "p.zarr") as server:
        page.goto(
            f"{server.url}#path=p.zarr&channels=1_ff0000_0_200,0_00ff00_0_200&overlay=cells&opacity=0.25"
        )
        page.wait_for_function(PLATE_IDLE)
        keep(page, "plate-labels")
        for number, well in ((2, "A/2"), (4, "B/1")):
            image = np.zeros((64, 64, 3))
            image[:, :32, 0] = round(20 * number / 200 * 255)
            wanted = np.where(whole[..., None] == 7, 0.75 * image + 0.25 * np.array(label_color(7)), image)
            wanted = np.where(whole[..., None] == 9, 0.75 * image + 0.25 * np.array([9, 99, 199]), wanted)
            assert np.abs(_canvas(page, well) - wanted).max() <= 2, well
        assert _canvas(page, "A/1")[40, 40].tolist() == [0, 0, 0]  # it has no labels, which is no problem
        problems = page.locator("#problems").inner_text()
        assert "A/1" not in problems and "B/3: " in problems
        # The pointer tells the values of both, in full resolution.
        box = page.locator("[data-well='B/1'] canvas").bounding_box()
        page.mouse.move(box["x"] + box["width"] * 20.5 / 64, box["y"] + box["height"] * 18.5 / 64)
        told = "document.getElementById('pointer').textContent"
        page.wait_for_function(f"{told} === 'B/1 at 18, 20 = 80; cells 7'")
        page.mouse.move(box["x"] + box["width"] * 4.5 / 64, box["y"] + box["height"] * 18.5 / 64)
        page.wait_for_function(f"{told} === 'B/1 at 18, 4 = 80; cells -'")
        page.get_by_label("opacity of labels").fill("1")
        page.wait_for_function(PLATE_IDLE)
        assert _canvas(page, "A/2")[50, 50].tolist() == [9, 99, 199]
        page.wait_for_function(
            "location.hash.includes('opacity=1') && location.hash.includes('overlay=cells')"
        )
        # They stay where a well is opened, and on the way back.
        page.locator("[data-well='A/2']").click()
        page.wait_for_function("window.chunkwise.view?.path === 'p.zarr/A/2/first'")
        wait(page)
        assert page.evaluate("window.chunkwise.view.overlays.map((o) => o.label)") == ["cells"]
        page.keyboard.press("p")
        page.wait_for_function(PLATE_IDLE)
        box = page.get_by_label("labels cells above the image")
        assert box.is_checked()
        box.uncheck()
        page.wait_for_function(PLATE_IDLE)
        assert _canvas(page, "A/2")[50, 50].tolist() == [0, 0, 0]
        assert "B/3" not in page.locator("#problems").inner_text()


def test_a_well_costs_the_store_six_requests(tmp_path: Path) -> None:
    """The documents of well, field, first and shown level, and labels, and a chunk; of a level alone less."""
    _write_plate(tmp_path / "p.zarr")
    place = tmp_path / "p.zarr/B/1/first"
    image = chunkwise.array(np.ones((2, 512, 512), "u1"))
    chunkwise.downsample_pyramid(image, place, axes=list("cyx"), levels=4, overwrite=True).result()
    store = TraceStore(FileStore(tmp_path / "p.zarr", sync=False))
    sources = sources_of({"p": chunkwise.open_group(store)})
    page_content(sources, "image", {"path": "p"})

    def asked(well: str, **query: str) -> list[str]:
        store.requests.clear()
        found = page_content(sources, "thumbnail", {"path": f"p/{well}", "channels": "0", **query})
        assert isinstance(found, Computed) and found.make()
        return [request.key.removeprefix(f"{well}/") for request in store.requests]

    documents = ["zarr.json", "first/zarr.json", "first/0/zarr.json", "first/labels/zarr.json"]
    assert asked("B/1", size="64") == [*documents, "first/3/zarr.json", "first/3/c/0/0/0"]
    assert asked("A/1", size="64") == [*documents, "first/0/c/0/0/0"]


def test_wells_out_of_sight_are_not_asked_for(tmp_path: Path, page: Any) -> None:
    rows, columns = [{"name": f"R{n}"} for n in range(60)], [{"name": str(n)} for n in range(6)]
    wells = [{"path": f"R{r}/{c}", "rowIndex": r, "columnIndex": c} for r in range(60) for c in range(6)]
    group = chunkwise.open_group(tmp_path / "p.zarr", "w")
    group.attrs["ome"] = {"version": "0.5", "plate": {"rows": rows, "columns": columns, "wells": wells}}
    for name in ("R0/0", "R59/5"):
        well = group.create_group(name)
        well.attrs["ome"] = {"version": "0.5", "well": {"images": [{"path": "0"}]}}
        image = chunkwise.array(np.full((64, 64), 9, "u1"))
        chunkwise.downsample_pyramid(
            image, tmp_path / "p.zarr" / name / "0", axes=["y", "x"], levels=0
        ).result()
    asked: list[str] = []
    told: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: told.append(message.text) if message.type == "error" else None)
    with chunkwise.serve(tmp_path / "p.zarr") as server:
        page.goto(f"{server.url}#path=p.zarr&cell=100")
        page.wait_for_function(PLATE_IDLE)
        thumbnails = [url for url in asked if "api/thumbnail" in url]
        assert 0 < len(thumbnails) < 100
        assert told == []  # that there is no such well is no error
        assert not any("R59" in url for url in thumbnails)
        assert page.locator("[data-well='R1/0']").get_attribute("class") == "missing"  # there is no such well
        assert any("in the plate, not stored" in p for p in page.locator(".wells p").all_inner_texts())
        assert page.locator("#problems").is_hidden()
        page.locator("[data-well='R59/5']").scroll_into_view_if_needed()
        page.wait_for_function("window.chunkwise.plate.wells.get('R59/5').pictures.get('')?.tiles")
