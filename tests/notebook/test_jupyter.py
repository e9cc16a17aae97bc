"""Widgets and tables in real notebooks and a browser: what is seen is the array, and no port is needed.

Both JupyterLab and the classic notebook (nbclassic) are run.

Screenshots are kept in the directory that ``CHUNKWISE_SCREENSHOTS`` names.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import pytest
from peer_environment import python_with

import chunkwise

pytestmark = pytest.mark.slow  # half a minute: the server, a kernel and a browser

TOKEN = "test"
PACKAGES = ("jupyterlab>=4.2", "nbclassic>=1.1", "ipykernel>=6.29", "tqdm>=4.66")
SCAN = np.random.default_rng(0).integers(0, 255, (6, 64, 96)).astype("uint8")
CELLS = (
    "import numpy as np, chunkwise",
    "chunkwise.open('a.zarr', read=True).result().view()",
    "image = chunkwise.open_multiscale('i.zarr')\nimage",
    "array = image.levels[0]\narray",
    "chunkwise.open_group('i.zarr')",
    "array.spec()",
    "array[0:2, :, 5].explain()",
    "chunkwise.open_multiscale('p.zarr')",
    "from tqdm.auto import tqdm\n"
    "with tqdm(total=array.nbytes, unit='B', unit_scale=True) as bar:\n"
    "    chunkwise.copy('i.zarr/0', 'copy.zarr', progress=bar.update)",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Make an array, an image, a plate and a notebook."""
    import chunkwise as cw

    place = tmp_path_factory.mktemp("notebook")
    cw.create_array(place / "a.zarr", SCAN, chunks=(2, 32, 32), dimension_names=["z", "y", "x"])
    cw.downsample_pyramid(
        cw.array(SCAN), place / "i.zarr", axes=list("zyx"), units=["1 um", "0.4 um", "0.4 um"], levels=1
    ).result()
    wells = [{"path": f"{row}/{column}", "rowIndex": 0, "columnIndex": 0} for row in "AB" for column in "123"]
    plate = {"rows": [{"name": n} for n in "AB"], "columns": [{"name": n} for n in "123"], "wells": wells}
    cw.create_group(place / "p.zarr", attributes={"ome": {"version": "0.5", "plate": plate}})
    cells = [
        {
            "cell_type": "code",
            "id": f"c{n}",
            "execution_count": None,
            "metadata": {},
            "outputs": [],
            "source": s,
        }
        for n, s in enumerate(CELLS)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    document = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    (place / "test.ipynb").write_text(json.dumps(document))
    return place


@contextmanager
def _serving(place, own, module, *more):
    """Run a notebook server with settings of its own; give its URL."""
    import socket

    import anywidget

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    packages = Path(anywidget.__file__).parents[1]
    prefix = packages.parents[2]
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    python = python_with(PACKAGES, version, "jupyter")
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    env = {**os.environ, **{name: str(own / name) for name in names}}
    env["JUPYTER_PATH"] = str(prefix / "share" / "jupyter")
    env["JUPYTER_CONFIG_PATH"] = str(prefix / "etc" / "jupyter")  # which names the extensions of nbclassic
    env["PYTHONPATH"] = os.pathsep.join((str(Path(chunkwise.__file__).parents[1]), str(packages)))
    command = [
        python, "-m", module, "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}", f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={place}",
        *more,
    ]  # fmt: skip
    log = (own / "log").open("w")
    process = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT)
    try:
        for _ in range(240):
            assert process.poll() is None, (own / "log").read_text()
            try:
                urlopen(f"http://127.0.0.1:{port}/api?token={TOKEN}").read()
                break
            except URLError:
                time.sleep(0.25)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()
        log.close()


