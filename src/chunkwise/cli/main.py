"""``chunkwise COMMAND …``: choose the command, run it, turn errors into messages and exit statuses.

Data goes to stdout, messages and progress to stderr.  Exit status: 0 fine, 1 failed, 2 wrong command
line, 130 interrupted.

Errors of the parser suggest names, and options have aliases that people try.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import Any, NoReturn

from chunkwise.cli.command import FAILED, WRONG_USAGE, UsageError, add_json, message, text_of
from chunkwise.cli.servers import add_server_arguments, with_servers
from chunkwise.core.base.interrupt import INTERRUPTED, loaded
from chunkwise.errors import ChunkwiseError, hint, nearest
from chunkwise.extension.inside import MissingPackageError
from chunkwise.version import __version__

__all__ = ["COMMANDS", "CommandParser", "grouped", "main", "make_parser"]


# Aliases of options, in every command that has them; Python's functions say `chunks` and `shards`.
_FURTHER = {"--chunk": "--chunks", "--shard": "--shards", "--codec": "--codecs", "--quiet": "-q"}

# Options of other programs, and what they are called here.
_OTHERS = {
    "-L": "--depth",
    "-R": "--depth",
    "-r": "--depth",
    "--bind": "--host",
    "--chunk-shape": "--chunk",
    "--chunk-size": "--chunk",
    "--compression": "--codec",
    "--compressor": "--codec",
    "--clobber": "--overwrite",
    "--downscale": "--factors",
    "--convention": "--layout",
    "--force": "--overwrite",
    "--format": "--convention",
    "--jobs": "--on",
    "--layout": "--convention",
    "--max_layer": "--levels",
    "--n-levels": "--levels",
    "--processes": "--on",
    "--scale-factors": "--factors",
    "--shard-shape": "--shard",
    "--threads": "--on",
    "--units": "--scale",
    "--workers": "--on",
    "--zarr-format": "--format",
    "--zarr-version": "--format",
    "--recursive": "--depth",
    "--zarr_version": "--format",
}

_OTHER_COMMANDS = {
    **dict.fromkeys(("cat", "head", "show"), "slice"),
    **dict.fromkeys(("convert", "repack", "rechunk"), "cp -r"),
    **dict.fromkeys(("copy", "download", "sync"), "cp"),
    **dict.fromkeys(("delete", "remove"), "rm"),
    **dict.fromkeys(("describe", "du", "stat"), "info"),
    **dict.fromkeys(("list", "dir"), "ls"),
    **dict.fromkeys(("move", "rename"), "mv"),
    **dict.fromkeys(("compare", "cmp"), "diff"),
    **dict.fromkeys(("check", "validate", "fsck"), "verify"),
    "downsample": "pyramid",
    "dump": "tree -a",
}

_REGION = re.compile(r"\[?[-\d:.,]*\]?")


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors have the usage of their own command, and suggest the nearest name."""

    def add_argument(self, *names: str, **how: Any) -> argparse.Action:
        """Declare an argument; an option also under its alias."""
        names += tuple(_FURTHER[name] for name in names if name in _FURTHER)
        return super().add_argument(*sorted(names, key=lambda name: name.startswith("--")), **how)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; an argument that is left over is an error of the command that it was given to."""
        found, left = super().parse_known_args(args, namespace)
        if left:
            self.error(self._left_over(left))
        return found, left

    def error(self, text: str) -> NoReturn:
        """Print usage and `text`, and exit."""
        self.print_usage(sys.stderr)
        message(text)
        raise SystemExit(WRONG_USAGE)

    def below(self, name: str) -> CommandParser:
        """Return the parser of a command, or of an action of this one; exit if there is none."""
        commands = [action for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        if not commands:
            self.error(f'there is no action "{name}": this command has none')
        try:
            self._check_value(commands[0], name)
        except argparse.ArgumentError as e:
            self.error(e.message)
        parser: CommandParser = commands[0].choices[name]
        return parser

    def _left_over(self, words: Sequence[str]) -> str:
        option = next((word.partition("=")[0] for word in words if word.startswith("-")), None)
        if option is None:
            return f"too many arguments: {' '.join(words)}{self._meant_by(words)}"
        own = _OTHERS.get(option)
        known = self._option_string_actions
        near = f'did you mean "{own}"?' if own in known else nearest(option, known)
        return f"there is no option {option}" + (f"; {near}" if near else "")

    def _meant_by(self, words: Sequence[str]) -> str:
        """Return what words that look like numbers or a region are to be written as."""
        if all(word.isdecimal() for word in words) and "--chunk" in self._option_string_actions:
            return "; sizes are one argument, with commas, such as --chunk 64,64"
        if "--region" in self._option_string_actions and all(map(_REGION.fullmatch, words)):
            return f"; a region is an option: --region '{','.join(word.strip('[],') for word in words)}'"
        return ""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = hint(str(value), map(str, action.choices))
            if isinstance(action, argparse._SubParsersAction):
                what = "command" if action.metavar == "COMMAND" else "action"
                other = _OTHER_COMMANDS.get(value) if what == "command" else None
                known = f'did you mean "{other}"? ({hint("", action.choices)})' if other else known
                before = [str(one.metavar) for one in self._get_positional_actions() if one is not action]
                order = f"; {before[0]} comes first: {self.prog} {before[0]} …" if before else ""
                raise argparse.ArgumentError(None, f'there is no {what} "{value}"; {known}{order}')
            raise argparse.ArgumentError(action, f'there is no "{value}"; {known}')

    def _get_option_tuples(self, option_string: str) -> list[Any]:
        # Two names of one option are not ambiguous.
        by_action = {id(found[0]): found for found in super()._get_option_tuples(option_string)}
        return list(by_action.values())


def grouped(headings: Mapping[str, str]) -> type[argparse.RawDescriptionHelpFormatter]:
    """Return a formatter of help with commands under `headings`, each before the command it names."""

    class Formatter(argparse.RawDescriptionHelpFormatter):
        def _format_action(self, action: argparse.Action) -> str:
            text = super()._format_action(action)
            is_command = not action.option_strings and action.dest in headings
            return f"\n  {headings[action.dest]}:\n{text}" if is_command else text

    return Formatter


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
