"""The pictures on the page about serving: ``python docs/make/pictures.py [DIRECTORY]``.

The page is opened in Debian's chromium, by playwright, on the demo's volume, an N5 pyramid and an
OME-Zarr plate.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

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
            browser.close()


if __name__ == "__main__":
    main()
