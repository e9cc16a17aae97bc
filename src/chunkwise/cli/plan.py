"""``chunkwise plan``: show the requests that reading a region will make, without reading it."""

from __future__ import annotations

import argparse

from chunkwise.cli.command import show
from chunkwise.cli.options import add_view, view_of

__all__ = ["add_arguments", "run"]

_EPILOG = """\
  chunkwise plan https://example.com/a.zarr --region '100:110, 110, :'

Only the metadata is read.  The number of requests for inner chunks depends on the indexes of their shards.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    add_view(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    view = view_of(arguments)
    explanation = view.explain()
    show(arguments, explanation.to_json(), explanation)
    return 0
