"""``chunkwise COMMAND …``: choose the command, run it, turn errors into messages and exit statuses.

Data goes to stdout, messages and progress to stderr.  Exit status: 0 fine, 1 failed, 2 wrong command
line, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Container, Iterable, Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import Any

from chunkwise.cli.command import FAILED, WRONG_USAGE, UsageError, add_json, message, text_of
from chunkwise.cli.parser import CommandParser, grouped
from chunkwise.cli.servers import add_server_arguments, with_servers
from chunkwise.core.base.interrupt import INTERRUPTED, loaded
from chunkwise.errors import ChunkwiseError
from chunkwise.extension.inside import MissingPackageError
from chunkwise.version import __version__

__all__ = ["COMMANDS", "main", "make_parser"]

_GROUPS = {
    "look": {
        "info": "describe an array or a group, and count stored chunks",
        "ls": "list the groups and arrays right below a group",
        "tree": "list the groups and arrays of a hierarchy",
        "attrs": "show, set or remove attributes",
        "slice": "print a region, or save it as .npy or .png",
        "plan": "count the requests that reading a region takes",
    },
    "make and copy": {
        "create": "make an array",
        "cp": "copy an array or a hierarchy to another location, format, chunking or compression",
        "status": "show the progress of an unfinished copy",
        "mv": "move an array, a group or a link within a store",
        "rm": "delete arrays, groups and links",
        "migrate": "convert a Zarr v1 or v2 array or hierarchy to Zarr v3, in place",
        "consolidate": "write, check or remove the consolidated metadata of a hierarchy",
        "zip": "put an array or a hierarchy into a ZIP archive",
    },
    "check": {
        "verify": "read and check every stored chunk",
        "diff": "compare two arrays or hierarchies",
    },
    "images and sessions": {
        "stack": "combine arrays into one: check their positions, and save the spec",
        "pyramid": "write an image at several resolutions, for viewers",
        "image": "show or change scale, units, position and channels of an image",
        "nwb": "inspect, check, convert and repack NWB files in Zarr and N5",
    },
    "servers": {
        "view": "show arrays and images in a browser",
        "serve": "serve arrays and trees over HTTP, for viewers and other programs",
    },
    "this program": {
        "help": "show the help of a command",
        "completion": "print a script with which bash, zsh or fish completes commands",
    },
}
COMMANDS = {name: purpose for commands in _GROUPS.values() for name, purpose in commands.items()}
"""Name and purpose of each command; its module is loaded on use."""

# Options whose values may begin with a minus sign without being a number.
_SIGNED = ("--fill-value", "--region", "--concat", "--stack")

# Errors for wrong input, failing storage and missing packages; any other is a defect.
_EXPECTED = (
    ChunkwiseError, MissingPackageError, OSError, ValueError, IndexError, NotImplementedError, OverflowError,
    MemoryError,
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in `argv`, by default that of this process, and return its exit status."""
    argv = _joined(sys.argv[1:] if argv is None else argv)
    arguments = None
    if isinstance(sys.stdout, TextIOWrapper):  # of half a character, which JSON can hold
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        command = next((word for word in argv if not word.startswith("-")), "")
        parser = make_parser({command})
        if not argv:
            parser.print_help()
            return 0
        arguments = parser.parse_args(argv)
        loaded()
        with with_servers(arguments):
            status: int = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else WRONG_USAGE
    except UsageError as e:
        message(str(e))
        return WRONG_USAGE
    except KeyboardInterrupt:
        again = hasattr(arguments, "resume")
        message("interrupted" + ("; --resume goes on where it stopped" if again else ""))
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python would complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except _EXPECTED as e:
        message(f"out of memory: {text_of(e)}" if isinstance(e, MemoryError) else text_of(e))
        return FAILED


def _joined(argv: Sequence[str]) -> list[str]:
    """Return `argv` with values that begin with "-" joined to their options: ``--fill-value=-inf``."""
    out: list[str] = []
    for word in argv:
        if out and out[-1] in _SIGNED and word.startswith("-"):
            out[-1] += f"={word}"
        else:
            out.append(word)
    return out


def make_parser(wanted: Container[str] = COMMANDS) -> CommandParser:
    """Return the parser of the command line, with the arguments of the commands in `wanted`."""
    parser = CommandParser(
        prog="chunkwise",
        description="Large N-dimensional arrays in Zarr v1, v2, v3 and N5.",
        epilog="PATH is a local path or a URL; `chunkwise help COMMAND` tells more.",
        formatter_class=grouped({next(iter(commands)): group for group, commands in _GROUPS.items()}),
    )
    parser.add_argument("-V", "--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, purpose in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=purpose,
            description=purpose[0].upper() + purpose[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name in wanted:
            _fill(command, import_module(f"chunkwise.cli.{name}"))
    # Looking for commands of other distributions takes some time, as long as a short command.
    names = list(wanted) if isinstance(wanted, Iterable) else []
    if not names or any(name not in COMMANDS for name in names):
        _add_plugins(commands, wanted)
    return parser


def _add_plugins(commands: Any, wanted: Container[str]) -> None:
    """Add the commands of other distributions."""
    from chunkwise.extension import commands as plugins

    for name in plugins.published():
        if name not in COMMANDS:
            try:
                module = plugins.find(name)
            except Exception:  # of another distribution; commands of others must still work
                if name in wanted:
                    raise
                continue
            purpose = (module.__doc__ or "").partition("\n")[0].rstrip(".")
            text = purpose[:1].lower() + purpose[1:]
            _fill(commands.add_parser(name, help=text, description=module.__doc__), module)


def _fill(command: CommandParser, module: Any) -> None:
    """Give a command the arguments of its module, and those of all commands."""
    add_json(command)
    module.add_arguments(command)
    add_server_arguments(command)
    command.set_defaults(run=module.run)


class _Version(argparse.Action):
    def __call__(self, *_: object, **__: object) -> None:
        print(f"chunkwise {__version__}")
        raise SystemExit(0)


if __name__ == "__main__":
    sys.exit(main())
