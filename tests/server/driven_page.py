"""The page in a browser: how it is opened, waited for and looked at.

Screenshots are kept in the directory that ``CHUNKWISE_SCREENSHOTS`` names.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

# Software that draws as a graphics card would is for WebGL alone: it takes twice as long for all the rest.
FLAGS = [
    "--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
    "--disable-gpu-compositing",
]  # fmt: skip
IDLE = "document.body.dataset.idle === 'true' && window.chunkwise && window.chunkwise.view"


PLATE_IDLE = "document.body.dataset.idle === 'true' && window.chunkwise?.plate"


def show(page: Any, server: Any, path: str, more: str = "") -> None:
    """Open a view and wait until it is drawn."""
    if page.url.startswith(server.url):  # the page is there already
        page.evaluate("(hash) => { location.hash = hash; }", f"#path={path}{more}")
    else:
        page.goto(f"{server.url}#path={path}{more}")
    page.wait_for_function("(path) => window.chunkwise?.view?.path === path", arg=path)
    wait(page)


def wait(page: Any) -> None:
    """Wait until all that was asked for has come and is drawn; input that was sent has been taken by then."""
    page.wait_for_function(IDLE)


def keep(page: Any, name: str) -> None:
    """Keep a screenshot, if they are asked for."""
    place = os.environ.get("CHUNKWISE_SCREENSHOTS")
    if place:
        Path(place).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{place}/{name}.png")


PIXELS = """([number, points]) => {
    const view = window.chunkwise.view, panel = view.panels[number], canvas = panel.canvas;
    const context = canvas.getContext('2d'), out = [];
    const rows = view.shape[panel.down], columns = view.shape[panel.across];
    if (!points) {
        points = [];
        for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) points.push([r, c]);
    }
    for (const [r, c] of points) {
        const x = view.screen(panel, 'across', c + 0.3, canvas.clientWidth);
        const y = view.screen(panel, 'down', r + 0.3, canvas.clientHeight);
        out.push([...context.getImageData(Math.floor(x), Math.floor(y), 1, 1).data.slice(0, 3)]);
    }
    return out;
}"""


def pixels(page: Any, panel: int, shape: tuple[int, int]) -> np.ndarray:
    """Return the colours that are on the canvas where the elements of a plane are."""
    return np.array(page.evaluate(PIXELS, [panel, None])).reshape(*shape, 3)
