"""Print the shape of every array of a hierarchy."""

import argparse

import chunkwise
from chunkwise.extension import show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("path", metavar="PATH", help="a group")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    found = {
        path: list(node.shape)
        for path, node in chunkwise.open_group(arguments.path).walk()
        if isinstance(node, chunkwise.TensorStore)
    }
    show(arguments, found, *(f"{path}  {shape}" for path, shape in found.items()))
    return 0