@pytest.fixture(scope="module")
def browser():
    """Start a browser."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.fail("NO BROWSER: notebooks can't be tested; install Debian's package chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-quic"])
        yield browser
        browser.close()


def _open(browser, url):
    """Open a notebook; the page has the hosts that were asked."""
    page = browser.new_page(viewport={"width": 1200, "height": 3600})
    page.asked = set()
    for kind in ("request", "websocket"):
        page.on(kind, lambda one: page.asked.add(one.url.split("/")[2] if "//" in one.url else ""))
    page.goto(url)
    return page


@pytest.fixture(scope="module")
def lab(place, tmp_path_factory):
    """Start JupyterLab; give the URL of the notebook."""
    own = tmp_path_factory.mktemp("jupyter")
    with _serving(place, own, "jupyterlab", "--LabApp.expose_app_in_browser=True") as url:
        yield f"{url}/lab/tree/test.ipynb?token={TOKEN}"


@pytest.fixture(scope="module")
def page(browser, lab):
    """Open the notebook and run it."""
    page = _open(browser, lab)
    page.wait_for_function(
        "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'",
        timeout=60_000,
    )
    page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
    _keep(page, "notebook")
    page.wait_for_function(
        f"document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')[{len(CELLS) - 1}]"
        f"?.textContent.includes('[{len(CELLS)}]')",
        timeout=20_000,
    )
    page.locator(".chunkwise-slice").wait_for()
    return page


FRAME = ".chunkwise-slice [role=application]"
_PIXELS = """() => {
    const image = document.querySelector('.chunkwise-slice img'), canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
    const context = canvas.getContext('2d');
    context.drawImage(image, 0, 0);
    const data = context.getImageData(0, 0, canvas.width, canvas.height).data, out = [];
    for (let at = 0; at < data.length; at += 4) out.push(data[at]);
    return [canvas.height, canvas.width, out];
}"""


def _pixels(page):
    page.wait_for_function(f"document.querySelector('{FRAME}').dataset.idle === 'true'")
    rows, columns, data = page.evaluate(_PIXELS)
    return np.array(data).reshape(rows, columns)


def _grey(plane):
    low, high = np.percentile(SCAN.astype(float), (0.5, 99.8))
    return np.rint(((plane.astype(float) - low) * 255 / (high - low)).clip(0, 255))


def _keep(page, name):
    place = os.environ.get("CHUNKWISE_SCREENSHOTS")
    if place:
        Path(place).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{place}/{name}.png")


def test_the_slice_is_the_array_wherever_it_is_moved(page, lab):
    np.testing.assert_allclose(_pixels(page), _grey(SCAN[3]), atol=1)
    slider = page.locator(".chunkwise-slice input[type=range]")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.querySelector('.chunkwise-slice output').textContent === '4'")
    np.testing.assert_allclose(_pixels(page), _grey(SCAN[4]), atol=1)
    page.locator(FRAME).focus()
    page.keyboard.press("+")  # two thirds of 64 and 96, where there are whole elements
    np.testing.assert_allclose(_pixels(page), _grey(SCAN[4, 10:54, 16:80]), atol=1)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    np.testing.assert_allclose(_pixels(page), _grey(SCAN[4, 10:54, 3:68]), atol=1)
    page.keyboard.press("0")
    np.testing.assert_allclose(_pixels(page), _grey(SCAN[4]), atol=1)
    box = page.locator(FRAME).bounding_box()
    page.mouse.move(box["x"] + 1, box["y"] + 1)
    page.mouse.wheel(0, -400 * np.log(4.0))  # enlarged four times, about the corner
    page.wait_for_function(f"document.querySelector('{FRAME}').dataset.idle === 'true'")
    np.testing.assert_allclose(_pixels(page), _grey(SCAN[4, :17, :25]), atol=1)
    page.mouse.down()
    page.mouse.move(box["x"] + 1 - box["width"], box["y"] + 1 - box["height"], steps=8)  # by all of it
    page.mouse.up()
    seen = _pixels(page)
    assert seen.shape in [(16, 24), (17, 25)]
    np.testing.assert_allclose(seen[:16, :24], _grey(SCAN[4, 16:32, 24:48]), atol=1)
    page.locator(".chunkwise-slice button", has_text="all").click()
    np.testing.assert_allclose(_pixels(page), _grey(SCAN[4]), atol=1)
    assert page.asked == {lab.split("/")[2]}, "all goes through the kernel"


def test_everything_is_shown_in_light_and_dark(page):
    for theme in ("Light", "Dark"):
        page.evaluate(
            "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', {theme})",
            f"JupyterLab {theme}",
        )
        page.wait_for_function(
            "(light) => document.body.dataset.jpThemeLight === light", arg=str(theme == "Light").lower()
        )
        page.wait_for_timeout(500)
        _keep(page, f"notebook-{theme.lower()}")
        boxes = page.locator(".jp-OutputArea-output .chunkwise")
        assert boxes.count() == 5
        for box in boxes.all():
            color, background = box.evaluate(
                "(e) => [getComputedStyle(e).color, getComputedStyle(document.querySelector('.jp-Notebook'))"
                ".backgroundColor].map((c) => c.match(/[0-9.]+/g).slice(0, 3).map(Number))"
            )
            assert np.abs(np.subtract(color, background)).min() > 90
            assert box.evaluate("(e) => e.scrollWidth <= e.clientWidth + 1")
    text = " ".join(page.locator(".jp-OutputArea-output .chunkwise").all_inner_texts())
    for word in (
        "MultiscaleImage i",
        "36.9 kB",
        "uint8",
        "0.4 um",
        "zarr3",
        "Plate p.zarr",
        "2 × 3",
        "Explanation",
    ):
        assert word in text, (word, text)


def test_progress_is_a_bar(page):
    page.locator(".jp-OutputArea-output", has_text="36.9k/36.9k").last.wait_for()


def test_the_classic_notebook_shows_slices_and_tables(browser, place, tmp_path):
    with _serving(place, tmp_path, "nbclassic") as url:
        page = _open(browser, f"{url}/notebooks/test.ipynb?token={TOKEN}")
        kernel = "window.Jupyter?.notebook?.kernel"
        page.wait_for_function(f"{kernel}?.is_connected() && {kernel}.widget_manager", timeout=60_000)
        # Widgets that are shown before the kernel has told about itself stay empty, those of others too.
        page.wait_for_function(f"Object.keys({kernel}.info_reply).length")
        page.evaluate("window.Jupyter.notebook.execute_all_cells()")
        page.wait_for_function(
            f"window.Jupyter.notebook.get_cells()[{len(CELLS) - 1}].input_prompt_number === {len(CELLS)}",
            timeout=60_000,
        )
        page.locator(".chunkwise-slice").wait_for()
        np.testing.assert_allclose(_pixels(page), _grey(SCAN[3]), atol=1)
        page.locator(".chunkwise-slice input[type=range]").focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_function("document.querySelector('.chunkwise-slice output').textContent === '4'")
        np.testing.assert_allclose(_pixels(page), _grey(SCAN[4]), atol=1)
        page.locator(FRAME).focus()
        page.keyboard.press("+")  # and the notebook's own keys are not pressed by it
        np.testing.assert_allclose(_pixels(page), _grey(SCAN[4, 10:54, 16:80]), atol=1)
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("0")
        np.testing.assert_allclose(_pixels(page), _grey(SCAN[4]), atol=1)
        assert page.evaluate("window.Jupyter.notebook.get_cells().length") == len(CELLS)
        assert page.locator(".output .chunkwise").count() == 5
        _keep(page, "notebook-classic")
        assert page.asked == {url.split("/")[2]}
