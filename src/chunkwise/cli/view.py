"""``chunkwise view``: look at arrays and images in a browser, or draw the first view."""

from __future__ import annotations

import argparse
import webbrowser
from importlib import import_module

from chunkwise.cli.command import message, required
from chunkwise.cli.serve import add_server_options, show_urls, start
from chunkwise.copying.copy_source import replacing
from chunkwise.errors import InvalidArgumentError
from chunkwise.images.server.forms import first_shown
from chunkwise.images.server.neuroglancer import neuroglancer_state
from chunkwise.images.server.running import Server
from chunkwise.images.server.sources import sources_of

__all__ = ["add_arguments", "run"]

_EPILOG = """\
  chunkwise view volume.n5                            chunkwise's own page, in the browser
  chunkwise view volume.n5 --neuroglancer             neuroglancer on the same data
  chunkwise view image.zarr --headless view.png       draw the first view, without a browser
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "paths", metavar="PATH", nargs="+", help="array, image or tree, or *.json with a spec"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--neuroglancer", action="store_true", help="open neuroglancer, which chunkwise[view] brings"
    )
    what.add_argument("--headless", metavar="OUT", help="draw the first view as a PNG file, and exit")
    parser.add_argument("--no-browser", action="store_true", help="print the URL, but don't open a browser")
    add_server_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.headless is not None:
        return _draw(arguments)
    with start(arguments, arguments.paths) as server:
        url = _neuroglancer(server) if arguments.neuroglancer else server.url
        viewer = {"viewer": url} if arguments.neuroglancer else {}
        show_urls(arguments, {**viewer, **server.urls()})
        if not arguments.no_browser:
            webbrowser.open(url)
        server.wait()
    return 0


def _draw(arguments: argparse.Namespace) -> int:
    with required("--headless", "Pillow", "view"):
        from chunkwise.images.server.forms import draw_first_view
    if not arguments.headless.lower().endswith(".png"):
        raise InvalidArgumentError(
            f"--headless: expected a name that ends in .png, not {arguments.headless!r}"
        )
    sources = sources_of(*arguments.paths)
    name, image = first_shown(sources, plates=False)
    assert image is not None
    for note in image.assumed:
        message(note)
    picture, problems = draw_first_view(image)
    with replacing(arguments.headless, overwrite=True) as part:
        picture.save(part, "PNG")
    message(f"{arguments.headless}: {name}")
    for text in problems:
        message(f"hatched, because it can't be read: {text}")
    return 0


def _neuroglancer(server: Server) -> str:
    """Start neuroglancer's own server, and return the URL of a viewer of the served data."""
    with required("--neuroglancer", "neuroglancer"):
        neuroglancer = import_module("neuroglancer")
    state = neuroglancer_state(server.url, server.sources, windows=True)
    neuroglancer.set_server_bind_address("127.0.0.1")
    viewer = neuroglancer.Viewer()
    viewer.set_state(neuroglancer.ViewerState(state))
    server.keep(viewer)
    return str(viewer.get_viewer_url())
