"""``chunkwise help COMMAND``: the same as ``chunkwise COMMAND --help``."""

from __future__ import annotations

import argparse

from chunkwise.cli.command import show

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("command", metavar="COMMAND", nargs="*", help="such as cp, or nwb convert")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from chunkwise.cli.main import make_parser  # which loads this module

    parser = make_parser(arguments.command[:1])
    for word in arguments.command:
        parser = parser.below(word)
    text = parser.format_help().rstrip("\n")
    show(arguments, {"command": arguments.command, "help": text}, text)
    return 0
