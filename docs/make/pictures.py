"""The pictures on the page about serving: ``python docs/make/pictures.py [DIRECTORY]``.

The page is opened in Debian's chromium, by playwright, on the demo's volume, an N5 pyramid and an
OME-Zarr plate.  The notebook runs in JupyterLab; ``jupyter-lab`` has to be on the path and may belong to
another environment, but its kernel has the packages of this one.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE.parent / "demo"))

from demo import SHAPE, microscope_volume  # noqa: E402
from images import write_n5_pyramid, write_plate, write_volume  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

import chunkwise  # noqa: E402

PICTURES = (
    ("volume", "volume.zarr/nuclei", "&theme=dark", (1200, 760)),
    ("labels", "volume.zarr/nuclei/labels/cells", "&theme=dark", (1200, 760)),
    ("n5-chunks", "pyramid.n5/c0", "&theme=light&grid=1", (1200, 760)),
    ("plate", "plate.zarr", "&theme=dark", (1200, 760)),
    ("plate-labels", "plate.zarr", "&theme=dark&overlay=cells&opacity=0.4", (1200, 760)),
    ("field", "plate.zarr/A/2/1", "&theme=light&overlay=cells&opacity=0.5", (1200, 760)),
    ("phone", "volume.zarr/nuclei", "&theme=dark", (390, 760)),
    ("phone-plate", "plate.zarr", "&theme=light", (390, 760)),
)
IDLE = "document.body.dataset.idle === 'true' && (window.chunkwise?.view || window.chunkwise?.plate)"


def main() -> None:
    """Make the data, open each view and save it."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "pictures"
    out.mkdir(exist_ok=True)
    volume = microscope_volume(SHAPE)
    with tempfile.TemporaryDirectory() as place:
        data = Path(place)
        write_volume(data / "volume.zarr", volume)
        write_n5_pyramid(data / "pyramid.n5", volume)
        write_plate(data / "plate.zarr", volume)
        paths = [data / name for name in ("volume.zarr", "pyramid.n5", "plate.zarr")]
        with chunkwise.serve(*paths) as server, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
            for name, path, more, (width, height) in PICTURES:
                page = browser.new_page(viewport={"width": width, "height": height})
                page.on("pageerror", lambda error: print(error))
                page.on("console", lambda error: print(error.text))
                page.goto(f"{server.url}#path={path}{more}")
                page.wait_for_function(IDLE)
                page.wait_for_timeout(400)
                page.wait_for_function(IDLE)
                page.screenshot(path=out / f"{name}.png")
                print(out / f"{name}.png")
                page.close()
            notebook(browser, data, out / "notebook.png")
            browser.close()


CELLS = (
    "import chunkwise\nimage = chunkwise.open_multiscale('volume.zarr/nuclei')\nimage",
    "image.levels[0]",
    "image.view()",
)


def notebook(browser: Any, data: Path, picture: Path) -> None:
    """Run a notebook in JupyterLab and save what it shows."""
    cells = [
        {
            "cell_type": "code",
            "id": str(n),
            "execution_count": None,
            "metadata": {},
            "outputs": [],
            "source": text,
        }
        for n, text in enumerate(CELLS)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    document = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    (data / "images.ipynb").write_text(json.dumps(document))
    program = shutil.which("jupyter-lab")
    if program is None:
        raise SystemExit("jupyter-lab is not on the path")
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    packages = [path for path in sys.path if path]
    shared = [str(parent / "share/jupyter") for path in packages for parent in Path(path).parents[2:3]]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(packages),
        "JUPYTER_PATH": os.pathsep.join(shared),
        "JUPYTER_CONFIG_DIR": str(data / "jupyter"),
    }
    command = [
        program, "--no-browser", "--allow-root", f"--ServerApp.root_dir={data}", f"--ServerApp.port={port}",
        "--IdentityProvider.token=picture", "--LabApp.expose_app_in_browser=True",
    ]  # fmt: skip
    with subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(240):
                try:
                    urlopen(f"http://127.0.0.1:{port}/api?token=picture").read()
                    break
                except URLError:
                    time.sleep(0.25)
            page = browser.new_page(viewport={"width": 900, "height": 1620})
            page.goto(f"http://127.0.0.1:{port}/doc/tree/images.ipynb?token=picture")
            status = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status"
            page.wait_for_function(f"{status} === 'idle'", timeout=120_000)
            page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
            page.locator(".chunkwise-slice [data-idle=true]").wait_for(timeout=120_000)
            page.evaluate("document.querySelector('.jp-WindowedPanel-outer').scrollTop = 0")
            page.add_style_tag(content=".Toastify { display: none; }")  # which asks about news
            page.screenshot(path=picture)
            print(picture)
            page.close()
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
