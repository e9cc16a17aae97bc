"""``chunkwise serve``: arrays and trees over HTTP, for viewers and other programs."""

from __future__ import annotations

import argparse

from chunkwise.cli.command import UsageError, message, required, rows_as_lines, show
from chunkwise.errors import InvalidArgumentError
from chunkwise.images.server.app import MAX_MEMORY, MAX_REQUESTS
from chunkwise.images.server.image import image_at
from chunkwise.images.server.running import Server, serve
from chunkwise.images.server.trees import FixedTree, ServedArray

__all__ = ["add_arguments", "add_server_options", "run", "start"]

_EPILOG = """\
  chunkwise serve volume.n5 labels.zarr              on this machine only
  chunkwise serve data.zarr --host 0.0.0.0           for others, who need the URL with its token
  chunkwise serve stack.json --port 8080             a view: the spec of a stack, a cast, ...

Everything is read-only. Each PATH is served as Zarr v3 (/zarr3/), N5 (/n5/), neuroglancer precomputed
(/precomputed/) and Zarr v3 in types that neuroglancer has (/viewer/).
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "paths", metavar="PATH", nargs="+", help="array or tree, or *.json with the spec of a view"
    )
    add_server_options(parser)


def add_server_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of a server."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (by default 127.0.0.1)")
    parser.add_argument("--port", type=int, default=0, help="port to listen at (by default a free one)")
    parser.add_argument(
        "--token", help="first part of all paths (by default a random one if other machines can reach --host)"
    )
    parser.add_argument("--no-token", action="store_true", help="let everybody in who can reach the port")
    parser.add_argument(
        "--max-requests",
        type=int,
        metavar="N",
        default=MAX_REQUESTS,
        help=f"number of requests answered at a time (by default {MAX_REQUESTS})",
    )
    parser.add_argument(
        "--max-memory",
        metavar="SIZE",
        default=MAX_MEMORY,
        help=f"memory for all requests answered at a time (by default {MAX_MEMORY})",
    )


def start(arguments: argparse.Namespace, what: list[str]) -> Server:
    """Start the server that the options describe."""
    if arguments.no_token and arguments.token is not None:
        raise UsageError("--token and --no-token exclude each other")
    try:
        with required("a server", "uvicorn"):
            server = serve(
                *what,
                host=arguments.host,
                port=arguments.port,
                token=False if arguments.no_token else arguments.token,
                max_requests=arguments.max_requests,
                max_memory=arguments.max_memory,
            )
        for name, source in server.sources.items():
            found = source.find(())
            if isinstance(source, FixedTree) or isinstance(found, ServedArray):
                image = None if found is None else image_at((name,), found)
                for note in () if image is None else image.assumed:
                    message(f"{name}: {note}")
        return server
    except InvalidArgumentError as e:
        if e.message.startswith(("port:", "token:", "max_requests:", "max_memory:")):
            raise UsageError(f"--{e.message.replace('_', '-', 1)}") from None
        raise


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    with start(arguments, arguments.paths) as server:
        show_urls(arguments, server.urls())
        server.wait()
    return 0


def show_urls(arguments: argparse.Namespace, urls: dict[str, str]) -> None:
    """Print the line for each client."""
    show(arguments, urls, *rows_as_lines(urls.items(), 13))
    if not arguments.json:
        message("serving; Ctrl-C ends it")
