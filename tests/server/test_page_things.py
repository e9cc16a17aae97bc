"""The page opens every kind of thing: no hang, no error in the console, and no red where nothing is wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driven_page import keep

import chunkwise
from chunkwise.errors import ChunkwiseError

sys.path.insert(0, str(Path(__file__).parents[1] / "meaning"))

from things import THINGS, VALUES

MILLISECONDS = 20_000  # that a browser may take until something is drawn

GROUPS = {
    "group zarr3", "group zarr2", "group n5", "directory of levels", "HDF5 with two arrays", "NWB",
    "channels of n5-viewer", "BigDataViewer file", "BigDataViewer file of HDF5",
    "BigDataViewer file of OME-Zarr",
}  # fmt: skip
"""Things without one image to show: the page lists what is in them."""

REFUSED = {"unfinished copy", "nothing", "chunks", "chunks of N5", "empty directory", "directory of text"}


def _numpy(at: Path) -> object:
    return VALUES


def _scalar(at: Path) -> object:
    return np.float32(3.5).reshape(())


def _levels(at: Path) -> object:
    return [chunkwise.array(VALUES), chunkwise.array(VALUES[::2, ::2, ::2])]


def _image(at: Path) -> object:
    chunkwise.downsample_pyramid(chunkwise.array(VALUES), at / "i.zarr", levels=1, sync=False).result()
    return chunkwise.open_multiscale(at / "i.zarr")


def _tree(at: Path) -> object:
    group = chunkwise.open_group(at / "t.zarr", "w")
    group.create_array("a/b", VALUES)
    return group["a"]


def _view(driver: str, **members: Any) -> Callable[[Path], object]:
    def make(at: Path) -> object:
        base = chunkwise.create_array(at / "base.zarr", VALUES, chunks=(4, 4, 4))
        return {"driver": driver, "base": base.spec().to_json(), **members}

    return make


def _dataset(at: Path) -> object:
    import xarray

    coordinates = {"time": np.arange(4).astype("M8[s]"), "y": np.arange(6.0), "x": np.arange(8.0)}
    data = xarray.Dataset({"rain": (("time", "y", "x"), VALUES.astype("f4"))}, coordinates)
    data["station"] = ("y", np.array(list("abcdef")))
    chunkwise.xarray.write_dataset(data, at / "d.zarr")
    return at / "d.zarr"


OTHERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "ndarray": (_numpy, "planes"),
    "scalar": (_scalar, "table"),
    "list of levels": (_levels, "planes"),
    "open image": (_image, "planes"),
    "open group": (_tree, "group"),
    "cast": (_view("cast", dtype="float32"), "planes"),
    "downsample": (_view("downsample", downsample_factors=[1, 2, 2], downsample_method="mean"), "planes"),
    "dataset": (_dataset, "group"),
}
"""Other things that can be served, and what they are shown as."""

OPENED = """async (hash) => {
    const told = new Promise((resolve) => window.addEventListener("hashchange", resolve, { once: true }));
    location.hash = hash;
    await told;
}"""

SEEN = """() => {
    const { view, plate } = window.chunkwise, text = (id) => document.getElementById(id).textContent;
    let colors = plate ? 3 * document.querySelectorAll(".plate canvas[height]").length : 0;
    for (const panel of view && view.form !== "table" ? view.panels : []) {
        const { width, height } = panel.canvas, found = new Set();
        const { data } = panel.canvas.getContext("2d").getImageData(0, 0, width, height);
        for (let i = 0; i < data.length; i += 4 * 97) found.add(data.slice(i, i + 3).join());
        colors = Math.max(colors, found.size);
    }
    return {
        form: view ? view.form : plate ? "plate" : "group",
        path: (view || plate)?.path,
        isLabels: Boolean(view?.image.labels),
        colors,
        members: document.querySelectorAll(".group li").length,
        cells: document.querySelectorAll(".cells td").length,
        message: text("message"),
        problems: document.getElementById("problems").hidden ? "" : text("problems"),
        text: document.body.innerText,
    };
}"""

TREE = "async (path) => (await (await fetch('api/tree?' + new URLSearchParams({ path }))).json()).members"


@pytest.fixture
def opened(page: Any) -> Callable[[str], dict[str, Any]]:
    """Return what opens a path in the page that is there; what is wrong in it fails."""
    page.set_viewport_size({"width": 800, "height": 500})
    page.set_default_timeout(MILLISECONDS)
    told: list[str] = []
    page.on("console", lambda message: told.append(message.text) if message.type == "error" else None)

    def open_path(path: str) -> dict[str, Any]:
        page.evaluate(OPENED, f"#path={path}")
        page.wait_for_function("document.body.dataset.idle === 'true'")
        seen: dict[str, Any] = page.evaluate(SEEN)
        assert told == [], path
        assert seen["message"] == seen["problems"] == "", path
        for word in ("Infinity", "NaN px", "undefined", "[object"):
            assert word not in seen["text"], path
        if seen["form"] == "group":
            assert "This is a group" in seen["text"] and seen["members"] > 0, path
        elif seen["form"] == "table":
            assert seen["cells"] > 0, path
        else:
            assert seen["colors"] >= 3, path  # something is drawn
        return seen

    return open_path


def _opens_all(page: Any, opened: Any, name: str, wanted: str) -> None:
    """Open a thing, and everything in it, level by level."""
    assert opened(name)["form"] == wanted, name
    keep(page, f"thing-{name}")
    waiting = [f"{name}/{row['name']}" for row in page.evaluate(TREE, name)]
    if wanted == "group":
        assert waiting, name
    for path in waiting[:6]:
        if opened(path)["form"] == "group":
            waiting += [f"{path}/{row['name']}" for row in page.evaluate(TREE, path)]


def _check(page: Any, opened: Any, tmp_path: Path, titles: list[str]) -> None:
    places: dict[str, Any] = {}
    wanted: dict[str, str] = {}
    for number, title in enumerate(titles):
        at = tmp_path / str(number)
        at.mkdir()
        if title in OTHERS:
            make, wanted[title] = OTHERS[title]
            places[title] = make(at)
            continue
        thing = THINGS[title](at)
        if title in REFUSED:
            with pytest.raises(ChunkwiseError):
                chunkwise.asgi_app(at / thing.path)
            continue
        places[title] = f"{at / thing.path}|reference:" if thing.kind == "references" else at / thing.path
        wanted[title] = "plate" if title == "plate" else "group" if title in GROUPS else "planes"
    with chunkwise.serve(places) as server:
        page.goto(server.url)
        page.wait_for_function("document.body.dataset.idle === 'true'")
        for title in places:
            _opens_all(page, opened, title, wanted[title])


SAMPLE = (
    "array n5", "group zarr2", "OME 0.5", "labels", "Paintera", "BigDataViewer file", "HDF5 data", "OME-TIFF",
    "precomputed segmentation", "RGB PNG", "OCDBT", "PNG folder", "plate", "kerchunk", "NWB", "stack", "cast",
    "scalar", "dataset", "nothing",
)  # fmt: skip


def test_a_sample_of_things_opens(page: Any, opened: Any, tmp_path: Path) -> None:
    _check(page, opened, tmp_path, list(SAMPLE))


@pytest.mark.slow
def test_every_kind_of_thing_opens(page: Any, opened: Any, tmp_path: Path) -> None:
    _check(page, opened, tmp_path, [title for title in (*THINGS, *OTHERS) if title not in SAMPLE])
