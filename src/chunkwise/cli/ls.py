"""``chunkwise ls``: ``chunkwise tree``, one level deep."""

from __future__ import annotations

import argparse

from chunkwise.cli import tree

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    tree.add_arguments(parser, depth=1)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return tree.run(arguments)
