"""``chunkwise completion SHELL``: print a script with which a shell completes commands, options and paths."""

from __future__ import annotations

import argparse

from chunkwise.cli.command import required, show

__all__ = ["SHELLS", "add_arguments", "run"]

SHELLS = ("bash", "zsh", "fish")

# Names in the help of arguments that are paths.
_PATHS = ("ARCHIVE", "DST", "LAYER", "LEFT", "OUT", "PATH", "RIGHT", "SOURCE", "SRC", "TARGET")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("shell", choices=SHELLS, help="the shell that will read the script")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    with required("completion", "shtab"):
        import shtab
    from chunkwise.cli.main import COMMANDS, make_parser  # which loads this module

    parser = make_parser(COMMANDS)
    _mark_paths(parser, shtab.FILE)
    script = shtab.complete(parser, arguments.shell)
    show(arguments, {"shell": arguments.shell, "script": script}, script)
    return 0


def _mark_paths(parser: argparse.ArgumentParser, mark: object) -> None:
    """Tell shtab which arguments are paths, in all subcommands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _mark_paths(command, mark)
        elif action.metavar in _PATHS:
            action.complete = mark  # type: ignore[attr-defined]
